"""What a worker says of its deliveries, and the acks it gets.

All that comes with one chunk is one settlement, written together with those of other streams. A
delivery that a client presents (field 20) is judged by it alone, whichever stream it was given to.
One that is named by its task's id must be this stream's own. Every event gets its ack, and a wrong
one costs nothing but itself. Long chunks and batches are judged in slices, in turns with others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from windlass.errors import StoreError, ValidationError
from windlass.model.job import JobState
from windlass.model.names import brief
from windlass.server.identity import Identity
from windlass.server.streams.keeping import Held, Holding
from windlass.server.streams.shared import Shared
from windlass.server.streams.turns import MOST_ACKS, MOST_IN_BATCH, SLICE, TOO_MANY, Turns
from windlass.store.records import RELEASE, JobFilter, Lease, Outcome, Settled, Verdict
from windlass.wire.windlass_pb2 import (
    Abandon,
    AbandonAck,
    Heartbeat,
    HeartbeatAck,
    Nack,
    NackAck,
    Result,
    ResultAck,
    ResultAckBatch,
    ResultBatch,
    WorkerServerEvent,
)

NOT_OWNER = "not-owner"
NOT_FOUND = "not-found"
UNAVAILABLE = "the database cannot be written now; try again"

_LONGEST_ID = 19
_MOST_SOUGHT = 1_000

_log = logging.getLogger("windlass.server")


class _Kind(Enum):
    RESULT = 1
    NACK = 2
    ABANDON = 3


@dataclass(slots=True, eq=False)
class _Said:
    """One thing said of one delivery, and what became of it: `wrong` is why it was not done."""

    kind: _Kind
    task_id: str
    held: Held | None = None
    lease: Lease | None = None
    outcome: Outcome | None = None
    delay: int = 0
    wrong: str | None = None
    sought: int | None = None
    """The job to look for, where it is not this stream's."""
    answer: Settled | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is not known yet what becomes of it."""
        return self.wrong is None and (self.answer is None or self.answer.verdict is Verdict.BUSY)


@dataclass(slots=True, eq=False)
class _Message:
    """One event: one thing that was said, or a batch of them."""

    said: list[_Said] = field(default_factory=list)
    is_batch: bool = False

    @property
    def weight(self) -> int:
        return max(1, len(self.said))

    @property
    def is_open(self) -> bool:
        return any(one.is_open for one in self.said)


class Answering:
    """Of one stream. `send` takes acks, `changed` is told whenever something was answered."""

    def __init__(
        self,
        shared: Shared,
        identity: Identity,
        holding: Holding,
        send: Callable[[Sequence[WorkerServerEvent]], None],
        changed: Callable[[], None],
    ) -> None:
        self._shared = shared
        self._identity = identity
        self._holding = holding
        self._send = send
        self._changed = changed
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns = Turns()
        self.unanswered = 0
        """Events, and items of batches, that have no ack yet."""

    def take(self, events: Sequence[Result | Nack | Abandon | ResultBatch | Heartbeat]) -> None:
        """What the worker says in one chunk."""
        self.unanswered += sum(map(_weight, events))
        self._turns.add(self._judge_all(events))

    def _judge_all(
        self, events: Sequence[Result | Nack | Abandon | ResultBatch | Heartbeat]
    ) -> Iterator[None]:
        messages: list[_Message] = []
        heartbeats: list[Heartbeat] = []
        for count, event in enumerate(events, 1):
            match event:
                case Heartbeat():
                    heartbeats.append(event)
                case ResultBatch():
                    message = _Message(is_batch=True)
                    yield from self._judge_batch(event, message)
                    messages.append(message)
                case Result():
                    messages.append(_Message([self._result(event, in_batch=False)]))
                case Nack():
                    messages.append(_Message([self._nack(event)]))
                case Abandon():
                    messages.append(_Message([self._abandon(event)]))
            if count % SLICE == 0:
                yield
        if messages:
            self._settle(messages)
        if heartbeats:
            self._spawn(self._beat(heartbeats))

    def _judge_batch(self, batch: ResultBatch, message: _Message) -> Iterator[None]:
        count = len(batch.results)
        if count > MOST_ACKS:
            message.said = [_Said(_Kind.RESULT, "", wrong=TOO_MANY)]
            return
        for at, one in enumerate(batch.results, 1):
            if count > MOST_IN_BATCH:
                said = _Said(_Kind.RESULT, one.task_id, wrong=TOO_MANY)
            else:
                said = self._result(one, in_batch=True)
            message.said.append(said)
            if at % SLICE == 0:
                yield

    # ── what was said ──

    def _result(self, result: Result, *, in_batch: bool) -> _Said:
        said = self._judged(_Kind.RESULT, result)
        if (lease := said.lease) is None:
            return said
        rulings = self._shared.rulings
        try:
            match result.status:
                case "COMPLETED":
                    said.outcome = rulings.completed(lease, result.result_json)
                case "FAILED":
                    said.outcome = rulings.failed(lease, result.error)
                case "NACK" if in_batch:
                    delay = max(0, result.delay_seconds)
                    said.outcome = rulings.nacked(lease, delay, result.error)
                case "ABANDON" if in_batch:
                    said.outcome = RELEASE
                case other:
                    allowed = "COMPLETED, FAILED" + (", NACK or ABANDON" if in_batch else "")
                    said.wrong = f"status must be one of {allowed}; not {brief(other)}"
        except ValidationError as error:
            said.wrong = str(error)
        return said

    def _nack(self, nack: Nack) -> _Said:
        said = self._judged(_Kind.NACK, nack)
        if said.lease is not None:
            said.delay = max(0, nack.delay_seconds)
            said.outcome = self._shared.rulings.nacked(said.lease, said.delay, nack.reason)
        return said

    def _abandon(self, abandon: Abandon) -> _Said:
        said = self._judged(_Kind.ABANDON, abandon)
        if said.lease is not None:
            said.outcome = RELEASE
        return said

    def _judged(self, kind: _Kind, event: Any) -> _Said:
        """Which delivery it is about."""
        said = _Said(kind, event.task_id)
        if event.delivery:
            delivery = self._shared.deliveries.unsealed(event.delivery, self._identity.sees)
            if delivery is None or not self._may_have(delivery.task):
                said.wrong = NOT_FOUND
                return said
            said.task_id = said.task_id or str(delivery.job_id)
            said.held = self._shared.keeping.find(delivery)
            said.lease = delivery.lease if said.held is None else said.held.lease
            return said
        job_id = _job_id(event.task_id)
        if job_id is None:
            said.wrong = NOT_FOUND
        elif (held := self._holding.held.get(job_id)) is None:
            said.sought = job_id
        else:
            said.held, said.lease = held, held.lease
        return said

    def _may_have(self, task: str) -> bool:
        return self._identity.tasks is None or task in self._identity.tasks

    # ── settling ──

    def _settle(self, messages: list[_Message]) -> None:
        asked = [one for message in messages for one in message.said if one.outcome is not None]
        for one in asked:
            if one.held is not None:
                one.held.is_settling = True
        if not asked:
            self._go_on(messages)
            return
        written = self._shared.settlements.submit([(one.lease, one.outcome) for one in asked])  # type: ignore[misc]
        written.add_done_callback(lambda answers: self._written(messages, asked, answers))

    def _written(
        self,
        messages: list[_Message],
        asked: list[_Said],
        answers: asyncio.Future[list[Settled]],
    ) -> None:
        if answers.cancelled() or (error := answers.exception()) is not None:
            if not answers.cancelled():
                _log.warning("outcomes were not written: %s", error)
            for one in asked:
                one.wrong = UNAVAILABLE
                self._release(one)
        else:
            for one, answer in zip(asked, answers.result(), strict=True):
                self._note(one, answer)
        self._go_on(messages)

    def _note(self, said: _Said, answer: Settled) -> None:
        said.answer = answer
        if answer.verdict is not Verdict.BUSY:
            self._release(said)

    def _release(self, said: _Said) -> None:
        """The delivery is not being settled any more, and over if the store has said so."""
        held, answer = said.held, said.answer
        if held is None:
            return
        held.is_settling = False
        if answer is not None and answer.verdict not in (Verdict.REFUSED, Verdict.BUSY):
            self._shared.keeping.drop(held)

    def _go_on(self, messages: list[_Message]) -> None:
        """Acknowledge what is known, and find out the rest."""
        done = [message for message in messages if not message.is_open]
        if len(done) < len(messages):
            self._spawn(self._find_out([message for message in messages if message.is_open]))
        self._acknowledge(done)

    async def _find_out(self, messages: list[_Message]) -> None:
        """Ask again for what was locked, and look for jobs that are not this stream's."""
        said = [one for message in messages for one in message.said if one.is_open]
        try:
            await self._seek([one for one in said if one.sought is not None])
            busy = [one for one in said if one.outcome is not None]
            pairs = [(one.lease, one.outcome) for one in busy]
            answers = await self._shared.settlements.settle_all(pairs)  # type: ignore[arg-type]
            for one, answer in zip(busy, answers, strict=True):
                self._note(one, answer)
        except StoreError as error:
            _log.warning("outcomes were not written: %s", error)
            for one in said:
                if one.is_open:
                    one.wrong = UNAVAILABLE
                    self._release(one)
        self._acknowledge(messages)

    async def _seek(self, said: Sequence[_Said]) -> None:
        """A job that is there, and may be seen, is another delivery's."""
        ids = sorted({one.sought for one in said if one.sought is not None})
        known: set[int] = set()
        for start in range(0, len(ids), _MOST_SOUGHT):
            part = tuple(ids[start : start + _MOST_SOUGHT])
            wanted = JobFilter(ids=part, limit=len(part), tenant=self._identity.sees)
            known.update(
                job.id for job in await self._shared.store.find(wanted) if self._may_have(job.task)
            )
        for one in said:
            one.wrong = NOT_OWNER if one.sought in known else NOT_FOUND

    def _acknowledge(self, messages: Sequence[_Message]) -> None:
        if not messages:
            return
        self.unanswered -= sum(message.weight for message in messages)
        self._send([_ack(message) for message in messages])
        self._changed()

    # ── heartbeats ──

    async def _beat(self, heartbeats: Sequence[Heartbeat]) -> None:
        """Extend what is this stream's, and adopt what it presents of another."""
        acks = [await self._beaten(one) for one in heartbeats]
        held = [one for one, _ in acks if isinstance(one, Held)]
        lost = await self._shared.keeping.lost(held) if held else set()
        for one in lost:
            self._shared.keeping.drop(one)
        answers = []
        for (found, task_id), heartbeat in zip(acks, heartbeats, strict=True):
            wrong = found if isinstance(found, str) else ""
            if isinstance(found, Held):
                if found in lost:
                    wrong = NOT_OWNER
                else:
                    seconds = heartbeat.extend_seconds
                    usual = found.delivery.seconds
                    self._shared.keeping.extend(found, seconds if seconds > 0 else usual)
            ack = HeartbeatAck(task_id=task_id, ok=not wrong, error_message=wrong)
            answers.append(WorkerServerEvent(heartbeat_ack=ack))
        self.unanswered -= len(heartbeats)
        self._send(answers)
        self._changed()

    async def _beaten(self, heartbeat: Heartbeat) -> tuple[Held | str, str]:
        """The delivery that is to go on, or why it cannot; and what to call it."""
        task_id = heartbeat.task_id
        try:
            if heartbeat.delivery:
                sees = self._identity.sees
                delivery = self._shared.deliveries.unsealed(heartbeat.delivery, sees)
                if delivery is None or not self._may_have(delivery.task):
                    return NOT_FOUND, task_id
                task_id = task_id or str(delivery.job_id)
                held = self._shared.keeping.find(delivery)
                if held is None or held.holding is not self._holding:
                    held = await self._shared.keeping.adopt(self._holding, delivery)
                return held or NOT_OWNER, task_id
            job_id = _job_id(task_id)
            if job_id is None:
                return NOT_FOUND, task_id
            own = self._holding.held.get(job_id)
            if own is not None:
                return own, task_id
            said = _Said(_Kind.RESULT, task_id, sought=job_id)
            await self._seek([said])
            return said.wrong or NOT_FOUND, task_id
        except StoreError as error:
            _log.warning("a heartbeat could not be judged: %s", error)
            return UNAVAILABLE, task_id

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work, name="windlass-answers")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _weight(event: Result | Nack | Abandon | ResultBatch | Heartbeat) -> int:
    if not isinstance(event, ResultBatch):
        return 1
    count = len(event.results)
    return max(1, count) if count <= MOST_ACKS else 1


