"""Writes outcomes. While one write is in flight the next gathers: no timer, no delay when idle."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from windlass.engine.delivery import Delivery
from windlass.engine.outage import Outage
from windlass.errors import StoreClosedError
from windlass.store.port import Store
from windlass.store.records import Outcome, Settled

Settlement = tuple[Delivery, Outcome]
After = Callable[[Sequence[Settlement], Sequence[Settled]], Awaitable[None]]

MOST_AT_ONCE = 1_000
MOST_WAITING = 5_000


class Settler:
    """`add` never waits; `room` does, when the database cannot keep up."""

    def __init__(
        self,
        store: Store,
        outage: Outage,
        before: Callable[[Sequence[Settlement]], Awaitable[None]],
        after: After,
    ) -> None:
        self._store = store
        self._outage = outage
        self._before = before
        self._after = after
        self._waiting: list[Settlement] = []
        self._task: asyncio.Task[None] | None = None
        self._room: asyncio.Event | None = None

    def add(self, delivery: Delivery, outcome: Outcome) -> None:
        self._waiting.append((delivery, outcome))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(
                self._write(), name="windlass-settler"
            )

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= MOST_WAITING

    async def room(self) -> None:
        """Wait until there is room for more."""
        while self.is_full:
            self._room = self._room or asyncio.Event()
            await self._room.wait()

    async def flush(self) -> None:
        """Wait until everything added so far is written."""
        while self._task is not None:
            await asyncio.shield(self._task)

    async def stop(self) -> None:
        """Give up on what is not written: the leases run out and others take the jobs."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _write(self) -> None:
        try:
            while self._waiting:
                batch = self._waiting[:MOST_AT_ONCE]
                del self._waiting[:MOST_AT_ONCE]
                await self._before(batch)
                settled = await self._settle(batch)
                if settled is not None:
                    await self._after(batch, settled)
                if self._room is not None and not self.is_full:
                    self._room.set()
                    self._room = None
        finally:
            self._task = None

    async def _settle(self, batch: Sequence[Settlement]) -> list[Settled] | None:
        """Write until an answer comes. Asking again is safe: a token settles at most once.

        After a failure the rest goes in halves, in case it was too much for one call.
        """
        left = [(delivery.lease, outcome) for delivery, outcome in batch]
        settled: list[Settled] = []
        size = len(left)
        while left:
            try:
                settled += await self._store.settle(left[:size])
            except StoreClosedError:
                return None
            except Exception as error:  # whatever it is: giving up would leave the jobs running
                size = max(1, size // 2)
                await asyncio.sleep(self._outage.failed(error))
            else:
                del left[:size]
                self._outage.worked()
        return settled
