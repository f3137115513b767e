"""Opening the file, running named statements, and saying in plain words what went wrong."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from windlass.clock import SYSTEM
from windlass.errors import ConfigError, StoreBusyError, StoreError, StoreUnavailableError
from windlass.stores.sqlite.statements import SQL

Synchronous = Literal["full", "normal"]
Parameters = Mapping[str, Any]
T = TypeVar("T")

OLDEST = (3, 38, 0)
_RETRY = 0.002
"""Seconds between tries where another process is in the way; SQLite itself never waits for us."""

SWITCH_LIMIT = 30.0
"""Seconds to wait for others until a file can be opened, and switched to the write-ahead log."""


class Session:
    """Named statements on one connection, all of which return one value or a row count.

    `made_ready` is set by an operation that may have made something claimable, `made_scheduled` by
    one that may have scheduled a job; `careful` asks for the slow way that tells row by row what
    happened. `waited` says whether the write lock was taken
    when the last transaction asked for it, `met_stranger` whether by a connection not of Windlass.
    """

    __slots__ = ("_execute", "careful", "connection", "made_ready", "made_scheduled",
                 "met_stranger", "waited")  # fmt: skip

    def __init__(
        self, connection: sqlite3.Connection, execute: Callable[..., sqlite3.Cursor] | None = None
    ) -> None:
        self.connection = connection
        self._execute = execute or connection.execute
        self.careful = False
        self.made_ready = False
        self.made_scheduled = False
        self.waited = False
        self.met_stranger = False

    def use(self, connection: sqlite3.Connection) -> None:
        """Go on with another connection."""
        self.connection = connection
        self._execute = connection.execute

    def value(self, name: str, parameters: Parameters | None = None) -> Any:
        return self.value_of(SQL[name], parameters)

    def value_of(self, sql: str, parameters: Parameters | None = None) -> Any:
        return self.row_of(sql, parameters)[0]

    def row_of(self, sql: str, parameters: Parameters | None = None) -> Any:
        return self._execute(sql, parameters or {}).fetchone()

    def run(self, name: str, parameters: Parameters | None = None) -> int:
        return self._execute(SQL[name], parameters or {}).rowcount

    def insert(self, name: str, parameters: Parameters) -> int:
        """Run an INSERT; the id of the last row it made."""
        return self._execute(SQL[name], parameters).lastrowid or 0

    def control(self, sql: str) -> None:
        """BEGIN, COMMIT, SAVEPOINT and the like."""
        self._execute(sql)


def check_version() -> None:
    if sqlite3.sqlite_version_info < OLDEST:
        raise ConfigError(
            f"SQLite {sqlite3.sqlite_version} is too old: Windlass needs"
            f" {'.'.join(map(str, OLDEST))} or newer; use a newer Python build"
        )


def connect(
    path: str, synchronous: Synchronous, *, make: bool = False, look: bool = False
) -> sqlite3.Connection:
    """An autocommit connection; StoreUnavailableError if the file cannot be used.

    With `make` a file that is not there is made. With `look` it cannot be written by accident, and
    a user without the right to write may open it too.
    """
    _check_place(Path(path), make=make, look=look)
    try:
        connection = sqlite3.connect(
            f"{Path(path).as_uri()}?mode={'rwc' if make else 'rw'}",
            uri=True,
            timeout=0.0,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
    except sqlite3.Error as error:
        raise translate(error, path) from error

    def set_up() -> None:
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute("PRAGMA temp_store = memory")
        connection.execute("PRAGMA foreign_keys = off")
        connection.execute("PRAGMA cache_size = -8000")
        if look:
            connection.execute("PRAGMA query_only = on")

    try:
        patiently(set_up, path, limit=SWITCH_LIMIT)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_place(path: Path, *, make: bool, look: bool) -> None:
    folder = path.parent
    if _kind_of(folder) != stat.S_IFDIR:
        raise StoreUnavailableError(f"{folder} does not exist; create it, or correct the path")
    kind = _kind_of(path)
    if kind == stat.S_IFDIR:
        raise StoreUnavailableError(f"{path} is a directory; give the name of a file in it")
    exists = kind is not None
    if not exists and not make:
        raise StoreUnavailableError(
            f"there is no database at {path}; correct the path, or make it with windlass migrate"
        )
    writable = (path, folder) if exists else (folder,)
    if not look and not all(os.access(place, os.W_OK) for place in writable):
        raise StoreUnavailableError(_read_only(str(path)))


def _kind_of(path: Path) -> int | None:
    """What is there: a file, a directory, …; None for nothing."""
    try:
        return stat.S_IFMT(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreUnavailableError(
            f"this user may not look at {path} ({error.strerror}); give it the right to the"
            " directory, or correct the path"
        ) from error


def enter_wal(connection: sqlite3.Connection, path: str) -> None:
    """Let the file use the write-ahead log from now on, if it does not yet."""

    def switch() -> None:
        mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
        if mode != "wal":
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != "wal":
            raise StoreUnavailableError(
                f"{path} cannot use SQLite's write-ahead log; put it on a local disk"
            )

    try:
        patiently(switch, path, limit=SWITCH_LIMIT)
    except StoreBusyError as error:
        if Path(path).stat().st_size == 0:
            raise StoreUnavailableError(
                f"{path} is empty, and another program has it open: it was emptied under that"
                " program; stop all that use it, and restore it from a backup"
            ) from error
        raise StoreBusyError(
            f"{path} cannot be switched to SQLite's write-ahead log while another program has it"
            " open; let that program end its transaction"
        ) from error


def patiently(work: Callable[[], T], path: str, *, limit: float) -> T:
    """Do something short again while another process holds the file, for `limit` seconds."""
    deadline = SYSTEM.monotonic() + limit
    while True:
        try:
            return work()
        except sqlite3.Error as error:
            if not is_busy(error) or SYSTEM.monotonic() > deadline:
                raise translate(error, path) from error
        time.sleep(_RETRY)


def is_busy(error: BaseException) -> bool:
    return isinstance(error, sqlite3.Error) and _code(error) in (
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
    )


def translate(error: sqlite3.Error, path: str) -> StoreError:
    """The StoreError that says what happened and what to do."""
    code = _code(error)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreBusyError(
            f"another transaction has held {path} for too long; end it, or keep it shorter"
        )
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return StoreUnavailableError(
            f"{path} is not a Windlass database or is damaged ({error});"
            " use another file, or restore it from a backup"
        )
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return StoreUnavailableError(_read_only(path))
    if code == sqlite3.SQLITE_CANTOPEN:
        return StoreUnavailableError(f"{path} cannot be opened; check the path and its permissions")
    if code == sqlite3.SQLITE_FULL:
        return StoreError(f"the disk of {path} is full; make room, nothing was stored")
    if code == sqlite3.SQLITE_IOERR:
        return StoreUnavailableError(f"reading or writing {path} failed ({error}); check the disk")
    return StoreError(f"SQLite refused a statement on {path}: {error}")


def _code(error: sqlite3.Error) -> int:
    code: int = getattr(error, "sqlite_errorcode", 0) or 0
    return code & 0xFF


def _read_only(path: str) -> str:
    return f"{path} is read-only; make the file and its directory writable"
