"""The limit of chains on PostgreSQL, through psycopg: one statement starts a batch of chains, one
settles a batch of jobs."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from windlass.cli.bench.limit import decode
from windlass.cli.bench.limit_chains import Claimed, Shape
from windlass.cli.bench.site import Address

_TABLES = """
CREATE TABLE {chains} (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  state text NOT NULL DEFAULT 'open',
  output json
);
CREATE TABLE {jobs} (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run_at timestamptz NOT NULL DEFAULT now(),
  locked_at timestamptz,
  chain bigint NOT NULL,
  priority integer NOT NULL DEFAULT 0,
  attempts integer NOT NULL DEFAULT 0,
  remaining integer NOT NULL DEFAULT 0,
  parts integer NOT NULL DEFAULT 0,
  is_waiting integer NOT NULL DEFAULT 0,
  blockers integer NOT NULL DEFAULT 0,
  task text NOT NULL DEFAULT 'link',
  payload json NOT NULL DEFAULT '{{}}',
  locked_by text
);
CREATE INDEX ON {jobs} (priority, run_at, id) WHERE locked_by IS NULL AND blockers = 0;
CREATE TABLE {blockers} (chain bigint, job bigint, PRIMARY KEY (chain, job));
CREATE INDEX ON {blockers} (job);
"""
_START = """
WITH started AS (
  INSERT INTO {chains} (state) SELECT 'open' FROM generate_series(1, %s) RETURNING id
)
INSERT INTO {jobs} (chain, remaining, parts) SELECT id, %s, %s FROM started
"""
_CLAIM = """
UPDATE {jobs} SET locked_by = 'w', locked_at = now(), attempts = attempts + 1
WHERE id = ANY(ARRAY(
  SELECT id FROM {jobs} WHERE locked_by IS NULL AND blockers = 0 AND run_at <= now()
  ORDER BY priority, run_at, id LIMIT %s FOR UPDATE SKIP LOCKED
)) RETURNING id, chain, remaining, parts, is_waiting, payload::text
"""
_OUTPUTS = """
SELECT c.output::text FROM {blockers} AS b JOIN {chains} AS c ON c.id = b.chain WHERE b.job = %s
"""
# Jobs that wait are locked by id, so that two workers cannot wait for each other.
_SETTLE = """
WITH gone AS (
  DELETE FROM {jobs} WHERE id = ANY(%s) RETURNING id, chain, remaining, parts, is_waiting
), following AS (
  INSERT INTO {jobs} (chain, remaining) SELECT chain, remaining - 1 FROM gone WHERE remaining > 0
), met AS (
  DELETE FROM {blockers} AS b USING gone AS g WHERE g.is_waiting = 1 AND b.job = g.id
), ended AS (
  UPDATE {chains} AS c SET state = 'completed', output = '1'
  FROM gone AS g WHERE c.id = g.chain AND g.remaining = 0 AND g.parts = 0
  RETURNING c.id
), waiting AS MATERIALIZED (
  SELECT b.job, count(*) AS ended FROM ended AS e JOIN {blockers} AS b ON b.chain = e.id
  GROUP BY b.job ORDER BY b.job
), locked AS MATERIALIZED (
  SELECT j.id FROM {jobs} AS j WHERE j.id IN (SELECT w.job FROM waiting AS w)
  ORDER BY j.id FOR UPDATE
)
UPDATE {jobs} AS j SET blockers = j.blockers - w.ended
FROM waiting AS w JOIN locked AS l ON l.id = w.job WHERE j.id = w.job
"""
_SPLIT = """
WITH started AS (
  INSERT INTO {chains} (state) SELECT 'open' FROM generate_series(1, %(parts)s) RETURNING id
), parts AS (
  INSERT INTO {jobs} (chain) SELECT id FROM started
), merge AS (
  INSERT INTO {jobs} (chain, is_waiting, blockers) VALUES (%(chain)s, 1, %(parts)s) RETURNING id
)
INSERT INTO {blockers} (chain, job) SELECT s.id, m.id FROM started AS s CROSS JOIN merge AS m
"""


class PostgresChainLimit:
    """Tables beside Windlass's, in the same schema, with the server's durability."""

    takes_turns = False

    def __init__(self, address: Address) -> None:
        self.connection: psycopg.Connection[Any] = psycopg.connect(
            address.url, autocommit=True, prepare_threshold=0, application_name="windlass bench"
        )
        names = {
            name: sql.Identifier(address.schema, f"bare_{name}")
            for name in ("chains", "jobs", "blockers")
        }
        self._tables, self._start, self._claim, self._outputs, self._settle, self._split = (
            sql.SQL(text).format(**names).as_string(self.connection).encode()
            for text in (_TABLES, _START, _CLAIM, _OUTPUTS, _SETTLE, _SPLIT)
        )

    def create(self) -> None:
        with self.connection.transaction():
            for statement in self._tables.split(b";")[:-1]:
                self.connection.execute(statement)

    def start(self, shape: Shape, count: int) -> None:
        left = 0 if shape.parts else shape.steps - 1
        self.connection.execute(self._start, [count, left, shape.parts])

    def work(self, most: int) -> int:
        claimed = self.connection.execute(self._claim, [most]).fetchall()
        if claimed:
            jobs = [Claimed(*row) for row in claimed]
            for job in jobs:
                decode(job.payload)
                if job.is_waiting:
                    for row in self.connection.execute(self._outputs, [job.id]).fetchall():
                        decode(row[0])
            splits = [job for job in jobs if job.parts]
            if splits:
                with self.connection.transaction():
                    self._finish(jobs)
                    for job in splits:
                        values = {"chain": job.chain, "parts": job.parts}
                        self.connection.execute(self._split, values)
            else:
                self._finish(jobs)
        return len(claimed)

    def _finish(self, jobs: list[Claimed]) -> None:
        self.connection.execute(self._settle, [[job.id for job in jobs]])

    def close(self) -> None:
        self.connection.close()
