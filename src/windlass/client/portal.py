"""A way into async code for callers without an event loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from windlass.errors import StoreClosedError

R = TypeVar("R")


class Portal:
    """An event loop in a daemon thread. The first call starts it; `close` ends it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def call(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """Run the coroutine on the portal's loop and wait for its result.

        Raises StoreClosedError where `close` is called meanwhile.
        """
        waiting = asyncio.run_coroutine_threadsafe(coroutine, self._running())
        try:
            return waiting.result()
        except concurrent.futures.CancelledError:
            raise StoreClosedError("the app was closed during this call") from None

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            # After a fork the thread is no longer alive, and a new one takes its place.
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="windlass-portal", daemon=True
                )
                self._thread.start()
            return self._loop

    def close(self) -> None:
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            asyncio.run_coroutine_threadsafe(_stop_loop(), loop)
            if thread is not threading.current_thread():
                thread.join()
                loop.close()


async def _stop_loop() -> None:
    """Cancel every call on the running loop, wait up to a second for them to end, stop the loop."""
    loop = asyncio.get_running_loop()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.wait(others, timeout=1.0) if others else None
    loop.call_soon(loop.stop)
