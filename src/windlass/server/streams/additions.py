"""Adds the jobs of all producers' streams: while one write is in flight the next gathers.

Jobs under an idempotency key are added by `enqueue_once`, the others by `enqueue`. A job that the
store refuses fails alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from windlass.engine.sure import is_refusal
from windlass.errors import OutcomeUnknownError, StoreError, ValidationError
from windlass.model.job import Job
from windlass.store.records import NewJob
from windlass.store.server import Request, Requested

MOST_AT_ONCE = 1_000

AWAY = "the server's database does not answer now; try again"
REFUSED = "the server's database refused this job; the server's log says why"
CONFLICT = "this idempotency key was used for another task or payload in the last 24 hours"

_log = logging.getLogger("windlass.server")


class AddingStore(Protocol):
    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Job]: ...

    async def enqueue_once(self, requests: Sequence[Request]) -> list[Requested]: ...


@dataclass(frozen=True, slots=True)
class Added:
    """A job's id, or why it was not added."""

    job_id: int | None = None
    error: str = ""


Addition = NewJob | Request
"""A request is for one job."""
_Add = Callable[[Sequence[Addition]], Awaitable[list[Added]]]


@dataclass(slots=True, eq=False)
class _Asked:
    additions: Sequence[Addition]
    answered: asyncio.Future[list[Added]]


class Additions:
    """`submit` never waits."""

    def __init__(self, store: AddingStore) -> None:
        self._store = store
        self._waiting: list[_Asked] = []
        self._task: asyncio.Task[None] | None = None

    def submit(self, additions: Sequence[Addition]) -> asyncio.Future[list[Added]]:
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[list[Added]] = loop.create_future()
        self._waiting.append(_Asked(additions, answered))
        if self._task is None:
            self._task = loop.create_task(self._write(), name="windlass-additions")
        return answered

    async def close(self) -> None:
        """Wait until everything that was submitted is answered."""
        while self._task is not None:
            await asyncio.shield(self._task)

    async def _write(self) -> None:
        try:
            while self._waiting:
                asked = self._next()
                answers = await self._add([one for each in asked for one in each.additions])
                at = 0
                for each in asked:
                    until = at + len(each.additions)
                    if not each.answered.done():
                        each.answered.set_result(answers[at:until])
                    at = until
        finally:
            self._task = None

    def _next(self) -> list[_Asked]:
        size = count = 0
        for each in self._waiting:
            size += len(each.additions)
            if count and size > MOST_AT_ONCE:
                break
            count += 1
        asked, self._waiting = self._waiting[:count], self._waiting[count:]
        return asked

    async def _add(self, additions: Sequence[Addition]) -> list[Added]:
        plain = [at for at, one in enumerate(additions) if isinstance(one, NewJob)]
        keyed = [at for at, one in enumerate(additions) if isinstance(one, Request)]
        answers = [Added()] * len(additions)
        for places, add in ((plain, self._enqueue), (keyed, self._enqueue_once)):
            for start in range(0, len(places), MOST_AT_ONCE):
                part = places[start : start + MOST_AT_ONCE]
                added = await self._carefully(add, [additions[at] for at in part])
                for at, answer in zip(part, added, strict=True):
                    answers[at] = answer
        return answers

    async def _carefully(self, add: _Add, additions: Sequence[Addition]) -> list[Added]:
        """Add them all at once; where the store refuses, in halves, until it is one."""
        try:
            return await add(additions)
        except (ValidationError, StoreError) as error:
            if len(additions) == 1 or not (isinstance(error, ValidationError) or is_refusal(error)):
                return [Added(error=_told(error))] * len(additions)
        except Exception as error:
            _log.exception("jobs of producers could not be added")
            return [Added(error=f"internal error: {type(error).__name__}")] * len(additions)
        half = len(additions) // 2
        first = await self._carefully(add, additions[:half])
        return first + await self._carefully(add, additions[half:])

    async def _enqueue(self, additions: Sequence[Addition]) -> list[Added]:
        jobs = await self._store.enqueue([one for one in additions if isinstance(one, NewJob)])
        return [Added(job.id) for job in jobs]

    async def _enqueue_once(self, additions: Sequence[Addition]) -> list[Added]:
        requests = [one for one in additions if isinstance(one, Request)]
        answers = await self._store.enqueue_once(requests)
        return [
            Added(error=CONFLICT) if answer.is_conflict else Added(answer.ids[0])
            for answer in answers
        ]


def _told(error: Exception) -> str:
    """What a client is told; what a database says of itself is for the server's log alone."""
    if isinstance(error, ValidationError):
        return str(error)
    _log.warning("jobs of producers were not added: %s", error)
    if isinstance(error, OutcomeUnknownError):
        return "the server lost its database; it is not known whether the job was added"
    return REFUSED if is_refusal(error) else AWAY
