"""gRPC by grpcio's own server, for machines on which zttp does not work.

Sessions are the same. grpcio brings messages one at a time, and takes them one at a time, so it
needs far more of the processor. What it does by itself is not done here: pings, windows, GOAWAY.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message

from windlass.errors import ConfigError
from windlass.server.peers import Peer, stream_peer
from windlass.server.streams.edges import Method, Session, Status
from windlass.server.streams.worker_session import STOPPING
from windlass.wire.frames import MOST_BYTES

HIGH_WATER = 256 * 1024
LOW_WATER = 64 * 1024
MOST_UNREAD = 16 * 1024 * 1024

_CODES = {code.value[0]: code for code in grpc.StatusCode}

_OPTIONS = [
    ("grpc.max_receive_message_length", MOST_BYTES),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 9_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.max_ping_strikes", 0),
]

_log = logging.getLogger("windlass.server")


class GrpcioStream:
    """One stream, as an `Edge` for its session."""

    def __init__(self, context: Any, kind: str) -> None:
        self.kind = kind
        self._context = context
        self._session: Session[Any] | None = None
        self._out: deque[bytes] = deque()
        self._out_size = 0
        self._is_blocked = False
        self._changed = asyncio.Event()
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._end: tuple[Status, str] | None = None

    @property
    def is_writable(self) -> bool:
        if self._end is not None:
            return False
        is_writable = self._out_size < HIGH_WATER
        self._is_blocked = self._is_blocked or not is_writable
        return is_writable

    def send(self, messages: Sequence[Message]) -> None:
        if self._end is not None:
            return
        for message in messages:
            data = message.SerializeToString()
            self._out.append(data)
            self._out_size += len(data)
        if self._out_size > MOST_UNREAD:
            _log.warning("a client does not read what it is answered; its stream is ended")
            session = self._session
            self._out.clear()
            self.finish(Status.RESOURCE_EXHAUSTED, "the client does not read")
            if session is not None:
                session.closed()
        self._changed.set()

    def finish(self, status: Status, message: str = "") -> None:
        if self._end is None:
            self._end = status, message
            self._session = None
            self._may_read.set()
            self._changed.set()

    def hold(self, is_held: bool) -> None:
        if is_held and self._end is None:
            self._may_read.clear()
        else:
            self._may_read.set()

    def trust(self) -> None:
        """grpcio reads a message whole before anyone can refuse it."""

    def drain(self) -> None:
        if self._session is not None:
            self._session.drain()

    def stop(self) -> None:
        if self._session is not None:
            self._session.stop()

    async def run(self, method: Method, peer: Peer) -> None:
        """From the first message to the status."""
        session = self._session = method.open(self, peer)
        reader = asyncio.create_task(self._read(method, session), name="windlass-grpcio-read")
        try:
            await self._write()
        except asyncio.CancelledError:  # the client has gone
            self._gone()
            raise
        except Exception as error:
            _log.debug("a stream broke: %s", error)
            self._gone()
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
        status, message = self._end or (Status.UNAVAILABLE, STOPPING)
        self._context.set_code(_CODES[int(status)])
        self._context.set_details(message)

    def _gone(self) -> None:
        session, self._session = self._session, None
        self._end = self._end or (Status.UNAVAILABLE, "")
        if session is not None:
            session.closed()

    async def _read(self, method: Method, session: Session[Any]) -> None:
        try:
            while self._end is None:
                await self._may_read.wait()
                message = await self._context.read()
                if self._end is not None:
                    return None
                if message is grpc.aio.EOF:
                    return session.half_closed()
                if len(message) > method.most:
                    told = (
                        f"the message is {len(message):,} bytes long; the limit is {method.most:,}"
                    )
                    return self._broken(session, Status.RESOURCE_EXHAUSTED, told)
                session.receive([method.decode(message)])
        except DecodeError:
            self._broken(session, Status.INVALID_ARGUMENT, "a message cannot be read")
        except asyncio.CancelledError:
            raise
        except Exception as error:
            _log.debug("a stream cannot be read any more: %r", error)
            self._broken(session, Status.INTERNAL, "the stream cannot be read")

    def _broken(self, session: Session[Any], status: Status, message: str) -> None:
        if self._end is None:
            session.closed()
            self.finish(status, message)

    async def _write(self) -> None:
        while True:
            while self._out:
                data = self._out.popleft()
                await self._context.write(data)
                self._out_size -= len(data)
                if self._is_blocked and self._out_size <= LOW_WATER:
                    self._is_blocked = False
                    if self._session is not None:
                        self._session.resumed()
            if self._end is not None:
                return
            self._changed.clear()
            await self._changed.wait()


class _Handler(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, server: GrpcioServer) -> None:
        self._server = server

    def service(self, details: Any) -> Any:
        method = self._server.methods.get(details.method)
        if method is None:
            return None
        headers = [name for name, _ in details.invocation_metadata]

        async def run(_: Any, context: Any) -> None:
            await self._server.run(method, context, headers)

        return grpc.stream_stream_rpc_method_handler(run)


class GrpcioServer:
    """A `Transport` on grpcio."""

    def __init__(self, methods: Mapping[str, Method]) -> None:
        self.methods = methods
        self._streams: set[GrpcioStream] = set()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._is_draining = False
        self._server: Any = None
        self._stopping: asyncio.Task[None] | None = None

    async def start(
        self, host: str, port: int, tls: ssl.SSLContext | None, *, reuse_port: bool
    ) -> int:
        if tls is not None:
            raise ConfigError("TLS needs the transport zttp; a proxy may do it for grpcio")
        options = [*_OPTIONS, ("grpc.so_reuseport", int(reuse_port))]
        self._server = grpc.aio.server(options=options)
        self._server.add_generic_rpc_handlers((_Handler(self),))
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        bound: int = self._server.add_insecure_port(where)
        await self._server.start()
        return bound

    async def run(self, method: Method, context: Any, headers: Sequence[str]) -> None:
        stream = GrpcioStream(context, method.kind)
        if self._is_draining:
            await context.abort(grpc.StatusCode.UNAVAILABLE, STOPPING)
        self._streams.add(stream)
        self._is_idle.clear()
        try:
            await stream.run(method, _peer(context.peer(), headers))
        finally:
            self._streams.discard(stream)
            if not self._streams:
                self._is_idle.set()

    def kinds(self) -> list[str]:
        return [stream.kind for stream in list(self._streams)]

    def drain(self) -> None:
        if self._is_draining:
            return
        self._is_draining = True
        for stream in list(self._streams):
            stream.drain()
        self._stopping = asyncio.get_running_loop().create_task(
            self._server.stop(None if not self._streams else 86_400), name="windlass-grpcio-stop"
        )

    async def idle(self) -> None:
        await self._is_idle.wait()

    async def close(self, patience: float) -> None:
        self.drain()
        for stream in list(self._streams):
            stream.stop()
        try:
            async with asyncio.timeout(patience):
                await self._is_idle.wait()
        except TimeoutError:
            pass
        await self._server.stop(None)
        if self._stopping is not None:
            await self._stopping


def _peer(name: str, headers: Sequence[str]) -> Peer:
    """From `ipv4:127.0.0.1:1234` or `ipv6:%5B::1%5D:1234`. grpcio does not tell the authority."""
    kind, _, rest = name.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return stream_peer(None, headers)
    address = rest.rpartition(":")[0].replace("%5B", "").replace("%5D", "").strip("[]")
    return stream_peer(address, headers)
