"""Giving way: how long a writer leaves the lock alone after it held it.

SQLite's lock has no queue. Whoever finds it taken sleeps longer each time (a plain connection up
to 100 ms) and tries again, so writers that take it back to back starve everybody who is politer
than they are. A lock that is free half of the time is found free soon enough.

Each writer knows what share of the time it holds the lock itself, and from how often it finds the
lock taken what share others do. Above one half in all everybody makes its own share smaller by a
tenth, below it a little larger, which makes shares equal in the end. Alone nobody pauses. What
waits during a pause goes into one transaction.
"""

from __future__ import annotations

import random

BUSY = 0.5
LONGEST = 0.05
_ALONE = 0.02
_MEMORY = 0.1
_SMALLEST = 0.02


class Pace:
    """The pauses of one writer."""

    def __init__(self) -> None:
        self._taken = 0.0
        self._own = 0.0
        self._share = 1.0
        self._last = 0.0

    def pause(self, waited: bool, held: float, now: float) -> float:
        """Seconds to pause after a transaction that held the lock for `held` seconds until `now`.

        `waited` says whether the lock was taken when it was first asked for.
        """
        cycle = max(held, now - self._last)
        self._last = now
        self._taken += _MEMORY * (waited - self._taken)
        self._own += _MEMORY * (held / cycle - self._own)
        if self._taken < _ALONE:
            self._share = min(1.0, self._share + 0.1)
        elif self._own + self._taken > BUSY:
            self._share = max(_SMALLEST, self._share * 0.9)
        else:
            self._share = min(1.0, self._share + 0.02)
        pause = min(LONGEST, held / self._share - held)
        return pause * random.uniform(0.5, 1.5)  # noqa: S311
