"""The connections handlers use. They are apart from the store's own, which handlers thus cannot
exhaust; a pool of the caller's own takes the place of both."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg import conninfo, pq
from psycopg.rows import tuple_row

from windlass.errors import ConfigError, StoreClosedError, StoreUnavailableError
from windlass.stores.postgres_connections.address import ServerAddress
from windlass.stores.postgres_connections.connection import (
    CALL_LIMIT,
    PROBE_LIMIT,
    answers,
    has_lain,
    is_stale,
)
from windlass.stores.postgres_connections.guard import Guard, guarded
from windlass.stores.postgres_connections.pool import Pool

_ASK_AGAIN = 5.0
"""Seconds after which the caller's pool is asked again: it gives up connecting after a while of
failures, and only a new request makes it try once more."""

if TYPE_CHECKING:
    import psycopg_pool

    GivenPool = psycopg_pool.ConnectionPool[Any]

Blocking = Guard[psycopg.Connection[Any]]


class HandlerConnections:
    """Plain psycopg connections that commit at the end of a block and roll back if it raises."""

    def __init__(self, url: str, pool: Any, size: int, session: bool) -> None:
        self._own: Pool | None = None
        self._given: GivenPool | None = None
        self._used_at: WeakKeyDictionary[psycopg.Connection[Any], float] = WeakKeyDictionary()
        self._size = size
        if pool is None:
            self.address = ServerAddress(url, session=session)
            return
        import psycopg_pool

        if isinstance(pool, psycopg_pool.ConnectionPool | psycopg_pool.AsyncConnectionPool):
            # An async pool belongs to its loop; connections like its own serve every thread.
            given = _conninfo_of(pool)
            self.address = ServerAddress(given, session=session)
            if isinstance(pool, psycopg_pool.ConnectionPool):
                self._given = pool
        else:
            raise ConfigError(
                "pool= takes a psycopg_pool.ConnectionPool or AsyncConnectionPool,"
                f" not {type(pool).__name__}"
            )

    def open(self) -> None:
        self._own = Pool(self.address, self._size)

    def close(self) -> None:
        own, self._own = self._own, None
        if own is not None:
            own.close()

    @property
    def borrow_for_store(self) -> Callable[[], AbstractContextManager[Any]] | None:
        """How the store gets its connections, where the caller gave a pool."""
        return None if self._given is None else self._borrow_for_store

    def borrow(self) -> Borrowed:
        return Borrowed(self)

    @contextmanager
    def lend(self) -> Iterator[Blocking]:
        """A blocking connection in no transaction, without limits for the handler's statements."""
        own = self._open_pool()
        if self._given is not None:
            with self._taken(self._given) as connection, guarded(connection) as guard:
                yield guard
            return
        connection = own.take()
        try:
            with guarded(connection) as guard:
                yield guard
        finally:
            own.give(connection)

    @asynccontextmanager
    async def alend(self) -> AsyncIterator[Guard[psycopg.AsyncConnection[Any]]]:
        """An async one. The caller's pool has none, so there it is one like those of the pool."""
        own = self._open_pool()
        connection = await own.atake()
        try:
            with guarded(connection) as guard:
                yield guard
        finally:
            own.give(connection, asyncio.get_running_loop())

    def _open_pool(self) -> Pool:
        if self._own is None:
            raise StoreClosedError("this store was closed")
        return self._own

    @contextmanager
    def _borrow_for_store(self) -> Iterator[psycopg.Connection[Any]]:
        """One of the caller's, made like the store's own for as long as the store has it."""
        assert self._given is not None
        with self._taken(self._given) as connection:
            theirs = connection.autocommit, connection.row_factory, connection.cursor_factory
            connection.autocommit = True
            connection.row_factory, connection.cursor_factory = tuple_row, psycopg.Cursor
            try:
                with guarded(connection, CALL_LIMIT):
                    yield connection
            finally:
                if not connection.closed:
                    autocommit, connection.row_factory, connection.cursor_factory = theirs
                    connection.autocommit = autocommit

    @contextmanager
    def _taken(self, pool: GivenPool) -> Iterator[psycopg.Connection[Any]]:
        """One of the caller's whose server answers."""
        end = time.monotonic() + pool.timeout
        while True:
            connection = _take(pool, end)
            is_ready = not is_stale(connection)
            if is_ready and has_lain(self._used_at.get(connection, 0.0)):
                is_ready = answers(connection, PROBE_LIMIT)
            if is_ready:
                break
            connection.pgconn.finish()
            pool.putconn(connection)  # which makes a new one
        try:
            yield connection
        finally:
            self._used_at[connection] = time.monotonic()
            pool.putconn(connection)


