"""One stream of a worker, without I/O: events in, answers out.

    before Hello ──► open ──► (half-closed or draining) ──► over

Before the token is known to be good, events wait. Open, a stream takes events in any order; none of
them ends it, whatever is wrong with it. A half-closed stream claims nothing more and ends when all
is answered. A draining one takes results until the grace is over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from windlass.server.identity import Identity, Power
from windlass.server.peers import Peer
from windlass.server.streams.answers import Answering
from windlass.server.streams.edges import Edge, Status
from windlass.server.streams.handshake import Handshake
from windlass.server.streams.keeping import Held, Holding
from windlass.server.streams.readies import Readies, ReadyRefused, worker_name
from windlass.server.streams.shared import CallSession, Shared
from windlass.wire.frames import FIRST_BYTES
from windlass.wire.windlass_pb2 import (
    Calls,
    Stop,
    WorkerEvent,
    WorkerHello,
    WorkerHelloAck,
    WorkerServerError,
    WorkerServerEvent,
)

MOST_UNANSWERED = 5_000
"""Events without an ack; while there are more, no others are read."""
MOST_EARLY = 500
"""Events that wait for a token to be looked up; with more, or more bytes than a stranger's message
may have, no others are read."""
MOST_CALLS = 100
"""Messages with calls that wait to be begun, likewise."""
STOPPING = "the server is stopping; connect again"

_SAID = frozenset({"result", "nack", "heartbeat", "abandon", "result_batch"})

_log = logging.getLogger("windlass.server")


class WorkerSession:
    """A `Session` of `WorkerEvent`s."""

    def __init__(self, shared: Shared, edge: Edge, peer: Peer) -> None:
        self._shared = shared
        self._edge = edge
        self._handshake = Handshake(shared, peer, self._refuse, self._opened)
        self._early: list[WorkerEvent] = []
        self._early_size = 0
        self._hello = WorkerHello()
        self._stream: _Open | None = None
        self._is_half_closed = False
        self._is_over = False

    # ── what the transport tells ──

    def receive(self, events: Sequence[WorkerEvent]) -> None:
        if self._is_over:
            return
        if self._stream is not None:
            self._stream.take(events)
            return
        if not self._handshake.has_begun and events:
            if events[0].WhichOneof("event") != "hello":
                self._refuse(Status.FAILED_PRECONDITION, "the first event must be Hello")
                return
            self._hello, events = events[0].hello, events[1:]
            # A stream that is for calls is open to every role, and each call is judged by itself.
            power = None if self._hello.wants_calls else Power.CLAIM
            self._handshake.hello(self._hello.token, power)
        self._early += events
        self._early_size += sum(event.ByteSize() for event in events)
        if len(self._early) > MOST_EARLY or self._early_size > FIRST_BYTES:
            self._edge.hold(True)

    def half_closed(self) -> None:
        self._is_half_closed = True
        if self._stream is not None:
            self._stream.half_close()
        elif not self._handshake.has_begun:
            self._refuse(Status.FAILED_PRECONDITION, "the stream was closed without a Hello")

    def resumed(self) -> None:
        if self._stream is not None:
            self._stream.resumed()

    def drain(self) -> None:
        if self._stream is not None:
            self._stream.drain()
        else:
            self._refuse(Status.UNAVAILABLE, STOPPING)

    def stop(self) -> None:
        self._finish(Status.UNAVAILABLE, STOPPING, hand_back=True)

    def closed(self) -> None:
        self._close(hand_back=False)

    # ── the end ──

    def _refuse(self, status: Status, message: str) -> None:
        self._finish(status, message)

    def _finish(self, status: Status, message: str = "", *, hand_back: bool = False) -> None:
        if not self._is_over:
            self._close(hand_back=hand_back)
            self._edge.finish(status, message)

    def _close(self, *, hand_back: bool) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._handshake.close()
        self._early = []
        if self._stream is not None:
            self._stream.close(hand_back=hand_back)

    # ── the beginning ──

    def _opened(self, identity: Identity) -> None:
        worker_id = self._hello.worker_id.strip() or identity.name
        self._stream = _Open(
            self._shared,
            self._edge,
            identity,
            worker_id,
            wants_stop=self._hello.wants_stop,
            finish=self._finish,
        )
        ack = WorkerHelloAck(worker_id=worker_id, tenant_id=identity.tenant)
        self._edge.send([WorkerServerEvent(hello_ack=ack)])
        early, self._early = self._early, []
        self._edge.trust()
        self._edge.hold(False)
        if early:
            self._stream.take(early)
        if self._is_half_closed and not self._is_over:
            self._stream.half_close()


class _Open:
    """A stream whose worker is known."""

    def __init__(
        self,
        shared: Shared,
        edge: Edge,
        identity: Identity,
        worker_id: str,
        *,
        wants_stop: bool,
        finish: Any,
    ) -> None:
        self._shared = shared
        self._edge = edge
        self._identity = identity
        self._finish = finish
        self._may_claim = identity.may(Power.CLAIM)
        stopped = self._stopped if wants_stop else None
        self._holding: Holding = shared.keeping.open(worker_name(worker_id), stopped)
        self._readies = Readies(
            shared,
            identity,
            worker_id,
            self._holding,
            can_send=lambda: edge.is_writable and not self._is_over,
            send=edge.send,
        )
        self._answering = Answering(shared, identity, self._holding, edge.send, self._answered)
        self._calls = _StreamCalls(shared, edge, identity, self._hold)
        self._is_half_closed = False
        self._is_draining = False
        self._is_over = False
        self._quiet = asyncio.Event()
        self._quiet.set()

    def take(self, events: Sequence[WorkerEvent]) -> None:
        said: list[Any] = []
        for event in events:
            kind = event.WhichOneof("event")
            if kind in _SAID:
                if self._may_claim:
                    said.append(getattr(event, kind))
                else:
                    self._complain("PermissionDenied", "the token is not for claiming jobs")
            elif kind == "ready":
                self._ready(event)
            elif kind == "calls":
                self._calls.take(event.calls)
            elif kind == "hello":
                self._complain("FailedPrecondition", "already-authenticated")
            else:
                self._complain("InvalidArgument", "the event is empty, or unknown to this server")
        if said:
            self._answering.take(said)
            self._hold()

    def _ready(self, event: WorkerEvent) -> None:
        if self._is_draining or self._is_half_closed:
            self._complain("Unavailable", STOPPING)
            return
        if not self._may_claim:
            self._complain("PermissionDenied", "the token is not for claiming jobs")
            return
        try:
            self._readies.open(event.ready)
        except ReadyRefused as refused:
            self._complain(refused.code, str(refused))

    def _complain(self, code: str, message: str) -> None:
        error = WorkerServerError(code=code, message=message)
        self._edge.send([WorkerServerEvent(error=error)])

    def _stopped(self, held: Held, reason: str) -> None:
        stop = Stop(
            task_id=str(held.lease.job_id),
            delivery=self._shared.deliveries.sealed(held.delivery),
            reason=reason,
        )
        self._edge.send([WorkerServerEvent(stop=stop)])

    # ── pace ──

    def _hold(self) -> None:
        """Read on only while what was read can be dealt with."""
        unanswered = self._answering.unanswered
        if unanswered:
            self._quiet.clear()
        else:
            self._quiet.set()
        self._edge.hold(unanswered > MOST_UNANSWERED or self._calls.waiting > MOST_CALLS)

    def _answered(self) -> None:
        self._hold()
        self._readies.look()
        if self._answering.unanswered or self._is_over:
            return
        if self._is_half_closed:
            self._finish(Status.OK)
        elif self._is_draining:
            self._finish_if_idle()

    def resumed(self) -> None:
        self._calls.resumed()
        self._readies.look()

    # ── the end ──

    def half_close(self) -> None:
        self._is_half_closed = True
        self._readies.close()
        if not self._answering.unanswered:
            self._finish(Status.OK)

    def drain(self) -> None:
        self._is_draining = True
        self._readies.close()
        self._complain("Unavailable", STOPPING)
        self._finish_if_idle()

    def _finish_if_idle(self) -> None:
        is_busy = self._holding.held or self._answering.unanswered or self._calls.is_open
        if not is_busy:
            self._finish(Status.UNAVAILABLE, STOPPING)

    def close(self, *, hand_back: bool) -> None:
        self._is_over = True
        self._readies.close()
        self._calls.close()
        self._shared.keeping.end(self._holding, hand_back=hand_back, rest=self._rest())

    async def _rest(self) -> None:
        """What is being settled is settled, and nothing is being claimed."""
        await self._quiet.wait()
        await self._shared.dispatcher.rest(self._holding.worker)


class _StreamCalls:
    """The verbs that a stream calls: they are begun one message after the other."""

    def __init__(self, shared: Shared, edge: Edge, identity: Identity, changed: Any) -> None:
        self._handler = shared.calls
        self._edge = edge
        self._identity = identity
        self._changed = changed
        self._session: CallSession | None = None
        self._queue: list[Calls] = []
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._is_over = False

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def is_open(self) -> bool:
        return self._session is not None

    def take(self, calls: Calls) -> None:
        if self._handler is None:
            error = WorkerServerError(code="Unimplemented", message="this server takes no calls")
            self._edge.send([WorkerServerEvent(error=error)])
            return
        if self._session is None:
            self._session = self._handler.open(self._identity, self._send)
        self._queue.append(calls)
        self._changed()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(
                self._begin(self._session), name="windlass-calls"
            )

    async def _begin(self, session: CallSession) -> None:
        try:
            while self._queue and not self._is_over:
                await session.take(self._queue.pop(0))
                self._changed()
        except Exception:
            _log.exception("calls of a stream could not be begun")
        finally:
            self._task = None

    async def _send(self, event: WorkerServerEvent) -> None:
        while not self._is_over and not self._edge.is_writable:
            self._writable.clear()
            await self._writable.wait()
        if self._is_over:
            raise ConnectionError("the stream has ended")
        self._edge.send([event])

    def resumed(self) -> None:
        self._writable.set()

    def close(self) -> None:
        self._is_over = True
        self._queue = []
        self._writable.set()
        if self._handler is not None and self._session is not None:
            ending = asyncio.get_running_loop().create_task(
                self._handler.end(self._session), name="windlass-calls-end"
            )
            _endings.add(ending)
            ending.add_done_callback(_endings.discard)


_endings: set[asyncio.Task[None]] = set()
"""Kept from being collected while they run."""
