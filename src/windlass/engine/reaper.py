"""Takes jobs back from workers that died."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from windlass.observe.logs import Scoped
from windlass.store.port import WorkStore

if TYPE_CHECKING:
    from windlass.observe.instruments import Instruments

MOST_AT_ONCE = 1_000


class Reaper:
    """Any number may run; the interval is jittered so that they do not run in step."""

    def __init__(
        self,
        store: WorkStore,
        interval: float,
        max_resets: int,
        logger: Scoped,
        instruments: Instruments | None = None,
    ) -> None:
        self._store = store
        self._interval = interval
        self._max_resets = max_resets
        self._logger = logger
        self._instruments = instruments

    async def step(self) -> float:
        reaped = await self._store.reap(MOST_AT_ONCE, self._max_resets)
        if reaped.total and self._instruments is not None:
            self._instruments.reaped(reaped.total)
        if reaped.requeued:
            self._logger.warning("took back %d jobs of dead workers", len(reaped.requeued))
        if reaped.ended:
            self._logger.error(
                "ended %d jobs whose workers died (failed, or cancelled as asked): %s",
                len(reaped.ended),
                ", ".join(map(str, reaped.ended[:10])),
            )
        if reaped.total >= MOST_AT_ONCE:
            return 0.0
        return self._interval * random.uniform(0.8, 1.0)  # noqa: S311