class Borrowed:
    """What `store.connection()` returns: `with` gives a blocking connection, `async with` an async
    one. Both commit at the end of the block and roll back if it raises."""

    def __init__(self, connections: HandlerConnections) -> None:
        self._connections = connections
        self._guard: Blocking | None = None
        self._blocking: AbstractContextManager[Any] | None = None
        self._awaited: AbstractAsyncContextManager[Any] | None = None

    def __enter__(self) -> psycopg.Connection[Any]:
        self._blocking = self._block()
        connection: psycopg.Connection[Any] = self._blocking.__enter__()
        return connection

    def __exit__(self, *error: Any) -> bool | None:
        assert self._blocking is not None
        return self._blocking.__exit__(*error)

    async def __aenter__(self) -> psycopg.AsyncConnection[Any]:
        self._awaited = self._await()
        connection: psycopg.AsyncConnection[Any] = await self._awaited.__aenter__()
        return connection

    async def __aexit__(self, *error: Any) -> bool | None:
        assert self._awaited is not None
        return await self._awaited.__aexit__(*error)

    def interrupt(self) -> None:
        """From any thread: end the statement under way; an async one ends by cancellation."""
        if self._guard is not None:
            self._guard.interrupt()

    @contextmanager
    def _block(self) -> Iterator[psycopg.Connection[Any]]:
        with self._connections.lend() as guard:
            self._guard = guard
            try:
                with guard.ours():
                    try:
                        with guard.theirs():
                            yield guard.connection
                    except BaseException:
                        with suppress(psycopg.Error):
                            guard.connection.rollback()
                        raise
                    guard.connection.commit()
            finally:
                self._guard = None

    @asynccontextmanager
    async def _await(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        async with self._connections.alend() as guard:
            with guard.ours():
                try:
                    with guard.theirs():
                        yield guard.connection
                except BaseException:
                    with suppress(psycopg.Error):
                        await guard.connection.rollback()
                    raise
                await guard.connection.commit()


def _take(pool: GivenPool, end: float) -> psycopg.Connection[Any]:
    import psycopg_pool

    while True:
        left = end - time.monotonic()
        try:
            connection: psycopg.Connection[Any] = pool.getconn(
                timeout=min(_ASK_AGAIN, max(left, 0.001))
            )
            return connection
        except psycopg_pool.PoolTimeout as error:
            if left <= _ASK_AGAIN:
                raise StoreUnavailableError(
                    f"no connection came free within {pool.timeout:g} s; at most {pool.max_size}"
                    " are shared by all handlers (max_pool_size)"
                ) from error
        except (psycopg_pool.PoolClosed, psycopg_pool.TooManyRequests) as error:
            raise StoreUnavailableError(f"the pool gives no connection: {error}") from error


def _conninfo_of(pool: Any) -> str:
    if callable(pool.conninfo) or callable(pool.kwargs):
        raise ConfigError("pool= needs a pool whose address is a text, not a function")
    libpq = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    known = {key: value for key, value in (pool.kwargs or {}).items() if key in libpq}
    return conninfo.make_conninfo(pool.conninfo, **known)
