"""A server that answers as a script says: what no Windlass server does, and others may.

It runs on the event loop of the test; the store has a thread of its own.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import zttp

from windlass.store.records import Capabilities
from windlass.stores.remote import ServerAddress
from windlass.wire.calls import encode
from windlass.wire.frames import FrameDecoder, framed
from windlass.wire.windlass_pb2 import (
    Answer,
    Answers,
    Call,
    WorkerEvent,
    WorkerHelloAck,
    WorkerServerEvent,
)

CAN = Capabilities(shared=True, durable=True, transactions=False, sql=False, upkeep=False)
"""What a server says that it can do."""


class OddConnection(asyncio.Protocol):
    """One connection of a client; what is said goes out at once."""

    transport: asyncio.Transport

    def __init__(self, server: OddServer) -> None:
        self._server = server
        self._decoder = FrameDecoder()
        self.http: Any = zttp.Connection(zttp.SERVER, protocol=zttp.HTTP2)
        self.stream: Any = None
        self.is_accepted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._server.connections.append(self)
        self.http.initiate_connection()
        self.flush()

    def connection_lost(self, error: Exception | None) -> None:
        self._server.connections.remove(self)

    def data_received(self, data: bytes) -> None:
        self.http.receive_data(data)
        while (event := self.http.next_event()) is not zttp.NEED_DATA:
            if isinstance(event, zttp.Request):
                self.stream = self.http.stream(event.stream_id)
                self._server.begin(self)
            elif isinstance(event, zttp.Data):
                for message in self._decoder.feed(event.data):
                    self._hear(WorkerEvent.FromString(message))
        self.flush()

    def _hear(self, event: WorkerEvent) -> None:
        if event.WhichOneof("event") == "hello" and self.is_accepted:
            self._server.greet(self)
        for call in event.calls.calls:
            self._server.heard.append(call)
            self._server.answer(self, call)

    # ── what it says ──

    def accept(self) -> None:
        self.is_accepted = True
        self.stream.send_response(200, [(b"content-type", b"application/grpc")])

    def say(self, event: WorkerServerEvent) -> None:
        self.say_bytes(framed([event.SerializeToString()]))

    def say_bytes(self, data: bytes) -> None:
        self.stream.send_data(data)
        self.flush()

    def answer(self, call: Call, *values: bytes) -> None:
        """One answer, in as many parts."""
        last = len(values) - 1
        answers = [
            Answer(number=call.number, value=value, more=at < last)
            for at, value in enumerate(values)
        ]
        self.say(WorkerServerEvent(answers=Answers(answers=answers)))

    def flush(self) -> None:
        if (data := self.http.data_to_send()) and not self.transport.is_closing():
            self.transport.write(data)


Begin = Callable[[OddConnection], None]


def ack(connection: OddConnection) -> None:
    connection.say(WorkerServerEvent(hello_ack=WorkerHelloAck(worker_id="odd")))


class OddServer:
    """`begin` is done for each stream, `greet` for its Hello. `answers` are the answers to verbs,
    in parts; to one that is not named nothing is answered. `heard` are the calls that came."""

    def __init__(
        self, begin: Begin = OddConnection.accept, greet: Begin = ack, **answers: Iterable[bytes]
    ) -> None:
        self.begin = begin
        self.greet = greet
        self.answers = {"describe": [encode(CAN)], "subscribe": [b"null"], **answers}
        self.heard: list[Call] = []
        self.connections: list[OddConnection] = []
        self.port = 0

    @property
    def address(self) -> ServerAddress:
        return ServerAddress("127.0.0.1", self.port)

    def answer(self, connection: OddConnection, call: Call) -> None:
        if call.verb in self.answers:
            connection.answer(call, *self.answers[call.verb])

    def verbs(self) -> list[str]:
        return [call.verb for call in self.heard]


@asynccontextmanager
async def listening(server: OddServer, tls: ssl.SSLContext | None = None) -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(lambda: OddConnection(server), "127.0.0.1", 0, ssl=tls)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield
    finally:
        listener.close()
        for connection in list(server.connections):
            connection.transport.abort()
        while server.connections:
            await asyncio.sleep(0)
        await listener.wait_closed()
