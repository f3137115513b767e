"""Worker processes with one crontab, under a clock the test sets, over any store."""

from __future__ import annotations

import asyncio
import re
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from tests.faults import fail_points, ledger, processes
from tests.faults.kit import until
from tests.faults.processes import Process
from tests.faults.shifting import ShiftedClock
from tests.faults.symptoms import symptom
from windlass import App, parse_crontab

MINUTE = timedelta(minutes=1)


class Place(ABC):
    """One database, one crontab, one clock, one ledger and any number of worker processes."""

    def __init__(self, folder: Path, url: str) -> None:
        self.url = url
        self.ledger = folder / "ledger.jsonl"
        self.log = folder / "workers.log"
        self.clock = ShiftedClock(folder / "shift")
        self.app = App(url, clock=self.clock, listen=False)
        self.workers: list[Process] = []
        self._crontab = folder / "crontab.txt"
        self._fail_point = folder / "fail_point"

    # ── processes ──

    def start(self, crontab: str, count: int = 1) -> list[Process]:
        """Start workers; `until_rest` waits until they know their schedules."""
        self._crontab.write_text(crontab)
        with self.log.open("ab") as log:
            started = [
                processes.spawn(
                    "tests.faults.schedule_app", log, self._environment(len(self.workers) + number)
                )
                for number in range(count)
            ]
        self.workers += started
        return started

    def worker_url(self, number: int) -> str:
        return self.url

    def _environment(self, number: int) -> dict[str, str]:
        return {
            "WINDLASS_URL": self.worker_url(number),
            "WINDLASS_CRONTAB_FILE": str(self._crontab),
            # No jump of the clock may end a lease; and schedules are looked at every 5 polls.
            "WINDLASS_LEASE": "86400",
            "WINDLASS_POLL_INTERVAL": "0.02",
            "WINDLASS_KEEP": str(10 * 365 * 86_400),
            "LEDGER": str(self.ledger),
            "SHIFT": str(self.ledger.with_name("shift")),
            "FAIL_POINT": str(self._fail_point),
        }

    def arm(self, when: str) -> None:
        """Have one worker over SQLite die "before" or "after" the COMMIT of its next firing."""
        fail_points.arm(self._fail_point, when)

    @property
    def living(self) -> set[int]:
        return {worker.pid for worker in self.workers if worker.poll() is None}

    def stop(self) -> list[int]:
        """SIGTERM every worker that lives; the exit codes of all, in ascending order."""
        codes = sorted(processes.stop(self.workers))
        self.workers = []
        assert symptom(self.log.read_text()) is None
        return codes

    # ── time ──

    def go(self, instant: datetime) -> None:
        """Set the clock, and wait until every worker has seen it and has nothing to fire."""
        self.clock.set(instant)
        self.until_rest()

    def until_rest(self) -> None:
        setting = self.clock.setting
        until(
            lambda: (
                self.living <= {e["pid"] for e in self.events("rest") if e["setting"] == setting}
            ),
            "every worker to find nothing more to fire",
        )

    def register(self, crontab: str) -> None:
        """Let the database know schedules since now, as if a worker had been there."""

        async def register() -> None:
            async with App(self.url, clock=self.clock, listen=False) as app:
                await app.store.register(parse_crontab(crontab))

        asyncio.run(register())

    # ── what can be seen ──

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in ledger.read(self.ledger) if event["event"] == kind]

    @abstractmethod
    def payloads(self) -> list[Any]:
        """Those of all jobs that ever were, in the order they were added; completed ones are kept.

        Straight from the tables, which is quicker for a hundred thousand than page by page.
        """

    def added(self, name: str) -> list[str]:
        """The instants of the jobs of a schedule, in the order they were added."""
        found = [payload for payload in self.payloads() if payload["name"] == name]
        return [payload["_cron"]["ts"] for payload in found]

    def won(self, name: str) -> list[str]:
        """The instants that workers were told to have fired themselves."""
        told = [event["instants"] for event in self.events("won") if event["name"] == name]
        return sorted(instant for batch in told for instant in batch)

    def ticked(self, name: str) -> list[str]:
        """The instants whose jobs ran."""
        return sorted(event["ts"] for event in self.events("tick") if event["name"] == name)

    def last_fired(self, name: str) -> datetime | None:
        (known,) = [known for known in self.app.sync.list_schedules() if known.id == name]
        return known.last_at

    def until_done(self) -> None:
        until(
            lambda: self.app.sync.counts()["completed"] == sum(self.app.sync.counts().values()),
            "every job to be completed",
        )


def shown(instant: datetime) -> str:
    """As a job is told its instant."""
    return instant.isoformat().replace("+00:00", "Z")


def instants(begin: datetime, end: datetime, every: int = 1) -> list[str]:
    """The minutes divisible by `every` after `begin`, up to `end` itself."""
    minute = begin.replace(second=0, microsecond=0) + MINUTE
    found = []
    while minute <= end:
        if minute.minute % every == 0:
            found.append(shown(minute))
        minute += MINUTE
    return found


def peak_memory(pid: int) -> int:
    """Bytes: the most a process ever held in memory, or holds now where no kernel tells."""
    status = Path(f"/proc/{pid}/status")
    if status.exists():
        match = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
        assert match is not None
        return int(match[1]) * 1024
    told = subprocess.run(
        ["ps", "-o", "rss=", "-p", str(pid)], check=True, capture_output=True, text=True
    )
    return int(told.stdout) * 1024


P = TypeVar("P", bound=Place)


@contextmanager
def closing(here: P) -> Iterator[P]:
    """Kill whatever still runs at the end."""
    try:
        yield here
    finally:
        processes.kill(here.workers)
        asyncio.run(here.app.close())
