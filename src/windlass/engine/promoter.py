"""Makes due jobs ready at their time, not at the next poll."""

from __future__ import annotations

from windlass.store.port import WorkStore

MOST_AT_ONCE = 1_000
HELD_PAUSE = 0.25


class Promoter:
    """Sleeps until the next job is due; a hint (something was scheduled) makes it look again."""

    def __init__(self, store: WorkStore, poll_interval: float) -> None:
        self._store = store
        self._poll_interval = poll_interval

    async def step(self) -> float:
        due = await self._store.next_due()
        if due is None:
            return self._poll_interval
        if due > 0:
            return min(due, self._poll_interval)
        if await self._store.promote(MOST_AT_ONCE):
            return 0.0
        # Somebody else is promoting it, or holds it in an open transaction.
        return min(HELD_PAUSE, self._poll_interval)
