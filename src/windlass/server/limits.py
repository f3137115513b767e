"""How many calls a caller may make: so many a second, and as many at once.

Each process counts for itself.
"""

from __future__ import annotations

from collections import OrderedDict

from windlass.clock import Clock
from windlass.server.identity import Identity
from windlass.server.refusals import TooManyCalls

_MOST_REMEMBERED = 10_000
_ROUNDING = 1e-9


class Limits:
    """Admits calls. `rate` is calls per second and token; None admits all.

    Each token has a bucket that holds the calls of one second, and at least one.
    """

    def __init__(self, rate: float | None, clock: Clock) -> None:
        self._rate = rate
        self._clock = clock
        self._full_at: OrderedDict[tuple[str, str], float] = OrderedDict()
        """When each bucket will be full again; those that were used last come last."""

    def admit(self, identity: Identity) -> None:
        """Count one call. TooManyCalls where the caller must wait; that call is not counted."""
        if self._rate is None:
            return
        now = self._clock.monotonic()
        key = ("", identity.digest) if identity.digest else (f"/{identity.tenant}", identity.name)
        full_at = max(now, self._full_at.get(key, now)) + 1 / self._rate
        wait = full_at - now - max(1.0, 1 / self._rate)
        if wait > _ROUNDING:
            raise TooManyCalls(wait)
        self._full_at[key] = full_at
        self._full_at.move_to_end(key)
        while len(self._full_at) > _MOST_REMEMBERED:
            self._full_at.popitem(last=False)
