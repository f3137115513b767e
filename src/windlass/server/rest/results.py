"""Waiting for ends of jobs: one query in 100 ms answers all who wait in this process.

No hint tells that a job has ended, so the server looks. It asks for those that have finished among
all that are waited for, and wakes their waiters; it looks at nothing while nothing is waited for.
What becomes of a job that is deleted meanwhile its waiters learn at the end of their wait.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from windlass.errors import StoreError
from windlass.model.job import JobState
from windlass.server.rest.gone import until
from windlass.store.port import Store
from windlass.store.records import JobFilter

INTERVAL = 0.1
"""Seconds between two looks."""
_MOST = 10_000
"""Jobs asked about in one query."""
_FINAL = tuple(state for state in JobState if state.is_final)


class Results:
    """The waits of one process."""

    def __init__(self, store: Store, stopping: asyncio.Event) -> None:
        self._store = store
        self._stopping = stopping
        self._waiting: dict[int, set[asyncio.Future[None]]] = {}
        self._looking: asyncio.Task[None] | None = None

    async def wait(self, id: int, seconds: float) -> None:
        """Return when the job has finished, after that many seconds, or when the server stops."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(id, set()).add(ended)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="windlass results")
        try:
            await until(ended, seconds, self._stopping)
        finally:
            self._forget(id, ended)

    def _forget(self, id: int, ended: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(id)
        if waiting is not None:
            waiting.discard(ended)
            if not waiting:
                del self._waiting[id]

    async def _look(self) -> None:
        try:
            while self._waiting:
                with suppress(
                    StoreError
                ):  # the next look may succeed; a wait has an end of its own
                    await self._wake()
                await asyncio.sleep(INTERVAL)
        finally:
            self._looking = None

    async def _wake(self) -> None:
        ids = tuple(self._waiting)
        for start in range(0, len(ids), _MOST):
            some = ids[start : start + _MOST]
            wanted = JobFilter(states=_FINAL, ids=some, limit=len(some))
            for job in await self._store.find(wanted):
                for ended in self._waiting.pop(job.id, ()):
                    if not ended.done():
                        ended.set_result(None)

    async def close(self) -> None:
        """Answer all who wait, and look no more: the server stops."""
        for ended in [future for waiting in self._waiting.values() for future in waiting]:
            if not ended.done():
                ended.set_result(None)
        self._waiting.clear()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
