"""The scenes of the demo. Each tells what happens, waits until it did, and checks it."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from windlass.app import App
from windlass.cli.demo.crew import LEASE, Crew
from windlass.cli.demo.stage import Stage
from windlass.cli.output import say
from windlass.clock import SYSTEM, to_datetime
from windlass.model.cron import parse_crontab
from windlass.model.job import Job, JobSpec, JobState

T = TypeVar("T")

_GREETINGS = 300
_CUSTOMERS = 10
_LOOK = 0.1
_PATIENCE = 30.0
_HOUR = 3_600_000_000
_CRONTAB = "*/10 * * * * water ?fill=2h\n"


class SceneFailed(Exception):
    """Something the demo promises did not happen."""


async def play(folder: Path, server: str | None = None) -> None:
    """All scenes on a file, or in a schema of their own of the PostgreSQL database `server`."""
    stage = Stage()
    url = server or f"sqlite:///{folder / 'demo.db'}"
    schema = f"windlass_demo_{secrets.token_hex(4)}"
    crew = Crew(url, schema, folder)
    began = SYSTEM.monotonic()
    place = "one SQLite file" if server is None else f"the PostgreSQL schema {schema}"
    stage.title(f"Windlass: jobs in {place}, run by real worker processes")
    async with App(url, schema=schema, keep=600) as app:
        show = Show(app, crew, stage)
        try:
            await show.opening()
            await show.flow()
            await show.retries()
            await show.serial_queue()
            await show.crash()
            await show.schedule(folder)
            await show.ending()
        except SceneFailed:
            for line in crew.last_words():
                say(line)
            raise
        finally:
            await crew.dismiss()
            if server is not None:
                with app.store.connection() as connection:
                    connection.execute(f"DROP SCHEMA {schema} CASCADE")
    stage.title(f"All of that really happened, in {SYSTEM.monotonic() - began:.0f} seconds.")
    stage.say("Next:")
    stage.say("  write shop.py with   from windlass import App;  app = App()   and  @app.task")
    stage.say("  windlass add TASK '{…}'      put a job in the queue")
    stage.say("  windlass run shop:app        run it")
    stage.say("  windlass jobs list           see what is there")


class _HourAgo:
    """The machine's clock, set back by an hour."""

    def now(self) -> int:
        return SYSTEM.now() - _HOUR

    def monotonic(self) -> float:
        return SYSTEM.monotonic()


