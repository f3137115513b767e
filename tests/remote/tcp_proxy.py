"""A network between a store and its server that can be cut, and that can fall silent."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


class TcpProxy:
    """Carries bytes both ways, in a thread of its own."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="test-proxy")
        self._pairs: dict[asyncio.Task[None], list[asyncio.StreamWriter]] = {}
        self._server: asyncio.Server
        self.port = 0
        self.carried = 0
        """Bytes that went to the server."""
        self.is_silent = False
        """Nothing passes, and nothing is closed."""
        self.withholds = False
        """What the server says is lost."""

    def start(self) -> None:
        self._thread.start()
        self._call(self._listen())

    def stop(self) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        """Reset every connection."""
        self._call(self._cut())

    def heal(self) -> None:
        """Let what was held up be lost, and new connections work."""
        self.is_silent = self.withholds = False
        self.cut()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        self._server.close()
        await self._cut()
        await self._server.wait_closed()

    async def _cut(self) -> None:
        tasks = list(self._pairs)
        for writers in list(self._pairs.values()):
            for writer in writers:
                writer.transport.abort()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        writers = self._pairs[task] = [writer]
        with contextlib.suppress(OSError, asyncio.CancelledError):
            while self.is_silent:
                await asyncio.sleep(0.01)
            there, out = await asyncio.open_connection("127.0.0.1", self._target)
            writers.append(out)
            ways = [
                asyncio.ensure_future(self._carry(reader, out, lambda: False, counts=True)),
                asyncio.ensure_future(
                    self._carry(there, writer, lambda: self.withholds, counts=False)
                ),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        for each in writers:
            each.transport.abort()
        self._pairs.pop(task, None)

    async def _carry(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        loses: Callable[[], bool],
        *,
        counts: bool,
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                while self.is_silent:
                    await asyncio.sleep(0.01)
                if not loses():
                    writer.write(data)
                    await writer.drain()
                if counts:
                    self.carried += len(data)


@contextmanager
def proxied(target: int) -> Iterator[TcpProxy]:
    proxy = TcpProxy(target)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()
