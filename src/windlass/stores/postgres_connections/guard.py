"""Limits for a connection that the store does not make for itself: a handler's, or the caller's.

A handler's own statement may take minutes, so its duration says nothing about the link. What ends
it is the kernel, which gives up a silent peer (see `SILENCE`), and the end of the handler: a
statement under way when its handler is told to stop is cancelled on the server, and if the server
does not answer to that, the connection is closed under it. What the store itself says on such a
connection (BEGIN, the settlement, COMMIT) has a limit like every call of the store.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Generic, TypeVar

import psycopg
from psycopg import errors, pq

from windlass.stores.postgres_connections.connection import CALL_LIMIT, AnyConnection

T = TypeVar("T")
C = TypeVar("C", bound=AnyConnection)

STOP_LIMIT = 5.0
"""Seconds a statement still has when its handler was told to stop."""


class Guard(Generic[C]):
    """Watches what one connection waits for, as long as `guarded` has it.

    `limit` is what the next call may take, in seconds; None for a statement of the user's own.
    """

    def __init__(self, connection: C, limit: float | None) -> None:
        self.connection = connection
        self.limit = limit
        self._interrupted_at: float | None = None
        self._is_over = False
        self._lock = threading.Lock()
        self._wait: Any = connection.wait

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **options: Any) -> Any:
        """In the place of the connection's own method; with an async one it is to be awaited."""
        return self._wait(self._watched(gen), *args, **options)

    def _watched(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        began = time.monotonic()
        limit = self.limit
        is_cancelled = False
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready is None:
                    # The driver begins to wait anew: the caller was cancelled, and the server has
                    # been asked to end the statement.
                    is_cancelled = True
                    began, limit = time.monotonic(), STOP_LIMIT
                if not ready:
                    self._check(began, limit, is_cancelled)
                wanted = gen.send(ready)
        except StopIteration as end:
            result: T = end.value
            return result

    def _check(self, began: float, limit: float | None, is_cancelled: bool) -> None:
        """Close the connection if the answer is overdue. Called ten times a second."""
        now = time.monotonic()
        stopped_at = self._interrupted_at
        if stopped_at is not None and now > max(began, stopped_at) + STOP_LIMIT:
            limit = STOP_LIMIT
        elif limit is None or now <= began + limit:
            return
        self.connection.pgconn.finish()
        text = f"the server did not answer within {limit:g} s"
        # The driver expects just this error after a cancellation, and goes on being cancelled.
        raise errors.QueryCanceled(text) if is_cancelled else psycopg.OperationalError(text)

    def interrupt(self) -> None:
        """From any thread: end the statement under way, without waiting for it.

        Each later one has little time, too, since its handler should be gone.
        """
        with self._lock:
            if self._is_over or self._interrupted_at is not None:
                return
            self._interrupted_at = time.monotonic()
        if self.connection.pgconn.transaction_status == pq.TransactionStatus.ACTIVE:
            threading.Thread(target=self._cancel, name="windlass-interrupt", daemon=True).start()

    def end(self) -> None:
        """A connection that was interrupted is closed: the server may yet cancel what comes next
        on it, which would be another handler's."""
        with self._lock:
            self._is_over = True
        if self._interrupted_at is not None:
            self.connection.pgconn.finish()

    def _cancel(self) -> None:
        connection = self.connection
        if isinstance(connection, psycopg.Connection):
            with suppress(psycopg.Error):  # it may have ended meanwhile
                connection.cancel_safe(timeout=STOP_LIMIT)

    @contextmanager
    def ours(self) -> Iterator[None]:
        """Calls inside are the store's own."""
        before, self.limit = self.limit, CALL_LIMIT
        try:
            yield
        finally:
            self.limit = before

    @contextmanager
    def theirs(self) -> Iterator[None]:
        """Calls inside are the handler's own, which may take as long as they need. After an error
        only a rollback can follow, which the end of the connection is as well: it has little time.
        """
        before, self.limit = self.limit, None
        try:
            yield
        except BaseException:
            before = STOP_LIMIT
            raise
        finally:
            self.limit = before


@contextmanager
def guarded(connection: C, limit: float | None = None) -> Iterator[Guard[C]]:
    """Put a guard on a connection for the time of the block."""
    guard = Guard(connection, limit)
    connection.wait = guard.wait  # type: ignore[method-assign]
    try:
        yield guard
    finally:
        guard.end()
        del connection.wait
