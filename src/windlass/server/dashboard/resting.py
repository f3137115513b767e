"""Looks at the database that rest in between: one that takes long is not made again at once.

A figure of a large database may take some milliseconds, and open pages ask for it every second. So
each figure is kept for twenty times as long as it took: however many pages are open, and whatever
it costs, no more than a twentieth of the time goes into it. One that is quick is asked for anew.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from windlass.clock import Clock

T = TypeVar("T")

REST = 20.0
"""Times as long as it took."""
MOST = 500
"""Figures that are kept."""


class _Kept(Generic[T]):
    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.found: T | None = None
        self.at = float("-inf")
        self.until = float("-inf")


class Resting(Generic[T]):
    """Figures by their keys."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: OrderedDict[Hashable, _Kept[T]] = OrderedDict()

    async def get(
        self, key: Hashable, look: Callable[[], Awaitable[T]], *, least: float = 0.0
    ) -> T:
        """What was found last, if that rests still or is not older than `least` seconds; else what
        is found now, by one look for all who ask."""
        kept = self._kept.setdefault(key, _Kept())
        self._kept.move_to_end(key)
        while len(self._kept) > MOST:
            self._kept.popitem(last=False)
        async with kept.lock:
            now = self._clock.monotonic()
            if kept.found is None or (now >= kept.until and now >= kept.at + least):
                kept.found = await look()
                kept.at = self._clock.monotonic()
                kept.until = kept.at + REST * (kept.at - now)
            return kept.found
