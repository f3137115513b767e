"""A clock that moves only when it is told to."""

from __future__ import annotations

import threading

START = 1_767_225_600_000_000
"""Where every FakeClock begins: 2026-01-01 00:00 UTC, in microseconds."""


class FakeClock:
    """A `windlass.clock.Clock` under the test's hand; safe to share between threads.

    Durations are seconds, exact to the microsecond.
    """

    def __init__(self, start: int = START) -> None:
        self._lock = threading.Lock()
        self._wall = start
        self._ticks = 1_000_000_000

    def now(self) -> int:
        """The wall clock, in microseconds since 1970 (UTC)."""
        with self._lock:
            return self._wall

    def monotonic(self) -> float:
        """Seconds that never go back."""
        with self._lock:
            return self._ticks / 1e6

    def advance(self, seconds: float) -> None:
        """Let time pass: both clocks move on. Raises ValueError for a negative duration."""
        if seconds < 0:
            raise ValueError("time does not go back; use jump() to set the wall clock back")
        with self._lock:
            self._wall += round(seconds * 1e6)
            self._ticks += round(seconds * 1e6)

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or (negative) back, as an operator or a time server may."""
        with self._lock:
            self._wall += round(seconds * 1e6)
