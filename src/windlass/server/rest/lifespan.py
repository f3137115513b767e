"""The life of the ASGI application, as its server tells it."""

from __future__ import annotations

import logging

from litestar.types import LifeSpanReceive, LifeSpanSend

from windlass.server.rest.shared import Shared

_logger = logging.getLogger("windlass.server")


async def live(shared: Shared, receive: LifeSpanReceive, send: LifeSpanSend) -> None:
    """Open what requests share before the first, and close it after the last."""
    await receive()
    try:
        await shared.open()
    except Exception:
        _logger.exception("REST could not start")
        await send({"type": "lifespan.startup.failed", "message": ""})
        return
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await shared.close()
    await send({"type": "lifespan.shutdown.complete"})
