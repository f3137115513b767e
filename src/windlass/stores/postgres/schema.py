"""The schema: installing it, bringing it up to date, and refusing what a newer program made.

Migrations (`migrations/`) make tables, indexes and types, once each; functions and views are always
as their files in `sql/` say (`functions.py`).
"""

from __future__ import annotations

import logging
import re
from typing import Any, NamedTuple

import psycopg

from windlass.errors import ConfigError, SchemaTooNewError, StoreUnavailableError
from windlass.stores.migrations import Migrate, Migration, load
from windlass.stores.postgres import functions
from windlass.stores.postgres.rendering import channel, literal, lock_number, quoted, render
from windlass.stores.postgres_connections.call_threads import read_committed
from windlass.stores.postgres_connections.connection import BoundedConnection
from windlass.version import __version__

OLDEST_SERVER = 140000
"""The oldest server that can run the functions: PostgreSQL 14."""

_logger = logging.getLogger("windlass.postgres")

SAFE_PATH = "SET LOCAL search_path = pg_catalog, pg_temp"
"""First in each transaction that makes something. What a name or an operator means is settled when
a view or a function with an SQL body is made: only what the server itself brings may be meant,
never what another role has put into `public`."""

_FIX_PATHS = """DO $do$
DECLARE
  made regprocedure;
BEGIN
  FOR made IN
    SELECT p.oid FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
    WHERE n.nspname = {schema_text} AND p.prosqlbody IS NULL
      AND p.xmin = pg_current_xact_id()::xid
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, pg_temp', made);
  END LOOP;
END $do$"""
"""Last in each transaction that makes functions. A body that is a text is read anew by every
session, along the caller's search path: so each that this transaction has made gets a path of its
own. The rule is here, once, so that no function can be made without it."""

_LIST = """CREATE TABLE {schema}._migrations (
  id integer PRIMARY KEY,
  name text NOT NULL,
  breaking boolean NOT NULL,
  ts timestamptz NOT NULL DEFAULT now()
)"""


def migrations() -> tuple[Migration, ...]:
    return load(__package__)


def check_name(schema: str) -> str:
    """A schema name PostgreSQL takes as it is; anything else would be cut or refused later."""
    is_possible = 1 <= len(schema.encode()) <= 63 and not schema.startswith("pg_")
    if not is_possible or set(schema) & set("\0%$'"):
        raise ConfigError(
            "schema must be a name of 1 to 63 bytes that does not begin with pg_ and has none of"
            f" % $ ', not {schema!r}"
        )
    return schema


def script(schema: str) -> str:
    """Everything that makes the schema, as one script for psql; nothing is connected to."""
    name = quoted(check_name(schema))
    parts = [
        "BEGIN ISOLATION LEVEL READ COMMITTED",
        SAFE_PATH,
        f"SELECT pg_advisory_xact_lock({lock_number('migrate', schema)})",
        f"CREATE SCHEMA IF NOT EXISTS {name}",
        render(_LIST, schema),
    ]
    for step in migrations():
        text = render(step.text, schema).strip().removesuffix(";")
        parts += [f"-- {step.name}\n{text}", _done(schema, step)]
    parts += functions.script(schema, __version__)
    return ";\n\n".join([*parts, render(_FIX_PATHS, schema), "COMMIT;"])


def _done(schema: str, step: Migration) -> str:
    return (
        f"INSERT INTO {quoted(schema)}._migrations (id, name, breaking)"  # noqa: S608
        f" VALUES ({step.version}, {literal(step.name)}, {str(step.breaking).lower()})"
    )


class Installed(NamedTuple):
    """What a database has: the newest migration (0 for none), and the functions."""

    version: int
    functions: functions.Entries

    @property
    def is_newer(self) -> bool:
        """A newer program has been here, and left it so that this one can go on."""
        programs = {entry.program for entry in self.functions.values()}
        return self.version > migrations()[-1].version or any(
            _numbers(program) > _numbers(__version__) for program in programs
        )

    @property
    def is_current(self) -> bool:
        """There is nothing to do for this program."""
        is_complete = self.version >= migrations()[-1].version
        return self.is_newer or (is_complete and functions.is_current(self.functions))


