"""A role that may create things in `public`, and what it can plant there.

PostgreSQL looks in `pg_catalog` first, but takes what fits the types best from the whole search
path: where `pg_catalog` has no operator or function for exactly the types of a call, one in
`public` wins. So the traps are operators for all pairs of common types that `pg_catalog` does not
have, and functions of the names that Windlass calls, for all types of one and two arguments. Each
of them counts that it ran, and raises an error that says who ran it.
"""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import psycopg

MALLORY = "mallory"

_TYPES = (
    *("boolean", "smallint", "integer", "bigint", "double precision", "numeric", "text", "name"),
    *("json", "jsonb", "timestamptz", "interval", "oid", "xid", "xid8", '"char"', "tid", "pg_lsn"),
    *("text[]", "bigint[]", "integer[]", "name[]", "int8range", "int8multirange", "regclass"),
)
_OPERATORS = (
    *("=", "<>", "<", ">", "<=", ">=", "+", "-", "*", "/", "||", "&&", "@>", "<@", "->", "->>"),
    *("~", "~~"),
)
_CALL = re.compile(r"\b([a-z][a-z0-9_]+)\(")

_PLANT = """
CREATE SEQUENCE public.sprung;
GRANT USAGE, SELECT ON public.sprung TO PUBLIC;
CREATE FUNCTION public.trap(what text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_catalog.nextval('public.sprung');  -- no rollback takes it back
  RAISE EXCEPTION 'trapped: % ran as %', what, current_user USING ERRCODE = 'TRAPS';
END $$;
DO $plant$
DECLARE
  one text;
  two text;
  name text;
  args text;
BEGIN
  FOREACH one IN ARRAY current_setting('traps.types')::text[] LOOP
    FOREACH two IN ARRAY current_setting('traps.types')::text[] LOOP
      EXECUTE format(
        'CREATE FUNCTION public.trap(a %1$s, b %2$s) RETURNS boolean LANGUAGE sql'
        ' AS ''SELECT public.trap(''''operator (%1$s, %2$s)'''')''', one, two);
      FOREACH name IN ARRAY current_setting('traps.operators')::text[] LOOP
        IF NOT EXISTS (
          SELECT FROM pg_operator AS o WHERE o.oprname = name
            AND o.oprnamespace = 'pg_catalog'::regnamespace
            AND o.oprleft = one::regtype AND o.oprright = two::regtype
        ) THEN
          EXECUTE format(
            'CREATE OPERATOR public.%s (FUNCTION = public.trap, LEFTARG = %s, RIGHTARG = %s)',
            name, one, two);
        END IF;
      END LOOP;
    END LOOP;
  END LOOP;
  FOREACH name IN ARRAY current_setting('traps.functions')::text[] LOOP
    FOR args IN
      SELECT t FROM unnest(current_setting('traps.types')::text[]) AS t
      UNION ALL
      SELECT t || ', ' || u FROM unnest(current_setting('traps.types')::text[]) AS t,
        unnest(current_setting('traps.types')::text[]) AS u
      WHERE EXISTS (
        SELECT FROM pg_proc AS p WHERE p.proname = name AND p.pronargs > 1 AND p.pronargs < 4)
    LOOP
      EXECUTE format(
        'CREATE FUNCTION public.%1$I(%2$s) RETURNS boolean LANGUAGE sql'
        ' AS ''SELECT public.trap(''''function %1$s(%2$s)'''')''', name, args);
    END LOOP;
  END LOOP;
END $plant$;
"""


def plant(connection: psycopg.Connection) -> None:
    """Let `MALLORY`, who may create in `public` and nothing else, plant all traps."""
    with connection.transaction():
        connection.execute(f"GRANT CREATE, USAGE ON SCHEMA public TO {MALLORY}".encode())
        connection.execute(f"SET LOCAL ROLE {MALLORY}".encode())
        connection.execute("SET LOCAL check_function_bodies = off")
        for setting, value in (
            ("types", list(_TYPES)),
            ("operators", list(_OPERATORS)),
            ("functions", _names_called(connection)),
        ):
            connection.execute(
                "SELECT set_config(%s, %s::text[]::text, true)", [f"traps.{setting}", value]
            )
        connection.execute(_PLANT)


def sprung(connection: psycopg.Connection) -> bool:
    """Whether any trap has run."""
    row = connection.execute("SELECT is_called FROM public.sprung").fetchone()
    assert row is not None
    return bool(row[0])


def _names_called(connection: psycopg.Connection) -> list[str]:
    """What the sources call that `pg_catalog` has, too."""
    package = files("windlass") / "stores" / "postgres"
    texts = [
        entry.read_text("utf-8")
        for entry in Path(str(package)).rglob("*")
        if entry.name.endswith((".py", ".sql"))
    ]
    called = sorted({name for text in texts for name in _CALL.findall(text)})
    found = connection.execute(
        "SELECT DISTINCT p.proname::text FROM pg_proc AS p"
        " WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname = ANY (%s)",
        [called],
    ).fetchall()
    return sorted(name for [name] in found)
