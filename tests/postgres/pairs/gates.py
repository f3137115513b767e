"""Gates that stop a connection in the middle of a transaction of its own.

Triggers on every table of the schema stop the connections that are called `HELD`, where the gate
is shut, and no others:

* `first write`: before the transaction writes for the first time. It has looked, and perhaps
  locked; what it looked at may change before it goes on.
* `commit`: before the transaction ends. It has written everything and holds all its locks.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import psycopg
from psycopg import sql

from tests.patience import PATIENCE

Gate = Literal["first write", "commit"]
GATES: tuple[Gate, ...] = ("first write", "commit")
HELD = "held"

_FUNCTION = """
CREATE FUNCTION {schema}.test_gate() RETURNS trigger LANGUAGE plpgsql
SET lock_timeout = 0 AS $$
BEGIN
  IF pg_catalog.current_setting('application_name') = {held} THEN
    PERFORM pg_catalog.pg_advisory_xact_lock_shared(TG_ARGV[0]::bigint);
  END IF;
  RETURN NULL;
END $$
"""
_FIRST_WRITE = """
CREATE TRIGGER test_first_write BEFORE INSERT OR UPDATE OR DELETE ON {table}
FOR EACH STATEMENT EXECUTE FUNCTION {schema}.test_gate({number})
"""
_COMMIT = """
CREATE CONSTRAINT TRIGGER test_commit AFTER INSERT OR UPDATE OR DELETE ON {table}
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.test_gate({number})
"""


def _number(gate: Gate) -> int:
    return 7_000_001 + GATES.index(gate)


def build(connection: psycopg.Connection[Any], schema: str) -> None:
    """Put both gates before every table of the schema."""
    names = {"schema": sql.Identifier(schema), "held": sql.Literal(HELD)}
    connection.execute(sql.SQL(_FUNCTION).format(**names))
    tables = connection.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind = 'r'",
        (schema,),
    ).fetchall()
    for [table] in tables:
        for text, gate in ((_FIRST_WRITE, "first write"), (_COMMIT, "commit")):
            connection.execute(
                sql.SQL(text).format(
                    table=sql.Identifier(schema, table),
                    number=sql.Literal(str(_number(gate))),  # type: ignore[arg-type]
                    **names,
                )
            )


@contextmanager
def shut(connection: psycopg.Connection[Any], gate: Gate) -> Iterator[None]:
    """Keep a gate shut. Leaving the block opens it."""
    connection.execute("SELECT pg_advisory_lock(%s)", (_number(gate),))
    try:
        yield
    finally:
        connection.execute("SELECT pg_advisory_unlock(%s)", (_number(gate),))


def stopped_at(connection: psycopg.Connection[Any], gate: Gate) -> list[int]:
    """The server processes that wait at the gate."""
    found = connection.execute(
        "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = %s AND NOT granted"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
        (_number(gate),),
    ).fetchall()
    return [pid for [pid] in found]


def waiting_for(connection: psycopg.Connection[Any], holders: list[int]) -> list[str]:
    """The statements that wait for a lock of these processes, or will be sent again because of one.

    A handler's transaction that finds its job held asks again from time to time, and is idle in
    between.
    """
    found = connection.execute(
        "SELECT a.query FROM pg_stat_activity AS a WHERE a.pid <> ALL (%s::integer[]) AND"
        " (a.wait_event_type = 'Lock' AND pg_blocking_pids(a.pid) && %s::integer[]"
        " OR a.state = 'idle in transaction' AND a.query LIKE '%%_settle%%')",
        (holders, holders),
    ).fetchall()
    return [query for [query] in found]


class Deadline:
    """Says when a wait has become a hang."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._ends_at = time.monotonic() + PATIENCE

    def check(self) -> None:
        assert time.monotonic() < self._ends_at, f"waited in vain for {self._what}"
