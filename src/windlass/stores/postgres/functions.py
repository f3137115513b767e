"""The functions and views of the schema: one file each in the folders of `sql/`, as they are now.

Migrations make what holds data, once each. What is here holds none, so the newest text simply takes
the place of an older one: `install` replaces what has changed, and drops what is gone or what
PostgreSQL would not let it replace (other arguments, another result). The table `_functions` says
what is installed. Everything happens in the transaction of the migrations.

A program and the functions fit each other if all *headers* (name, arguments, result) are those that
the program knows; the bodies may be newer. So an older worker goes on beside newer functions until
one of them is called differently.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from windlass.stores.postgres import columns, conditions
from windlass.stores.postgres.rendering import quoted, render

TABLE = """CREATE TABLE IF NOT EXISTS {schema}._functions (
  name text NOT NULL,
  header text NOT NULL,
  digest text NOT NULL,
  program text NOT NULL,
  CONSTRAINT _functions_pkey PRIMARY KEY (name)
)"""
"""What is installed, and by which version of the program."""

_MADE = re.compile(r"CREATE OR REPLACE (FUNCTION|VIEW) \{schema\}\.(\w+)")
_USED = re.compile(r"\{schema\}\.(\w+)")
_COMMENTS = re.compile(r"--[^\n]*\n")
_FOR_EACH = re.compile(r"-- for each n of ([\w ]+)\n")
_REPEATED = re.compile(r" *-- n times\n(.*?) *-- end\n", re.DOTALL)
_FOR_KIND = re.compile(r"-- for each kind of ([\w ]+)\n")
_OF_KIND = re.compile(r" *-- of (\w+)\n(.*?) *-- end of\n", re.DOTALL)
_ONLY = re.compile(r" *-- only (\w+)\n(.*?) *-- end\n", re.DOTALL)


@dataclass(frozen=True)
class Routine:
    """A function or a view, as a template: names that depend on the schema are places in it."""

    name: str
    is_view: bool
    text: str

    @cached_property
    def header(self) -> str:
        """What callers rely on, and what cannot be replaced: for a view its columns."""
        code = _COMMENTS.sub("", self.text)
        end = code.index("\nFROM " if self.is_view else "LANGUAGE ")
        return _digest(" ".join(code[:end].split()))

    @cached_property
    def digest(self) -> str:
        """Of the text and of the values that are filled in, whatever the schema is called."""
        return _digest(render(self.text, "windlass"))

    @property
    def is_privileged(self) -> bool:
        """It runs with its owner's rights, so a role needs a grant to call it."""
        return "\nSECURITY DEFINER" in self.text

    @property
    def uses(self) -> set[str]:
        """What must be there before this can be made. The text of a body is read when it is
        called, but an SQL body and a view are bound to what they use when they are made."""
        is_bound = self.is_view or "AS $" not in self.text
        return set(_USED.findall(self.text)) - {self.name} if is_bound else set()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@cache
def routines() -> tuple[Routine, ...]:
    """All of them, each after those it needs."""
    found = {made.name: made for made in _read(files(__package__) / "sql")}
    ordered: dict[str, Routine] = {}

    def add(routine: Routine) -> None:
        for name in sorted(routine.uses & found.keys() - ordered.keys()):
            add(found[name])
        ordered.setdefault(routine.name, routine)

    for name in sorted(found):
        add(found[name])
    return tuple(ordered.values())


def _read(folder: Traversable) -> Iterator[Routine]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _read(entry)
        elif entry.name.endswith(".sql"):
            for text in _variants(columns.fill(conditions.fill(entry.read_text("utf-8")))):
                made = _MADE.search(text)
                assert made is not None, f"{entry.name} makes nothing"
                yield Routine(made[2], made[1] == "VIEW", text)


