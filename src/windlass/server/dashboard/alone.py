"""The dashboard without a server around it: one port of this machine, and nothing else runs."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from windlass.app import App
from windlass.engine.signals import Signals
from windlass.server.dashboard.site import make_dashboard
from windlass.server.rest_port import RestPort
from windlass.server.service import Service
from windlass.server.settings import ServeSettings

_LAST = 1.0
"""Seconds that requests under way get at the end."""


async def show(
    app: App, opened: socket.socket, *, is_read_only: bool, begun: Callable[[], None]
) -> None:
    """Answer on this socket until a signal comes; `begun` is called when pages can be asked for.
    It changes nothing by itself: promoting, reaping and pruning is left to workers."""
    service = Service(app, ServeSettings())
    await service.start()
    over = asyncio.Event()
    signals = Signals(lambda name: over.set(), over.set)
    port = RestPort(make_dashboard(service, is_read_only=is_read_only), None)
    try:
        await port.start(opened)
        signals.install()
        begun()
        await over.wait()
        service.draining.set()
        await port.stop(_LAST)
    finally:
        signals.remove()
        await service.close()
