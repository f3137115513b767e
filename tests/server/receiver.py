"""Receives webhooks: an HTTP server on loopback whose answers a test chooses."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

Answer = Callable[["Received", asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Received:
    """One request."""

    line: str
    headers: dict[str, str]
    body: bytes


def status(code: int, *headers: str) -> Answer:
    async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {code} X", "content-length: 0", *headers, "", ""]
        writer.write("\r\n".join(lines).encode())
        await writer.drain()

    return answer


@dataclass
class Receiver:
    """Answers in turn as it is told, the last answer again and again."""

    port: int = 0
    answers: list[Answer] = field(default_factory=lambda: [status(204)])
    received: list[Received] = field(default_factory=list)
    connections: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?shop=7"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                line, *rest = head.decode().strip().split("\r\n")
                headers = {
                    name.lower(): value.strip()
                    for name, _, value in (text.partition(":") for text in rest)
                }
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                request = Received(line, headers, body)
                self.received.append(request)
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                await answer(request, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def receiving(*answers: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    receiver = Receiver()
    if answers:
        receiver.answers = list(answers)
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        await receiver.serve(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