def _variants(text: str) -> Iterator[str]:
    """A file that begins with `-- for each n of …` is one function for each of these numbers or
    words, and so for `kind`, which may stand in a line after it. What stands between `-- n times`
    and `-- end` is there n times, with {i} counting. What stands between `-- only …` and `-- end`
    is there where n is this word, and between `-- of …` and `-- end of` where kind is."""
    variants = _FOR_EACH.match(text)
    if variants is None:
        yield text
        return
    for n in variants[1].split():

        def repeat(found: re.Match[str], n: str = n) -> str:
            return "".join(found[1].replace("{i}", str(i)) for i in range(1, int(n) + 1))

        def choose(found: re.Match[str], n: str = n) -> str:
            return found[2] if found[1] == n else ""

        chosen = _ONLY.sub(choose, text[variants.end() :])
        for one in _kinds(chosen):
            yield _REPEATED.sub(repeat, one).replace("{n}", n)


def _kinds(text: str) -> Iterator[str]:
    kinds = _FOR_KIND.match(text)
    if kinds is None:
        yield text
        return
    for kind in kinds[1].split():

        def choose(found: re.Match[str], kind: str = kind) -> str:
            return found[2] if found[1] == kind else ""

        yield _OF_KIND.sub(choose, text[kinds.end() :]).replace("{kind}", kind)


class Entry(NamedTuple):
    """What `_functions` says of one."""

    header: str
    digest: str
    program: str


Entries = Mapping[str, Entry]


def headers_differ(there: Entries) -> bool:
    return {name: entry.header for name, entry in there.items()} != {
        routine.name: routine.header for routine in routines()
    }


def is_current(there: Entries) -> bool:
    return {name: entry.digest for name, entry in there.items()} == {
        routine.name: routine.digest for routine in routines()
    }


def read(connection: psycopg.Connection[Any], schema: str) -> dict[str, Entry]:
    """What is installed; nothing where the schema was made by a program that kept no such list."""
    found = connection.execute(
        "SELECT FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relname = '_functions'",
        [schema],
    ).fetchone()
    if found is None:
        return {}
    table = sql.Identifier(schema, "_functions")
    rows = connection.execute(
        sql.SQL("SELECT name, header, digest, program FROM {}").format(table)
    ).fetchall()
    return {name: Entry(*rest) for name, *rest in rows}


def script(schema: str, program: str) -> Iterator[str]:
    """The statements that make all of them in a schema that has none."""
    yield render(TABLE, schema)
    yield render("GRANT SELECT ON {schema}._functions TO PUBLIC", schema)
    for routine in routines():
        yield render(routine.text, schema).strip().removesuffix(";")
        if routine.is_privileged:
            yield _revoked(schema, routine)
    yield from _written(schema, program)


def _revoked(schema: str, routine: Routine) -> str:
    return f"REVOKE EXECUTE ON FUNCTION {quoted(schema)}.{routine.name} FROM PUBLIC"


def _written(schema: str, program: str) -> Iterator[str]:
    table = f"{quoted(schema)}._functions"
    yield f"DELETE FROM {table}"  # noqa: S608
    rows = ",\n  ".join(
        f"('{made.name}', '{made.header}', '{made.digest}', {sql.Literal(program).as_string()})"
        for made in routines()
    )
    yield f"INSERT INTO {table} (name, header, digest, program) VALUES\n  {rows}"


class Grant(NamedTuple):
    """To a role, or to PUBLIC where it is None."""

    role: str | None
    privilege: str
    is_grantable: bool


Dropped = Mapping[str, list[Grant] | None]
"""The rights on each that were granted or revoked; None where all have those of the beginning."""


def install(
    connection: psycopg.Connection[Any],
    schema: str,
    program: str,
    there: Entries,
    dropped: Dropped,
) -> None:
    """Bring them up to date, in the caller's transaction and behind its lock, after `drop`."""
    ours = {routine.name: routine for routine in routines()}
    for statement in (TABLE, "GRANT SELECT ON {schema}._functions TO PUBLIC"):
        connection.execute(render(statement, schema).encode())
    for name, routine in ours.items():
        is_new = name not in there or name in dropped
        if is_new or there[name].digest != routine.digest:
            connection.execute(render(routine.text, schema).encode())
        if is_new and routine.is_privileged:
            connection.execute(_revoked(schema, routine).encode())
    for name, grants in dropped.items():
        if name in ours and grants is not None:
            _grant(connection, schema, ours[name], grants)
    for statement in _written(schema, program):
        connection.execute(statement.encode())


