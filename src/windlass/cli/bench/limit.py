"""The limit: the work of a scenario as bare SQL in batches, on the least table that works.

It does what any queue must: a job is added, taken by one worker, decoded, and deleted, with a
commit after each step. There are no retries, no leases, no keys, no queues. One kind per database,
through the driver that Windlass uses itself.
"""

from __future__ import annotations

import sqlite3
import time
from typing import Protocol
from urllib.parse import unquote

import msgspec

from windlass.cli.bench.site import Address

decode = msgspec.json.Decoder().decode


class Limit(Protocol):
    """One connection; each call is one transaction, `work` is two."""

    takes_turns: bool
    """Whether one connection that adds and works in turn is the fastest way to do both."""

    def create(self) -> None: ...

    def add(self, payloads: list[str]) -> None: ...

    def add_one(self, payload: str) -> None: ...

    def work(self, most: int) -> int:
        """Claim up to so many jobs, decode their payloads, delete them; how many there were."""

    def close(self) -> None: ...


def open_limit(address: Address) -> Limit:
    if address.url.startswith("sqlite:"):
        return SqliteLimit(address)
    from windlass.cli.bench.limit_postgres import PostgresLimit

    return PostgresLimit(address)


def payloads(first: int, count: int) -> list[str]:
    return [f'{{"id":{number}}}' for number in range(first, first + count)]


_TABLE = """
CREATE TABLE bare_jobs (
  id integer PRIMARY KEY, task text, payload text, run_at real, priority integer,
  attempts integer, locked_by text, lease real
);
CREATE INDEX bare_jobs_ready ON bare_jobs (priority, run_at, id) WHERE locked_by IS NULL;
"""
_ADD = """
INSERT INTO bare_jobs (task, payload, run_at, priority, attempts) VALUES ('noop', ?, ?, 0, 0)
"""
_CLAIM = """
UPDATE bare_jobs SET locked_by = 'w', attempts = attempts + 1, lease = ? WHERE id IN (
  SELECT id FROM bare_jobs WHERE locked_by IS NULL AND run_at <= ?
  ORDER BY priority, run_at, id LIMIT ?
) RETURNING id, payload
"""


class SqliteLimit:
    """A file of its own beside Windlass's, with the same durability."""

    takes_turns = True

    def __init__(self, address: Address) -> None:
        path = unquote(address.url.removeprefix("sqlite:///")).removesuffix(".db") + ".bare.db"
        self._database = sqlite3.connect(
            path, timeout=60, isolation_level=None, check_same_thread=False
        )
        self._database.execute("PRAGMA journal_mode = wal")
        self._database.execute(f"PRAGMA synchronous = {address.synchronous}")

    def create(self) -> None:
        self._database.executescript(_TABLE)

    def add(self, payloads: list[str]) -> None:
        self._database.execute("BEGIN IMMEDIATE")
        now = time.time()
        self._database.executemany(_ADD, [(payload, now) for payload in payloads])
        self._database.execute("COMMIT")

    def add_one(self, payload: str) -> None:
        self._database.execute(_ADD, (payload, time.time()))

    def work(self, most: int) -> int:
        self._database.execute("BEGIN IMMEDIATE")
        now = time.time()
        rows = self._database.execute(_CLAIM, (now + 30, now, most)).fetchall()
        self._database.execute("COMMIT")
        if rows:
            for row in rows:
                decode(row[1])
            self._database.execute("BEGIN IMMEDIATE")
            done = [(row[0],) for row in rows]
            self._database.executemany("DELETE FROM bare_jobs WHERE id = ?", done)
            self._database.execute("COMMIT")
        return len(rows)

    def close(self) -> None:
        self._database.close()
