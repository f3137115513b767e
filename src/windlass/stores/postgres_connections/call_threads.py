"""The threads that make the store's calls, each call with a connection for itself.

psycopg is used in its blocking form: a call waits outside the interpreter's lock, one store serves
any number of event loops, and the keeper's thread and handlers' threads use the same code.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg import pq, sql
from psycopg.rows import tuple_row

from windlass.errors import StoreClosedError
from windlass.stores.postgres_connections.address import ServerAddress
from windlass.stores.postgres_connections.failures import (
    MOST_TRIES,
    ROLLED_BACK,
    pause_before,
    translate,
)
from windlass.stores.postgres_connections.stock import Stock

T = TypeVar("T")
Call = Callable[[psycopg.Connection[Any]], T]
Statement = str | sql.Composed
Values = Sequence[Any] | Mapping[str, Any] | None

THREADS = 4
_NEEDS_READ_COMMITTED = "WLISO"


class CallThreads:
    """Runs calls in a few threads. A call that the server rolled back is made again here, in this
    one place; one whose connection was lost is not, because it may have been committed."""

    def __init__(
        self,
        address: ServerAddress,
        borrow: Callable[[], AbstractContextManager[psycopg.Connection[Any]]] | None = None,
        threads: int = THREADS,
        stock: Stock | None = None,
    ) -> None:
        self._address = address
        self._borrow = borrow
        self._owns_stock = stock is None
        self._stock = Stock(address) if stock is None else stock
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="windlass-postgres")
        self._closed = False
        self._begins = False
        """Whether statements need transactions of their own making: where the session is not ours,
        the server's default may be one in which jobs cannot be claimed."""
        self.statements = 0
        """How many calls were made, for tests that count them."""

    # ── from an event loop, or from a plain thread ──

    def submit(self, function: Callable[..., T], *args: Any) -> Future[T]:
        if self._closed:
            raise StoreClosedError("this store was closed")
        try:
            return self._executor.submit(function, *args)
        except RuntimeError:
            raise StoreClosedError("this store was closed") from None

    async def run(self, call: Call[T]) -> T:
        return await asyncio.wrap_future(self.submit(self.call, call))

    async def row(self, statement: Statement, values: Values = ()) -> tuple[Any, ...]:
        """The one row a statement answers with."""
        return await self.run(lambda connection: fetch_row(connection, statement, values))

    async def rows(self, statement: Statement, values: Values = None) -> list[tuple[Any, ...]]:
        return await self.run(lambda connection: fetch_rows(connection, statement, values))

    # ── in one of the threads ──

    def call(self, call: Call[T]) -> T:
        tries = 0
        while True:
            tries += 1
            try:
                with self._connection() as connection:
                    self.statements += 1
                    if not self._begins:
                        return call(connection)
                    with _each_read_committed(connection):
                        return call(connection)
            except ROLLED_BACK as error:
                if tries == MOST_TRIES:
                    raise translate(error, self._address.name) from error
                time.sleep(pause_before(tries))
            except psycopg.Error as error:
                if error.sqlstate == _NEEDS_READ_COMMITTED and not self._begins:
                    self._begins = True
                    continue
                raise translate(error, self._address.name) from error

    @contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[Any]]:
        if self._borrow is not None:
            with self._borrow() as borrowed:
                yield borrowed
            return
        connection = self._stock.take()
        try:
            yield connection
        finally:
            self._stock.give(connection)

    def close(self) -> None:
        """End the threads; calls that are under way are answered first."""
        self._closed = True
        self._executor.shutdown(wait=True)
        if self._owns_stock:
            self._stock.close()


@contextmanager
def read_committed(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Transactions begun inside are READ COMMITTED, whatever the server's default is."""
    theirs = connection.isolation_level
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    try:
        yield
    finally:
        if connection.pgconn.transaction_status == pq.TransactionStatus.IDLE:
            connection.isolation_level = theirs


@contextmanager
def _each_read_committed(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Each statement inside is a READ COMMITTED transaction, whatever the server's default is."""
    theirs = connection.cursor_factory
    connection.cursor_factory = _ReadCommittedCursor
    try:
        yield
    finally:
        connection.cursor_factory = theirs


class _ReadCommittedCursor(psycopg.ClientCursor[Any]):
    """Sends BEGIN, a statement and COMMIT as one message, for a connection in autocommit. A process
    that is stopped after sending it leaves no open transaction behind, with the latch in it."""

    def execute(self, query: Any, params: Any = None, **options: Any) -> _ReadCommittedCursor:
        text = query if isinstance(query, bytes | str) else query.as_string(self.connection)
        text = text.encode() if isinstance(text, str) else text
        try:
            super().execute(
                b"BEGIN ISOLATION LEVEL READ COMMITTED;" + text + b";COMMIT", params, **options
            )
        except psycopg.Error:
            if self.connection.pgconn.transaction_status == pq.TransactionStatus.INERROR:
                self.connection.rollback()
            raise
        self.nextset()
        return self


def fetch_row(
    connection: psycopg.Connection[Any], statement: Statement, values: Values
) -> tuple[Any, ...]:
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(_query(statement), values).fetchone()
    assert row is not None
    return row


def fetch_rows(
    connection: psycopg.Connection[Any], statement: Statement, values: Values = None
) -> list[tuple[Any, ...]]:
    with connection.cursor(row_factory=tuple_row) as cursor:
        return cursor.execute(_query(statement), values).fetchall()


def _query(statement: Statement) -> bytes | sql.Composed:
    return statement.encode() if isinstance(statement, str) else statement
