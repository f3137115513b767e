"""Starts and ends the streams of a server."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections import Counter
from collections.abc import Mapping
from typing import Protocol

from windlass.errors import ConfigError
from windlass.observe.metrics import SERVER_STREAMS
from windlass.server.service import Service
from windlass.server.streams.edges import Method
from windlass.server.streams.equipment import Works, make_shared, open_works
from windlass.server.streams.methods import KINDS, methods
from windlass.server.streams.shared import Shared

TRANSPORT = "WINDLASS_GRPC_TRANSPORT"
"""In the environment: `zttp`, the default, or `grpcio`."""
LAST_BYTES = 2.0
"""Seconds that a client has to take the last bytes of its streams."""


class Transport(Protocol):
    """Carries streams between clients and sessions."""

    async def start(
        self, host: str, port: int, tls: ssl.SSLContext | None, *, reuse_port: bool
    ) -> int: ...

    def kinds(self) -> list[str]:
        """What each open stream is for; from any thread."""

    def drain(self) -> None: ...

    async def idle(self) -> None: ...

    async def close(self, patience: float) -> None: ...


class StreamServer:
    """Streams that are served on `port`."""

    def __init__(
        self, transport: Transport, shared: Shared, works: Works | None, port: int, grace: float
    ) -> None:
        self.port = port
        self._transport = transport
        self._shared = shared
        self._works = works
        self._grace = grace
        self._closing: asyncio.Task[None] | None = None

    async def drain(self) -> None:
        """Assign nothing more, tell all streams, and take results until the grace is over; then
        hand back what is not finished. Returns when no stream is open."""
        self._transport.drain()
        try:
            async with asyncio.timeout(self._grace):
                await self._transport.idle()
        except TimeoutError:
            pass
        await self.close()

    async def close(self) -> None:
        """End all streams now, and hand back what they have. The store must still be open."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(
                self._close(), name="windlass-streams-close"
            )
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await self._transport.close(LAST_BYTES)
        await self._shared.additions.close()
        await self._shared.keeping.close()
        if self._works is not None:
            await self._works.close()


async def start(
    service: Service,
    host: str,
    port: int,
    tls: ssl.SSLContext | None = None,
    *,
    works: Works | None = None,
    transport: str | None = None,
    reuse_port: bool = hasattr(socket, "SO_REUSEPORT"),
) -> StreamServer:
    """Serve streams; port 0 lets the system choose one. `works` are those that other surfaces use,
    too; without them the streams have some of their own, and close them. The port may be shared
    with other processes."""
    own = None if works is not None else await open_works(service)
    shared = make_shared(service, works or own)  # type: ignore[arg-type]
    shared.keeping.start()
    name = transport or os.environ.get(TRANSPORT) or "zttp"
    try:
        carrier = _transport(name, methods(shared))
        bound = await carrier.start(host, port, tls, reuse_port=reuse_port)
    except BaseException:
        await shared.keeping.close()
        if own is not None:
            await own.close()
        raise
    service.instruments.show(
        SERVER_STREAMS, lambda: {**dict.fromkeys(KINDS, 0), **Counter(carrier.kinds())}
    )
    return StreamServer(carrier, shared, own, bound, service.settings.grace)


def _transport(name: str, served: Mapping[str, Method]) -> Transport:
    match name:
        case "zttp":
            from windlass.server.streams.http2 import Http2Server

            return Http2Server(served)
        case "grpcio":
            from windlass.server.streams.grpcio_transport import GrpcioServer

            return GrpcioServer(served)
        case _:
            raise ConfigError(f"{TRANSPORT} must be zttp or grpcio, not {name!r}")
