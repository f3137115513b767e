"""The life of the ASGI application, as its server tells it."""

from __future__ import annotations

from litestar.types import LifeSpanReceive, LifeSpanSend

from windlass.server.rest.shared import Shared


async def live(shared: Shared, receive: LifeSpanReceive, send: LifeSpanSend) -> None:
    """Close what requests share after the last of them; it opens by itself."""
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await shared.close()
    await send({"type": "lifespan.shutdown.complete"})
