"""Writes outcomes. While one write is in flight the next gathers: no timer, no delay when idle.
While jobs lie ready and end turn by turn, a write waits a few milliseconds for them to join it.

Outcomes of jobs that an open transaction has locked are postponed and tried again beside the
others, which do not wait for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from windlass.engine.delivery import Delivery
from windlass.engine.outage import Outage
from windlass.engine.sure import DONE, is_refusal, sure
from windlass.errors import OutcomeUnknownError, StoreClosedError
from windlass.observe.logs import Scoped
from windlass.store.port import WorkStore
from windlass.store.records import Outcome, Settled, Verdict

if TYPE_CHECKING:
    from windlass.observe.instruments import Instruments

MOST_AT_ONCE = 1_000
MOST_WAITING = 5_000
MOST_REFUSED = 100
"""Outcomes that may wait to be written, and be refused by the database, before slots wait too."""
GATHER = 0.005
"""Seconds that outcomes may wait for others while jobs end one after the other."""
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0


@dataclass(frozen=True, slots=True)
class SettlerLinks:
    """What the settler tells the rest of the engine, and asks it, as a batch goes on."""

    buffered: Callable[[], int]
    """How many jobs lie ready in the slots: a batch waits for the outcomes of a few of them."""
    before: Callable[[Sequence[Delivery]], Awaitable[None]]
    """A batch is about to be written."""
    refused: Callable[[Delivery, str], Outcome]
    """What is written of a job whose completion the store refuses, and why it refused."""
    tried: Callable[[Sequence[Delivery]], None]
    """The store has answered: slots that wait for the next job of these queues may ask again."""
    after: Callable[[Sequence[Delivery], Sequence[Settled]], Awaitable[None]]
    """What became of those in the batch that need not be tried again."""


class Settler:
    """`add` never waits; `room` does, when the database cannot keep up."""

    def __init__(
        self,
        store: WorkStore,
        outage: Outage,
        logger: Scoped,
        links: SettlerLinks,
        instruments: Instruments | None = None,
    ) -> None:
        self._store = store
        self._outage = outage
        self._logger = logger
        self._links = links
        self._instruments = instruments
        self._waiting: list[Delivery] = []
        self._task: asyncio.Task[None] | None = None
        self._postponed: list[Delivery] = []
        self._refused = 0
        self._postponed_task: asyncio.Task[None] | None = None
        self._room: asyncio.Event | None = None

    def add(self, delivery: Delivery, outcome: Outcome) -> None:
        delivery.outcome = outcome
        self.add_all([delivery])

    def add_all(self, deliveries: Sequence[Delivery]) -> None:
        """Write the `outcome` of each."""
        self._waiting += deliveries
        if self._task is None and deliveries:
            self._task = asyncio.get_running_loop().create_task(
                self._write(), name="windlass-settler"
            )

    @property
    def space(self) -> int:
        """How many more may be added before slots must wait."""
        return 0 if self._refused >= MOST_REFUSED else MOST_WAITING - len(self._waiting)

    @property
    def is_full(self) -> bool:
        return self.space <= 0

    async def room(self) -> None:
        """Wait until there is room for more."""
        while self.is_full:
            self._room = self._room or asyncio.Event()
            await self._room.wait()

    async def flush(self) -> None:
        """Wait until everything added so far is written."""
        while (task := self._task or self._postponed_task) is not None:
            await asyncio.shield(task)

    async def stop(self) -> None:
        """Give up on what is not written: the leases run out and others take the jobs."""
        tasks = [task for task in (self._task, self._postponed_task) if task is not None]
        self._task = self._postponed_task = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _write(self) -> None:
        try:
            while self._waiting:
                await self._gather()
                batch = self._waiting[:MOST_AT_ONCE]
                del self._waiting[:MOST_AT_ONCE]
                await self._links.before(batch)
                await self._settle_all(batch)
        finally:
            self._task = None

    async def _gather(self) -> None:
        """Let those join that are about to end: while jobs lie ready and end turn by turn."""
        time = asyncio.get_running_loop().time
        until = time() + GATHER
        seen = 0
        while (
            seen < len(self._waiting) < MOST_AT_ONCE and self._links.buffered() and time() < until
        ):
            seen = len(self._waiting)
            await asyncio.sleep(0)

    async def _settle_all(self, batch: list[Delivery]) -> None:
        """Write, tell what became of each, and postpone jobs that a transaction has locked."""
        settled = await self._settle(batch)
        self._links.tried(batch)
        if settled.count(DONE) < len(batch):
            batch, settled = self._postpone(batch, settled)
        self._refused = sum(delivery.is_refused for delivery in self._postponed)
        await self._links.after(batch, settled)
        if self._room is not None and not self.is_full:
            self._room.set()
            self._room = None

    def _postpone(
        self, batch: Sequence[Delivery], settled: Sequence[Settled]
    ) -> tuple[list[Delivery], list[Settled]]:
        """Keep those that must be tried again; the others and their answers."""
        told: list[Delivery] = []
        answers: list[Settled] = []
        for delivery, answer in zip(batch, settled, strict=True):
            if answer.verdict is Verdict.BUSY:
                self._postponed.append(delivery)
            elif answer.verdict is Verdict.REFUSED:
                self.add(delivery, self._links.refused(delivery, answer.reason or "refused"))
            else:
                told.append(delivery)
                answers.append(answer)
        if self._postponed and self._postponed_task is None:
            self._postponed_task = asyncio.get_running_loop().create_task(
                self._write_postponed(), name="windlass-settler-postponed"
            )
        return told, answers

    async def _write_postponed(self) -> None:
        pause = FIRST_PAUSE
        try:
            while self._postponed:
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
                batch, self._postponed = self._postponed, []
                await self._settle_all(batch)
        finally:
            self._postponed_task = None

    async def _settle(self, batch: Sequence[Delivery]) -> list[Settled]:
        """Write until an answer comes. Asking again is safe: a token settles at most once.

        After a failure the rest goes in halves, in case it was too much for one call. What a store
        that was closed cannot write any more is lost.
        """
        time = asyncio.get_running_loop().time
        left = list(batch)
        settled: list[Settled] = []
        most = size = len(left)
        is_unsure = False
        while left:
            try:
                began = time()
                answers = await self._store.settle([(d.lease, d.outcome) for d in left[:size]])
                if self._instruments is not None:
                    self._instruments.settling(time() - began)
                if is_unsure:
                    answers = [
                        await self._sure(delivery, answer)
                        for delivery, answer in zip(left, answers, strict=False)
                    ]
                settled += answers
            except StoreClosedError:
                return settled + [Settled(Verdict.LOST)] * len(left)
            except Exception as error:  # whatever it is: giving up would leave the jobs running
                if size == 1 and is_refusal(error):
                    # The store is there and will not have this one: the others go on.
                    self._tell_refused(left.pop(0), error)
                    settled.append(Settled(Verdict.BUSY))
                    continue
                is_unsure = is_unsure or isinstance(error, OutcomeUnknownError)
                size = max(1, size // 2)
                if not is_refusal(error):
                    await asyncio.sleep(self._outage.failed(error))
            else:
                del left[:size]
                size = min(most, 2 * size)
                self._outage.worked()
        return settled

    def _tell_refused(self, delivery: Delivery, error: Exception) -> None:
        if not delivery.is_refused:
            delivery.is_refused = True
            self._logger.error(
                "the outcome of job %d is refused, and will be tried again: %s",
                delivery.lease.job_id,
                error,
                extra=delivery.log_fields,
            )

    async def _sure(self, delivery: Delivery, answer: Settled) -> Settled:
        if delivery.is_fenced:
            return answer
        return await sure(self._store, delivery.lease, delivery.outcome, answer)
