"""The machine's clocks, as objects that a test can replace.

Few other modules read a clock themselves; `tests/unit/test_clock_readers.py` lists them, with why.

A process uses `monotonic` for its own waiting; `now` is the wall clock, and for embedded stores
(memory, SQLite) it is the database's clock too, since database and workers share one machine.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Protocol

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Clock(Protocol):
    def now(self) -> int:
        """The wall clock, in microseconds since 1970 (UTC)."""

    def monotonic(self) -> float:
        """Seconds that never go back, one scale for every process of this machine."""


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> int:
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        return time.monotonic()


SYSTEM = SystemClock()


@cache
def boot_id() -> str:
    """Which start of this machine this is, or "" where the system does not say.

    The monotonic clocks of processes with the same one can be compared.
    """
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def to_micros(instant: datetime) -> int:
    return (instant - _EPOCH) // _MICROSECOND


def to_datetime(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)
