"""The connections handlers use. They are apart from the store's own, which handlers thus cannot
exhaust; a pool of the caller's own takes the place of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import psycopg
import psycopg_pool
from psycopg import conninfo

from windlass.errors import ConfigError, StoreUnavailableError
from windlass.stores.postgres.connection import Address, is_stale

WAIT_LIMIT = 30.0
"""Seconds a handler waits for a free connection."""

Pool = psycopg_pool.ConnectionPool[Any]


class HandlerConnections:
    """Plain psycopg connections that commit at the end of a block and roll back if it raises."""

    def __init__(self, url: str, pool: Any, size: int, session: bool) -> None:
        self._own: Pool | None = None
        self._given: Pool | None = None
        self._size = size
        if pool is None:
            self.address = Address(url, session=session)
        elif isinstance(pool, psycopg_pool.ConnectionPool | psycopg_pool.AsyncConnectionPool):
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
        if self._given is None and self._own is None:
            self._own = psycopg_pool.ConnectionPool(
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

    def close(self) -> None:
        own, self._own = self._own, None
        if own is not None:
            own.close()

    @property
    def borrow_for_store(self) -> Callable[[], AbstractContextManager[Any]] | None:
        """How the store gets its connections, where the caller gave a pool."""
        return None if self._given is None else self._given.connection

    @contextmanager
    def borrow(self) -> Iterator[psycopg.Connection[Any]]:
        pool = self._given or self._own
        assert pool is not None
        try:
            connection = pool.getconn()
        except psycopg_pool.PoolTimeout as error:
            raise StoreUnavailableError(
                f"no connection came free within {WAIT_LIMIT:g} s; handlers share"
                f" {pool.max_size} (max_pool_size)"
            ) from error
        try:
            with connection:  # commits, or rolls back
                yield connection
        finally:
            pool.putconn(connection)


def _check(connection: psycopg.Connection[Any]) -> None:
    if is_stale(connection):
        connection.close()
        raise psycopg.OperationalError("the server hung up")


def _conninfo_of(pool: Any) -> str:
    if callable(pool.conninfo) or callable(pool.kwargs):
        raise ConfigError("pool= needs a pool whose address is a text, not a function")
    known = {key: value for key, value in (pool.kwargs or {}).items() if key in _PARAMETERS}
    return conninfo.make_conninfo(pool.conninfo, **known)


_PARAMETERS = frozenset(
    {"host", "hostaddr", "port", "dbname", "user", "password", "options", "sslmode"}
)