def _numbers(program: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", program)))


def prepare(connection: psycopg.Connection[Any], schema: str, how: Migrate) -> None:
    """Do at the start what the setting `migrate` says; `connection` must be in autocommit."""
    if how == "never":
        return
    newest = migrations()[-1].version
    there = installed(connection, schema)
    if there.is_newer:
        _logger.warning(
            "the schema %r is newer than this program (version %d, known is %d); it still fits,"
            " but upgrade windlass soon",
            schema,
            there.version,
            newest,
        )
    if there.is_current:
        return
    if how == "check":
        if there.version == newest:
            state = "has functions of another Windlass in its schema"
        elif there.version:
            state = f"has schema version {there.version} in"
        else:
            state = "has no Windlass schema"
        raise StoreUnavailableError(
            f"the database {state} {schema!r}, this program ({__version__}) needs version"
            f" {newest}: run `windlass migrate` as the owner, or name the right schema"
        )
    if isinstance(connection, BoundedConnection):
        connection.limit = None  # it may take as long as it needs
    _install(connection, schema)


def installed(connection: psycopg.Connection[Any], schema: str) -> Installed:
    """What there is; SchemaTooNewError if only a newer program may use it."""
    # Asked of the catalogue itself: to_regclass may answer from memory.
    found = connection.execute(
        "SELECT FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relname = '_migrations'",
        [schema],
    ).fetchone()
    if found is None:
        return Installed(0, {})
    table = f"{quoted(schema)}._migrations"
    newest = migrations()[-1].version
    row = connection.execute(
        "SELECT coalesce(max(id), 0), coalesce(max(id) FILTER (WHERE breaking), 0)"  # noqa: S608
        f" FROM {table}"
    ).fetchone()
    version, breaking = (0, 0) if row is None else row
    there = Installed(version, functions.read(connection, schema))
    if breaking > newest or (there.is_newer and functions.headers_differ(there.functions)):
        raise SchemaTooNewError(
            f"the schema {schema!r} was made by a newer Windlass (version {version}; this program"
            f" knows {newest}): upgrade windlass"
        )
    return there


def _install(connection: psycopg.Connection[Any], schema: str) -> None:
    if connection.info.server_version < OLDEST_SERVER:
        raise StoreUnavailableError(
            f"PostgreSQL {connection.info.server_version // 10000} is too old; Windlass needs"
            f" {OLDEST_SERVER // 10000} or newer"
        )
    # Behind the lock it must see what those before it have done.
    with read_committed(connection), connection.transaction():
        connection.execute(SAFE_PATH.encode())
        connection.execute("SET LOCAL lock_timeout = '60s'")
        connection.execute("SET LOCAL statement_timeout = '0'")
        connection.execute(
            "SELECT pg_advisory_xact_lock(%s::bigint)", [lock_number("migrate", schema)]
        )
        there = installed(connection, schema)
        if there.is_current:
            return
        if there.version == 0:
            _refuse_foreign(connection, schema)
            if not _exists(connection, schema):  # an administrator may have made it for this role
                connection.execute(f"CREATE SCHEMA {quoted(schema)}".encode())
            connection.execute(render(_LIST, schema).encode())
        dropped = functions.drop(connection, schema, there.functions)
        for step in migrations():
            if step.version > there.version:
                connection.execute(render(step.text, schema).encode())
                connection.execute(_done(schema, step).encode())
        functions.install(connection, schema, __version__, there.functions, dropped)
        connection.execute(render(_FIX_PATHS, schema).encode())
        # Running workers hear of it at once, and stop if they are too old for it.
        connection.execute("SELECT pg_notify(%s, 'migrate')", [channel(schema)])


def _exists(connection: psycopg.Connection[Any], schema: str) -> bool:
    found = connection.execute("SELECT FROM pg_namespace WHERE nspname = %s", [schema])
    return found.fetchone() is not None


def is_graphiles(connection: psycopg.Connection[Any], schema: str) -> bool:
    """Whether the schema is one of graphile-worker's, with its jobs in it."""
    table = f"{quoted(schema)}._private_jobs"
    found = connection.execute("SELECT pg_catalog.to_regclass(%s) IS NOT NULL", [table]).fetchone()
    return found is not None and bool(found[0])


def way_out(schema: str) -> str:
    """What to do about a schema of graphile-worker's."""
    return (
        f"rename it (ALTER SCHEMA {quoted(schema)} RENAME TO graphile_old), run `windlass migrate`,"
        " then `windlass import graphile --from graphile_old`"
    )


def _refuse_foreign(connection: psycopg.Connection[Any], schema: str) -> None:
    """Refuse a schema that holds the jobs of graphile-worker."""
    if is_graphiles(connection, schema):
        raise StoreUnavailableError(
            f"the schema {schema!r} belongs to graphile-worker: {way_out(schema)}"
        )
