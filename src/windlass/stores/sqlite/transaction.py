"""A handler's own writes and its settlement, in one transaction on a connection of its own."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from windlass.clock import Clock
from windlass.errors import LeaseLostError, ValidationError
from windlass.store.fetched import fetched
from windlass.store.records import Lease, Outcome, Verdict
from windlass.stores.sqlite.anchor import Anchor, open_anchored
from windlass.stores.sqlite.connection import Session, Synchronous, translate
from windlass.stores.sqlite.lock_notice import LockNotice
from windlass.stores.sqlite.locking import begin
from windlass.stores.sqlite.settle import Settle


class SqliteTransaction:
    """What `store.transaction(lease)` yields."""

    def __init__(self, db: Session, lease: Lease, clock: Clock) -> None:
        self._db = db
        self._lease = lease
        self._clock = clock
        self.lost = False

    @property
    def connection(self) -> sqlite3.Connection:
        return self._db.connection

    def execute(self, sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[Any]:
        """Run the user's own statement; the rows it returns. Raises what `sqlite3` raises."""
        return fetched(self._db.connection.execute(sql, values))

    def interrupt(self) -> None:
        self._db.connection.interrupt()

    def complete(self, outcome: Outcome) -> None:
        self._db.careful = True
        answer = Settle([(self._lease, outcome)]).write(self._db, self._clock.now())[0]
        if answer.verdict is Verdict.REFUSED:
            raise ValidationError(answer.reason or "", field="blockers")
        if answer.verdict is not Verdict.APPLIED:
            self.lost = True
            raise LeaseLostError(
                f"job {self._lease.job_id} is no longer held by this delivery"
                f" ({answer.verdict}); its transaction is rolled back"
            )


@contextmanager
def open_transaction(
    path: str,
    synchronous: Synchronous,
    lease: Lease,
    clock: Clock,
    limit: float,
) -> Iterator[SqliteTransaction]:
    """Commit at the end of the block, roll back if it raises or the lease was lost."""
    connection, anchor = open_anchored(path, synchronous)
    try:
        db = Session(connection)
        # Its notice does not stay: how long a user's transaction lasts makes it a stranger's.
        with closing(LockNotice(path)) as notice:
            begin(db, clock, path, limit, notice)
        transaction = SqliteTransaction(db, lease, clock)
        yield transaction
        if transaction.lost:
            connection.execute("ROLLBACK")
        elif connection.in_transaction:
            _commit(connection, path, anchor)
    finally:
        # Closing a connection rolls back what it did not commit.
        connection.close()


@contextmanager
def open_connection(
    path: str, synchronous: Synchronous, limit: float, *, look: bool = False
) -> Iterator[sqlite3.Connection]:
    """A plain connection for a handler's statements: its first write opens a transaction."""
    connection, anchor = open_anchored(path, synchronous, look=look)
    try:
        connection.execute(f"PRAGMA busy_timeout = {round(limit * 1000)}")
        connection.isolation_level = "IMMEDIATE"
        yield connection
        if connection.in_transaction:
            _commit(connection, path, anchor)
    finally:
        # Closing a connection rolls back what it did not commit.
        connection.close()


def _commit(connection: sqlite3.Connection, path: str, anchor: Anchor) -> None:
    try:
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise translate(error, path) from error
    anchor.require()
