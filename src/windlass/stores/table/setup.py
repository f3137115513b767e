"""Whether a table fits its options: what is missing, what is unwise, and the DDL that mends it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import errors, sql

from windlass.errors import ConfigError
from windlass.stores.postgres_connections.address import ServerAddress
from windlass.stores.postgres_connections.call_threads import fetch_row, fetch_rows
from windlass.stores.postgres_connections.failures import one_line
from windlass.stores.table.columns import COLUMNS, INTEGER, STATES, TEXT, Column, Columns
from windlass.stores.table.names import Relation, parse_relation, quote
from windlass.stores.table.options import TableOptions
from windlass.stores.table.statements import Statements

_COLUMNS_OF = """
SELECT a.attname, format_type(a.atttypid, NULL), format_type(a.atttypid, a.atttypmod), t.typtype,
  a.atthasdef, a.attnotnull, CASE WHEN a.atttypid = 'varchar'::regtype THEN a.atttypmod - 4
    WHEN a.atttypid = 'timestamptz'::regtype THEN a.atttypmod ELSE -1 END,
  ARRAY(SELECT e.enumlabel::text FROM pg_enum AS e WHERE e.enumtypid = a.atttypid)
FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped
"""
_INDEXES_BY_STATE = """
SELECT count(*) FROM pg_index AS i
JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attname = %s
WHERE i.indrelid = to_regclass(%s) AND i.indisvalid AND (a.attnum = i.indkey[0]
  OR position(quote_ident(a.attname) IN pg_get_expr(i.indpred, i.indrelid)) > 0)
"""
_UNIQUE_OF = """
SELECT a.attname FROM pg_index AS i
JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
WHERE i.indrelid = to_regclass(%s) AND i.indisunique AND i.indisvalid AND i.indnkeyatts = 1
  AND i.indpred IS NULL
