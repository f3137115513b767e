"""How a running handler learns that it should stop, and why."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from enum import StrEnum
from typing import Any


class AbortReason(StrEnum):
    """Why a delivery was told to stop."""

    TAKEN_BY_ANOTHER_WORKER = "taken_by_another_worker"
    ALREADY_COMPLETED = "already_completed"
    NOT_FOUND = "not_found"
    ERROR = "error"
    """The lease could not be renewed, so another worker may soon own the job."""
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    SHUTDOWN = "shutdown"


_lock = threading.Lock()


class Abort:
    """A one-way signal with a reason. Await it, or wait for it in a thread, or ask `is_set()`."""

    reason: AbortReason | None = None
    _waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[AbortReason]]] | None = None
    _event: threading.Event | None = None
    _calls: tuple[Callable[[], None], ...] = ()

    def is_set(self) -> bool:
        return self.reason is not None

    def set(self, reason: AbortReason) -> bool:
        """Give the signal, from any thread; only the first reason counts."""
        with _lock:
            if self.reason is not None:
                return False
            self.reason = reason
            waiters, self._waiters = self._waiters or [], None
            calls = self._calls
            if self._event is not None:
                self._event.set()
        for loop, future in waiters:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_resolve, future, reason)
        for call in calls:
            with suppress(Exception):
                call()
        return True

    def call(self, function: Callable[[], None]) -> Callable[[], None]:
        """Call it when the signal is given, in the thread that gives it; returns the way to forget
        it. It must not block, and what it raises is lost."""
        with _lock:
            is_set = self.reason is not None
            self._calls = (*self._calls, function)
        if is_set:
            with suppress(Exception):
                function()

        def forget() -> None:
            with _lock:
                self._calls = tuple(it for it in self._calls if it is not function)

        return forget

    def wait(self, timeout: float | None = None) -> bool:
        """Block a thread until the signal, or for `timeout` seconds; whether it was given."""
        with _lock:
            if self._event is None:
                self._event = threading.Event()
                if self.reason is not None:
                    self._event.set()
        return self._event.wait(timeout)

    def __await__(self) -> Generator[Any, None, AbortReason]:
        return self._until_set().__await__()

    async def _until_set(self) -> AbortReason:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[AbortReason] = loop.create_future()
        with _lock:
            if self.reason is not None:
                return self.reason
            self._waiters = [*(self._waiters or []), (loop, future)]
        return await future


def _resolve(future: asyncio.Future[AbortReason], reason: AbortReason) -> None:
    if not future.done():
        future.set_result(reason)
