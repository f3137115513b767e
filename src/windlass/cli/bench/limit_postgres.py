"""The limit on PostgreSQL, through psycopg.

`= ANY(ARRAY(…))` never reads the whole table, where a join with a subselect may; payloads are read
as text, because psycopg would decode `json` one by one with the standard library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import sql

from windlass.cli.bench.limit import decode
from windlass.cli.bench.site import Address

_TABLE = """
CREATE TABLE {table} (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run_at timestamptz NOT NULL DEFAULT now(),
  locked_at timestamptz,
  priority integer NOT NULL DEFAULT 0,
  attempts integer NOT NULL DEFAULT 0,
  task text NOT NULL,
  payload json NOT NULL,
  locked_by text
);
CREATE INDEX ON {table} (priority, run_at, id) WHERE locked_by IS NULL;
"""
_ADD = "INSERT INTO {table} (task, payload) SELECT 'noop', unnest(%s::text[])::json"
_ADD_ONE = "INSERT INTO {table} (task, payload) VALUES ('noop', %s::text::json) RETURNING id"
_CLAIM = """
UPDATE {table} SET locked_by = 'w', locked_at = now(), attempts = attempts + 1
WHERE id = ANY(ARRAY(
  SELECT id FROM {table} WHERE locked_by IS NULL AND run_at <= now()
  ORDER BY priority, run_at, id LIMIT %s FOR UPDATE SKIP LOCKED
)) RETURNING id, payload::text
"""
_DELETE = "DELETE FROM {table} WHERE id = ANY(%s)"


class PostgresLimit:
    """One table beside Windlass's, in the same schema, with the server's durability."""

    takes_turns = False

    def __init__(self, address: Address) -> None:
        self.connection: psycopg.Connection[Any] = psycopg.connect(
            address.url, autocommit=True, prepare_threshold=0, application_name="windlass bench"
        )
        table = sql.Identifier(address.schema, "bare_jobs")
        self._table, self._add, self._add_one, self._claim, self._delete = (
            sql.SQL(text).format(table=table).as_string(self.connection).encode()
            for text in (_TABLE, _ADD, _ADD_ONE, _CLAIM, _DELETE)
        )

    def create(self) -> None:
        with self.connection.transaction():
            for statement in self._table.split(b";")[:-1]:
                self.connection.execute(statement)

    def add(self, payloads: list[str]) -> None:
        self.connection.execute(self._add, [payloads])

    def add_one(self, payload: str) -> None:
        self.connection.execute(self._add_one, [payload]).fetchone()

    def work(self, most: int, handler: Callable[[Any], object] = lambda payload: None) -> int:
        rows = self.connection.execute(self._claim, [most]).fetchall()
        if rows:
            for row in rows:
                handler(decode(row[1]))
            self.connection.execute(self._delete, [[row[0] for row in rows]])
        return len(rows)

    def close(self) -> None:
        self.connection.close()
