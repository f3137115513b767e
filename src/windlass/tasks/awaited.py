"""Blocking connections in an `async def`: each has a thread of its own, and is awaited."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any


class OwnThread:
    """Runs functions one after the other in a thread of their own, made when first needed.

    A handler may be cancelled while a statement runs, and a connection must not be used, let alone
    closed, by two threads at once: the next call waits its turn. The thread is not one of a shared
    few, because handlers that wait for a connection would keep those from the ones that hold one.
    """

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._is_well = False
        """Whether the last function that has ended did so without an exception."""

    async def run(self, function: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.shield(self._start(function, *args))

    async def run_out(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run it to its end, even if the caller is cancelled meanwhile; the cancel comes after it.

        So no job is handed back while its own transaction may still commit.
        """
        ending = self._start(function, *args)
        cancelled: asyncio.CancelledError | None = None
        while not ending.done():
            try:
                await asyncio.wait({ending})
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            ending.exception()
            raise cancelled
        return ending.result()

    def afterwards(self, function: Callable[..., Any], *args: Any) -> None:
        """Run it when what runs now has ended, if that ends well. The caller does not wait."""
        self._start(lambda: function(*args) if self._is_well else None)

    def close(self) -> None:
        """What was asked for is still done."""
        if self._executor is not None:
            self._executor.shutdown(wait=False)

    def _start(self, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """The event loop starts it, so that a loop on virtual time knows that a thread works."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="windlass-transaction")
        variables = copy_context()

        def call() -> Any:
            try:
                answer = variables.run(function, *args)
            except BaseException:
                self._is_well = False
                raise
            self._is_well = True
            return answer

        ending = asyncio.get_running_loop().run_in_executor(self._executor, call)
        ending.add_done_callback(_see)
        return ending


def _see(ended: asyncio.Future[Any]) -> None:
    """Retrieve the failure: the caller may be cancelled, and asyncio would log it as unhandled."""
    if not ended.cancelled():
        ended.exception()


class AwaitedConnection:
    """A blocking DB-API connection, such as one of `sqlite3`, whose calls are awaited.

    `connection` is the blocking one. A cancelled call is ended in the database, too.
    """

    def __init__(self, connection: Any, thread: OwnThread) -> None:
        self.connection = connection
        self._thread = thread

    async def execute(self, sql: str, values: Any = ()) -> AwaitedCursor:
        return self._cursor(await self._run(self.connection.execute, sql, values))

    async def executemany(self, sql: str, values: Any) -> AwaitedCursor:
        return self._cursor(await self._run(self.connection.executemany, sql, values))

    async def executescript(self, sql: str) -> AwaitedCursor:
        return self._cursor(await self._run(self.connection.executescript, sql))

    async def commit(self) -> None:
        await self._run(self.connection.commit)

    async def rollback(self) -> None:
        await self._run(self.connection.rollback)

    def _cursor(self, cursor: Any) -> AwaitedCursor:
        return AwaitedCursor(cursor, self._run)

    async def _run(self, function: Callable[..., Any], *args: Any) -> Any:
        try:
            return await self._thread.run(function, *args)
        except asyncio.CancelledError:
            with contextlib.suppress(Exception):  # it may have ended, or know no such method
                self.connection.interrupt()
            raise


class AwaitedCursor:
    """What `execute` of an AwaitedConnection answers with."""

    def __init__(self, cursor: Any, run: Callable[..., Any]) -> None:
        self._cursor = cursor
        self._run = run

    @property
    def description(self) -> Any:
        return self._cursor.description

    @property
    def rowcount(self) -> int:
        count: int = self._cursor.rowcount
        return count

    @property
    def lastrowid(self) -> int | None:
        last: int | None = self._cursor.lastrowid
        return last

    async def fetchone(self) -> Any:
        return await self._run(self._cursor.fetchone)

    async def fetchmany(self, size: int = 1) -> list[Any]:
        rows: list[Any] = await self._run(self._cursor.fetchmany, size)
        return rows

    async def fetchall(self) -> list[Any]:
        rows: list[Any] = await self._run(self._cursor.fetchall)
        return rows

    async def close(self) -> None:
        await self._run(self._cursor.close)

    async def __aiter__(self) -> AsyncIterator[Any]:
        while rows := await self.fetchmany(100):
            for row in rows:
                yield row
