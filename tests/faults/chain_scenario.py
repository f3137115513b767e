"""Fan-ins over two workers of which one is killed every second, on every store."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults import ledger, processes
from tests.faults.kit import LEASE, SWEEP, until
from tests.faults.processes import Process
from tests.patience import PATIENCE
from windlass import App, JobSpec

MERGED = "CREATE TABLE merged (n INTEGER, parts INTEGER)"
SIZES = [2] * 2000 + [50] * 200
"""How many parts each merge waits for."""
SETTINGS = {"lease": LEASE, "reap_interval": SWEEP, "poll_interval": 0.5, "max_resets": 10_000}


class Workers:
    """Two processes; one that was killed is replaced by another."""

    def __init__(self, folder: Path, url: str) -> None:
        self._ledger = folder / "ledger.jsonl"
        self._log = folder / "workers.log"
        self._environment = processes.worker_environment(url, self._ledger, SETTINGS)
        self._alive: list[Process] = []

    def start(self) -> None:
        with self._log.open("ab") as log:
            process = processes.spawn("tests.faults.chain_app", log, self._environment)
        self._alive.append(process)
        until(
            lambda: any(e["pid"] == process.pid for e in ledger.read(self._ledger)),
            "a worker to be ready",
        )

    def kill_oldest(self) -> None:
        processes.kill([self._alive.pop(0)])

    def stop(self) -> list[int]:
        return processes.stop(self._alive)

    def kill(self) -> None:
        processes.kill(self._alive)


def fan_ins_under_kills(
    folder: Path, url: str, merged: Callable[[], list[tuple[int, int]]]
) -> None:
    """`merged` reads the table of that name, which is there already."""
    app = App(url)
    try:
        _run(app, folder, url)
        assert sorted(merged()) == sorted(enumerate(SIZES))
        states = Counter(chain.state for chain in _chains(app))
        assert states == {"completed": len(SIZES) + sum(SIZES)}
    finally:
        asyncio.run(app.close())
    assert _findings(url) == []


def _run(app: App, folder: Path, url: str) -> None:
    """Until every job is done."""
    app.sync.start_chains(
        [JobSpec("fan_out", {"n": n, "parts": parts}) for n, parts in enumerate(SIZES)]
    )
    workers = Workers(folder, url)
    try:
        workers.start()
        workers.start()
        deadline = time.monotonic() + PATIENCE
        kills = 0
        while sum(app.sync.counts().values()):
            assert time.monotonic() < deadline, f"jobs are left: {app.sync.counts()}"
            workers.kill_oldest()
            workers.start()
            kills += 1
            time.sleep(1.0)
        assert kills > 1, "too few workers were killed; use more jobs"
        assert workers.stop() == [0, 0]
    finally:
        workers.kill()


def _chains(app: App) -> list[Any]:
    found: list[Any] = []
    while page := app.sync.list_chains(limit=1000, after=found[-1].id if found else None):
        found += page
    return found


def _findings(url: str) -> list[Any]:
    """What `windlass doctor` says of this database that is not well."""
    said = subprocess.run(
        [sys.executable, "-m", "windlass", "doctor", "--json", "-c", url],
        check=True,
        capture_output=True,
        text=True,
    )
    return [each for each in json.loads(said.stdout) if each["level"] not in ("ok", "note")]
