"""Removes finished jobs that were kept long enough, a few at a time."""

from __future__ import annotations

from windlass.store.port import WorkStore

MOST_AT_ONCE = 500
INTERVAL = 30.0
BETWEEN = 0.05


class Pruner:
    def __init__(self, store: WorkStore) -> None:
        self._store = store

    async def step(self) -> float:
        removed = await self._store.prune(MOST_AT_ONCE)
        return BETWEEN if removed >= MOST_AT_ONCE else INTERVAL
