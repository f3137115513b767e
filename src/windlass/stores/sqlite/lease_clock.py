"""The clock that leases run on: the machine's monotonic one, which all its processes share.

It cannot be set, so a wall clock that jumps means nothing to a lease. It begins anew when the
machine is started; `upkeep.Reaper` says what follows from that.
"""

from __future__ import annotations

from windlass.clock import Clock
from windlass.store.rules import micros


def ticks(clock: Clock) -> int:
    """The time that leases are counted in, in microseconds."""
    return micros(clock.monotonic())