def _job_id(text: str) -> int | None:
    is_number = text.isascii() and text.isdecimal() and len(text) <= _LONGEST_ID
    job_id = int(text) if is_number else 0
    return job_id if 0 < job_id < 2**63 else None


def _wrong(said: _Said) -> str:
    """Why it was not done; empty if it was."""
    if said.wrong is not None:
        return said.wrong
    assert said.answer is not None
    match said.answer.verdict:
        case Verdict.APPLIED:
            return ""
        case Verdict.LOST:
            return NOT_OWNER
        case Verdict.MISSING:
            return NOT_FOUND
        case _:
            return said.answer.reason or "refused"


def _result_ack(said: _Said) -> ResultAck:
    wrong = _wrong(said)
    return ResultAck(task_id=said.task_id, ok=not wrong, error_message=wrong)


def _ack(message: _Message) -> WorkerServerEvent:
    if message.is_batch:
        acks = [_result_ack(said) for said in message.said]
        return WorkerServerEvent(result_ack_batch=ResultAckBatch(acks=acks))
    said = message.said[0]
    match said.kind:
        case _Kind.RESULT:
            return WorkerServerEvent(result_ack=_result_ack(said))
        case _Kind.ABANDON:
            wrong = _wrong(said)
            ack = AbandonAck(task_id=said.task_id, ok=not wrong, error_message=wrong)
            return WorkerServerEvent(abandon_ack=ack)
        case _Kind.NACK:
            wrong = _wrong(said)
            nack = NackAck(task_id=said.task_id, ok=not wrong, error_message=wrong)
            if not wrong:
                assert said.answer is not None
                nack.dlq = said.answer.state is JobState.FAILED
                nack.applied_delay_seconds = 0 if nack.dlq else said.delay
            return WorkerServerEvent(nack_ack=nack)
