"""Writes outcomes of all streams and claims of a server: while one write is in flight the next
gathers.

An outcome is written until the database has answered. Asking again is safe: a token settles at most
once. What an open transaction has locked is *busy*, and is asked for again beside the others.

While the database takes nothing, outcomes gather up to a limit; more are refused at once. One whose
caller has gone away is dropped if it has not begun: its lease brings the job back. Only what hands
a job back is kept, since its caller never waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from windlass.engine.sure import is_refusal, sure
from windlass.errors import (
    OutcomeUnknownError,
    StoreClosedError,
    StoreUnavailableError,
    ValidationError,
)
from windlass.observe.instruments import Instruments
from windlass.store.port import WorkStore
from windlass.store.records import RELEASE, Lease, Outcome, Settled, Verdict

Settlement = tuple[Lease, Outcome]

MOST_AT_ONCE = 1_000
MOST_WAITING = 100_000
"""Outcomes that wait, with those that are being written."""
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0

_REFUSED = "the server's database refused this outcome; the server's log says why"

_log = logging.getLogger("windlass.server")


@dataclass(slots=True, eq=False)
class _Asked:
    settlements: Sequence[Settlement]
    answered: asyncio.Future[list[Settled]]

    @property
    def is_forgotten(self) -> bool:
        """Whether its caller has gone away, and it hands nothing back."""
        return self.answered.cancelled() and all(it is not RELEASE for _, it in self.settlements)


class Settlements:
    """`submit` never waits."""

    def __init__(self, store: WorkStore, instruments: Instruments | None = None) -> None:
        self._store = store
        self._instruments = instruments or Instruments()
        self._waiting: list[_Asked] = []
        self._writing: list[_Asked] = []
        self._size = 0
        """Outcomes that wait or are being written."""
        self._task: asyncio.Task[None] | None = None

    async def settle(self, lease: Lease, outcome: Outcome) -> Settled:
        """End one delivery; the answer is never *busy*."""
        return (await self.settle_all([(lease, outcome)]))[0]

    async def settle_all(self, settlements: Sequence[Settlement]) -> list[Settled]:
        """End these deliveries, however long some of them are locked; no answer is *busy*."""
        answers = list(await self.submit(settlements))
        pause = FIRST_PAUSE
        while busy := [at for at, it in enumerate(answers) if it.verdict is Verdict.BUSY]:
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            again = await self.submit([settlements[at] for at in busy])
            for at, answer in zip(busy, again, strict=True):
                answers[at] = answer
        return answers

    def submit(self, settlements: Sequence[Settlement]) -> asyncio.Future[list[Settled]]:
        """Ask once for each: some of the answers may be *busy*. What the database will not have is
        *refused*; the log has what it said. StoreClosedError if the store was closed,
        StoreUnavailableError if too many wait already."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[list[Settled]] = loop.create_future()
        if not settlements:
            answered.set_result([])
            return answered
        if self._size + len(settlements) > MOST_WAITING and self._size:
            self._drop_forgotten()
        if self._size + len(settlements) > MOST_WAITING and self._size:
            told = f"{self._size:,} outcomes wait for the database already; send this one later"
            _fail([_Asked((), answered)], StoreUnavailableError(told, is_temporary=True))
            return answered
        self._waiting.append(_Asked(settlements, answered))
        self._size += len(settlements)
        if self._task is None:
            self._task = loop.create_task(self._write(), name="windlass-settlements")
        return answered

    async def close(self) -> None:
        """Wait until everything that was submitted is answered."""
        while self._task is not None:
            await asyncio.shield(self._task)

    def give_up(self) -> None:
        """Those who wait are told that the database does not answer; what it takes, it takes."""
        told = "the server stops, and its database does not answer; it may have taken this outcome"
        _fail([*self._writing, *self._waiting], StoreUnavailableError(told, is_temporary=True))

    async def _write(self) -> None:
        try:
            while self._waiting:
                self._drop_forgotten()
                asked = self._writing = self._next()
                settlements = [one for each in asked for one in each.settlements]
                try:
                    answers = await self._settle(settlements)
                except StoreClosedError as error:
                    _fail(asked, error)
                    continue
                finally:
                    self._writing = []
                    self._size -= len(settlements)
                at = 0
                for each in asked:
                    until = at + len(each.settlements)
                    if not each.answered.done():
                        each.answered.set_result(answers[at:until])
                    at = until
        finally:
            self._task = None

    def _drop_forgotten(self) -> None:
        if any(each.is_forgotten for each in self._waiting):
            self._waiting = [each for each in self._waiting if not each.is_forgotten]
            self._size = sum(len(each.settlements) for each in (*self._writing, *self._waiting))

    def _next(self) -> list[_Asked]:
        """The first that wait, together `MOST_AT_ONCE` or the very first alone."""
        size = count = 0
        for each in self._waiting:
            size += len(each.settlements)
            if count and size > MOST_AT_ONCE:
                break
            count += 1
        asked, self._waiting = self._waiting[:count], self._waiting[count:]
        return asked

    async def _settle(self, left: list[Settlement]) -> list[Settled]:
        """Write until an answer comes. After a failure the rest goes in halves, in case it was too
        much for one call."""
        time = asyncio.get_running_loop().time
        settled: list[Settled] = []
        most = size = min(len(left), MOST_AT_ONCE)
        pause = FIRST_PAUSE
        is_unsure = False
        while left:
            part = left[:size]
            began = time()
            try:
                answers = await self._store.settle(part)
                if is_unsure:
                    answers = [
                        await sure(self._store, lease, outcome, answer)
                        for (lease, outcome), answer in zip(part, answers, strict=True)
                    ]
            except StoreClosedError:
                raise
            except Exception as error:  # whatever it is: the jobs would stay running
                has_answered = is_refusal(error)
                if size == 1 and has_answered:
                    settled.append(_refused(error))
                    left = left[1:]
                    continue
                is_unsure = is_unsure or isinstance(error, OutcomeUnknownError)
                size = max(1, size // 2)
                if not has_answered:
                    _log.warning("outcomes cannot be written, and are tried again: %s", error)
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LONGEST_PAUSE)
            else:
                self._instruments.settling(time() - began)
                self._instruments.settled_elsewhere(part, answers)
                settled += answers
                left = left[size:]
                size = min(most, 2 * size)
                pause = FIRST_PAUSE
        return settled


def _refused(error: Exception) -> Settled:
    """What is wrong with an outcome is told; what a database says of itself is for the log."""
    if isinstance(error, ValidationError):
        return Settled(Verdict.REFUSED, reason=str(error))
    _log.error("the database refuses an outcome: %s", error)
    return Settled(Verdict.REFUSED, reason=_REFUSED)


def _fail(asked: Sequence[_Asked], error: Exception) -> None:
    for each in asked:
        if not each.answered.done():
            each.answered.set_exception(error)
            each.answered.exception()  # not all who hand something back look at the answer
