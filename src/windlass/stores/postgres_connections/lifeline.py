"""A worker's liveness, on a connection of its own, used from the keeper's thread."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future

import psycopg
from psycopg import errors

from windlass.errors import StoreClosedError, StoreError, StoreUnavailableError
from windlass.store.records import LostReason, Renewal
from windlass.stores.postgres_connections.address import ServerAddress
from windlass.stores.postgres_connections.call_threads import Statement, Values, fetch_rows
from windlass.stores.postgres_connections.connection import (
    PROBE_LIMIT,
    BoundedConnection,
    answers,
    has_lain,
    is_stale,
)
from windlass.stores.postgres_connections.failures import one_line, translate

_REFUSALS = (
    errors.InsufficientPrivilege,
    errors.UndefinedFunction,
    errors.UndefinedTable,
    errors.InvalidSchemaName,
)

_MOST = 10.0
"""Seconds a call may take at most, however long the lease is."""


class BoundedLifeline:
    """Every call ends within a third of the lease, and one begun while the lease holds ends before
    it does, whatever the network does: so the keeper can stop its handlers in time.

    Connecting may block for longer (libpq knows no limit below 2 s, and none for DNS), so it is
    done in a thread of its own; the next call goes on waiting for the same attempt.
    """

    def __init__(self, address: ServerAddress) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._connection: BoundedConnection | None = None
        self._attempt: Future[BoundedConnection] | None = None
        self._lease = 3 * _MOST
        self._held_until = 0.0
        """When the lease ends, less half of the keeper's margin, on the monotonic clock."""
        self._used_at = 0.0
        self.is_closed = False

    def _ask_to_renew(self, lease: float, statement: Statement, values: Values) -> Renewal:
        self._lease = lease
        began = time.monotonic()
        renewal = self._ask(statement, values)
        self._held_until = began + lease - min(lease / 5, 5.0) / 2
        return renewal

    def _ask(self, statement: Statement, values: Values) -> Renewal:
        """The answers are rows of (id, answer), for leases that were not simply renewed."""
        with self._lock:
            try:
                rows = fetch_rows(self._connected(), statement, values)
            except _REFUSALS as error:  # nothing that waiting would mend
                raise StoreError(str(translate(error, self._address.name))) from error
            except psycopg.Error as error:
                self._drop()
                raise StoreUnavailableError(
                    f"{self._address.name} does not renew leases: {one_line(error)}"
                ) from error
        answers = dict(rows)
        lost = {
            job_id: LostReason(answer)
            for job_id, answer in answers.items()
            if answer not in ("cancel", "locked")
        }
        return Renewal(
            lost=lost,
            cancel=frozenset(job_id for job_id, answer in rows if answer == "cancel"),
            locked=frozenset(job_id for job_id, answer in rows if answer == "locked"),
        )

    def _connected(self) -> BoundedConnection:
        if self.is_closed:
            raise StoreClosedError("this store was closed")
        limit = self._limit()
        end = time.monotonic() + limit
        connection = self._connection
        if connection is None or is_stale(connection) or self._went_silent(connection, limit):
            self._drop()
            connection = self._connection = self._connect(max(0.0, end - time.monotonic()))
        connection.limit = max(0.0, end - time.monotonic())
        return connection

    def _went_silent(self, connection: BoundedConnection, limit: float) -> bool:
        """What is left of the time must do for another connection."""
        used_at, self._used_at = self._used_at, time.monotonic()
        return has_lain(used_at) and not answers(connection, min(PROBE_LIMIT, limit / 3))

    def _limit(self) -> float:
        """Seconds this call may take; the end of the lease counts while it is still to come."""
        usual = min(_MOST, self._lease / 3)
        left = self._held_until - time.monotonic()
        return min(usual, left) if left > 0 else usual / 2

    def _connect(self, limit: float) -> BoundedConnection:
        attempt = self._attempt
        if attempt is None:
            attempt = self._attempt = Future()
            threading.Thread(
                target=_try,
                args=(self._address, max(2, int(limit)), attempt),
                name="windlass-connect",
                daemon=True,
            ).start()
        try:
            connection = attempt.result(limit)
        except TimeoutError:
            raise StoreUnavailableError(
                f"cannot connect to {self._address.name} within {limit:.1f} s"
            ) from None
        except BaseException:
            self._attempt = None
            raise
        self._attempt = None
        return connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def close(self) -> None:
        with self._lock:
            self.is_closed = True
            self._drop()
            if self._attempt is not None:
                self._attempt.add_done_callback(_discard)


def _try(address: ServerAddress, limit: int, attempt: Future[BoundedConnection]) -> None:
    try:
        attempt.set_result(address.connect(connect_limit=limit))
    except BaseException as error:  # the thread that waits for the attempt raises it
        attempt.set_exception(error)


def _discard(attempt: Future[BoundedConnection]) -> None:
    """Close a connection that was made after the lifeline was closed."""
    if attempt.exception() is None:
        attempt.result().close()
