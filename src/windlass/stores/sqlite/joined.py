"""Adding jobs and chains inside a transaction of the caller's own `sqlite3` connection."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from windlass.clock import Clock
from windlass.errors import ConfigError, StoreUnavailableError
from windlass.model.chain import Chain
from windlass.model.job import Job
from windlass.store.records import NewChain, NewJob
from windlass.stores.sqlite.connection import Session, translate
from windlass.stores.sqlite.enqueue import Enqueue
from windlass.stores.sqlite.schema import is_migrated
from windlass.stores.sqlite.starting import StartChains

T = TypeVar("T")

_SAVEPOINT = "windlass_joined"


class SqliteJoined:
    """Adds where the caller's transaction is; commit and rollback stay with the caller.

    On a connection that opens transactions by itself (`isolation_level` is not None) one is begun
    if none is open. On an autocommit connection without a transaction each call commits itself.
    The connection's row and text factories are left alone.
    """

    def __init__(self, connection: object, path: str, clock: Clock) -> None:
        if not isinstance(connection, sqlite3.Connection):
            raise ConfigError(
                f"connection= must be an open sqlite3.Connection to {path},"
                f" not {type(connection).__name__}"
            )
        self._connection = connection
        self._path = path
        self._clock = clock
        try:
            self._check_file()
        except sqlite3.Error as error:
            raise translate(error, path) from error

    def _check_file(self) -> None:
        cursor = self._cursor()
        cursor.execute("PRAGMA database_list")
        names = {row[1]: row[2] for row in cursor.fetchall()}
        file = os.fsdecode(names.get("main") or names.get(b"main") or "")
        if not file or not Path(file).samefile(self._path):
            raise ConfigError(
                f"the connection's main database is {file or 'in memory'}, not {self._path};"
                " a job can only join a transaction on the file it is stored in"
            )
        if not is_migrated(self._connection):
            raise StoreUnavailableError(
                f"{self._path} has no Windlass tables yet; run `windlass migrate` once"
            )

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Job]:
        prepared = Enqueue(jobs)
        return self._add(prepared.write, reads_first=prepared.has_blockers).jobs()

    async def aenqueue(self, jobs: Sequence[NewJob]) -> list[Job]:
        return self.enqueue(jobs)

    def start_chains(self, chains: Sequence[NewChain]) -> list[Chain[Any]]:
        return self._add(StartChains(chains).write, reads_first=True).chains()

    async def astart_chains(self, chains: Sequence[NewChain]) -> list[Chain[Any]]:
        return self.start_chains(chains)

    def _add(self, write: Callable[[Session, int], T], *, reads_first: bool) -> T:
        """With `reads_first` the write lock is taken before anything is read. Else a transaction
        that has not written yet could find, when it does, that what it read is out of date, and
        SQLite does not let it wait for the lock then."""
        connection = self._connection
        db = Session(connection, self._execute)
        began = False
        try:
            if not connection.in_transaction:
                db.control("BEGIN IMMEDIATE")
                began = True
            db.control(f"SAVEPOINT {_SAVEPOINT}")
            if reads_first:
                db.run("take_lock")
            added = write(db, self._clock.now())
            db.control(f"RELEASE {_SAVEPOINT}")
            if began and not _opens_transactions(connection):
                db.control("COMMIT")  # the caller does not expect to commit
        except sqlite3.Error as error:
            self._undo(db, began)
            raise translate(error, self._path) from error
        except BaseException:
            self._undo(db, began)
            raise
        return added

    def _undo(self, db: Session, began: bool) -> None:
        """Leave the transaction as the caller had it; SQLite may have ended it already."""
        if not self._connection.in_transaction:
            return
        try:
            if began:
                db.control("ROLLBACK")
            else:
                db.control(f"ROLLBACK TO {_SAVEPOINT}")
                db.control(f"RELEASE {_SAVEPOINT}")
        except sqlite3.OperationalError:
            # The savepoint was never made: there is nothing of ours to undo.
            return

    def _execute(self, sql: str, parameters: object = ()) -> sqlite3.Cursor:
        return self._cursor().execute(sql, parameters)  # type: ignore[arg-type]

    def _cursor(self) -> sqlite3.Cursor:
        cursor = sqlite3.Cursor(self._connection)
        cursor.row_factory = None
        return cursor


def _opens_transactions(connection: sqlite3.Connection) -> bool:
    """Whether the caller expects to commit (on Python 3.12+ `autocommit` has a say too)."""
    return (
        connection.isolation_level is not None and getattr(connection, "autocommit", -1) is not True
    )
