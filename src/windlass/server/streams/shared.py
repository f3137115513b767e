"""What all streams of a process share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from windlass.clock import Clock
from windlass.model.job import Job
from windlass.server.identity import Identity
from windlass.server.peers import Peer
from windlass.server.streams.additions import Additions
from windlass.server.streams.deliveries import Deliveries
from windlass.server.streams.dispatcher import Dispatcher
from windlass.server.streams.keeping import Keeping
from windlass.server.streams.rulings import Rulings
from windlass.server.streams.settlements import Settlements
from windlass.store.records import JobFilter, NewJob
from windlass.wire.windlass_pb2 import Calls, WorkerServerEvent

Send = Callable[[WorkerServerEvent], Awaitable[None]]
"""Returns when the message is on its way; raises ConnectionError where the stream has ended."""


class CallSession(Protocol):
    """The verbs that one stream calls."""

    async def take(self, calls: Calls) -> None:
        """Begin these calls. Returns when the stream may be read on."""


class CallHandler(Protocol):
    """Verbs of the store for Windlass's own clients: `Calls` are handed on to it."""

    def open(self, identity: Identity, send: Send) -> CallSession: ...

    async def end(self, session: CallSession) -> None: ...


class Lookup(Protocol):
    """The part of the store that tells what became of a job."""

    async def find(self, wanted: JobFilter) -> list[Job]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Times are seconds."""

    identify: Callable[[str, Peer], Awaitable[Identity]]
    """From a token to its identity. Raises `refusals.Refusal`."""
    admit: Callable[[Identity], None]
    """Counts one call. Raises `refusals.TooManyCalls` for a token that is past its rate."""
    watch: Callable[[Identity, Callable[[str], None]], Callable[[], None]]
    store: Lookup
    settlements: Settlements
    dispatcher: Dispatcher
    deliveries: Deliveries
    keeping: Keeping
    additions: Additions
    rulings: Rulings
    prepare: Callable[[str, str], NewJob]
    """The job of a task with this payload, as far as the task's own options say."""
    check_webhook: Callable[[str], object]
    """Raises ValidationError for an address that is not posted to."""
    clock: Clock
    lease: float
    max_payload: int
    keep: Callable[[str], float | None]
    """How long jobs of a task are kept that do not say."""
    calls: CallHandler | None = None
    count_stream: Callable[[str], None] = lambda kind: None
    """Of which kind a stream is that was opened."""
