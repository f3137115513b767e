"""Calls that go on also when their callers were cancelled."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any

Call = Future[Any] | asyncio.Future[Any]


class UnderWay:
    """Which calls, in a thread or on the event loop, are being made for which worker."""

    def __init__(self) -> None:
        self._calls: dict[Call, str] = {}

    def add(self, call: Call, worker: str) -> None:
        self._calls[call] = worker
        call.add_done_callback(lambda done: self._calls.pop(done, None))

    async def ended(self, worker: str) -> None:
        """Return when no call is made for this worker any more."""
        while calls := [call for call, name in tuple(self._calls.items()) if name == worker]:
            await asyncio.wait(
                [asyncio.wrap_future(call) if isinstance(call, Future) else call for call in calls]
            )