class Show:
    def __init__(self, app: App, crew: Crew, stage: Stage) -> None:
        self._app = app
        self._client = app.client
        self._crew = crew
        self._stage = stage
        self._watered = 0

    async def opening(self) -> None:
        for name in ("ada", "grace"):
            pid = await self._crew.hire(name)
            self._stage.say(f"started worker {name} (process {pid})")

        async def both_work() -> bool:
            for name in ("ada", "grace"):
                if self._crew.exit_code(name) is not None:
                    raise SceneFailed(f"worker {name} ended by itself")
            return len(await self._client.workers()) == 2

        await self._until("two workers at work", both_work)

    # ── 1 ──

    async def flow(self) -> None:
        self._stage.title("1. Jobs flow")
        await self._client.add_jobs(
            JobSpec(task="greet", payload={"number": n}) for n in range(_GREETINGS)
        )
        self._stage.say(f"added {_GREETINGS} jobs in one call")
        shown = -1

        async def all_done() -> bool:
            nonlocal shown
            counts = await self._client.counts()
            done = counts["completed"]
            third = done * 3 // _GREETINGS
            self._stage.live(
                f"{counts['ready']:>4} ready  {counts['running']:>3} running  {done:>4} completed",
                is_worth_a_line=third > shown,
            )
            shown = max(shown, third)
            return done >= _GREETINGS

        await self._until(f"{_GREETINGS} completed jobs", all_done)
        done = await self._client.list_jobs(state="completed", task="greet", limit=1000)
        if len(done) != _GREETINGS or any(job.deliveries != 1 for job in done):
            raise SceneFailed(f"{len(done)} of {_GREETINGS} jobs ran, or one ran twice")
        self._stage.good(f"all {_GREETINGS} ran, each exactly once")

    # ── 2 ──

    async def retries(self) -> None:
        self._stage.title("2. A failing task is tried again")
        job = await self._client.add_job("stubborn")
        told = 0

        async def completed() -> bool:
            nonlocal told
            now = await self._job(job.id)
            if now.last_error and now.attempts > told and now.state is not JobState.RUNNING:
                told = now.attempts
                first_line = now.last_error.split("\n", 1)[0]
                if now.state is JobState.SCHEDULED:
                    self._stage.say(f"attempt {told} failed: {first_line}; again in 1 s")
            return now.state is JobState.COMPLETED

        await self._until("the stubborn job to complete", completed)
        last = await self._job(job.id)
        if last.attempts != 3 or last.output != "printed":
            raise SceneFailed(f"expected success at attempt 3, got {last.attempts}: {last.output}")
        self._stage.good("attempt 3 succeeded; the job kept its errors and its count")

    # ── 3 ──

    async def serial_queue(self) -> None:
        self._stage.title("3. A serial queue runs one job at a time")
        jobs = await self._client.add_jobs(
            JobSpec(task="serve", payload={"customer": n}, queue="till")
            for n in range(1, _CUSTOMERS + 1)
        )
        self._stage.say(f"{_CUSTOMERS} customers at one till; two workers with 8 slots are free")
        ids = [job.id for job in jobs]

        async def all_served() -> bool:
            done = await self._client.list_jobs(ids=ids, state="completed")
            self._stage.live(
                f"served {len(done)} of {_CUSTOMERS}", is_worth_a_line=len(done) == _CUSTOMERS
            )
            return len(done) == _CUSTOMERS

        await self._until("all customers served", all_served)
        done = await self._client.list_jobs(ids=ids)
        times = [job.output[:2] for job in reversed(done)]
        overlaps = sum(later[0] < one[1] for one, later in itertools.pairwise(times))
        if overlaps:
            raise SceneFailed(f"{overlaps} jobs of one serial queue overlapped")
        people = len({job.output[2] for job in done})
        self._stage.good(
            "strictly one after the other, in order, no two overlapping"
            + (" (both workers took part)" if people == 2 else "")
        )

    # ── 4 ──

    async def crash(self) -> None:
        self._stage.title("4. A worker is killed while it runs a job")
        job = await self._client.add_job("bake")

        async def started() -> str | None:
            now = await self._job(job.id)
            return now.locked_by if now.state is JobState.RUNNING else None

        worker = await self._until("the job to start", started)
        name = "ada" if worker.startswith("ada-") else "grace"
        other = "grace" if name == "ada" else "ada"
        self._stage.say(f"worker {name} has the job in its hands")
        await self._crew.kill(name)
        orphan = await self._job(job.id)
        if orphan.state is not JobState.RUNNING or orphan.locked_by != worker:
            raise SceneFailed(f"{name} finished before it could be killed")
        self._stage.say(f"kill -9: {name} is gone without a word, the job still counts as running")
        self._stage.say(f"its lease of {LEASE:g} s is not renewed any more …")

        async def recovered() -> bool:
            now = await self._job(job.id)
            return now.state is JobState.COMPLETED or (
                now.state is JobState.RUNNING and now.locked_by != worker
            )

        await self._until("the job to be recovered", recovered)
        self._stage.say(f"the lease ran out: worker {other} took the job over")

        async def completed() -> bool:
            return (await self._job(job.id)).state is JobState.COMPLETED

        await self._until("the recovered job to complete", completed)
        last = await self._job(job.id)
        if not str(last.output).startswith(f"{other}-") or last.deliveries != 2:
            raise SceneFailed(f"expected {other} to finish it, at delivery 2: {last.output}")
        self._stage.good(f"{other} finished it: delivered twice, completed once, nothing lost")

    # ── 5 ──

    async def schedule(self, folder: Path) -> None:
        self._stage.title("5. A schedule makes up for the time when no worker ran")
        crontab = folder / "crontab"
        crontab.write_text(_CRONTAB, encoding="utf-8")
        [schedule] = parse_crontab(_CRONTAB)
        self._stage.say(f"the crontab says   {_CRONTAB.strip()}")
        async with App(
            self._app.settings.url, schema=self._app.settings.schema, clock=_HourAgo()
        ) as earlier:
            [known] = await earlier.store.register([schedule])
        self._stage.say("the database is told that it was known an hour ago, and never fired since")
        for name in ("linus", "margaret"):
            await self._crew.hire(name, crontab)
        self._stage.say("two workers start, both with this crontab")

        async def made_up_for() -> list[Job]:
            done = await self._client.list_jobs(state="completed", task="water")
            expected = schedule.timetable.between(known.floor_at, SYSTEM.now())
            return done if len(done) == sum(1 for _ in expected) else []

        async def three_work() -> bool:
            return len(await self._client.workers()) == 3

        await self._until("three workers at work", three_work)
        done = await self._until("the missed instants", made_up_for)
        self._watered = len(done)
        due = [to_datetime(i) for i in schedule.timetable.between(known.floor_at, SYSTEM.now())]
        if [job.run_at for job in reversed(done)] != due[: len(done)]:
            raise SceneFailed(f"expected one job for each of {due}: {done}")
        times = ", ".join(f"{job.run_at:%H:%M}" for job in done)
        self._stage.good(f"one job for each instant, none twice, in order: {times} (UTC)")

    async def ending(self) -> None:
        codes = await self._crew.dismiss()
        if any(codes.values()):
            raise SceneFailed(f"a worker did not stop cleanly: {codes}")
        counts = await self._client.counts()
        done = counts["completed"]
        least = _GREETINGS + _CUSTOMERS + 2 + self._watered
        if done < least or sum(counts.values()) != done:
            raise SceneFailed(f"jobs are left over: {counts}")
        self._stage.title("6. The workers are told to stop")
        self._stage.good(f"SIGTERM: all ended with exit code 0; {done} jobs completed, none left")

    # ── waiting ──

    async def _job(self, id: int) -> Job:
        job = await self._client.get_job(id)
        if job is None:
            raise SceneFailed(f"job {id} is lost")
        return job

    async def _until(self, what: str, look: Callable[[], Awaitable[T | None]]) -> T:
        """Look again and again until the answer is true; SceneFailed after half a minute."""
        deadline = SYSTEM.monotonic() + _PATIENCE
        while not (found := await look()):
            if SYSTEM.monotonic() > deadline:
                raise SceneFailed(f"waited {_PATIENCE:g} s for {what}")
            await asyncio.sleep(_LOOK)
        return found
