"""The metrics of a server for Prometheus, and the counting of its own requests."""

from __future__ import annotations

import asyncio
from typing import Any

from litestar.types import ASGIApp, Message, Receive, Scope, Send

from windlass.errors import StoreError
from windlass.observe.metrics import SERVER_REQUEST_SECONDS, SERVER_REQUESTS
from windlass.observe.prometheus import add_depths, figure_store, rendered
from windlass.server.rest.call import Call
from windlass.server.rest.routes import Answer, Nothing, Open, Routes, Text
from windlass.server.service import Service
from windlass.store.figures import Depths, FigureStore

routes = Routes("metrics")

PATIENCE = 2.0
"""Seconds within which the database must tell its depths."""
UNKNOWN = "none"
"""What requests of an address are counted as that no route has."""

_ANSWERS = {200: Answer(str, "The text format of Prometheus, or OpenMetrics.", "text/plain")}


@routes.get("/metrics", Open.SCRAPED, answers=_ANSWERS)
async def get_metrics(call: Call[Nothing, None]) -> Text:
    """Get the metrics of this server, of all its processes together."""
    service = call.service
    snapshot = await service.figures()
    store = figure_store(service.store)
    if store is not None:
        add_depths(snapshot, await _depths(store))
    return Text(*rendered(snapshot, call.request.headers.get("accept", "")))


async def _depths(store: FigureStore) -> Depths | None:
    try:
        async with asyncio.timeout(PATIENCE):
            return await store.depths()
    except (StoreError, TimeoutError):
        return None


async def counted(
    service: Service, app: ASGIApp, scope: Scope, receive: Receive, send: Send
) -> None:
    """Serve one request, and count it: by its operation, never by its address."""
    began = service.clock.monotonic()
    status = "none"

    async def noting(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = str(message["status"])
        await send(message)

    try:
        await app(scope, receive, noting)
    finally:
        handler: Any = scope.get("route_handler")
        name = getattr(handler, "name", None) or UNKNOWN
        service.instruments.count(SERVER_REQUESTS, name, status)
        seconds = service.clock.monotonic() - began
        service.instruments.observe(SERVER_REQUEST_SECONDS, seconds, name)
