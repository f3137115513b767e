"""One HTTP/2 connection with one gRPC stream on it; zttp knows HTTP/2, this knows the socket.

Bytes that the server does not take yet are kept, and `is_free` is False meanwhile: messages that
come then wait to be sent together. A connection that was quiet for a while is asked for a sign of
life (PING); if none comes, it has gone silent, and is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import zttp

from windlass.errors import StoreUnavailableError

PATH = b"/windlass.v1.Worker/Stream"
MOST_MESSAGE = 16 << 20
"""Bytes of one message, in either direction."""
QUIET = 10.0
"""Seconds without a byte from the server after which it is asked for a sign of life."""
SIGN_LIMIT = 5.0
"""Seconds it has for that."""
LOOK_EVERY = 1.0
LAST_BYTES = 1.0
"""Seconds that the server has to take the last bytes."""

_PREFIX = struct.Struct(">BI")
WINDOW = 1 << 20
"""Bytes that the server may send before it is told that they were read."""
WINDOWS = b"".join(
    [
        struct.pack(">IBIHI", 6 << 8 | 4, 0, 0, 4, WINDOW),  # SETTINGS_INITIAL_WINDOW_SIZE
        struct.pack(">IBII", 4 << 8 | 8, 0, 0, WINDOW),  # WINDOW_UPDATE of the connection
    ]
)
"""What zttp cannot be told to say."""
_PING = b"\x00\x00\x08\x06\x00\x00\x00\x00\x00windlass"
_CANCEL = 8
_UNKNOWN = 2
_REFUSALS = {
    7: "does not permit this",
    12: "has no streams for workers; is it a Windlass server, and of this version?",
    16: "does not know this token",
}


@dataclass(frozen=True, slots=True)
class Ears:
    """Who is told of what; on the event loop."""

    message: Callable[[bytes], None]
    free: Callable[[], None]
    """Nothing is left to be sent."""
    draining: Callable[[], None]
    """The server goes away soon: it takes no new streams on this connection."""
    ended: Callable[[StoreUnavailableError], None]
    """No more messages come; told once."""


class GrpcStream(asyncio.Protocol):
    """Made by `connect`. After it has ended, `send` does nothing."""

    def __init__(self, name: str, authority: str, ears: Ears) -> None:
        self._name = name
        self._authority = authority
        self._ears = ears
        self._loop = asyncio.get_running_loop()
        self._http: Any = zttp.Connection(zttp.CLIENT, zttp.HTTP2)
        self._stream: Any = None
        self._transport: asyncio.Transport | None = None
        self._is_paused = False
        self._has_ended = False
        self._received = bytearray()
        self._watch: asyncio.TimerHandle | None = None
        self._pinged_at: float | None = None
        self.heard_at = self._loop.time()
        """When the last byte came."""
        self._is_closed: asyncio.Future[None] = self._loop.create_future()

    # ── sending ──

    @property
    def is_free(self) -> bool:
        """Whether all that was sent is on its way."""
        return not self._has_ended and not self._is_paused and not self._http.has_pending_send()

    def send(self, message: bytes) -> None:
        if self._has_ended:
            return
        self._stream.send_data(_PREFIX.pack(0, len(message)) + message)
        self._flush()

    def _flush(self) -> None:
        out = self._http.data_to_send()
        if out and self._transport is not None:
            self._transport.write(out)

    def end(self, reason: str, *, is_temporary: bool = True) -> None:
        """Close the connection, and say why calls on it cannot be answered."""
        if self._has_ended:
            return
        self._has_ended = True
        if self._watch is not None:
            self._watch.cancel()
        transport = self._transport
        if transport is not None:
            with contextlib.suppress(zttp.ProtocolError, OSError):
                if self._stream is not None:
                    self._stream.reset(_CANCEL)
                self._http.close()
                transport.write(self._http.data_to_send())
            transport.close()
        self._ears.ended(StoreUnavailableError(reason, is_temporary=is_temporary))

    # ── asyncio's side ──

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        connected = transport.get_extra_info("socket")
        if connected is not None and connected.family in (socket.AF_INET, socket.AF_INET6):
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        if tls is not None and tls.selected_alpn_protocol() != "h2":
            self.end(f"{self._name} speaks no HTTP/2; is it a Windlass server?", is_temporary=False)
            return
        self._http.initiate_connection()
        transport.write(self._http.data_to_send() + WINDOWS)
        self._stream = self._http.send_request(
            b"POST",
            PATH,
            b"2",
            [
                (b"host", self._authority.encode()),
                (b"content-type", b"application/grpc"),
                (b"te", b"trailers"),
                (b"user-agent", b"windlass"),
            ],
        )
        self._flush()
        self._look()

    def data_received(self, data: bytes) -> None:
        self.heard_at = self._loop.time()
        self._pinged_at = None
        was_free = self.is_free
        try:
            self._http.receive_data(data)
            while not self._has_ended:
                event = self._http.next_event()
                if event is zttp.NEED_DATA or event is zttp.CONNECTION_CLOSED:
                    break
                self._on_event(event)
        except zttp.ProtocolError as error:
            self.end(f"{self._name} does not speak HTTP/2 as it should: {error}")
            return
        if not self._has_ended:
            self._flush()
            if not was_free and self.is_free:
                self._ears.free()

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        if self.is_free:
            self._ears.free()

    def eof_received(self) -> None:
        self.end(f"{self._name} closed the connection")

    def connection_lost(self, error: Exception | None) -> None:
        self.end(f"the connection to {self._name} was lost" + (f": {error}" if error else ""))
        if not self._is_closed.done():
            self._is_closed.set_result(None)

    async def closed(self) -> None:
        """Return when the socket is closed, after the end. A server that takes nothing more does
        not keep it open."""
        _, late = await asyncio.wait([self._is_closed], timeout=LAST_BYTES)
        if late and self._transport is not None:
            self._transport.abort()
            await self._is_closed

    # ── what the server says ──

    def _on_event(self, event: Any) -> None:
        match event:
            case zttp.Data():
                self._take(event.data)
            case zttp.Response():
                self._on_head(event)
            case zttp.EndOfMessage():
                self._on_end(dict(event.trailers))
            case zttp.RstStream():
                self.end(f"{self._name} ended the stream (code {event.error_code})")
            case zttp.GoAway():
                self._ears.draining()
            case _:
                pass

    def _on_head(self, response: Any) -> None:
        headers = dict(response.headers)
        if b"grpc-status" in headers:
            self._on_end(headers)
        elif response.status_code != 200:
            self.end(
                f"{self._name} answers with HTTP status {response.status_code}; is it the address"
                " of the server's streams?",
                is_temporary=response.status_code in (429, 502, 503, 504),
            )

    def _on_end(self, trailers: dict[bytes, bytes]) -> None:
        text = trailers.get(b"grpc-status", b"14")
        status = int(text) if text.isdigit() else _UNKNOWN
        said = unquote(trailers.get(b"grpc-message", b"").decode(errors="replace"))
        detail = f": {said}" if said else ""
        if status in _REFUSALS:
            self.end(f"{self._name} {_REFUSALS[status]}{detail}", is_temporary=False)
        else:
            self.end(f"{self._name} ended the stream{detail or f' (status {status})'}")

    def _take(self, data: bytes) -> None:
        """Cut what came into messages."""
        received = self._received
        received += data
        start = 0
        while len(received) - start >= _PREFIX.size:
            is_packed, size = _PREFIX.unpack_from(received, start)
            if is_packed or size > MOST_MESSAGE:
                self.end(f"{self._name} sent a message that is packed, or longer than 16 MiB")
                return
            end = start + _PREFIX.size + size
            if len(received) < end:
                break
            self._ears.message(bytes(received[start + _PREFIX.size : end]))
            start = end
        if start:
            del received[:start]

    # ── is it still there? ──

    def _look(self) -> None:
        now = self._loop.time()
        if self._pinged_at is not None and now >= self._pinged_at + SIGN_LIMIT:
            self.end(f"{self._name} gave no sign of life for {now - self.heard_at:.0f} s")
            return
        if self._pinged_at is None and now >= self.heard_at + QUIET:
            self.ping()
        self._watch = self._loop.call_later(LOOK_EVERY, self._look)

    def ping(self) -> None:
        """Ask for a sign of life, unless it was asked for already."""
        if self._has_ended or self._pinged_at is not None or self._transport is None:
            return
        self._pinged_at = self._loop.time()
        self._transport.write(_PING)


async def connect(
    host: str, port: int, *, name: str, tls: ssl.SSLContext | None, ears: Ears
) -> GrpcStream:
    """A stream on a connection of its own. OSError where there is none."""
    loop = asyncio.get_running_loop()
    _, stream = await loop.create_connection(
        lambda: GrpcStream(name, f"{host}:{port}", ears),
        host,
        port,
        ssl=tls,
        server_hostname=host if tls else None,
    )
    return stream
