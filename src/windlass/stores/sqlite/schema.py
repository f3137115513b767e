"""Bringing a file's schema up to date, under the write lock."""

from __future__ import annotations

import sqlite3

from windlass.errors import SchemaTooNewError, StoreUnavailableError
from windlass.stores.migrations import Migration, load
from windlass.stores.sqlite.connection import patiently, translate

_VERSION = "schema_version"
_BREAKING = "breaking_version"


def migrations() -> tuple[Migration, ...]:
    return load(__package__)


def script() -> str:
    """Everything that makes the schema, as one script; nothing is opened."""
    return "\n\n".join(text for step in migrations() for text in statements(step))


def statements(step: Migration) -> list[str]:
    return _split(step.text)


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
    if patiently(lambda: _current(connection, path), path, limit=limit) >= newest:
        return
    try:
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


def require(connection: sqlite3.Connection, path: str, limit: float) -> None:
    """Raise unless the schema is up to date."""
    newest = migrations()[-1].version
    current = patiently(lambda: _current(connection, path), path, limit=limit)
    if current < newest:
        if current == 0:
            raise StoreUnavailableError(
                f"{path} has no Windlass tables: correct the path, or make them with"
                " `windlass migrate`"
            )
        raise StoreUnavailableError(
            f"{path} has schema version {current}, this program needs {newest}: run"
            " `windlass migrate`, or set migrate=auto"
        )


def is_migrated(connection: sqlite3.Connection) -> bool:
    """Whether the file has our tables at all."""
    return _has_meta(connection)


def _apply(connection: sqlite3.Connection, path: str) -> None:
    current = _current(connection, path)
    for migration in migrations():
        if migration.version <= current:
            continue
        for statement in statements(migration):
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
