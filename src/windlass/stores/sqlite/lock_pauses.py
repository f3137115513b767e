"""Giving way: how long a writer leaves the lock alone after it held it.

SQLite's lock has no queue: a writer that finds it taken sleeps and tries again, so one that takes
it back to back starves the others. Windlass's own connections try again every half millisecond.
Among them a pause a little longer than that is enough for another to get its turn.

A plain connection sleeps longer each time, up to 100 ms. It needs a lock that is free half of the
time, to be found free soon enough. Each writer knows what share of the time it holds the lock
itself, and from how often it finds the lock taken what share others do. While other programs use
the lock, each writer makes its own share smaller by a tenth above one half in all, below it a
little larger, which makes shares equal in the end. A writer that is alone does not pause.
Operations that wait during a pause go into one transaction.
"""

from __future__ import annotations

import math
import random

BUSY = 0.5
LONGEST = 0.05
TURN = 0.001
"""Seconds in which another connection of ours that waits will have tried again."""
_FORGOTTEN = 10.0
"""Seconds without a stranger's lock after which it is taken to be gone."""
_ALONE = 0.02
_MEMORY = 0.1
_SMALLEST = 0.02


class LockPauses:
    """The pauses of one writer."""

    def __init__(self) -> None:
        self._taken = 0.0
        self._stranger_at = -math.inf
        self._own = 0.0
        self._share = 1.0
        self._last = 0.0

    def pause(self, waited: bool, stranger: bool, held: float, now: float) -> float:
        """Seconds to pause after a transaction that held the lock for `held` seconds until `now`.

        `waited` says whether the lock was taken when it was first asked for, `stranger` whether
        by a connection that is not Windlass's.
        """
        cycle = max(held, now - self._last)
        self._last = now
        self._taken += _MEMORY * (waited - self._taken)
        self._own += _MEMORY * (held / cycle - self._own)
        if stranger:
            self._stranger_at = now
        if self._taken < _ALONE or now - self._stranger_at > _FORGOTTEN:
            self._share = min(1.0, self._share + 0.1)
        elif self._own + self._taken > BUSY:
            self._share = max(_SMALLEST, self._share * 0.9)
        else:
            self._share = min(1.0, self._share + 0.02)
        pause = min(LONGEST, held / self._share - held) * random.uniform(0.5, 1.5)  # noqa: S311
        return pause if self._taken < _ALONE else max(TURN, pause)
