"""Connections that are lent to handlers, and kept for the next one.

Blocking connections and async ones share one limit, since it is the server's connections that are
counted. An async one belongs to the event loop that made it. The borrower connects, in its own
thread or task: it gets the error at once, and the pool never connects by itself.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import pq
from psycopg.rows import tuple_row

from windlass.errors import StoreClosedError, StoreUnavailableError
from windlass.stores.postgres_connections import loop_calls
from windlass.stores.postgres_connections.address import ServerAddress
from windlass.stores.postgres_connections.connection import (
    PROBE_LIMIT,
    AnyConnection,
    answers,
    has_lain,
    is_stale,
)
from windlass.stores.postgres_connections.failures import one_line

WAIT_LIMIT = 30.0
"""Seconds a handler waits for a connection: for its turn, and for a server that refuses."""

MAX_IDLE = 60.0
"""Seconds after which an idle connection is closed."""

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0


@dataclass(slots=True, eq=False)
class _Idle:
    connection: AnyConnection
    loop: asyncio.AbstractEventLoop | None
    since: float = field(default_factory=time.monotonic)

    def close(self) -> None:
        self.connection.pgconn.finish()


class Pool:
    """Lends at most `size` connections at once, first come, first served."""

    def __init__(self, address: ServerAddress, size: int) -> None:
        self._address = address
        self._size = size
        self._lock = threading.Lock()
        self._free = size
        self._waiting: deque[Future[None]] = deque()
        self._idle: deque[_Idle] = deque()
        self._closed = threading.Event()
        self._timer: threading.Timer | None = None

    def take(self) -> psycopg.Connection[Any]:
        end = time.monotonic() + WAIT_LIMIT
        turn = self._ask_for_turn()
        try:
            turn.result(WAIT_LIMIT)
        except TimeoutError:
            if turn.cancel():
                raise self._none_came_free() from None
        try:
            return self._kept() or self._connected(end)
        except BaseException:
            self._end_turn()
            raise

    async def atake(self) -> psycopg.AsyncConnection[Any]:
        end = time.monotonic() + WAIT_LIMIT
        turn = self._ask_for_turn()
        try:
            async with asyncio.timeout(WAIT_LIMIT):
                await asyncio.wrap_future(turn)
        except BaseException as error:
            if not turn.cancel() and not turn.exception():
                self._end_turn()
            if isinstance(error, TimeoutError):
                raise self._none_came_free() from None
            raise
        try:
            return await self._akept() or await self._aconnected(end)
        except BaseException:
            self._end_turn()
            raise

    def give(
        self, connection: AnyConnection, loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        """Take it back; it is closed if its borrower left it in the middle of something."""
        if _is_as_new(connection):
            with self._lock:
                self._idle.append(_Idle(connection, loop))
                self._start_timer()
            if self._closed.is_set():
                self._drop_idle()
        else:
            connection.pgconn.finish()
        self._end_turn()

    def close(self) -> None:
        """Close what is idle, and what is given back from now on."""
        with self._lock:
            self._closed.set()
            waiting, self._waiting = self._waiting, deque()
            if self._timer is not None:
                self._timer.cancel()
        for turn in waiting:
            if turn.set_running_or_notify_cancel():
                turn.set_exception(StoreClosedError("this store was closed"))
        self._drop_idle()

    # ── turns ──

    def _ask_for_turn(self) -> Future[None]:
        """It is done when the caller may have a connection."""
        turn: Future[None] = Future()
        with self._lock:
            if self._closed.is_set():
                raise StoreClosedError("this store was closed")
            if self._free:
                self._free -= 1
                turn.set_running_or_notify_cancel()
                turn.set_result(None)
            else:
                self._waiting.append(turn)
        return turn

    def _end_turn(self) -> None:
        with self._lock:
            while self._waiting:
                turn = self._waiting.popleft()
                if turn.set_running_or_notify_cancel():
                    turn.set_result(None)
                    return
            self._free += 1

    def _none_came_free(self) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"no connection came free within {WAIT_LIMIT:g} s; at most {self._size}"
            " are shared by all handlers (max_pool_size)"
        )

    # ── connections that were given back ──

    def _kept(self) -> psycopg.Connection[Any] | None:
        for found in self._unstale(None):
            connection = found.connection
            assert isinstance(connection, psycopg.Connection)
            if not has_lain(found.since) or answers(connection, PROBE_LIMIT):
                return connection
            found.close()
            self._drop_idle()
        return None

    async def _akept(self) -> psycopg.AsyncConnection[Any] | None:
        for found in self._unstale(asyncio.get_running_loop()):
            connection = found.connection
            assert isinstance(connection, psycopg.AsyncConnection)
            if not has_lain(found.since) or await loop_calls.answers(connection, PROBE_LIMIT):
                return connection
            self._drop_idle()
        return None

    def _unstale(self, loop: asyncio.AbstractEventLoop | None) -> Iterator[_Idle]:
        """Those of this loop, last used first, that the server has not visibly hung up on."""
        while (found := self._pop(loop)) is not None:
            if is_stale(found.connection):
                found.close()
            else:
                yield found

    def _pop(self, loop: asyncio.AbstractEventLoop | None) -> _Idle | None:
        with self._lock:
            for found in reversed(self._idle):
                if found.loop is loop:
                    self._idle.remove(found)
                    return found
            # A new one will be made, for which one of another kind may have to go.
            lent = self._size - self._free
            other = self._idle.popleft() if len(self._idle) + lent > self._size else None
        if other is not None:
            other.close()
        return None

    def _drop_idle(self, before: float | None = None) -> None:
        """Close what is idle (since `before`): where one went silent, the others did too."""
        with self._lock:
            old = [it for it in self._idle if before is None or it.since <= before]
            for idle in old:
                self._idle.remove(idle)
        for idle in old:
            idle.close()

    def _start_timer(self) -> None:
        if self._timer is None and not self._closed.is_set():
            self._timer = threading.Timer(MAX_IDLE, self._prune)
            self._timer.daemon = True
            self._timer.start()

    def _prune(self) -> None:
        self._drop_idle(time.monotonic() - MAX_IDLE)
        with self._lock:
            self._timer = None
            if self._idle:
                self._start_timer()

    # ── new ones ──

    def _connected(self, end: float) -> psycopg.Connection[Any]:
        for pause in self._pauses(end):
            try:
                return psycopg.Connection.connect(
                    self._address.conninfo, prepare_threshold=self._address.prepare_threshold
                )
            except psycopg.OperationalError as error:
                if pause is None or self._closed.wait(pause):
                    raise self._cannot_connect(error) from error
        raise AssertionError

    async def _aconnected(self, end: float) -> psycopg.AsyncConnection[Any]:
        for pause in self._pauses(end):
            try:
                return await psycopg.AsyncConnection.connect(
                    self._address.conninfo, prepare_threshold=self._address.prepare_threshold
                )
            except psycopg.OperationalError as error:
                if pause is None or self._closed.is_set():
                    raise self._cannot_connect(error) from error
                await asyncio.sleep(pause)
        raise AssertionError

    def _pauses(self, end: float) -> Iterator[float | None]:
        """Seconds to wait after each try that fails; None after the last one. A server that is
        being restarted is no reason to fail a job."""
        pause = _FIRST_PAUSE
        while time.monotonic() + pause < end:
            yield pause
            pause = min(2 * pause, _LONGEST_PAUSE)
        yield None

    def _cannot_connect(self, error: psycopg.Error) -> StoreUnavailableError:
        return StoreUnavailableError(f"cannot connect to {self._address.name}: {one_line(error)}")


def _is_as_new(connection: AnyConnection) -> bool:
    """Whether the next borrower can have it: nothing runs on it, and it is set as at first."""
    return (
        connection.pgconn.transaction_status == pq.TransactionStatus.IDLE
        and connection.row_factory is tuple_row
        and not connection.autocommit
        and (connection.isolation_level, connection.read_only, connection.deferrable)
        == (None, None, None)
    )
