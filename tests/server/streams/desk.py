"""Sessions without sockets: an edge that remembers, and what sessions share, on any store."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any

from google.protobuf.message import Message

from tests.patience import PATIENCE
from windlass import App
from windlass.clock import SYSTEM, Clock
from windlass.server.identity import Identity, Role
from windlass.server.peers import Peer
from windlass.server.service import Service
from windlass.server.settings import make_settings
from windlass.server.streams.edges import Status
from windlass.server.streams.equipment import make_shared, open_works
from windlass.server.streams.lease_thread import LeaseHost, LeaseThread, Question
from windlass.server.streams.producer_session import ProducerSession
from windlass.server.streams.shared import Shared
from windlass.server.streams.worker_session import WorkerSession
from windlass.server.tokens import digest_of
from windlass.store.port import Lifeline
from windlass.store.records import Renewal
from windlass.store.server import Token
from windlass.wire import windlass_pb2 as pb

HERE = Peer(address="127.0.0.1", host="localhost")


class Remembering:
    """An edge whose messages a test reads. `is_writable` is what the test sets it to."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.end: tuple[Status, str] | None = None
        self.is_writable = True
        self.is_held = False
        self.is_trusted = False
        self.chunks: list[int] = []
        self._changed = asyncio.Event()

    def send(self, messages: Sequence[Message]) -> None:
        assert self.end is None, "nothing is sent after the end"
        self.sent += messages
        self.chunks.append(len(messages))
        self._changed.set()

    def finish(self, status: Status, message: str = "") -> None:
        assert self.end is None, "a stream ends once"
        self.end = status, message
        self._changed.set()

    def hold(self, is_held: bool) -> None:
        self.is_held = is_held

    def trust(self) -> None:
        self.is_trusted = True

    async def hear(self) -> Any:
        """The next message, of whatever kind."""
        while not self.sent:
            assert self.end is None, f"the stream has ended: {self.end}"
            self._changed.clear()
            await self._changed.wait()
        message = self.sent.pop(0)
        return getattr(message, message.WhichOneof("event"))

    async def ended(self) -> tuple[Status, str]:
        while self.end is None:
            self._changed.clear()
            await self._changed.wait()
        return self.end


class InlineLeases:
    """Asks the lifeline at once, on the event loop; a test makes the steps."""

    def __init__(self, lifeline: Lifeline, step: Callable[[Lifeline], float], clock: Clock) -> None:
        self._lifeline = lifeline
        self._step = step

    def start(self) -> None:
        """There is no thread."""

    def wake_by(self, at: float) -> None:
        """A test makes the steps."""

    def step(self) -> float:
        return self._step(self._lifeline)

    def ask(self, question: Question) -> Future[Renewal]:
        answer: Future[Renewal] = Future()
        try:
            answer.set_result(question(self._lifeline))
        except Exception as error:
            answer.set_exception(error)
        return answer

    def tell(self, what: Callable[[], None]) -> None:
        what()

    async def stop(self) -> None:
        self._lifeline.close()


class Stream:
    """A session with its edge. `say` brings a chunk of events."""

    def __init__(self, session: Any, edge: Remembering, event: type[Any]) -> None:
        self.session = session
        self.edge = edge
        self._event = event

    def say(self, **events: Any) -> None:
        """One chunk, with an event of each kind that is named."""
        self.session.receive([self._event(**{kind: value}) for kind, value in events.items()])

    def say_all(self, *events: Any) -> None:
        """One chunk, with these events in order."""
        self.session.receive(list(events))

    async def hear(self, kind: type[Any]) -> Any:
        heard = await self.edge.hear()
        assert isinstance(heard, kind), heard
        return heard


class Desk:
    """A server without sockets."""

    def __init__(self, app: App, service: Service, shared: Shared) -> None:
        self.app = app
        self.service = service
        self.shared = shared
        self.streams: list[Stream] = []

    @property
    def leases(self) -> Any:
        return self.shared.keeping._thread

    async def ends_of_streams(self) -> None:
        """Return when what follows from the ends of streams is done."""
        while tasks := self.shared.keeping._tasks:
            await asyncio.wait(list(tasks))

    async def token(self, name: str, role: str, **more: Any) -> str:
        text = f"wl_{name}".ljust(60, "x")
        token = Token(name=name, digest=digest_of(text), roles=(role,), created_at=1, **more)
        assert await self.service.store.add_token(token)
        return text

    def worker(self) -> Stream:
        edge = Remembering()
        return self._opened(Stream(WorkerSession(self.shared, edge, HERE), edge, pb.WorkerEvent))

    def producer(self) -> Stream:
        edge = Remembering()
        return self._opened(
            Stream(ProducerSession(self.shared, edge, HERE), edge, pb.ProducerEvent)
        )

    def _opened(self, stream: Stream) -> Stream:
        self.streams.append(stream)
        return stream

    async def greeted(self, worker_id: str = "w", **hello: Any) -> Stream:
        stream = self.worker()
        stream.say(hello=pb.WorkerHello(worker_id=worker_id, **hello))
        await stream.hear(pb.WorkerHelloAck)
        return stream

    async def producing(self, **hello: Any) -> Stream:
        stream = self.producer()
        stream.say(hello=pb.ProducerHello(**hello))
        await stream.hear(pb.ProducerHelloAck)
        return stream


@asynccontextmanager
async def desk(
    url: str = "memory://",
    clock: Clock = SYSTEM,
    *,
    host: Callable[..., LeaseHost] = LeaseThread,
    prepare: Callable[[App], None] = lambda app: None,
    app_settings: dict[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[Desk]:
    async with App(url, clock=clock, **(app_settings or {})) as app:
        prepare(app)
        service = Service(app, make_settings(**settings), clock=clock)
        await service.start()
        works = await open_works(service)
        shared = make_shared(service, works, host)
        shared.keeping.start()
        made = Desk(app, service, shared)
        try:
            yield made
        finally:
            for stream in made.streams:
                stream.session.closed()
            await shared.additions.close()
            await shared.keeping.close()
            await works.close()
            await service.close()


def run(body: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """In real time, and not for ever."""

    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE):
            await body()

    asyncio.run(bounded())
    gc.collect()  # grpcio's own thread ends with the last of its objects


def identity(role: Role = Role.WORKER, **more: Any) -> Identity:
    return Identity(name="test", roles=frozenset({role}), **more)