def drop(connection: psycopg.Connection[Any], schema: str, there: Entries) -> Dropped:
    """Drop what is gone or has another header, and what is bound to it. This comes before the
    migrations, which may change the types that these functions use."""
    ours = {routine.name: routine for routine in routines()}
    if there:
        stale = [n for n, e in there.items() if n not in ours or ours[n].header != e.header]
        condition, values = "x.name = ANY (%s)", [schema, schema, stale]
    else:  # a program that kept no list has made them, or none is there
        condition = "x.name LIKE '\\_%%' OR x.name = ANY (%s)"
        values = [schema, schema, [name for name in ours if not name.startswith("_")]]
    found = connection.execute(
        _DOOMED.replace("{condition}", condition).encode(), values
    ).fetchall()
    dropped: dict[str, list[Grant] | None] = {}
    for kind in ("FUNCTION", "VIEW"):  # a function may be bound to a view; no view to a function
        signatures = [signature for its_kind, _, signature, _ in found if its_kind == kind]
        if signatures:
            connection.execute(f"DROP {kind} {', '.join(signatures)}".encode())
    for _, name, _, grants in found:
        dropped[name] = None if grants is None else [Grant(*grant) for grant in grants]
    return dropped


_DOOMED = """WITH RECURSIVE ours AS (
  SELECT 'FUNCTION' AS kind, p.proname::text AS name, p.oid, p.proacl AS acl, p.proowner AS owner,
    p.oid::regprocedure::text AS signature
  FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
  WHERE n.nspname = %s
  UNION ALL
  SELECT 'VIEW', c.relname::text, c.oid, c.relacl, c.relowner, c.oid::regclass::text
  FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
  WHERE n.nspname = %s AND c.relkind = 'v'
),
doomed (oid) AS (
  SELECT x.oid FROM ours AS x WHERE {condition}
  UNION
  SELECT o.oid FROM doomed AS d
  JOIN pg_depend AS b ON b.refobjid = d.oid AND b.deptype = 'n'
    AND b.refclassid IN ('pg_proc'::regclass, 'pg_class'::regclass)
  LEFT JOIN pg_rewrite AS r ON b.classid = 'pg_rewrite'::regclass AND r.oid = b.objid
  JOIN ours AS o ON o.oid = CASE
    WHEN b.classid = 'pg_proc'::regclass THEN b.objid ELSE r.ev_class
  END
)
SELECT o.kind, o.name, o.signature, CASE WHEN o.acl IS NOT NULL THEN (
  SELECT coalesce(json_agg(json_build_array(
    CASE WHEN a.grantee <> 0 THEN a.grantee::regrole::text END, a.privilege_type, a.is_grantable
  )), '[]') FROM aclexplode(o.acl) AS a WHERE a.grantee <> o.owner
) END
FROM ours AS o JOIN doomed AS d ON d.oid = o.oid"""
"""What is to be dropped, with what is bound to it, how it is called, and who was given rights."""


def _grant(
    connection: psycopg.Connection[Any], schema: str, routine: Routine, grants: Iterable[Grant]
) -> None:
    kind = "TABLE" if routine.is_view else "FUNCTION"
    target = f"{kind} {quoted(schema)}.{routine.name}"
    connection.execute(f"REVOKE ALL ON {target} FROM PUBLIC".encode())
    for grant in grants:
        to = "PUBLIC" if grant.role is None else grant.role  # regrole has quoted it
        option = " WITH GRANT OPTION" if grant.is_grantable else ""
        connection.execute(f"GRANT {grant.privilege} ON {target} TO {to}{option}".encode())
