"""The least server that a `grpc://` store can talk to: HTTP/2, Hello, and calls.

It is one Worker stream per connection, without the rest of `windlass serve`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from collections.abc import Mapping
from typing import Any

import zttp

from windlass.server.calls import CallService
from windlass.server.identity import Identity
from windlass.wire.windlass_pb2 import (
    WorkerEvent,
    WorkerHelloAck,
    WorkerServerError,
    WorkerServerEvent,
)


class PlainServer:
    """`tokens` are those it knows, and who has them."""

    def __init__(self, service: CallService, tokens: Mapping[str, Identity]) -> None:
        self.service = service
        self.tokens = dict(tokens)
        self._streams: set[_Stream] = set()
        self._server: asyncio.Server
        self.port = 0

    async def start(self, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, ssl=tls)
        self.port = self._server.sockets[0].getsockname()[1]

    def refuse(self) -> None:
        """Take no new connections."""
        self._server.close()

    async def drain(self) -> None:
        """Tell each stream that the server stops."""
        error = WorkerServerError(message="the server is stopping", code="Unavailable")
        for stream in tuple(self._streams):
            await stream.send(WorkerServerEvent(error=error))

    def cut(self) -> None:
        for stream in tuple(self._streams):
            stream.writer.transport.abort()

    async def close(self) -> None:
        self._server.close()
        for stream in tuple(self._streams):
            stream.task.cancel()
        await asyncio.gather(*(it.task for it in tuple(self._streams)), return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stream = _Stream(self, reader, writer)
        self._streams.add(stream)
        try:
            await stream.run()
        finally:
            self._streams.discard(stream)


class _Stream:
    def __init__(
        self, server: PlainServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.task = task
        self.writer = writer
        self._server = server
        self._reader = reader
        self._http: Any = zttp.Connection(zttp.SERVER, zttp.HTTP2)
        self._stream: Any = None
        self._received = b""
        self._session: Any = None

    async def run(self) -> None:
        self._http.initiate_connection()
        try:
            await self._read()
        except (OSError, asyncio.CancelledError, zttp.ProtocolError):
            pass
        finally:
            if self._session is not None:
                await self._server.service.end(self._session)
            self.writer.close()
            with contextlib.suppress(OSError, ssl.SSLError):
                await self.writer.wait_closed()

    async def _read(self) -> None:
        while True:
            self.writer.write(self._http.data_to_send())
            data = await self._reader.read(1 << 18)
            if not data:
                return
            self._http.receive_data(data)
            while (event := self._http.next_event()) is not zttp.NEED_DATA:
                match event:
                    case zttp.Request():
                        self._stream = self._http.stream(event.stream_id)
                        self._stream.send_response(200, [(b"content-type", b"application/grpc")])
                    case zttp.Data():
                        self.writer.write(self._http.data_to_send())
                        await self._take(event.data)
                    case zttp.RstStream() | zttp.EndOfMessage() | zttp.GoAway():
                        return
                    case _ if event is zttp.CONNECTION_CLOSED:
                        return

    async def _take(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 5:
            _, size = struct.unpack_from(">BI", self._received)
            if len(self._received) < 5 + size:
                return
            message, self._received = self._received[5 : 5 + size], self._received[5 + size :]
            await self._on_event(WorkerEvent.FromString(message))

    async def _on_event(self, event: WorkerEvent) -> None:
        if event.WhichOneof("event") == "calls" and self._session is not None:
            await self._session.take(event.calls)
        elif event.WhichOneof("event") == "hello":
            identity = self._server.tokens.get(event.hello.token)
            if identity is None:
                self._stream.end_message(
                    [(b"grpc-status", b"16"), (b"grpc-message", b"no such token")]
                )
                self.writer.write(self._http.data_to_send())
                return
            self._session = self._server.service.open(identity, self.send)
            ack = WorkerHelloAck(worker_id=event.hello.worker_id, tenant_id=identity.tenant)
            await self.send(WorkerServerEvent(hello_ack=ack))

    async def send(self, event: WorkerServerEvent) -> None:
        message = event.SerializeToString()
        self._stream.send_data(struct.pack(">BI", 0, len(message)) + message)
        self.writer.write(self._http.data_to_send())
        await self.writer.drain()
