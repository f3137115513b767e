"""The port of REST: uvicorn on a socket of ours, without its signals, its logging and its end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Generator
from typing import Any

import uvicorn

_KEEP_ALIVE = 75
"""Seconds that an idle connection stays open: longer than most proxies and clients keep one, so
that it is they who close it, and no request meets a closing connection."""


class RestPort:
    """Answers requests of one ASGI application."""

    def __init__(self, application: Any, tls: ssl.SSLContext | None) -> None:
        config = uvicorn.Config(
            application,
            http="zttp",
            ws="none",
            loop="none",
            log_config=None,
            log_level="error",  # that a stranger sent nonsense is no news
            access_log=False,
            server_header=False,
            # What a proxy says of its callers must not make them callers from this machine.
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE,
            ssl_context_factory=None if tls is None else lambda config, default: tls,
        )
        self._server = _Server(config)
        self._task: asyncio.Task[None] | None = None

    async def start(self, opened: socket.socket) -> None:
        """Returns when requests are answered."""
        self._task = asyncio.create_task(self._server.serve([opened]), name="windlass-rest")
        begun = asyncio.ensure_future(self._server.begun.wait())
        await asyncio.wait({begun, self._task}, return_when=asyncio.FIRST_COMPLETED)
        begun.cancel()
        if self._task.done():
            self._task.result()
            raise RuntimeError("the REST port did not begin to work")

    async def wait(self) -> None:
        """Until it has ended."""
        if self._task is not None:
            await asyncio.shield(self._task)

    async def stop(self, seconds: float) -> None:
        """Take no more requests, and give those under way so long."""
        self._server.config.timeout_graceful_shutdown = max(0.1, seconds)  # type: ignore[assignment]
        self._server.should_exit = True
        await self.wait()

    def hurry(self) -> None:
        """Give requests under way no more time."""
        self._server.force_exit = True


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.begun = asyncio.Event()

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().serve(sockets)
        except SystemExit:
            # Its way to say that the application could not start; the reason is in the log.
            raise RuntimeError("the REST application could not start") from None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.begun.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Signals are the whole server's."""
        yield
