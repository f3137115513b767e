"""The shape of every loop: take a step, wait as long as it says or until woken, again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from windlass.engine.outage import Outage
from windlass.errors import SchemaTooNewError, StoreClosedError, StoreError
from windlass.observe.logs import Scoped

Step = Callable[[], Awaitable[float | None]]


class Loop:
    """Runs `step` on the event loop. It returns the seconds to wait, or None for "until woken".

    A step that fails is logged and tried again after a growing pause: a loop never dies of it.
    Only when the store was closed, or a newer program has taken it over, there is nothing left to
    try, and `on_ended` hears of it.
    """

    def __init__(
        self,
        name: str,
        step: Step,
        *,
        outage: Outage,
        logger: Scoped,
        on_ended: Callable[[StoreError], None] = lambda error: None,
        first_delay: float | None = 0.0,
    ) -> None:
        self.name = name
        self._step = step
        self._outage = outage
        self._logger = logger
        self._on_ended = on_ended
        self._first_delay = first_delay
        self._woken = False
        self._is_failing = False
        self._future: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run(), name=f"windlass-{self.name}")

    async def stop(self) -> None:
        """End the loop; a step under way is cancelled."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def wake(self) -> None:
        """Take the next step now. Only from the loop's own thread."""
        self._woken = True
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    def wake_from_anywhere(self) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            try:
                loop.call_soon_threadsafe(self.wake)
            except RuntimeError:
                pass  # closed between the look and the call

    async def _run(self) -> None:
        delay = self._first_delay
        while True:
            if delay is None or delay > 0:
                await self._pause(delay)
            self._woken = False
            try:
                delay = await self._step()
            except (StoreClosedError, SchemaTooNewError) as error:
                self._on_ended(error)
                return
            except StoreError as error:
                delay = self._failed(error)
            except Exception as error:  # a loop outlives whatever its step met
                self._logger.exception("the %s met an error and goes on", self.name)
                delay = self._failed(error)
            else:
                if self._is_failing:  # a step that never failed may not have asked the database
                    self._is_failing = False
                    self._outage.worked()
                if delay == 0:
                    await asyncio.sleep(0)

    def _failed(self, error: Exception) -> float:
        self._is_failing = True
        return self._outage.failed(error)

    async def _pause(self, delay: float | None) -> None:
        if self._woken:
            return
        loop = asyncio.get_running_loop()
        self._future = loop.create_future()
        timer = None if delay is None else loop.call_later(delay, self._expire, self._future)
        try:
            await self._future
        finally:
            self._future = None
            if timer is not None:
                timer.cancel()

    @staticmethod
    def _expire(future: asyncio.Future[None]) -> None:
        if not future.done():
            future.set_result(None)
