"""Removes finished jobs and chains that were kept long enough, a few at a time."""

from __future__ import annotations

from windlass.store.port import WorkStore

MOST_AT_ONCE = 500
INTERVAL = 30.0
BETWEEN = 0.05


class Pruner:
    def __init__(self, store: WorkStore, keep_chains: float, keep_failed_chains: float) -> None:
        """Seconds for which chains are kept that completed, and that ended otherwise."""
        self._store = store
        self._keeps = keep_chains, keep_failed_chains

    async def step(self) -> float:
        removed = await self._store.prune(MOST_AT_ONCE, *self._keeps)
        return BETWEEN if removed >= MOST_AT_ONCE else INTERVAL
