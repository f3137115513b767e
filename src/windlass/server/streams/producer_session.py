"""One stream of a producer, without I/O: requests for jobs in, acks out.

All requests of one chunk are one write, together with those of other streams. A request that is
wrong fails alone. Long chunks and batches are looked at in slices, in turns with other streams.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from windlass.clock import to_micros
from windlass.errors import ValidationError
from windlass.model import names
from windlass.model import payload as payloads
from windlass.server.idempotency import digest_of
from windlass.server.identity import Identity, Power
from windlass.server.peers import Peer
from windlass.server.refusals import TooManyCalls
from windlass.server.streams.additions import Added, Addition
from windlass.server.streams.edges import Edge, Status
from windlass.server.streams.handshake import Handshake
from windlass.server.streams.shared import Shared
from windlass.server.streams.texts import CONTENT_TYPE, stored
from windlass.server.streams.turns import MOST_ACKS, MOST_IN_BATCH, SLICE, TOO_MANY, Turns
from windlass.server.streams.worker_session import MOST_EARLY, MOST_UNANSWERED, STOPPING
from windlass.store.records import NewJob
from windlass.store.server import Request
from windlass.store.webhooks import WEBHOOK
from windlass.wire.frames import FIRST_BYTES
from windlass.wire.windlass_pb2 import (
    CreateAck,
    CreateAckBatch,
    CreateTask,
    ProducerEvent,
    ProducerHelloAck,
    ProducerServerError,
    ProducerServerEvent,
)

MOST_KNOWN = 100
"""Commands that a stream remembers."""
FIRST_PRIORITY = 9
"""The priority that runs first; 0 runs last."""
TRACE_PARENT = "traceparent"
TRACE_STATE = "tracestate"
_LAST_INSTANT = to_micros(datetime(9999, 1, 1, tzinfo=UTC))


@dataclass(slots=True, eq=False)
class _Message:
    """One event: the numbers of its requests, and what became of each."""

    seqs: list[int]
    added: list[Added | None]
    is_batch: bool

    def answer(self) -> ProducerServerEvent:
        pairs = zip(self.seqs, self.added, strict=True)
        if not self.is_batch:
            [(seq, one)] = pairs
            return ProducerServerEvent(create_ack=CreateAck(**_ack(seq, one)))
        event = ProducerServerEvent(create_ack_batch=CreateAckBatch())
        add = event.create_ack_batch.acks.add  # which copies nothing
        for seq, one in pairs:
            add(**_ack(seq, one))
        return event


@dataclass(frozen=True, slots=True)
class _Plain:
    """A job of a command as the command alone says, and how long such jobs are kept."""

    job: NewJob
    keep: float | None


class ProducerSession:
    """A `Session` of `ProducerEvent`s."""

    def __init__(self, shared: Shared, edge: Edge, peer: Peer) -> None:
        self._shared = shared
        self._edge = edge
        self._handshake = Handshake(shared, peer, self._finish, self._opened)
        self._early: list[ProducerEvent] = []
        self._early_size = 0
        self._identity: Identity | None = None
        self._unanswered = 0
        """Messages, and requests of batches, that have no ack yet."""
        self._known: dict[str, _Plain] = {}
        """By command as it was written."""
        self._turns = Turns()
        self._is_half_closed = False
        self._is_draining = False
        self._is_over = False

    def receive(self, events: Sequence[ProducerEvent]) -> None:
        if self._is_over:
            return
        if self._identity is not None:
            self._take(self._identity, events)
            return
        if not self._handshake.has_begun and events:
            if events[0].WhichOneof("event") != "hello":
                self._finish(Status.FAILED_PRECONDITION, "the first event must be Hello")
                return
            self._handshake.hello(events[0].hello.token, Power.ADD)
            events = events[1:]
        self._early += events
        self._early_size += sum(event.ByteSize() for event in events)
        self._hold()

    def half_closed(self) -> None:
        self._is_half_closed = True
        if self._identity is not None:
            self._finish_if_done()
        elif not self._handshake.has_begun:
            self._finish(Status.FAILED_PRECONDITION, "the stream was closed without a Hello")

    def resumed(self) -> None:
        """Acks are small, and sent when they are there."""

    def drain(self) -> None:
        if self._is_draining or self._is_over:
            return
        self._is_draining = True
        if self._identity is None:
            self._finish(Status.UNAVAILABLE, STOPPING)
            return
        self._complain("Unavailable", STOPPING)
        self._finish_if_done()

    def stop(self) -> None:
        self._finish(Status.UNAVAILABLE, STOPPING)

    def closed(self) -> None:
        self._is_over = True
        self._early = []
        self._handshake.close()

    def _finish(self, status: Status, message: str = "") -> None:
        if not self._is_over:
            self.closed()
            self._edge.finish(status, message)

    def _finish_if_done(self) -> None:
        if self._unanswered:
            return
        if self._is_half_closed:
            self._finish(Status.OK)
        elif self._is_draining:
            self._finish(Status.UNAVAILABLE, STOPPING)

    def _hold(self) -> None:
        is_long = len(self._early) > MOST_EARLY or self._early_size > FIRST_BYTES
        self._edge.hold(is_long or self._unanswered > MOST_UNANSWERED)

    def _complain(self, code: str, message: str) -> None:
        error = ProducerServerError(code=code, message=message)
        self._edge.send([ProducerServerEvent(error=error)])

    def _opened(self, identity: Identity) -> None:
        self._identity = identity
        ack = ProducerHelloAck(tenant_id=identity.tenant, subject=identity.name)
        self._edge.send([ProducerServerEvent(hello_ack=ack)])
        early, self._early, self._early_size = self._early, [], 0
        self._edge.trust()
        self._take(identity, early)
        self._hold()
        self._finish_if_done()

    # ── adding ──

    def _take(self, identity: Identity, events: Sequence[ProducerEvent]) -> None:
        count = sum(map(_weight, events))
        self._unanswered += count
        self._turns.add(self._add(identity, events, count))
        self._hold()

    def _add(
        self, identity: Identity, events: Sequence[ProducerEvent], count: int
    ) -> Iterator[None]:
        """Add what can be added, and answer all of it."""
        messages: list[_Message] = []
        added: list[Added | None] = []
        additions: list[Addition] = []
        for event in events:
            match event.WhichOneof("event"):
                case "create_task":
                    tasks: Sequence[CreateTask] = [event.create_task]
                    is_batch = False
                case "create_task_batch":
                    tasks = event.create_task_batch.tasks
                    is_batch = True
                case "hello":
                    self._complain("FailedPrecondition", "already-authenticated")
                    continue
                case _:
                    self._complain(
                        "InvalidArgument", "the event is empty, or unknown to this server"
                    )
                    continue
            refusal = self._refusal(identity, len(tasks))
            if len(tasks) > MOST_ACKS:
                tasks = tasks[:1]
            seqs: list[int] = []
            for task in tasks:
                seqs.append(task.seq)
                if refusal is not None:
                    added.append(Added(error=refusal))
                else:
                    added.append(self._begin(identity, task, additions))
                if len(added) % SLICE == 0:
                    yield
            messages.append(_Message(seqs, [None] * len(seqs), is_batch))
        if not additions:
            self._answer(messages, added, [], count)
            return
        written = self._shared.additions.submit(additions)
        written.add_done_callback(
            lambda answers: self._answer(messages, added, _results(answers, additions), count)
        )

    def _refusal(self, identity: Identity, count: int) -> str | None:
        """Why nothing is done about a message with so many requests. Each message is a call."""
        if count > MOST_IN_BATCH:
            return TOO_MANY
        try:
            self._shared.admit(identity)
        except TooManyCalls as error:
            return str(error)
        return None

    def _begin(
        self, identity: Identity, task: CreateTask, additions: list[Addition]
    ) -> Added | None:
        """Put it to the others that are added, or say why it is not."""
        try:
            additions.append(self._addition(identity, task))
        except ValidationError as error:
            return Added(error=str(error))
        return None

    def _answer(
        self,
        messages: list[_Message],
        added: list[Added | None],
        results: Sequence[Added],
        count: int,
    ) -> None:
        self._unanswered -= count
        written = iter(results)
        at = 0
        for message in messages:
            until = at + len(message.seqs)
            message.added = [one or next(written) for one in added[at:until]]
            at = until
        if self._is_over:
            return
        if messages:
            self._edge.send([message.answer() for message in messages])
        self._hold()
        self._finish_if_done()

    def _addition(self, identity: Identity, task: CreateTask) -> Addition:
        """What a request asks for. Raises ValidationError."""
        job = self._job(identity, task)
        key = task.idempotency_key
        request = Request(names.check_one_key(key), digest_of([job]), (job,)) if key else None
        if job.keep is None:
            job.keep = self._known[task.command].keep
        return job if request is None else request

    def _plain(self, identity: Identity, name: str) -> _Plain:
        """What all jobs of a command have in common."""
        command = name.strip()
        if not command:
            raise ValidationError("command is required", field="command")
        if command.startswith(names.RESERVED):
            raise ValidationError(
                f"commands that begin with {names.RESERVED!r} are those of jobs that Windlass adds",
                field="command",
            )
        job = self._shared.prepare(command, payloads.EMPTY)
        job.tenant = identity.tenant
        return _Plain(job, self._shared.keep(command))

    def _job(self, identity: Identity, task: CreateTask) -> NewJob:
        plain = self._known.get(task.command)
        if plain is None:
            plain = self._plain(identity, task.command)
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[task.command] = plain
        job = copy(plain.job)
        job.payload, content_type = stored(task.payload, self._shared.max_payload)
        if task.priority:
            job.priority = -min(max(0, task.priority), FIRST_PRIORITY)
        if task.max_attempts:
            job.max_attempts = names.check_max_attempts(task.max_attempts)
        if task.HasField("run_at"):
            job.run_at = _instant(task)
        elif task.delay_seconds < 0:
            raise ValidationError(
                f"delay_seconds must be at least 0, not {task.delay_seconds}", field="delay_seconds"
            )
        else:
            job.delay = task.delay_seconds * 1_000_000
        job.meta = self._meta(task, content_type)
        return job

    def _meta(self, task: CreateTask, content_type: str | None) -> str | None:
        meta = {}
        if task.webhook:
            self._shared.check_webhook(task.webhook)
            meta[WEBHOOK] = task.webhook
        if content_type is not None:
            meta[CONTENT_TYPE] = content_type
        if task.trace_parent:
            meta[TRACE_PARENT] = task.trace_parent
        if task.trace_state:
            meta[TRACE_STATE] = task.trace_state
        return payloads.encode_meta(meta) if meta else None


def _weight(event: ProducerEvent) -> int:
    if event.WhichOneof("event") != "create_task_batch":
        return 1
    return 1 + min(len(event.create_task_batch.tasks), MOST_ACKS)


def _instant(task: CreateTask) -> int:
    at = task.run_at
    micros = at.seconds * 1_000_000 + at.nanos // 1_000
    if micros > _LAST_INSTANT:
        raise ValidationError("run_at must lie before the year 9999", field="run_at")
    return max(0, micros)


def _results(
    answers: asyncio.Future[list[Added]], additions: Sequence[Addition]
) -> Sequence[Added]:
    if answers.cancelled():
        return [Added(error=STOPPING)] * len(additions)
    return answers.result()


def _ack(seq: int, added: Added | None) -> dict[str, Any]:
    """The fields of a `CreateAck`."""
    assert added is not None
    if added.job_id is None:
        return {"seq": seq, "ok": False, "error_message": added.error}
    return {"seq": seq, "ok": True, "task_id": str(added.job_id)}
