"""A handler's own connection to the jobs' database, for `with` and for `async with`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, TypeVar

from windlass.errors import WindlassError
from windlass.tasks.abort import Abort
from windlass.tasks.awaited import AwaitedConnection, OwnThread

T = TypeVar("T")


class DatabaseConnection:
    """One connection of the store's, for both kinds of `with`.

    When the handler is told to stop, the statement under way is interrupted, where the connection
    or the store's way to open it has an `interrupt`.
    """

    def __init__(self, opened: AbstractContextManager[Any], abort: Abort) -> None:
        self._opened = opened
        self._abort = abort
        self._thread = OwnThread()
        self._forget: Callable[[], None] = lambda: None

    def __enter__(self) -> Any:
        if is_on_a_loop():
            raise WindlassError("in an async def write `async with ctx.connection()`")
        connection = self._opened.__enter__()
        self._interrupt_on_abort(connection)
        return connection

    def __exit__(self, *error: Any) -> bool | None:
        self._forget()
        return self._opened.__exit__(*error)

    async def __aenter__(self) -> Any:
        if isinstance(self._opened, AbstractAsyncContextManager):
            return await self._opened.__aenter__()
        connection = await entered(self._opened, self._thread)
        self._interrupt_on_abort(connection)
        return AwaitedConnection(connection, self._thread)

    async def __aexit__(self, *error: Any) -> bool | None:
        ended: bool | None
        if isinstance(self._opened, AbstractAsyncContextManager):
            ended = await self._opened.__aexit__(*error)
            return ended
        self._forget()
        try:
            ended = await self._thread.run(self._opened.__exit__, *error)
            return ended
        finally:
            self._thread.close()

    def _interrupt_on_abort(self, connection: Any) -> None:
        for source in (self._opened, connection):
            interrupt = getattr(source, "interrupt", None)
            if interrupt is not None:
                self._forget = self._abort.call(interrupt)
                return


async def entered(opened: AbstractContextManager[T], thread: OwnThread) -> T:
    """Enter `opened` in `thread`; if the caller is cancelled meanwhile, the thread exits it."""
    try:
        inner: T = await thread.run(opened.__enter__)
    except asyncio.CancelledError:
        thread.afterwards(opened.__exit__, None, None, None)
        thread.close()
        raise
    except BaseException:
        thread.close()
        raise
    return inner


def is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
