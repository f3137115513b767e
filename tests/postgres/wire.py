"""What the pooler and the fault proxy share: PostgreSQL's messages, and a loop in a thread.

After its start a connection is a stream of messages: one byte of type, four bytes of length (which
counts itself but not the type), content. Only the client's first packets have no type.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from tests.postgres.cluster import free_port

PROTOCOL_3 = 196608
CANCEL = 80877102
SSL = 80877103
GSS = 80877104

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FirstPacket:
    """The packet a client opens with, once encryption is declined."""

    code: int
    raw: bytes

    @property
    def parameters(self) -> dict[str, str]:
        words = [word.decode() for word in self.raw[8:].split(b"\0")]
        return {name: text for name, text in zip(words[::2], words[1::2], strict=False) if name}

    @property
    def cancel_key(self) -> tuple[int, bytes]:
        """The process id and the secret of a cancel request."""
        return struct.unpack("!i", self.raw[8:12])[0], self.raw[12:]


async def read_first_packet(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> FirstPacket:
    """Decline encryption as often as it is asked for, and return the packet that follows."""
    while True:
        head = await reader.readexactly(8)
        length, code = struct.unpack("!ii", head)
        if code not in (SSL, GSS):
            return FirstPacket(code, head + await reader.readexactly(length - 8))
        writer.write(b"N")


async def read_message(reader: asyncio.StreamReader) -> bytes:
    """One whole message; its type is `[:1]`, its content `[5:]`."""
    head = await reader.readexactly(5)
    return head + await reader.readexactly(struct.unpack("!i", head[1:])[0] - 4)


def message(kind: bytes, content: bytes = b"") -> bytes:
    return kind + struct.pack("!i", len(content) + 4) + content


def startup_packet(**parameters: str) -> bytes:
    pairs = "".join(f"{name}\0{text}\0" for name, text in parameters.items()).encode() + b"\0"
    return struct.pack("!ii", len(pairs) + 8, PROTOCOL_3) + pairs


def cancel_packet(pid: int, secret: bytes) -> bytes:
    return struct.pack("!iii", 12 + len(secret), CANCEL, pid) + secret


def error_message(code: str, text: str) -> bytes:
    fields = ("SFATAL", "VFATAL", f"C{code}", f"M{text}")
    return message(b"E", "".join(f"{field}\0" for field in fields).encode() + b"\0")


def reset(writer: asyncio.StreamWriter) -> None:
    """End a connection by a reset (RST), so that the other side gets an error and no clean end."""
    raw = writer.get_extra_info("socket")
    if raw is not None:
        with contextlib.suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class ThreadedServer(ABC):
    """A TCP server on 127.0.0.1 whose event loop runs in a thread from `__enter__` to `__exit__`.

    Subclasses say in `serve` what happens to a connection; it is closed when `serve` returns.
    """

    def __init__(self, default_database: str = "postgres") -> None:
        self.host = "127.0.0.1"
        self.port = free_port()
        self.default_database = default_database
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)

    def url(self, database: str | None = None) -> str:
        """A URL whose connections go through here."""
        name = database or self.default_database
        return f"postgresql://postgres@{self.host}:{self.port}/{name}"

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        if self._server is None:
            raise RuntimeError(f"port {self.port} was taken in the meantime")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    @abstractmethod
    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection of a client until it ends."""

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, self.host, self.port, backlog=200)

    def stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the server's loop, from any other thread, and wait for its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task of the loop that is cancelled when the server stops."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        try:
            await self.listen()
        finally:
            self._ready.set()
        await self._stop.wait()
        self.stop_listening()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.spawn(self._handle(reader, writer))

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self.serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # one of the two sides went away: that ends the connection, nothing more
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