"""
_HAS_KEY = "SELECT count(*) FROM pg_index WHERE indrelid = to_regclass(%s) AND indisprimary"
_CHECKS_OF = """
SELECT c.conname, pg_get_expr(c.conbin, c.conrelid) FROM pg_constraint AS c
JOIN pg_attribute AS a ON a.attrelid = c.conrelid AND c.conkey = ARRAY[a.attnum]
WHERE c.conrelid = to_regclass(%s) AND c.contype = 'c' AND a.attname = %s
"""
_MAY = "SELECT current_user, has_any_column_privilege(to_regclass(%s), %s)"

_CASTS = {
    "bigint": (*TEXT, *INTEGER, "numeric"),
    "integer": (*TEXT, *INTEGER, "numeric"),
    "timestamptz": (*TEXT, "timestamp without time zone", "date"),
    "boolean": (*TEXT, "integer"),
    "json[]": ("text[]", "character varying[]"),
}
"""What PostgreSQL can turn into each type; to text it turns everything."""


@dataclass(frozen=True)
class Problem:
    """Something that does not fit, and the statement that mends it, if one does."""

    code: str
    text: str
    mend: str = ""

    def __str__(self) -> str:
        return f"{self.text}: {self.mend}" if self.mend else self.text


@dataclass
class Examined:
    """What was found: `problems` keep a store from opening, `advice` is logged by it, and `notes`
    are what one does without. `statements` are for the table as it is, if it has no problem."""

    problems: list[Problem] = field(default_factory=list)
    advice: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)
    statements: Statements = field(init=False)

    @property
    def warnings(self) -> list[str]:
        return [str(each) for each in self.advice]

    def refuse_problems(self, table: str) -> None:
        if self.problems:
            raise ConfigError(f"{table} does not fit: " + "; ".join(map(str, self.problems)))


@dataclass(frozen=True)
class _Found:
    type: str
    exact_type: str
    is_enum: bool
    has_default: bool
    is_not_null: bool
    length: int
    """Characters, or digits of a second; below 0 if there is no limit."""
    labels: Sequence[str]


def examine_at(url: str, options: TableOptions[Any]) -> Examined:
    """`examine` on a connection of its own."""
    with ServerAddress(url).connect() as connection:
        return examine(connection, options)


def examine(connection: psycopg.Connection[Any], options: TableOptions[Any]) -> Examined:
    """Look at the catalog only; nothing is written, and no row is read."""
    table = parse_relation(options.table_name, "table_name")
    view = None if options.view_name is None else parse_relation(options.view_name, "view_name")
    columns = Columns(options.alternate_column_names)
    examined = Examined()
    found = _columns_of(connection, table)
    if not found:
        examined.problems.append(
            Problem("missing_table", f"there is no table {table.text}", _create(table, columns))
        )
        return examined
    [keys] = fetch_row(connection, _HAS_KEY, [table.quoted])
    key = "UNIQUE" if keys else "PRIMARY KEY"
    for column in COLUMNS:
        _examine_column(column, found, columns, table, examined, key)
    state = found.get(columns["state"])
    if state is not None and state.type in TEXT:
        _examine_checks(connection, table, columns["state"], examined)
    view_columns = frozenset(_columns_of(connection, view)) if view is not None else frozenset()
    if view is not None:
        if not view_columns:
            examined.problems.append(Problem("missing_view", f"there is no view {view.text}"))
        elif columns["id"] not in view_columns:
            examined.problems.append(
                Problem(
                    "view_without_id",
                    f"view {view.text} lacks the column {columns['id']} of its table",
                )
            )
    _examine_fields(
        options, frozenset(found) if view is None else view_columns, view or table, examined
    )
    _examine_indexes(connection, table, columns, found, examined, key)
    _examine_rights(connection, table, ("SELECT", "UPDATE"), examined)
    if view_columns and view is not None:
        _examine_rights(connection, view, ("SELECT",), examined)
    if not examined.problems:
        log = found.get(columns["execution_logs"])
        examined.statements = Statements(
            options,
            table,
            view,
            columns,
            state_type=found[columns["state"]].type,
            message_type=found[columns["failure_message"]].exact_type,
            log_type="json" if log is None else log.type.removesuffix("[]"),
            view_columns=view_columns,
        )
    return examined


def _columns_of(connection: psycopg.Connection[Any], relation: Relation) -> dict[str, _Found]:
    rows = fetch_rows(connection, _COLUMNS_OF, [relation.quoted])
    return {
        name: _Found(kind, exact, what == "e", *rest) for name, kind, exact, what, *rest in rows
    }


def _examine_column(
    column: Column,
    found: dict[str, _Found],
    columns: Columns,
    table: Relation,
    examined: Examined,
    key: str,
) -> None:
    real = columns[column.name]
    there = found.get(real)
    if there is None:
        declared = column.declared.replace("PRIMARY KEY", key)
        add = f"ALTER TABLE {table.quoted} ADD COLUMN {quote(real)} {declared};"
        missing = Problem("missing_column", f"it has no column {real}", add)
        # An optional column is a problem too where the options name it.
        if column.is_needed or real != column.name:
            examined.problems.append(missing)
        else:
            columns.lacks(column.name)
            examined.notes.append(
                Problem("optional_column", f"it has no column {real}, so {column.without}", add)
            )
    elif there.is_enum and "enum" in column.types:
        if lacking := [state for state in STATES if state not in there.labels]:
            examined.problems.append(
                Problem(
                    "missing_state",
                    f"the type of column {real} lacks {', '.join(lacking)}",
                    " ".join(f"ALTER TYPE {there.type} ADD VALUE '{word}';" for word in lacking),
                )
            )
    elif there.type not in column.types:
        examined.problems.append(
            Problem(
                "wrong_type",
                f"column {real} is {there.type}, not {' or '.join(column.types)}",
                _retype(table, quote(real), there, column),
            )
        )
    elif 0 <= there.length < column.least:
        examined.problems.append(
            Problem(
                "wrong_type",
                f"column {real} is too short for what is written there ({there.exact_type})",
                _retype(table, quote(real), there, column),
            )
        )
    if there is not None and there.is_not_null and column.is_nulled:
        examined.problems.append(
            Problem(
                "not_null",
                f"column {real} is NOT NULL, but NULL is written to it",
                f"ALTER TABLE {table.quoted} ALTER COLUMN {quote(real)} DROP NOT NULL;",
            )
        )


def _examine_checks(
    connection: psycopg.Connection[Any], table: Relation, state: str, examined: Examined
) -> None:
    """Whether a CHECK on the state column forbids a state."""
    for name, check in fetch_rows(connection, _CHECKS_OF, [table.quoted, state]):
        words = sql.SQL("SELECT {0} FROM unnest({1}::text[]) AS s ({0}) WHERE NOT ({2})").format(
            sql.Identifier(state), sql.Literal(list(STATES)), sql.SQL(check)
        )
        forbidden: list[str] = []
        with contextlib.suppress(psycopg.ProgrammingError, psycopg.DataError):
            forbidden = [word for [word] in fetch_rows(connection, words)]
        if forbidden:
            examined.problems.append(
                Problem(
                    "missing_state",
                    f"the constraint {name} forbids {', '.join(forbidden)} in column {state}",
                    f"ALTER TABLE {table.quoted} DROP CONSTRAINT {quote(name)};",
                )
            )


def _retype(table: Relation, name: str, there: _Found, column: Column) -> str:
    """Turn the column's values into what they should be, if there is a way."""
    wanted, _, rest = column.declared.partition(" ")
    if wanted != "text" and there.type not in (*column.types, *_CASTS[wanted]):
        return ""
    values = f"{name}::{wanted}"
    if there.type == "timestamp without time zone":
        values = f"{name} AT TIME ZONE 'UTC'"
    steps = [f"TYPE {wanted} USING {values}"]
    if there.has_default:
        steps = ["DROP DEFAULT", *steps]
        _, _, default = rest.partition("DEFAULT ")
        if default and "IDENTITY" not in rest:
            steps.append(f"SET DEFAULT {default}")
    return (
        f"ALTER TABLE {table.quoted} "
        + ", ".join(f"ALTER COLUMN {name} {step}" for step in steps)
        + ";"
    )


