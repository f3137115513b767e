"""How many calls a token may make: so many a second, and as many at once."""

from __future__ import annotations

from collections import OrderedDict

from windlass.clock import Clock
from windlass.server.identity import Identity
from windlass.server.refusals import TooManyCalls

_MOST_REMEMBERED = 10_000


class Rates:
    """A bucket per token, which holds the calls of one second; those of this process alone count.
    `rate` None is any number."""

    def __init__(self, rate: float | None, clock: Clock) -> None:
        self._rate = rate
        self._clock = clock
        self._free_at: OrderedDict[str, float] = OrderedDict()
        """By caller, when its bucket is full again."""

    def count(self, identity: Identity) -> None:
        """One more call; TooManyCalls if it is past the rate."""
        if self._rate is None:
            return
        now = self._clock.monotonic()
        caller = identity.digest or f"{identity.tenant}\x00{identity.name}"
        each = 1 / self._rate
        room = max(1.0, each)
        """Seconds that a full bucket holds: it takes one call, however slow the rate."""
        full_at = max(now, self._free_at.get(caller, now)) + each
        if full_at - now > room + 1e-9:
            raise TooManyCalls(full_at - now - room)
        self._free_at[caller] = full_at
        self._free_at.move_to_end(caller)
        while len(self._free_at) > _MOST_REMEMBERED:
            self._free_at.popitem(last=False)
