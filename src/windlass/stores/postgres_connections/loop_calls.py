"""Statements that event loops ask themselves: no thread has a part in a call.

Going to a thread and back takes as long as the server needs to write a job. So the loop sends the
statement through libpq and reads the answer when there is one. Connections belong to no loop; a
call has one for itself, and the next call may be another loop's.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import psycopg
from psycopg import pq
from psycopg.errors import error_from_result

from windlass.errors import StoreClosedError
from windlass.stores.postgres_connections.address import ServerAddress
from windlass.stores.postgres_connections.connection import (
    CALL_LIMIT,
    PROBE_LIMIT,
    AnyConnection,
    BoundedConnection,
    has_lain,
    is_stale,
)
from windlass.stores.postgres_connections.failures import (
    MOST_TRIES,
    ROLLED_BACK,
    pause_before,
    translate,
)
from windlass.stores.postgres_connections.stock import Stock

Text = str | None
_FAILED = (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE)


class LoopCalls:
    """Makes calls with connections of its own. Those it needs come from `stock`, taken in a thread
    (by `start`), since connecting may take a while.

    A call that the server rolled back is made again; one whose connection was lost is not.
    """

    def __init__(
        self,
        address: ServerAddress,
        stock: Stock,
        start: Callable[[Callable[[], None]], Future[None]],
    ) -> None:
        self._address = address
        self._stock = stock
        self._start = start
        self._idle: deque[_Link] = deque()
        self._busy = 0
        self._is_closed = False
        """No call begins any more."""
        self._is_empty = False
        """No link is kept any more."""
        self._changed = threading.Condition()
        self.calls = 0
        """How many were made, for tests that count them."""

    async def row(self, statement: str, values: Sequence[Text]) -> list[Text]:
        """The one row that a statement with $1, $2, … answers with, as texts."""
        tries = 0
        while True:
            tries += 1
            try:
                return await self._ask(statement, values)
            except ROLLED_BACK as error:
                if tries == MOST_TRIES:
                    raise translate(error, self._address.name) from error
                await asyncio.sleep(pause_before(tries))
            except psycopg.Error as error:
                raise translate(error, self._address.name) from error

    async def _ask(self, statement: str, values: Sequence[Text]) -> list[Text]:
        with self._changed:
            if self._is_closed:
                raise StoreClosedError("this store was closed")
            self._busy += 1
        try:
            link = await self._take()
            try:
                self.calls += 1
                return await link.row(statement, values)
            finally:
                link.used_at = time.monotonic()
                self._keep(link)
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify_all()

    async def _take(self) -> _Link:
        while True:
            try:
                link = self._idle.pop()
            except IndexError:
                await asyncio.wrap_future(self._start(self._connect))
                continue
            if is_stale(link.connection):
                link.connection.close()
            elif has_lain(link.used_at) and not await answers(link.connection, PROBE_LIMIT):
                self._drop_idle()
                self._stock.drop_idle()
            else:
                return link

    def _connect(self) -> None:
        """In a thread. Its caller may be cancelled meanwhile, so it goes to the idle ones."""
        self._keep(_Link(self._stock.take(), self._address.prepare_threshold is not None))

    def _keep(self, link: _Link) -> None:
        self._idle.append(link)
        if self._is_empty:
            self._drop_idle()

    def close(self) -> None:
        """Calls that are under way are answered first; they have their time limit. A connection
        that is made for a cancelled call, or answers too late, is closed when it is there."""
        end = time.monotonic() + CALL_LIMIT
        with self._changed:
            self._is_closed = True
            while self._busy and (left := end - time.monotonic()) > 0:
                self._changed.wait(left)
        self._is_empty = True
        self._drop_idle()

    def _drop_idle(self) -> None:
        """Where one connection went silent, the others did too."""
        while self._idle:
            with contextlib.suppress(IndexError):
                self._idle.pop().connection.close()


class _Link:
    """One connection; after `row` was cancelled or failed it may be closed.

    A statement is prepared when it is asked for the second time.
    """

    def __init__(self, connection: BoundedConnection, prepares: bool) -> None:
        self.connection = connection
        self._pgconn = connection.pgconn
        self._encoding = connection.info.encoding
        self._prepares = prepares
        self._seen: set[str] = set()
        self._prepared: dict[str, bytes] = {}
        self.used_at = time.monotonic()

    async def row(self, statement: str, values: Sequence[Text]) -> list[Text]:
        sent = [None if value is None else value.encode(self._encoding) for value in values]
        name = self._prepared.get(statement)
        if name is None and statement in self._seen and self._prepares:
            name = f"windlass_{len(self._prepared)}".encode()
            self._pgconn.send_prepare(name, statement.encode(self._encoding))
            await self._answer()
            self._prepared[statement] = name
        if name is None:
            self._seen.add(statement)
            self._pgconn.send_query_params(statement.encode(self._encoding), sent)
        else:
            self._pgconn.send_query_prepared(name, sent)
        result = await self._answer()
        found = [result.get_value(0, column) for column in range(result.nfields)]
        return [None if value is None else value.decode(self._encoding) for value in found]

    async def _answer(self) -> pq.abc.PGresult:
        result = await _answer(self.connection, CALL_LIMIT)
        if result.status in _FAILED:
            raise error_from_result(result, self._encoding)
        return result


async def answers(connection: AnyConnection, limit: float) -> bool:
    """Whether the server answers an empty query within `limit` seconds; else it is closed."""
    try:
        connection.pgconn.send_query(b"")
        await _answer(connection, limit)
    except psycopg.Error:
        return False
    return connection.pgconn.transaction_status == pq.TransactionStatus.IDLE


async def _answer(connection: AnyConnection, limit: float) -> pq.abc.PGresult:
    """The answer to what was sent; if this ends otherwise, the connection is closed."""
    loop = asyncio.get_running_loop()
    try:
        waiting = _Waiting(loop, connection.pgconn)
        timer = loop.call_later(limit, waiting.give_up, limit)
        try:
            await waiting.done
        finally:
            timer.cancel()
            waiting.end()
    except BaseException:
        # The rest of the answer is never read, so the connection is of no further use.
        connection.pgconn.finish()
        raise
    result = waiting.result
    assert result is not None
    return result


class _Waiting:
    """Sends what libpq has to send and reads what comes, until the server is ready again."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pgconn: Any) -> None:
        self.done: asyncio.Future[None] = loop.create_future()
        self.result: pq.abc.PGresult | None = None
        self._loop = loop
        self._pgconn = pgconn
        self._socket: int = pgconn.socket
        self._is_sending = pgconn.flush() != 0
        if self._is_sending:
            loop.add_writer(self._socket, self._go_on)
        loop.add_reader(self._socket, self._go_on)

    def _go_on(self) -> None:
        if self.done.done():
            return
        try:
            self._pgconn.consume_input()
            if self._is_sending and self._pgconn.flush() == 0:
                self._is_sending = False
                self._loop.remove_writer(self._socket)
            while not self._pgconn.is_busy():
                result = self._pgconn.get_result()
                if result is None:
                    self.done.set_result(None)
                    return
                self.result = result
        except psycopg.Error as error:
            self.done.set_exception(error)

    def give_up(self, limit: float) -> None:
        if not self.done.done():
            self.done.set_exception(
                psycopg.OperationalError(f"the server did not answer within {limit:g} s")
            )

    def end(self) -> None:
        if not self._loop.is_closed():
            self._loop.remove_reader(self._socket)
            if self._is_sending:
                self._loop.remove_writer(self._socket)