def _examine_fields(
    options: TableOptions[Any], there: frozenset[str], seen: Relation, examined: Examined
) -> None:
    """A record's fields are columns of what it is read from, unless expressions say otherwise."""
    if options.column_expressions is not None or not there:
        return
    for name in options.field_names or ():
        if name not in there:
            examined.problems.append(
                Problem(
                    "missing_field",
                    f"{seen.text} has no column {name}, which the record's class asks for",
                )
            )


def _examine_indexes(
    connection: psycopg.Connection[Any],
    table: Relation,
    columns: Columns,
    found: dict[str, _Found],
    examined: Examined,
    key: str,
) -> None:
    unique = {name for [name] in fetch_rows(connection, _UNIQUE_OF, [table.quoted])}
    if columns["id"] in found and columns["id"] not in unique:
        examined.problems.append(
            Problem(
                "id_not_unique",
                f"column {columns['id']} is not unique",
                f"ALTER TABLE {table.quoted} ADD {key} ({quote(columns['id'])});",
            )
        )
    [usable] = fetch_row(connection, _INDEXES_BY_STATE, [columns["state"], table.quoted])
    if not usable:
        examined.advice.append(
            Problem(
                "missing_index",
                f"no index of {table.text} is by {columns['state']}, so every look for work reads"
                " the whole table",
                _indexes(table, columns),
            )
        )


def _examine_rights(
    connection: psycopg.Connection[Any],
    relation: Relation,
    rights: Sequence[str],
    examined: Examined,
) -> None:
    for right in rights:
        role, may = fetch_row(connection, _MAY, [relation.quoted, right])
        if not may:
            examined.problems.append(
                Problem(
                    "not_permitted",
                    f"{role} lacks the right to {right} {relation.text}",
                    f"GRANT {right} ON {relation.quoted} TO {quote(role)};",
                )
            )


def try_out(
    connection: psycopg.Connection[Any], statements: Statements, options: TableOptions[Any]
) -> None:
    """Let the server read the statements with the user's fragments; nothing is run."""
    for what, statement in (
        ("order_by or conditions", statements.claim(1, "", (), None)),
        ("column_expressions or order_by", statements.records([])),
    ):
        try:
            connection.execute(sql.SQL("EXPLAIN ") + statement)
        except (errors.AmbiguousColumn, errors.UndefinedColumn, errors.UndefinedTable) as error:
            alias = parse_relation(options.view_name or options.table_name, "view_name").alias
            raise ConfigError(
                f"{what} cannot be used: {one_line(error)}; call rows {alias}: {alias}.id"
            ) from None
        except errors.InsufficientPrivilege as error:
            raise ConfigError(f"{options.table_name} cannot be used: {one_line(error)}") from None
        except (psycopg.ProgrammingError, psycopg.DataError, psycopg.NotSupportedError) as error:
            raise ConfigError(f"{what} cannot be used: {one_line(error)}") from None


# ── DDL ──


def ddl(table: str, *, extra: Sequence[str] = (), index: bool = True) -> str:
    """CREATE TABLE for a jobs table, with columns of your own (`extra`), and its two indexes.

    `table` is `jobs` or `shop.jobs`.
    """
    return _create(parse_relation(table, "table"), Columns({}), extra=extra, index=index)


def _create(
    table: Relation, columns: Columns, *, extra: Sequence[str] = (), index: bool = True
) -> str:
    lines = [f"  {quote(columns[column.name]):<18}{column.declared}" for column in COLUMNS]
    lines += [f"  {each.strip()}" for each in extra]
    made = f"CREATE TABLE {table.quoted} (\n" + ",\n".join(lines) + "\n);"
    return f"{made}\n{_indexes(table, columns)}" if index else made


def _indexes(table: Relation, columns: Columns) -> str:
    """For claims and for resets: both read few rows, however many are finished. Waiting rows are
    in the order of their ids, so that a claim reads no further than it must."""
    on = f"CREATE INDEX ON {table.quoted} ({quote(columns['id'])}) WHERE {quote(columns['state'])}"
    return f"{on} IN ('queued', 'errored');\n{on} = 'processing';"
