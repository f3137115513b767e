"""gRPC over HTTP/2, on an event loop's own transports.

zttp parses and writes frames; here each connection brings its events to sessions, and their answers
back. All that arrives at once is one batch: sessions get the messages of a chunk together, and what
they answer leaves in one write.

Back-pressure has two ways. Outwards: a stream whose client does not read is not *writable*, so that
nothing is claimed for it, and one that piles up acks is reset. Inwards: while a session is behind,
its connection is not read. (A stream that is only waiting for its client's window must not stop the
reading, or the window would never be told.)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import zttp
from google.protobuf.message import DecodeError, Message

from windlass.server.peers import Peer, stream_peer
from windlass.server.streams.edges import Method, Session, Status
from windlass.server.streams.worker_session import STOPPING
from windlass.wire.frames import (
    FIRST_BYTES,
    CompressedError,
    FrameDecoder,
    FrameError,
    MessageTooLargeError,
    framed,
)

HIGH_WATER = 256 * 1024
LOW_WATER = 64 * 1024
"""Bytes that wait for a client to read: from the one on it is given no jobs, until the other."""
MOST_UNREAD = 16 * 1024 * 1024
"""Bytes that wait for a client; with more its stream is reset."""
MOST_BUFFERED = 64 * 1024 * 1024
"""Bytes that a connection does not take; with more it is cut."""
PING_EVERY = 20.0
ANSWER_WITHIN = 20.0
"""Seconds after which a connection that says nothing is asked for a sign of life, and cut."""
MOST_RESETS = 1_000
"""Streams that a client may reset before the token was known; then its connection is closed."""

_PING = b"\x00\x00\x08\x06\x00\x00\x00\x00\x00windlass"
_NO_ERROR = 0
_ENHANCE_YOUR_CALM = 11

_log = logging.getLogger("windlass.server")


class Http2Connection(asyncio.Protocol):
    """One connection of one client, with its streams."""

    _transport: asyncio.Transport

    def __init__(self, methods: Mapping[bytes, Method], connections: set[Http2Connection]) -> None:
        self._methods = methods
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._zttp: Any = zttp.Connection(zttp.SERVER, protocol=zttp.HTTP2)
        self._streams: dict[int, Http2Stream] = {}
        self._touched: dict[Http2Stream, None] = {}
        """Streams with new messages."""
        self._changed: dict[Http2Stream, None] = {}
        """Streams with something to send."""
        self._blocked: set[Http2Stream] = set()
        """Streams that were found not writable."""
        self._holding: set[Http2Stream] = set()
        """Streams for whose sake nothing is read."""
        self._is_reading = False
        self._is_flush_due = False
        self._is_draining = False
        self._resets = 0
        self._heard_at = self._loop.time()
        self._asked_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.is_write_paused = False
        self.closed = self._loop.create_future()

    # ── what the event loop tells ──

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER, low=LOW_WATER)
        self._connections.add(self)
        self._zttp.initiate_connection()
        self._write()
        self._timer = self._loop.call_later(PING_EVERY, self._look_for_life)

    def connection_lost(self, error: Exception | None) -> None:
        self._connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        streams = list(self._streams.values())
        self._streams.clear()
        for stream in streams:
            stream.gone()
        if not self.closed.done():
            self.closed.set_result(None)

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._loop.time()
        self._asked_at = None
        self._is_reading = True
        is_broken = False
        try:
            self._zttp.receive_data(data)
            while (event := self._zttp.next_event()) is not zttp.NEED_DATA:
                self._take(event)
        except zttp.ProtocolError as error:
            is_broken = True
            _log.debug("a connection is not HTTP/2 as it should be: %s", error)
        touched, self._touched = self._touched, {}
        for stream in touched:
            stream.deliver()
        if self._blocked:
            self._resume()
        self._is_reading = False
        self._flush()
        if is_broken:
            self._transport.close()

    def pause_writing(self) -> None:
        self.is_write_paused = True

    def resume_writing(self) -> None:
        self.is_write_paused = False
        self._resume()

    # ── events ──

    def _take(self, event: Any) -> None:
        if isinstance(event, zttp.Data):
            stream = self._streams.get(event.stream_id)
            if stream is not None and stream.feed(event.data):
                self._touched[stream] = None
        elif isinstance(event, zttp.Request):
            self._open(event)
        elif isinstance(event, zttp.EndOfMessage):
            stream = self._streams.get(event.stream_id)
            if stream is not None:
                stream.is_ended = True
                self._touched[stream] = None
        elif isinstance(event, zttp.RstStream):
            stream = self._streams.pop(event.stream_id, None)
            if stream is not None:
                self._was_reset(stream)
        # Settings, pings, windows and GOAWAY of the client are zttp's business alone.

    def _open(self, request: Any) -> None:
        headers = [(name.lower(), value) for name, value in request.headers]
        named = dict(headers)
        stream = Http2Stream(self, self._zttp.stream(request.stream_id), request.stream_id)
        self._streams[request.stream_id] = stream
        kind = named.get(b"content-type", b"")
        if request.method != b"POST" or not kind.startswith(b"application/grpc"):
            stream.refuse_http(405 if request.method != b"POST" else 415)
            return
        if self._is_draining:
            stream.finish(Status.UNAVAILABLE, STOPPING)
            return
        method = self._methods.get(request.path)
        if method is None:
            path = request.path.decode("ascii", "replace")
            stream.finish(Status.UNIMPLEMENTED, f"this server has no method {path[:200]}")
            return
        peer = stream_peer(
            self._address(),
            [name.decode("latin-1") for name, _ in headers],
            named.get(b"host", b"").decode("latin-1"),
        )
        stream.open(method, peer)
        if request.end_stream:
            stream.is_ended = True
            self._touched[stream] = None

    def _address(self) -> str | None:
        peer = self._transport.get_extra_info("peername")
        return peer[0] if isinstance(peer, tuple) else None

    def _was_reset(self, stream: Http2Stream) -> None:
        self._touched.pop(stream, None)
        self._changed.pop(stream, None)
        stream.gone()
        self._resets += 1
        if self._resets > MOST_RESETS:
            self._zttp.close(_ENHANCE_YOUR_CALM)
            self._write()
            self._transport.close()

    def has_a_known_client(self) -> None:
        """It is known whose stream one of this connection is: its client is no stranger."""
        self._resets = 0

    # ── sending ──

    def changed(self, stream: Http2Stream) -> None:
        """A stream has something to send: with all others, soon."""
        self._changed[stream] = None
        if not self._is_reading and not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_due = False
        while self._changed:
            changed, self._changed = self._changed, {}
            for stream in changed:
                try:
                    stream.flush()
                except zttp.LocalProtocolError:  # the stream was reset meanwhile
                    self.forget(stream)
                    stream.gone()
        self._write()
        if self._is_draining and not self._streams:
            self._transport.close()

    def _write(self) -> None:
        if data := self._zttp.data_to_send():
            self._transport.write(data)
            if self._transport.get_write_buffer_size() > MOST_BUFFERED:
                self._transport.abort()

    def forget(self, stream: Http2Stream) -> None:
        """A stream is over, on both sides."""
        self._streams.pop(stream.number, None)
        self.block(stream, False)
        self.hold(stream, False)

    # ── pace ──

    def block(self, stream: Http2Stream, is_blocked: bool) -> None:
        (self._blocked.add if is_blocked else self._blocked.discard)(stream)

    def hold(self, stream: Http2Stream, is_held: bool) -> None:
        was_held = bool(self._holding)
        (self._holding.add if is_held else self._holding.discard)(stream)
        if self._holding and not was_held:
            self._transport.pause_reading()
        elif was_held and not self._holding and not self._transport.is_closing():
            self._transport.resume_reading()

    def _resume(self) -> None:
        for stream in list(self._blocked):
            stream.try_again()

    def _look_for_life(self) -> None:
        """Ask a silent client for a sign of life, and cut one that gives none."""
        now = self._loop.time()
        if self._holding:
            self._heard_at = now  # it may have said something; it is not being read
        silent = now - self._heard_at
        if self._asked_at is not None and now - self._asked_at >= ANSWER_WITHIN:
            _log.info("a client does not answer any more; its connection is cut")
            self._transport.abort()
            return
        wait = PING_EVERY - silent
        if wait <= 0:
            wait = PING_EVERY
            if self._asked_at is None:
                self._asked_at = now
                self._transport.write(_PING)
        if self._asked_at is not None:
            wait = min(wait, self._asked_at + ANSWER_WITHIN - now)
        self._timer = self._loop.call_later(max(0.01, wait), self._look_for_life)

    def kinds(self) -> list[str]:
        """What its open streams are for; from any thread."""
        return [kind for stream in list(self._streams.values()) if (kind := stream.kind)]

    # ── the end ──

    @property
    def is_idle(self) -> bool:
        return not self._streams

    def drain(self) -> None:
        """Tell the client to go elsewhere with what is new, and the sessions that the end is
        near."""
        if self._is_draining:
            return
        self._is_draining = True
        self._zttp.close(_NO_ERROR)
        for stream in list(self._streams.values()):
            stream.drain()
        self._flush()

    def stop(self) -> None:
        """End all streams, and the connection."""
        self.drain()
        for stream in list(self._streams.values()):
            stream.stop()
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()


class Http2Stream:
    """One stream, as an `Edge` for its session."""

    def __init__(self, connection: Http2Connection, stream: Any, number: int) -> None:
        self.number = number
        self.is_ended = False
        """Whether the client sends nothing more."""
        self._connection = connection
        self._stream = stream
        self._method: Method | None = None
        self._session: Session[Any] | None = None
        self._decoder = FrameDecoder(first=FIRST_BYTES)
        self._is_trusted = False
        self._is_held = False
        """Whether the session reads nothing more for now."""
        self._messages: list[bytes] = []
        self._wrong: tuple[Status, str] | None = None
        self._out: list[bytes] = []
        self._out_size = 0
        self._has_headers = False
        self._end: tuple[Status, str] | None = None
        self._http_status: int | None = None
        self._is_end_sent = False

    @property
    def kind(self) -> str | None:
        """What it is for, while it is open."""
        return None if self._session is None or self._method is None else self._method.kind

    def open(self, method: Method, peer: Peer) -> None:
        self._method = method
        self._decoder = FrameDecoder(method.most, first=FIRST_BYTES)
        self._session = method.open(self, peer)

    # ── in ──

    def feed(self, data: bytes) -> bool:
        """Bytes of the client; whether there is something to deliver."""
        if self._session is None or self._wrong is not None:
            return False
        try:
            self._messages += self._decoder.feed(data)
        except CompressedError as error:
            self._wrong = Status.UNIMPLEMENTED, str(error)
        except MessageTooLargeError as error:
            self._wrong = Status.RESOURCE_EXHAUSTED, str(error)
        except FrameError as error:
            self._wrong = Status.INTERNAL, str(error)
        if not self._is_trusted:
            self._set_pace()
        return bool(self._messages) or self._wrong is not None

    def deliver(self) -> None:
        """Give the session what has arrived."""
        session = self._session
        if session is None or self._method is None:
            if self._is_end_sent and self.is_ended:
                self._connection.forget(self)
            return
        messages, self._messages = self._messages, []
        events = []
        decode = self._method.decode
        try:
            for message in messages:
                events.append(decode(message))
        except DecodeError:
            self._wrong = Status.INVALID_ARGUMENT, "a message cannot be read; is it of this method?"
        try:
            if events:
                session.receive(events)
            if self._wrong is None and self.is_ended:
                if not self._decoder.is_between:
                    self._wrong = Status.INTERNAL, "the last message is not complete"
                else:
                    session.half_closed()
        except Exception:
            _log.exception("a stream met an error, and ends")
            self._wrong = Status.INTERNAL, "the server met an error"
        if self._wrong is not None and self._session is not None:
            session.closed()
            self.finish(*self._wrong)

    # ── the edge ──

    @property
    def is_writable(self) -> bool:
        if self._end is not None:
            return False
        is_writable = not self._connection.is_write_paused and self._unread < HIGH_WATER
        if not is_writable:
            self._connection.block(self, True)
        return is_writable

    @property
    def _unread(self) -> int:
        return self._out_size + (self._stream.pending_bytes or 0)

    def send(self, messages: Sequence[Message]) -> None:
        if self._end is not None:
            return
        data = framed([message.SerializeToString() for message in messages])
        self._out.append(data)
        self._out_size += len(data)
        self._connection.changed(self)

    def finish(self, status: Status, message: str = "") -> None:
        if self._end is None:
            self._end = status, message
            self._session = None
            self._connection.hold(self, False)
            self._connection.changed(self)

    def hold(self, is_held: bool) -> None:
        self._is_held = is_held
        self._set_pace()

    def trust(self) -> None:
        self._is_trusted = True
        self._connection.has_a_known_client()
        self._set_pace()

    def _set_pace(self) -> None:
        """Read nothing more while the session is behind, or a stranger's message grows long."""
        if self._end is None:
            is_long = not self._is_trusted and self._decoder.waiting > FIRST_BYTES
            self._connection.hold(self, self._is_held or is_long)

    def refuse_http(self, status: int) -> None:
        """Answer what is not gRPC."""
        self._http_status = status
        self.finish(Status.INTERNAL)

    # ── out ──

    def flush(self) -> None:
        """Give zttp what there is to send."""
        if self._is_end_sent:
            self._close_if_sent()
            return
        if self._end is not None and not self._has_headers and not self._out:
            self._send_end_alone(*self._end)
            return
        if self._out:
            if not self._has_headers:
                self._has_headers = True
                self._stream.send_response(200, _HEADERS)
            data, self._out, self._out_size = b"".join(self._out), [], 0
            self._stream.send_data(data)
        if self._end is not None:
            self._stream.end_message(_trailers(*self._end))
            self._is_end_sent = True
            self._close_if_sent()
        elif (self._stream.pending_bytes or 0) > MOST_UNREAD:
            _log.warning("a client does not read what it is answered; its stream is reset")
            self._stream.reset(_ENHANCE_YOUR_CALM)
            self._connection.forget(self)
            self.gone()

    def _send_end_alone(self, status: Status, message: str) -> None:
        self._has_headers = self._is_end_sent = True
        if self._http_status is not None:
            self._stream.send_response(self._http_status, [], end_stream=True)
        else:
            headers = [*_HEADERS, *_trailers(status, message)]
            self._stream.send_response(200, headers, end_stream=True)
        self._close_if_sent()

    def _close_if_sent(self) -> None:
        """When the client has been sent all, it need not send anything more."""
        if self._stream.pending_bytes:
            self._connection.block(self, True)
            return
        if not self.is_ended:
            self._stream.reset(_NO_ERROR)
        self._connection.forget(self)

    def try_again(self) -> None:
        """The client may have read something."""
        if self._is_end_sent:
            if not self._stream.pending_bytes:
                self._connection.changed(self)
        elif not self._connection.is_write_paused and self._unread <= LOW_WATER:
            self._connection.block(self, False)
            if self._session is not None:
                self._session.resumed()

    # ── the end ──

    def drain(self) -> None:
        if self._session is not None:
            self._session.drain()

    def stop(self) -> None:
        if self._session is not None:
            self._session.stop()

    def gone(self) -> None:
        """The stream is no more."""
        self._connection.block(self, False)
        self._connection.hold(self, False)
        session, self._session = self._session, None
        self._end = self._end or (Status.UNAVAILABLE, "")
        if session is not None:
            session.closed()


