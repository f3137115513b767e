"""A handler's own writes and its settlement, in one transaction."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import psycopg
from psycopg import errors, pq
from psycopg.rows import tuple_row

from windlass.errors import (
    LeaseLostError,
    OutcomeUnknownError,
    StoreBusyError,
    StoreError,
    ValidationError,
)
from windlass.store.fetched import fetched
from windlass.store.records import Outcome, Settled, Verdict
from windlass.stores.postgres_connections.address import ServerAddress
from windlass.stores.postgres_connections.call_threads import fetch_row, fetch_rows, read_committed
from windlass.stores.postgres_connections.failures import is_lost, translate
from windlass.stores.postgres_connections.guard import Guard

_BUSY_LIMIT = 30.0
_BUSY_PAUSE = 0.05
_ASK_LIMIT = 60.0
_ASK_PAUSE = 0.5
_ANSWER_LIMIT = 5.0


class Ending(Protocol):
    """How a delivery is ended in its own transaction."""

    job_id: int

    def settle(self, cursor: psycopg.Cursor[Any], outcome: Outcome) -> tuple[Settled, str]:
        """What became of it, and what the server calls this transaction."""

    def is_running(self, connection: psycopg.Connection[Any]) -> bool:
        """Whether this delivery still holds its job."""


class PostgresTransaction:
    """What `store.transaction(lease)` yields."""

    def __init__(self, guard: Guard[psycopg.Connection[Any]], where: str, ending: Ending) -> None:
        self._guard = guard
        self._connection = guard.connection
        self._where = where
        self._ending = ending
        self.lost = False
        self.number: str | None = None
        """What the server calls this transaction, once it has settled the job."""

    @property
    def connection(self) -> psycopg.Connection[Any]:
        return self._connection

    def execute(self, sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[Any]:
        """Run the user's own statement; the rows it returns. Raises what psycopg raises."""
        return fetched(self._connection.execute(sql.encode(), values or None))

    def interrupt(self) -> None:
        self._guard.interrupt()

    def complete(self, outcome: Outcome) -> None:
        job_id = self._ending.job_id
        settled = self._settle(outcome)
        end = time.monotonic() + _BUSY_LIMIT
        while settled.verdict is Verdict.BUSY:
            if time.monotonic() > end:
                raise StoreBusyError(f"an open transaction holds job {job_id}; nothing was written")
            time.sleep(_BUSY_PAUSE)
            settled = self._settle(outcome)
        if settled.verdict is Verdict.APPLIED:
            return
        self.lost = True
        if settled.reason is not None:
            raise ValidationError(settled.reason, field="blockers")
        raise LeaseLostError(
            f"job {job_id} is no longer held by this delivery"
            f" ({settled.verdict}); its transaction is rolled back"
        )

    def _settle(self, outcome: Outcome) -> Settled:
        try:
            # A plain cursor, since those of a caller's own pool may have another syntax.
            with (
                self._guard.ours(),
                psycopg.Cursor(self._connection, row_factory=tuple_row) as cursor,
            ):
                settled, self.number = self._ending.settle(cursor, outcome)
        except psycopg.Error as error:
            raise translate(error, self._where) from error
        return settled


@contextmanager
def open_transaction(
    lent: AbstractContextManager[Guard[psycopg.Connection[Any]]],
    address: ServerAddress,
    ending: Ending,
) -> Iterator[PostgresTransaction]:
    """Commit at the end of the block, roll back if it raises or the lease was lost.

    It is READ COMMITTED whatever the database's default is: under any other the job could not be
    settled once a heartbeat has been written.

    A commit of the handler's own on the connection is refused inside, and its own
    `connection.transaction()` blocks are savepoints.
    """
    with lent as guard:
        connection = guard.connection
        transaction = PostgresTransaction(guard, address.name, ending)
        is_at_the_end = False
        try:
            with guard.ours(), read_committed(connection), connection.transaction():
                with guard.theirs():
                    yield transaction
                is_at_the_end = True
                if transaction.lost:
                    raise psycopg.Rollback
                if connection.pgconn.transaction_status == pq.TransactionStatus.INERROR:
                    # COMMIT would roll back, and not even call it an error.
                    raise StoreError(
                        "a statement in this transaction failed, so nothing of it was written;"
                        " put a statement that may fail into `with tx.connection.transaction():`"
                    )
        except psycopg.Error as error:
            if not is_at_the_end:
                raise  # by a statement of the handler's own
            if transaction.number is None or not (is_lost(error) or connection.closed):
                raise translate(error, address.name) from error
            if not _has_committed(address, ending, transaction.number):
                raise StoreError(
                    "the connection was lost and the transaction rolled back"
                ) from error


def _has_committed(address: ServerAddress, ending: Ending, number: str) -> bool:
    """Ask what became of a transaction whose COMMIT was never answered.

    If the COMMIT never arrived, the server keeps the transaction open, and the job locked, until it
    notices that its client is gone, which may take hours: so it is told to end that session.
    """
    end = time.monotonic() + _ASK_LIMIT
    while True:
        status: str | None = None
        try:
            with address.connect(limit=_ANSWER_LIMIT) as connection:
                status = _status(connection, ending, number)
        except (psycopg.Error, StoreError):
            pass  # still away
        if status in ("committed", "aborted"):
            return status == "committed"
        if time.monotonic() > end:
            raise OutcomeUnknownError(
                "the connection was lost during COMMIT, and the database does not say whether it"
                " happened"
            )
        time.sleep(_ASK_PAUSE)


def _status(connection: psycopg.Connection[Any], ending: Ending, number: str) -> str | None:
    """What the server says of a transaction by that number that would have ended this delivery."""
    try:
        [status] = fetch_row(
            connection, "SELECT pg_catalog.pg_xact_status(%s::text::xid8)", [number]
        )
    except errors.InvalidParameterValue:
        return "aborted"  # a promoted standby, which has not come to that number yet
    if status != "committed":
        if status == "in progress":
            fetch_rows(
                connection,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE backend_xid = %s::text::xid8::xid",
                [number],
            )
        return str(status) if status else None
    # A promoted standby may have given the number to another transaction.
    return "aborted" if ending.is_running(connection) else "committed"
