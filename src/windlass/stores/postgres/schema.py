"""The schema: installing it, bringing it up to date, and refusing what a newer program made.

Migrations are templates: names that depend on the schema are filled in with proper quoting.
"""

from __future__ import annotations

import hashlib
import logging
import re
from functools import cache
from typing import Any

import psycopg
from psycopg import sql

from windlass.clock import to_datetime
from windlass.errors import ConfigError, SchemaTooNewError, StoreUnavailableError
from windlass.model.names import DEFAULT_MAX_ATTEMPTS, DEFAULT_MAX_RESETS, LONGEST
from windlass.model.payload import MAX_PAYLOAD
from windlass.store import rules
from windlass.store.hints import SOON
from windlass.stores.migrations import Migrate, Migration, load
from windlass.stores.postgres.connection import BoundedConnection
from windlass.stores.postgres.crew import read_committed

OLDEST_SERVER = 140000
"""The oldest server that can run the functions: PostgreSQL 14."""

MOST_SPANS = 4_000
"""Ranges of ids in all batches, beyond which a claim writes no further batch."""

_PLACES = re.compile(r"\{[a-z_]+\}")
_LONGEST_CHANNEL = 63

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


@cache
def quoted(schema: str) -> str:
    return sql.Identifier(schema).as_string()


@cache
def channel(schema: str) -> str:
    """Where workers of this schema listen."""
    name = f"{schema}:jobs"
    if len(name.encode()) <= _LONGEST_CHANNEL:
        return name
    return f"{hashlib.sha256(schema.encode()).hexdigest()[:32]}:jobs"


def latch(schema: str) -> int:
    """The number of the advisory lock behind which queued jobs become ready."""
    return _lock_number("latch", schema)


def turn(schema: str) -> int:
    """The number of the advisory lock of whichever claim takes many jobs just now."""
    return _lock_number("turn", schema)


def _lock_number(purpose: str, schema: str) -> int:
    digest = hashlib.sha256(f"windlass {purpose} {schema}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def render(text: str, schema: str) -> str:
    """A migration for one schema."""
    name = quoted(schema)
    places = {
        "{schema}": name,
        "{schema_text}": _literal(schema),
        "{channel}": _literal(channel(schema)),
        "{latch}": f"'{latch(schema)}'::bigint",
        "{turn}": f"'{turn(schema)}'::bigint",
        "{sequence}": _literal(f"{name}._jobs_id_seq") + "::regclass",
        "{ready_index}": _literal(f"{name}._jobs_ready"),
        "{scheduled_index}": _literal(f"{name}._jobs_scheduled"),
        "{bells_index}": _literal(f"{name}._bells_pkey"),
        "{batches_index}": _literal(f"{name}._batches_pkey"),
        "{most_spans}": str(MOST_SPANS),
        "{last_instant}": f"timestamptz {_literal(to_datetime(rules.LAST_INSTANT).isoformat())}",
        "{soon}": f"interval '{SOON:g} s'",
        "{superseded}": _literal(rules.SUPERSEDED),
        "{killed}": _literal(rules.KILLED),
        "{max_attempts}": str(DEFAULT_MAX_ATTEMPTS),
        "{max_resets}": str(DEFAULT_MAX_RESETS),
        "{max_payload}": str(MAX_PAYLOAD),
        "{longest}": str(LONGEST),
    }
    return _PLACES.sub(lambda found: places[found[0]], text)


def _literal(text: str) -> str:
    return sql.Literal(text).as_string()


def script(schema: str) -> str:
    """Everything that makes the schema, as one script for psql; nothing is connected to."""
    name = quoted(check_name(schema))
    parts = [
        "BEGIN ISOLATION LEVEL READ COMMITTED;",
        f"{SAFE_PATH};",
        f"SELECT pg_advisory_xact_lock({_lock_number('migrate', schema)});",
        f"CREATE SCHEMA IF NOT EXISTS {name};",
        f"{render(_LIST, schema)};",
    ]
    for step in migrations():
        parts.append(f"-- {step.name}\n{render(step.text, schema).strip()}")
        parts.append(f"{_done(schema, step)};")
    return "\n\n".join([*parts, f"{render(_FIX_PATHS, schema)};", "COMMIT;"])


def _done(schema: str, step: Migration) -> str:
    return (
        f"INSERT INTO {quoted(schema)}._migrations (id, name, breaking)"  # noqa: S608
        f" VALUES ({step.version}, {_literal(step.name)}, {str(step.breaking).lower()})"
    )


def prepare(connection: psycopg.Connection[Any], schema: str, how: Migrate) -> None:
    """Do at the start what the setting `migrate` says; `connection` must be in autocommit."""
    if how == "never":
        return
    newest = migrations()[-1].version
    current = installed(connection, schema)
    if current > newest:
        _logger.warning(
            "the schema %r is newer than this program (version %d, known is %d); it still fits,"
            " but upgrade windlass soon",
            schema,
            current,
            newest,
        )
    if current >= newest:
        return
    if how == "check":
        state = f"has schema version {current}" if current else "has no Windlass schema"
        raise StoreUnavailableError(
            f"the database {state} {schema!r}, this program needs version {newest}:"
            " run `windlass migrate` as the owner, or name the right schema"
        )
    if isinstance(connection, BoundedConnection):
        connection.limit = None  # it may take as long as it needs
    _install(connection, schema)


def installed(connection: psycopg.Connection[Any], schema: str) -> int:
    """The version there is, 0 for none; SchemaTooNewError if only a newer program may use it."""
    # Asked of the catalogue itself: to_regclass may answer from memory.
    found = connection.execute(
        "SELECT FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relname = '_migrations'",
        [schema],
    ).fetchone()
    if found is None:
        return 0
    table = f"{quoted(schema)}._migrations"
    newest = migrations()[-1].version
    row = connection.execute(
        "SELECT coalesce(max(id), 0), coalesce(max(id) FILTER (WHERE breaking), 0)"  # noqa: S608
        f" FROM {table}"
    ).fetchone()
    version, breaking = (0, 0) if row is None else row
    if breaking > newest:
        raise SchemaTooNewError(
            f"the schema {schema!r} was made by a newer Windlass (version {version}; this program"
            f" knows {newest}): upgrade windlass"
        )
    return int(version)


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
            "SELECT pg_advisory_xact_lock(%s::bigint)", [_lock_number("migrate", schema)]
        )
        current = installed(connection, schema)
        if current == 0:
            _refuse_foreign(connection, schema)
            if not _exists(connection, schema):  # whoever may not create it may be given it
                connection.execute(f"CREATE SCHEMA {quoted(schema)}".encode())
            connection.execute(render(_LIST, schema).encode())
        for step in migrations():
            if step.version > current:
                connection.execute(render(step.text, schema).encode())
                connection.execute(_done(schema, step).encode())
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
    """A schema with somebody else's jobs in it is not ours to fill."""
    if is_graphiles(connection, schema):
        raise StoreUnavailableError(
            f"the schema {schema!r} belongs to graphile-worker: {way_out(schema)}"
        )
