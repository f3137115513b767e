"""Opening the file, running named statements, and saying in plain words what went wrong."""

from __future__ import annotations

import os
import sqlite3
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


class Session:
    """Named statements on one connection, all of which return one value or a row count.

    `made_ready` is set by whoever made something claimable or scheduled; `careful` asks for the
    slow way that tells row by row what happened. `waited` says whether the write lock was taken
    when the last transaction asked for it, `met_stranger` whether by somebody not of Windlass.
    """

    __slots__ = ("_execute", "careful", "connection", "made_ready", "met_stranger", "waited")

    def __init__(
        self, connection: sqlite3.Connection, execute: Callable[..., sqlite3.Cursor] | None = None
    ) -> None:
        self.connection = connection
        self._execute = execute or connection.execute
        self.careful = False
        self.made_ready = False
        self.waited = False
        self.met_stranger = False

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


def connect(path: str, synchronous: Synchronous) -> sqlite3.Connection:
    """An autocommit connection in WAL mode; StoreUnavailableError if the file cannot be used."""
    folder = Path(path).parent
    if not folder.is_dir():
        raise StoreUnavailableError(f"{folder} does not exist; create it, or correct the path")
    if Path(path).is_dir():
        raise StoreUnavailableError(f"{path} is a directory; give the name of a file in it")
    existing = Path(path) if Path(path).exists() else folder
    if not os.access(existing, os.W_OK) or not os.access(folder, os.W_OK):
        raise StoreUnavailableError(_read_only(path))
    try:
        connection = sqlite3.connect(
            path,
            timeout=0.0,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
    except sqlite3.Error as error:
        raise translate(error, path) from error
    try:
        _prepare(connection, synchronous, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, synchronous: Synchronous, path: str) -> None:
    def set_up() -> None:
        mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
        if mode != "wal":
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != "wal":
            raise StoreUnavailableError(
                f"{path} cannot use SQLite's write-ahead log; put it on a local disk"
            )
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute("PRAGMA temp_store = memory")
        connection.execute("PRAGMA foreign_keys = off")
        connection.execute("PRAGMA cache_size = -8000")

    patiently(set_up, path, limit=30.0)


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
