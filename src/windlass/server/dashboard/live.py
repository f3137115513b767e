"""Server-sent events: what has changed, told to all open pages.

There is one look at the database per second, or fewer where that takes long, for all pages that
show the same tenants, however many are open, and none while no page is. An event carries the
figures; a page that shows more gets itself again and puts in what differs. Numbers that stand still
are told every few seconds, too, since rows may change where no number does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import msgspec

from windlass.errors import StoreError
from windlass.server.dashboard.figures import Looks
from windlass.server.identity import Identity
from windlass.server.service import Service

PAUSE = 1.0
"""Seconds between two looks."""
LONGEST_SILENCE = 4.0

_ENDED = b"event: ended\ndata: {}\n\n"
_TROUBLE = b"event: trouble\ndata: {}\n\n"


class Watchers:
    """Those who watch one service."""

    def __init__(self, service: Service, figures: Looks) -> None:
        self._service = service
        self._figures = figures

    async def events(self, identity: Identity) -> AsyncIterator[bytes]:
        """Until the server stops, or the caller's token is no longer good."""
        over = asyncio.Event()
        unwatch = self._service.watch(identity, lambda why: over.set())
        stop = asyncio.ensure_future(_first(over, self._service.draining))
        told, silence = b"", 0.0
        try:
            yield b"retry: 2000\n\n"
            while not stop.done():
                try:
                    event = await self._look(identity)
                except StoreError:
                    event = _TROUBLE
                if event != told or silence >= LONGEST_SILENCE:
                    yield event
                    told, silence = event, 0.0
                silence += PAUSE
                await asyncio.wait({stop}, timeout=PAUSE)
            yield _ENDED
        finally:
            unwatch()
            stop.cancel()
            with suppress(asyncio.CancelledError):
                await stop

    async def _look(self, identity: Identity) -> bytes:
        depths = await self._figures.depths(identity.sees, least=PAUSE)
        numbers = {
            f"{state}": {"count": depth.count, "estimate": depth.is_estimate}
            for state, depth in depths.states.items()
        }
        return b"event: figures\ndata: " + msgspec.json.encode(numbers) + b"\n\n"


async def _first(*events: asyncio.Event) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
