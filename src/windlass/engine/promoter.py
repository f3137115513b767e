"""Makes due jobs ready at their time, not at the next poll.

It sleeps until the next job is due, which the store says (`next_due`) at each poll. A hint brings
that forward: one that names the time costs no question, and one that does not is followed by a
question, of which there is one in `ASK_EVERY` seconds however many hints come.
"""

from __future__ import annotations

from windlass.clock import Clock
from windlass.store.hints import SOON
from windlass.store.port import WorkStore

MOST_AT_ONCE = 1_000
LOCKED_PAUSE = 0.25
ASK_EVERY = 1.0


class Promoter:
    """One loop's step, and `heard` for what wakes it before its time."""

    def __init__(self, store: WorkStore, poll_interval: float, clock: Clock) -> None:
        self._store = store
        self._poll_interval = min(poll_interval, SOON)
        self._clock = clock
        self._asked_at = float("-inf")
        self._look_at = float("-inf")

    def heard(self, seconds: float | None) -> bool:
        """A job is due in so many seconds, or at a time that is not known: whether the next step
        must come sooner than it would have."""
        now = self._clock.monotonic()
        at = max(now, self._asked_at + ASK_EVERY) if seconds is None else now + seconds
        if at >= self._look_at:
            return False
        self._look_at = at
        return True

    async def step(self) -> float:
        now = self._clock.monotonic()
        if now >= self._look_at:
            self._asked_at = now
            self._look_at = now + self._poll_interval  # a hint may come while the store answers
            try:
                pause = await self._promote()
            except BaseException:
                self._look_at = float("-inf")  # a step that did not ask would pass for an answer
                raise
            now = self._clock.monotonic()
            self._look_at = min(self._look_at, now + pause)
        return max(0.0, self._look_at - now)

    async def _promote(self) -> float:
        due = await self._store.next_due()
        if due is None:
            return self._poll_interval
        if due > 0:
            return min(due, self._poll_interval)
        if await self._store.promote(MOST_AT_ONCE):
            return 0.0
        # Another worker is promoting it, or an open transaction has locked it.
        return min(LOCKED_PAUSE, self._poll_interval)
