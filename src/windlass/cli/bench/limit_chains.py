"""The limit of chains: the statements they cannot do without, in batches, on the least tables.

A chain has a row that is written when it starts and when it ends. Settling a job stores the next
one, or the chains it starts and the job that waits for them. The end of a chain counts down the
jobs that named it. There are no keys, no retries, no leases, and no other states.
"""

from __future__ import annotations

import sqlite3
import time
from typing import NamedTuple, Protocol
from urllib.parse import unquote

import msgspec

from windlass.cli.bench.limit import decode
from windlass.cli.bench.site import Address


class Shape(msgspec.Struct, frozen=True):
    """Chains of a kind: of so many jobs one after the other; or, with `parts`, of one job that
    starts so many chains and another that waits for them."""

    name: str
    chains: int
    steps: int = 2
    parts: int = 0

    @property
    def jobs(self) -> int:
        return self.chains * (self.steps + self.parts)


class ChainLimit(Protocol):
    """One connection; each call is one transaction, `work` is two."""

    takes_turns: bool
    """Whether one connection that adds and works in turn is the fastest way to do both."""

    def create(self) -> None: ...

    def start(self, shape: Shape, count: int) -> None:
        """Start so many chains."""

    def work(self, most: int) -> int:
        """Claim up to so many jobs, decode their payloads, settle them; how many there were."""

    def close(self) -> None: ...


def open_chain_limit(address: Address) -> ChainLimit:
    if address.url.startswith("sqlite:"):
        return SqliteChainLimit(address)
    from windlass.cli.bench.limit_chains_postgres import PostgresChainLimit

    return PostgresChainLimit(address)


class Claimed(NamedTuple):
    """A job that was taken: `left` is how many follow it, `parts` how many chains it starts."""

    id: int
    chain: int
    left: int
    parts: int
    is_waiting: int
    """Whether it waited for others, and reads what they returned."""
    payload: str


_TABLES = """
CREATE TABLE bare_chains (id integer PRIMARY KEY, state text, output text);
CREATE TABLE bare_jobs (
  id integer PRIMARY KEY, task text, payload text, run_at real, priority integer, attempts integer,
  locked_by text, lease real, chain integer, left integer, parts integer, is_waiting integer,
  blockers integer
);
CREATE INDEX bare_jobs_ready ON bare_jobs (priority, run_at, id)
  WHERE locked_by IS NULL AND blockers = 0;
CREATE TABLE bare_blockers (chain integer, job integer, PRIMARY KEY (chain, job)) WITHOUT ROWID;
CREATE INDEX bare_blockers_job ON bare_blockers (job);
"""
_ADD_CHAIN = "INSERT INTO bare_chains (id, state) VALUES (?, 'open')"
_ADD_JOB = """
INSERT INTO bare_jobs
  (task, payload, run_at, priority, attempts, chain, left, parts, is_waiting, blockers)
VALUES ('link', '{}', ?, 0, 0, ?, ?, ?, ?, ?)
"""
_CLAIM = """
UPDATE bare_jobs SET locked_by = 'w', attempts = attempts + 1, lease = ? WHERE id IN (
  SELECT id FROM bare_jobs WHERE locked_by IS NULL AND blockers = 0 AND run_at <= ?
  ORDER BY priority, run_at, id LIMIT ?
) RETURNING id, chain, left, parts, is_waiting, payload
"""
_OUTPUTS = """
SELECT c.output FROM bare_blockers AS b JOIN bare_chains AS c ON c.id = b.chain WHERE b.job = ?
"""
_END = "UPDATE bare_chains SET state = 'completed', output = '1' WHERE id = ?"
_WAITING = """
SELECT count(*), b.job FROM json_each(?) AS e CROSS JOIN bare_blockers AS b ON b.chain = e.value
GROUP BY b.job
"""
_COUNT_DOWN = "UPDATE bare_jobs SET blockers = blockers - ? WHERE id = ?"


class SqliteChainLimit:
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
        self._database.executescript(_TABLES)

    def start(self, shape: Shape, count: int) -> None:
        self._database.execute("BEGIN IMMEDIATE")
        self._start(count, 0 if shape.parts else shape.steps - 1, shape.parts)
        self._database.execute("COMMIT")

    def work(self, most: int) -> int:
        self._database.execute("BEGIN IMMEDIATE")
        now = time.time()
        claimed = self._database.execute(_CLAIM, (now + 30, now, most)).fetchall()
        self._database.execute("COMMIT")
        if claimed:
            jobs = [Claimed(*row) for row in claimed]
            for job in jobs:
                decode(job.payload)
            self._database.execute("BEGIN IMMEDIATE")
            self._settle(jobs)
            self._database.execute("COMMIT")
        return len(claimed)

    def _settle(self, jobs: list[Claimed]) -> None:
        run, many = self._database.execute, self._database.executemany
        for job in jobs:
            if job.is_waiting:
                for row in run(_OUTPUTS, (job.id,)).fetchall():
                    decode(row[0])
                run("DELETE FROM bare_blockers WHERE job = ?", (job.id,))
        many("DELETE FROM bare_jobs WHERE id = ?", [(job.id,) for job in jobs])
        now = time.time()
        many(_ADD_JOB, [(now, job.chain, job.left - 1, 0, 0, 0) for job in jobs if job.left])
        for job in jobs:
            if job.parts:
                parts = self._start(job.parts, 0, 0)
                merge = run(_ADD_JOB, (now, job.chain, 0, 0, 1, job.parts)).lastrowid
                named = [(part, merge) for part in parts]
                many("INSERT INTO bare_blockers (chain, job) VALUES (?, ?)", named)
        ended = [job.chain for job in jobs if not job.left and not job.parts]
        many(_END, [(chain,) for chain in ended])
        waiting = run(_WAITING, (msgspec.json.encode(ended).decode(),)).fetchall()
        many(_COUNT_DOWN, waiting)

    def _start(self, count: int, left: int, parts: int) -> range:
        """Chains of one job so far; nothing else writes now, so their ids follow the last one."""
        [last] = self._database.execute("SELECT coalesce(max(id), 0) FROM bare_chains").fetchone()
        ids = range(last + 1, last + 1 + count)
        now = time.time()
        self._database.executemany(_ADD_CHAIN, [(chain,) for chain in ids])
        self._database.executemany(_ADD_JOB, [(now, chain, left, parts, 0, 0) for chain in ids])
        return ids

    def close(self) -> None:
        self._database.close()
