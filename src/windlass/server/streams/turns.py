"""Long work of one stream in slices, so that the event loop serves the others in between.

The first slice is done at once: what is short is done when `add` returns. Works of one stream are
done one after the other, in the order in which they came.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterator

SLICE = 500
"""Things that are looked at in one go."""
MOST_IN_BATCH = 10_000
"""Things in one batch; nothing is done about a batch that has more."""
MOST_ACKS = 100_000
"""Things in a batch that get acks of their own, though it has too many; with more it gets one."""
TOO_MANY = f"a batch has at most {MOST_IN_BATCH:,} items"

_log = logging.getLogger("windlass.server")


class Turns:
    """Of one stream. A work yields where a slice of it is done."""

    def __init__(self) -> None:
        self._works: deque[Iterator[None]] = deque()
        self._task: asyncio.Task[None] | None = None

    def add(self, work: Iterator[None]) -> None:
        self._works.append(work)
        if self._task is not None:
            return
        self._turn()
        if self._works:
            self._task = asyncio.get_running_loop().create_task(
                self._go_on(), name="windlass-turns"
            )

    def _turn(self) -> None:
        """One slice of the first work."""
        work = self._works[0]
        try:
            next(work)
        except StopIteration:
            self._works.popleft()
        except BaseException:
            self._works.popleft()
            raise

    async def _go_on(self) -> None:
        try:
            while self._works:
                await asyncio.sleep(0)
                try:
                    self._turn()
                except Exception:
                    _log.exception("what a stream said could not be dealt with")
        finally:
            self._task = None
