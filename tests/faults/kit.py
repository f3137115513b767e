"""Worker processes, and waiting for what can be observed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.faults import ledger, processes
from tests.faults.processes import Process
from tests.patience import PATIENCE
from windlass import App

LEASE = 1.0
SWEEP = 0.3


class Place:
    """A folder with one jobs file, one ledger and any number of worker processes."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder}/jobs.db"
        self.file = folder / "jobs.db"
        self.ledger = folder / "ledger.jsonl"
        self.log = folder / "workers.log"
        self.app = App(self.url)
        self.workers: list[Process] = []

    def start(self, count: int = 1, **settings: Any) -> list[Process]:
        """Start workers and wait until each says it is ready."""
        chosen = {"lease": LEASE, "reap_interval": SWEEP, "poll_interval": 0.5, **settings}
        environment = processes.worker_environment(self.url, self.ledger, chosen)
        with self.log.open("ab") as log:
            started = [
                processes.spawn("tests.faults.worker_app", log, environment) for _ in range(count)
            ]
        self.workers += started
        wanted = {worker.pid for worker in started}
        until(lambda: wanted <= {e["pid"] for e in self.events("ready")}, "workers to be ready")
        return started

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        found = ledger.read(self.ledger)
        return [event for event in found if kind is None or event["event"] == kind]

    def counts(self) -> dict[str, int]:
        return self.app.sync.counts()

    def until_empty(self, timeout: float = PATIENCE) -> None:
        """Wait until no job is left, whatever its state."""
        until(lambda: sum(self.counts().values()) == 0, "all jobs to be done", timeout)

    def stop(self) -> list[int]:
        """SIGTERM every worker; their exit codes."""
        codes = processes.stop(self.workers)
        self.workers = []
        return codes


@contextmanager
def place(folder: Path) -> Iterator[Place]:
    here = Place(folder)
    try:
        yield here
    finally:
        processes.kill(here.workers)
        asyncio.run(here.app.close())


def until(condition: Callable[[], Any], what: str, timeout: float = PATIENCE) -> Any:
    """Wait until `condition` holds, and say what was waited for if it never does."""
    deadline = time.monotonic() + timeout
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout:g} s in vain for {what}")
        time.sleep(0.01)
