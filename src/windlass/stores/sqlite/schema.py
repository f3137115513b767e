"""Migrations: numbered files, applied once each under the write lock, never taken back.

The first line of each file says whether an older program may go on using the file after it.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from windlass.errors import SchemaTooNewError
from windlass.stores.sqlite.connection import patiently, translate

_VERSION = "schema_version"
_BREAKING = "breaking_version"


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    breaking: bool
    statements: tuple[str, ...]


@cache
def migrations() -> tuple[Migration, ...]:
    folder = files(__package__) / "migrations"
    entries = sorted(
        (entry for entry in folder.iterdir() if entry.name.endswith(".sql")),
        key=lambda entry: entry.name,
    )
    return tuple(_parse(entry.name, entry.read_text("utf-8")) for entry in entries)


def _parse(name: str, text: str) -> Migration:
    first, _, body = text.partition("\n")
    return Migration(
        version=int(name.split("_")[0]),
        breaking=first.strip() == "-- breaking: yes",
        statements=tuple(_split(body)),
    )


def _split(body: str) -> list[str]:
    statements: list[str] = []
    current = ""
    for line in body.splitlines(keepends=True):
        if not line.startswith("--"):
            current += line
        if current.strip() and sqlite3.complete_statement(current):
            statements.append(current.strip())
            current = ""
    return statements


def migrate(connection: sqlite3.Connection, path: str, limit: float) -> None:
    """Bring the schema up to date; SchemaTooNewError if a newer program made the file its own."""
    newest = migrations()[-1].version
    try:
        if _current(connection, path) >= newest:
            return
        patiently(lambda: connection.execute("BEGIN IMMEDIATE"), path, limit=limit)
        try:
            _apply(connection, path)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    except sqlite3.Error as error:
        raise translate(error, path) from error


def is_migrated(connection: sqlite3.Connection) -> bool:
    """Whether the file has our tables at all."""
    return _has_meta(connection)


def _apply(connection: sqlite3.Connection, path: str) -> None:
    current = _current(connection, path)
    for migration in migrations():
        if migration.version <= current:
            continue
        for statement in migration.statements:
            connection.execute(statement)
        _remember(connection, _VERSION, migration.version)
        if migration.breaking:
            _remember(connection, _BREAKING, migration.version)


def _current(connection: sqlite3.Connection, path: str) -> int:
    if not _has_meta(connection):
        return 0
    known = migrations()[-1].version
    values = dict(connection.execute("SELECT key, value FROM windlass_meta").fetchall())
    version = int(values.get(_VERSION, 0))
    if int(values.get(_BREAKING, 0)) > known:
        raise SchemaTooNewError(
            f"{path} was made by a newer Windlass (schema {version}; this program knows"
            f" {known}): upgrade windlass"
        )
    return version


def _has_meta(connection: sqlite3.Connection) -> bool:
    cursor = connection.cursor()
    cursor.row_factory = None
    cursor.execute("SELECT EXISTS (SELECT 1 FROM main.sqlite_master WHERE name = 'windlass_meta')")
    return bool(cursor.fetchone()[0])


def _remember(connection: sqlite3.Connection, key: str, value: int) -> None:
    connection.execute(
        "INSERT INTO windlass_meta (key, value) VALUES (?, ?)"
        " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (key, value),
    )
