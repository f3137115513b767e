"""Whether the database's clock was set: what a machine that reaps knows of it.

Leases end by the database's clock, but that clock can be set, or be another one after a failover.
Each process also has a monotonic clock, which is one scale for all processes of a machine. Between
two jumps the difference of the two stays the same; so it is what a reaper compares.

The answer to a statement tells what the database's clock showed at some time between sending the
statement and reading the answer. Only what that uncertainty cannot explain is a jump: a process
that was stopped in between, or a slow network, is none.

What a machine knows is noted in the database (`_clocks`), for processes on it that start later. A
machine that knows nothing cannot tell a jump from hours in which no worker ran: it takes signs of
life from before its first look as given at that look, and so waits for one lease.
"""

from __future__ import annotations

import secrets
from datetime import datetime

from windlass.clock import Clock, boot_id, to_datetime
from windlass.store.rules import micros

STEADY = 250_000
"""Microseconds by which the clocks may differ from one look to the next without a jump."""


class ClockWatch:
    """The database's clock as seen from this machine. Instants are microseconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._zero: int | None = None
        self.machine = boot_id() or secrets.token_hex(16)
        """Processes that share a monotonic clock have the same; alone, if none can be told of."""
        self.since = 0.0
        """From when on no jump was missed, on the monotonic clock."""

    @property
    def has_begun(self) -> bool:
        return self._zero is not None

    def begin(self, zero: int, since: float) -> None:
        """Take over what is noted. `zero` is what the database's clock shows at monotonic 0."""
        self._zero, self.since = zero, since

    @property
    def reckoned(self) -> datetime:
        """What the database's clock should show now."""
        return self._reckon(self._clock.monotonic())

    @property
    def watched_since(self) -> datetime:
        """When `since` was, by the database's clock as it goes now."""
        return self._reckon(self.since)

    def _reckon(self, ticks: float) -> datetime:
        assert self._zero is not None
        return to_datetime(self._zero + micros(ticks))

    def jump(self, at: int, sent: float, answered: float) -> int | None:
        """By how much the clock was set, if it was, before it showed `at` to this statement."""
        assert self._zero is not None
        zero = at - micros(sent)
        by = zero - self._zero
        if by > micros(answered - sent) + STEADY or by < -STEADY:
            return by
        self._zero = min(self._zero, zero)
        return None

    def follow(self, at: int, sent: float) -> None:
        """Go by the clock as it is now: the leases have been moved along."""
        self._zero = at - micros(sent)
