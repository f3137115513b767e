"""Servers and workers that are killed in the middle of jobs: real processes, and kill -9."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from tests.faults import ledger
from tests.faults.processes import ROOT, Process, kill, spawn, stop, worker_environment
from tests.patience import PATIENCE
from windlass import App, Job, JobSpec
from windlass.errors import StoreUnavailableError
from windlass.model.job import JobState

QUICKLY = {"WINDLASS_POLL_INTERVAL": "0.2", "WINDLASS_REAP_INTERVAL": "0.2"}


class Site:
    """A database, its server, and workers that know the server alone."""

    def __init__(self, folder: Path, log: IO[bytes]) -> None:
        self._folder = folder
        self._log = log
        self.ledger = folder / "ledger.jsonl"
        self.port = _free_port()
        self.url = f"grpc://127.0.0.1:{self.port}"
        self.server: Process
        self.workers: list[Process] = []

    def serve(self) -> None:
        database = f"sqlite:///{self._folder}/jobs.db"
        self.server = subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "windlass", "serve", "-c", database),
                *("--bind", "127.0.0.1:0", "--grpc-bind", f"127.0.0.1:{self.port}"),
            ],
            cwd=ROOT,
            env={**_clean(os.environ), **QUICKLY},
            stdout=self._log,
            stderr=self._log,
        )

    def work(self, count: int, **settings: Any) -> None:
        for _ in range(count):
            environment = worker_environment(self.url, self.ledger, settings) | QUICKLY
            self.workers.append(spawn("tests.faults.worker_app", self._log, environment))

    async def has_ended(self, count: int) -> None:
        """Wait until so many deliveries have come to their ends."""
        await until(lambda: len(self.events("end")) >= count)

    def events(self, name: str) -> list[dict[str, Any]]:
        return [event for event in ledger.read(self.ledger) if event["event"] == name]


def _clean(environment: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in environment.items() if not k.startswith(("WINDLASS_", "DATABASE"))}


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@contextmanager
def site(folder: Path) -> Iterator[Site]:
    with (folder / "log.txt").open("wb") as log:
        made = Site(folder, log)
        made.serve()
        try:
            yield made
        except BaseException:
            log.flush()
            print((folder / "log.txt").read_text()[-8_000:])
            raise
        finally:
            kill(made.workers)
            kill([made.server])


async def until(seen: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not seen():
            await asyncio.sleep(0.02)


async def add(app: App, specs: list[JobSpec]) -> list[Job]:
    """As soon as the server answers."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await app.client.add_jobs(specs)
            except StoreUnavailableError:
                await asyncio.sleep(0.05)


async def all_done(app: App, count: int) -> list[Job]:
    async with asyncio.timeout(PATIENCE):
        while True:
            with contextlib.suppress(StoreUnavailableError):
                if (await app.client.counts())["completed"] == count:
                    return await app.client.list_jobs(limit=10_000)
            await asyncio.sleep(0.05)


def check(made: Site, jobs: list[Job]) -> None:
    """Nothing is lost; nothing was settled but by its last delivery; attempts are what was
    charged."""
    events = ledger.read(made.ledger)
    ledger.check_deliveries(events)
    ended = {(event["job"], event["delivery"]) for event in made.events("end")}
    for job in jobs:
        assert job.state is JobState.COMPLETED
        assert job.attempts == 1, f"{job.id} was charged {job.attempts} attempts"
        assert (job.id, job.deliveries) in ended, f"{job.id} was settled by a stale delivery"
    line = {job.id for job in jobs if job.queue == "line"}
    ledger.check_one_at_a_time([it for it in events if it.get("job", 0) in line])


def specs(count: int) -> list[JobSpec]:
    naps = [JobSpec("nap", {"seconds": 0.05}, keep=600) for _ in range(count)]
    return naps + [JobSpec("one_at_a_time", {"n": n}, keep=600) for n in range(count // 4)]


@pytest.mark.slow
@pytest.mark.parametrize("kills", [1, pytest.param(6, marks=pytest.mark.rig)])
def test_servers_are_killed_while_two_workers_work(tmp_path: Path, kills: int) -> None:
    count = 80 * kills

    async def main(made: Site) -> None:
        async with App(made.url) as app:
            jobs = await add(app, specs(count))
            made.work(2, lease=10, concurrency=4)
            for n in range(1, kills + 1):
                await made.has_ended(n * count // (kills + 1))
                kill([made.server])
                made.serve()
            done = await all_done(app, len(jobs))
            assert {job.id for job in done} == {job.id for job in jobs}
            check(made, done)
            assert await asyncio.to_thread(stop, made.workers) == [0, 0]

    with site(tmp_path) as made:
        asyncio.run(_when_it_serves(made, main))


@pytest.mark.slow
def test_a_worker_is_killed(tmp_path: Path) -> None:
    """The server takes back what it had, and another worker does it."""

    async def main(made: Site) -> None:
        async with App(made.url) as app:
            jobs = await add(app, specs(40))
            made.work(1, lease=2, concurrency=4)
            await made.has_ended(5)
            [victim] = made.workers
            kill([victim])
            ledger.record(made.ledger, "killed", victim=victim.pid)
            made.work(1, lease=2, concurrency=4)
            check(made, await all_done(app, len(jobs)))

    with site(tmp_path) as made:
        asyncio.run(_when_it_serves(made, main))


async def _when_it_serves(made: Site, main: Callable[[Site], Coroutine[Any, Any, None]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            assert made.server.poll() is None, "the server has ended"
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", made.port)
            except OSError:
                await asyncio.sleep(0.05)
                continue
            writer.close()
            break
    await main(made)
