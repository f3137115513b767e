"""Group commit of concurrent enqueues: while one call is in flight, the next one gathers.

Only jobs and chains without keys are gathered. An open transaction may hold a key, and only the
call that adds that key should wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from windlass.errors import StoreError, StoreUnavailableError

MOST_AT_ONCE = 2_000
MOST_TEXT = 8_000_000
"""Characters of payload in one call, unless one caller has more."""

New = TypeVar("New")
Made = TypeVar("Made")


class Gather(Generic[New, Made]):
    """For the callers of one event loop. `add` writes many jobs in one call; `length` is how many
    characters of payload one has.

    A caller that comes while nothing is in flight makes a call of its own, at once. A task makes
    the calls for callers that come meanwhile, so that cancelling one does not affect the others.
    """

    def __init__(
        self, add: Callable[[Sequence[New]], Awaitable[list[Made]]], length: Callable[[New], int]
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self._add = add
        self._length = length
        self._waiting: list[tuple[Sequence[New], asyncio.Future[list[Made]]]] = []
        self._is_writing = False
        self._writer: asyncio.Task[None] | None = None

    async def add(self, jobs: Sequence[New]) -> list[Made]:
        if self._is_writing:
            answer: asyncio.Future[list[Made]] = self.loop.create_future()
            self._waiting.append((jobs, answer))
            return await answer
        self._is_writing = True
        try:
            return await self._add(jobs)
        finally:
            if self._waiting and not self.loop.is_closed():
                self._writer = self.loop.create_task(self._write(), name="windlass-gather")
            else:
                self._is_writing = False

    async def _write(self) -> None:
        try:
            while batch := self._next():
                await self._write_batch(batch)
                await asyncio.sleep(0)  # callers that were answered may have more to add
        finally:
            self._is_writing = False
            for _, answer in self._waiting:  # there are some only if the loop is being ended
                answer.cancel()
            self._waiting.clear()

    def _next(self) -> list[tuple[Sequence[New], asyncio.Future[list[Made]]]]:
        batch: list[tuple[Sequence[New], asyncio.Future[list[Made]]]] = []
        size = text = taken = 0
        for jobs, answer in self._waiting:
            size += len(jobs)
            text += sum([self._length(job) for job in jobs])
            if batch and (size > MOST_AT_ONCE or text > MOST_TEXT):
                break
            taken += 1
            if not answer.done():
                batch.append((jobs, answer))
        del self._waiting[:taken]
        return batch

    async def _write_batch(
        self, batch: Sequence[tuple[Sequence[New], asyncio.Future[list[Made]]]]
    ) -> None:
        try:
            added = await self._add([job for jobs, _ in batch for job in jobs])
        except Exception as error:  # the callers that wait for this call get it
            is_refusal = isinstance(error, StoreError)
            is_refusal = is_refusal and not isinstance(error, StoreUnavailableError)
            if not is_refusal or len(batch) == 1:
                for _, answer in batch:
                    if not answer.done():
                        answer.set_exception(error)
            else:  # something was refused: write each apart, so that only its caller fails
                for each in batch:
                    await self._write_batch([each])
            return
        except BaseException:  # the loop is being ended: cancel the callers that wait
            for _, answer in batch:
                answer.cancel()
            raise
        start = 0
        for jobs, answer in batch:
            if not answer.done():
                answer.set_result(added[start : start + len(jobs)])
            start += len(jobs)
