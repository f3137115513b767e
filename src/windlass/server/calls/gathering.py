"""Group commit of calls that came over many streams: while one write is in flight, the next
gathers.

What the store refuses is asked for again caller by caller, so that one wrong job hinders no other.
Where the store did not answer, all callers are told so: their rows may have been written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from typing import Generic, TypeVar

from windlass.errors import StoreBusyError, StoreUnavailableError, WindlassError

MOST_AT_ONCE = 2_000

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Gathered(Generic[Item, Answer]):
    """`write` answers with as many answers as there are items, in their order."""

    def __init__(self, write: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]]) -> None:
        self._write = write
        self._waiting: list[tuple[Sequence[Item], asyncio.Future[Sequence[Answer]]]] = []
        self._task: asyncio.Task[None] | None = None
        self.writes = 0
        """How many were made, for tests that count them."""

    async def add(self, items: Sequence[Item]) -> Sequence[Answer]:
        answer: asyncio.Future[Sequence[Answer]] = asyncio.get_running_loop().create_future()
        self._waiting.append((items, answer))
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="windlass-gathered")
        return await answer

    async def _run(self) -> None:
        try:
            while batch := self._next():
                await self._write_all(batch)
        finally:
            self._task = None

    def _next(self) -> list[tuple[Sequence[Item], asyncio.Future[Sequence[Answer]]]]:
        batch: list[tuple[Sequence[Item], asyncio.Future[Sequence[Answer]]]] = []
        count = 0
        while self._waiting and (not batch or count + len(self._waiting[0][0]) <= MOST_AT_ONCE):
            batch.append(self._waiting.pop(0))
            count += len(batch[-1][0])
        return batch

    async def _write_all(
        self, batch: Sequence[tuple[Sequence[Item], asyncio.Future[Sequence[Answer]]]]
    ) -> None:
        items = [item for each, _ in batch for item in each]
        self.writes += 1
        try:
            answers = await self._write(items)
        except Exception as error:
            if len(batch) > 1 and _is_refusal(error):
                for one in batch:
                    await self._write_all([one])
                return
            for _, future in batch:
                if not future.done():
                    future.set_exception(copy(error) if len(batch) > 1 else error)
            return
        start = 0
        for each, future in batch:
            if not future.done():
                future.set_result(answers[start : start + len(each)])
            start += len(each)


def _is_refusal(error: Exception) -> bool:
    """Whether the store has answered, and has written nothing."""
    unsure = StoreUnavailableError | StoreBusyError
    return isinstance(error, WindlassError) and not isinstance(error, unsure)