_HEADERS = [
    (b"content-type", b"application/grpc"),
    (b"grpc-accept-encoding", b"identity"),
]


def _trailers(status: Status, message: str) -> list[tuple[bytes, bytes]]:
    trailers = [(b"grpc-status", str(int(status)).encode())]
    if message:
        trailers.append((b"grpc-message", percent_encoded(message)))
    return trailers


def percent_encoded(message: str) -> bytes:
    """A text as a header: printable ASCII is itself, other bytes are percent and two digits."""
    return b"".join(
        bytes([byte]) if 0x20 <= byte <= 0x7E and byte != 0x25 else b"%%%02X" % byte
        for byte in message.encode("utf-8", "replace")
    )


class Http2Server:
    """Listens, and keeps the connections."""

    def __init__(self, methods: Mapping[str, Method]) -> None:
        self._methods = {path.encode(): method for path, method in methods.items()}
        self._connections: set[Http2Connection] = set()
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int, tls: Any, *, reuse_port: bool) -> int:
        """The port that it listens on."""
        if tls is not None:
            tls.set_alpn_protocols(["h2"])
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Http2Connection(self._methods, self._connections),
            host,
            port,
            ssl=tls,
            reuse_port=reuse_port or None,
            backlog=1024,
        )
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    def kinds(self) -> list[str]:
        return [kind for connection in list(self._connections) for kind in connection.kinds()]

    def drain(self) -> None:
        """Take no connections, and let those that are there end."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.drain()

    async def idle(self) -> None:
        """Wait until no stream is open."""
        while self._connections:
            await asyncio.wait([connection.closed for connection in self._connections])

    async def close(self, patience: float) -> None:
        """End what is open; connections that do not take their last bytes are cut."""
        self.drain()
        for connection in list(self._connections):
            connection.stop()
        waiting = [connection.closed for connection in self._connections]
        if waiting:
            await asyncio.wait(waiting, timeout=patience)
        for connection in list(self._connections):
            connection.abort()
        while self._connections:
            await asyncio.wait([connection.closed for connection in self._connections])
        self._server = None
