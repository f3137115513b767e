"""The connections handlers use. They are apart from the store's own, which handlers thus cannot
exhaust; a pool of the caller's own takes the place of both.

Most programs need none, so the pool, its threads and its library wait for the first who does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import conninfo, pq
from psycopg.rows import tuple_row

from windlass.errors import ConfigError, StoreClosedError, StoreUnavailableError
from windlass.stores.postgres.connection import Address, is_stale

WAIT_LIMIT = 30.0
"""Seconds a handler waits for a free connection."""

_ASK_AGAIN = 5.0
"""Seconds after which it asks again: the pool gives up connecting after a while of failures, and
only a new request makes it try once more."""

if TYPE_CHECKING:
    import psycopg_pool

    Pool = psycopg_pool.ConnectionPool[Any]


class HandlerConnections:
    """Plain psycopg connections that commit at the end of a block and roll back if it raises."""

    def __init__(self, url: str, pool: Any, size: int, session: bool) -> None:
        self._own: Pool | None = None
        self._given: Pool | None = None
        self._size = size
        self._is_open = False
        self._lock = threading.Lock()
        if pool is None:
            self.address = Address(url, session=session)
            return
        import psycopg_pool

        if isinstance(pool, psycopg_pool.ConnectionPool | psycopg_pool.AsyncConnectionPool):
            # An async pool belongs to its loop; connections like its own serve every thread.
            given = _conninfo_of(pool)
            self.address = Address(given, session=session)
            if isinstance(pool, psycopg_pool.ConnectionPool):
                self._given = pool
        else:
            raise ConfigError(
                "pool= takes a psycopg_pool.ConnectionPool or AsyncConnectionPool,"
                f" not {type(pool).__name__}"
            )

    def open(self) -> None:
        self._is_open = True

    def close(self) -> None:
        with self._lock:
            self._is_open = False
            own, self._own = self._own, None
        if own is not None:
            own.close()

    def _pool(self) -> Pool:
        if self._given is not None:
            return self._given
        with self._lock:
            if not self._is_open:
                raise StoreClosedError("this store was closed")
            if self._own is None:
                self._own = self._make_pool()
            return self._own

    def _make_pool(self) -> Pool:
        import psycopg_pool

        return psycopg_pool.ConnectionPool(
            self.address.conninfo,
            min_size=0,
            max_size=self._size,
            open=True,
            timeout=WAIT_LIMIT,
            reconnect_timeout=1.0,
            max_idle=60.0,
            check=_check,
            kwargs={"prepare_threshold": self.address.prepare_threshold},
            name="windlass-handlers",
        )

    @property
    def borrow_for_store(self) -> Callable[[], AbstractContextManager[Any]] | None:
        """How the store gets its connections, where the caller gave a pool."""
        return None if self._given is None else self._borrow_for_store

    @contextmanager
    def borrow(self) -> Iterator[psycopg.Connection[Any]]:
        with self._taken() as connection:
            with connection:  # commits, or rolls back
                yield connection

    @contextmanager
    def _borrow_for_store(self) -> Iterator[psycopg.Connection[Any]]:
        """One of the caller's, made like the store's own for as long as the store has it."""
        with self._taken() as connection:
            theirs = connection.autocommit, connection.row_factory, connection.cursor_factory
            connection.autocommit = True
            connection.row_factory, connection.cursor_factory = tuple_row, psycopg.Cursor
            try:
                yield connection
            finally:
                if not connection.closed:
                    autocommit, connection.row_factory, connection.cursor_factory = theirs
                    connection.autocommit = autocommit

    @contextmanager
    def _taken(self) -> Iterator[psycopg.Connection[Any]]:
        pool = self._pool()
        connection = _take(pool)
        try:
            yield connection
        finally:
            pool.putconn(connection)


def _take(pool: Pool) -> psycopg.Connection[Any]:
    import psycopg_pool

    end = time.monotonic() + pool.timeout
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


def _check(connection: psycopg.Connection[Any]) -> None:
    if is_stale(connection):
        connection.close()
        raise psycopg.OperationalError("the server hung up")


def _conninfo_of(pool: Any) -> str:
    if callable(pool.conninfo) or callable(pool.kwargs):
        raise ConfigError("pool= needs a pool whose address is a text, not a function")
    libpq = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    known = {key: value for key, value in (pool.kwargs or {}).items() if key in libpq}
    return conninfo.make_conninfo(pool.conninfo, **known)
