"""A jobs table of somebody's own that the contract suite can drive.

The suite asks for a whole queue. What is the store's (claim, settle, renew, reap, cancel, find,
transactions) goes to `TableStore` as it is; what a user of a table does with SQL of their own
(insert, look up, delete what is done) is done here with SQL of our own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import psycopg
from psycopg import sql
from psycopg.rows import dict_row, tuple_row

from tests.patience import PATIENCE
from windlass.clock import Clock, to_datetime, to_micros
from windlass.model import payload as payloads
from windlass.model.job import Job, JobState
from windlass.model.names import DEFAULT_MAX_ATTEMPTS
from windlass.store import rules
from windlass.store.records import (
    ClaimRequest,
    JobFilter,
    Lease,
    NewJob,
    Outcome,
    Paused,
    Settled,
    Verdict,
    WorkerInfo,
)
from windlass.stores.table import TableOptions, TableStore
from windlass.stores.table.setup import ddl

OWN_COLUMNS = (
    "task text NOT NULL",
    "payload text NOT NULL",
    "priority integer NOT NULL DEFAULT 0",
    "flags text[]",
    "key text",
    "queue text",
    "keep float8",
)
TABLE = ddl("their_jobs", extra=OWN_COLUMNS)
# Their own rule: what is done is deleted, unless it was to be kept.
TRIGGER = """
CREATE FUNCTION drop_done() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM their_jobs WHERE id = NEW.id;
  RETURN NULL;
END $$;
CREATE TRIGGER drop_done AFTER UPDATE ON their_jobs FOR EACH ROW
  WHEN (NEW.state = 'completed' AND coalesce(NEW.keep, 0) = 0) EXECUTE FUNCTION drop_done();
"""
EMPTY = """
DROP TABLE IF EXISTS handlers_own;
DELETE FROM their_jobs;
ALTER TABLE their_jobs ALTER num_failures SET NOT NULL, ALTER num_resets SET NOT NULL,
  ALTER cancel SET NOT NULL;
"""
NULLABLE = """
ALTER TABLE their_jobs ALTER num_failures DROP NOT NULL, ALTER num_resets DROP NOT NULL,
  ALTER cancel DROP NOT NULL;
UPDATE their_jobs SET num_failures = NULL, num_resets = NULL, cancel = NULL;
"""
DROP_DONE = "ALTER TABLE their_jobs ENABLE TRIGGER drop_done"
KEEP_ALL = "ALTER TABLE their_jobs DISABLE TRIGGER drop_done"
OPTIONS: TableOptions[dict[str, Any]] = TableOptions(
    name="theirs",
    table_name="their_jobs AS j",
    order_by="j.priority, coalesce(j.process_after, j.queued_at)",
    max_num_retries=DEFAULT_MAX_ATTEMPTS - 1,
    retry_after=1.0,
    stalled_max_age=30.0,
)


class Inserter:
    """The owner's INSERT in a transaction of the owner's."""

    def __init__(self, connection: psycopg.Connection[Any], now: int) -> None:
        self._connection = connection
        self._now = now

    def enqueue(self, jobs: Sequence[NewJob]) -> None:
        with psycopg.Cursor(self._connection, row_factory=tuple_row) as cursor:
            for job in jobs:
                _insert(cursor, job, self._now)


class TheirTable(TableStore[dict[str, Any]]):
    """`TableStore`, and the SQL of the table's owner around it."""

    def __init__(self, url: str, *, clock: Clock) -> None:
        super().__init__(url, OPTIONS, clock=clock)

    # ── the owner's own SQL ──

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Job]:
        def insert(connection: psycopg.Connection[Any]) -> list[int]:
            with connection.transaction(), connection.cursor() as cursor:
                return [_insert(cursor, job, now) for job in jobs]

        now = await self.now()
        ids = await self._open_threads().run(insert)
        self.hint()
        added = await self.find(JobFilter(ids=tuple(ids), limit=len(ids))) if ids else []
        return added[::-1]

    def joined(self, connection: psycopg.Connection[Any]) -> Inserter:
        return Inserter(connection, self._clock.now())

    async def get_by_key(self, key: str) -> Job | None:
        jobs = await self.find(JobFilter(key=key))
        return next((job for job in jobs if job.state not in _FREES_ITS_KEY), None)

    async def fail(self, ids: Sequence[int], reason: str) -> list[Job]:
        await self._change(
            "UPDATE their_jobs SET state = 'failed', failure_message = %(reason)s,"
            " finished_at = %(now)s WHERE id = ANY (%(ids)s)",
            ids=list(ids),
            reason=reason,
            now=to_datetime(await self.now()),
        )
        return (await self.find(JobFilter(ids=tuple(ids))))[::-1]

    async def complete(self, ids: Sequence[int]) -> list[Job]:
        await self._change("DELETE FROM their_jobs WHERE id = ANY (%(ids)s)", ids=list(ids))
        return []

    async def _change(self, text: str, **values: Any) -> None:
        await self._open_threads().run(lambda it: it.execute(text.encode(), values).rowcount)

    # ── what the table knows nothing of ──

    async def paused(self) -> Paused:
        return Paused()

    async def resume(self, *, task: str | None = None, queue: str | None = None) -> None:
        """Nothing is ever paused."""

    async def workers(self) -> list[WorkerInfo]:
        return []

    async def schedules(self) -> list[Any]:
        return []

    # ── the store's verbs, with what the owner's columns mean ──

    async def claim(self, request: ClaimRequest) -> list[Lease]:
        wanted = [sql.SQL("j.task = ANY ({}::text[])").format(list(request.tasks or ()))]
        if request.forbidden_flags:
            flags = list(request.forbidden_flags)
            wanted.append(sql.SQL("NOT coalesce(j.flags && {}::text[], false)").format(flags))
        narrowed = msgspec.structs.replace(
            request, tasks=(self.options.name,), conditions=tuple(wanted)
        )
        return [_filled(lease) for lease in await super().claim(narrowed)]

    async def settle(self, settlements: Sequence[tuple[Lease, Outcome]]) -> list[Settled]:
        """Ask again for what a rival holds at the moment, as the engine does."""
        answers = list(await super().settle(settlements))
        end = asyncio.get_running_loop().time() + PATIENCE
        while busy := [n for n, answer in enumerate(answers) if answer.verdict is Verdict.BUSY]:
            assert asyncio.get_running_loop().time() < end, "a row is held for ever"
            again = await super().settle([settlements[n] for n in busy])
            for n, answer in zip(busy, again, strict=True):
                answers[n] = answer
        return answers

    async def find(self, wanted: JobFilter, conditions: Sequence[Any] = ()) -> list[Job]:
        owns = {"task": wanted.task, "queue": wanted.queue, "key": wanted.key}
        own = [
            sql.SQL("{} = {}").format(sql.Identifier("j", name), value)
            for name, value in owns.items()
            if value is not None
        ]
        plain = msgspec.structs.replace(wanted, task=None, queue=None, key=None)
        jobs = await super().find(plain, (*conditions, *own))
        return await self._with_own_columns(jobs)

    async def _with_own_columns(self, jobs: Sequence[Job]) -> list[Job]:
        def read(connection: psycopg.Connection[Any]) -> dict[int, dict[str, Any]]:
            with connection.cursor(row_factory=dict_row) as cursor:
                cursor.execute(
                    "SELECT id, task, payload, priority, flags, key, queue, keep FROM their_jobs"
                    " WHERE id = ANY (%s)",
                    [[job.id for job in jobs]],
                )
                return {row["id"]: row for row in cursor.fetchall()}

        rows = await self._open_threads().run(read)
        return [
            msgspec.structs.replace(job, max_attempts=DEFAULT_MAX_ATTEMPTS, **_own(rows[job.id]))
            for job in jobs
            if job.id in rows
        ]

    async def counts(self) -> dict[Any, int]:
        """Its words are the table's; which of the waiting are due, `find` says."""
        words = await super().counts()
        later = await super().find(JobFilter(states=(JobState.SCHEDULED,), limit=10_000))
        waiting = words.get("queued", 0) + words.get("errored", 0)
        return {
            JobState.BLOCKED: 0,
            JobState.SCHEDULED: len(later),
            JobState.READY: waiting - len(later),
            JobState.RUNNING: words.get("processing", 0),
            JobState.COMPLETED: words.get("completed", 0),
            JobState.FAILED: words.get("failed", 0),
            JobState.CANCELLED: words.get("canceled", 0),
        }

    async def cancel(self, ids: Sequence[int]) -> Any:
        changed = await super().cancel(ids)
        return (await self.find(JobFilter(ids=tuple(changed))))[::-1] if changed else []


_FREES_ITS_KEY = (JobState.CANCELLED, JobState.COMPLETED)


def _insert(cursor: psycopg.Cursor[Any], job: NewJob, now: int) -> int:
    due = job.run_at if job.run_at is not None else now + job.delay if job.delay else None
    cursor.execute(
        "INSERT INTO their_jobs (task, payload, priority, flags, key, queue, keep, queued_at,"
        " process_after) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s) RETURNING id",
        [
            job.task,
            job.payload,
            job.priority,
            None if job.flags is None else list(job.flags),
            job.key,
            job.queue,
            job.keep,
            to_datetime(now),
            None if due is None else to_datetime(min(due, rules.LAST_INSTANT)),
        ],
    )
    row = cursor.fetchone()
    assert row is not None
    return int(row[0])


def _own(row: Mapping[str, Any]) -> dict[str, Any]:
    """The owner's columns, by the names a job has for them."""
    flags = row["flags"]
    return {
        "task": row["task"],
        "payload": payloads.decode(row["payload"]),
        "priority": row["priority"],
        "key": row["key"],
        "queue": row["queue"],
        "keep": row["keep"],
        "flags": None if flags is None else tuple(flags),
    }


def _filled(lease: Lease) -> Lease:
    """A lease that shows the owner's columns where the suite looks for a job's."""
    row: dict[str, Any] = lease.record
    for name, value in _own(row).items():
        setattr(lease, name, row["payload"] if name == "payload" else value)
    due = row["process_after"] or row["queued_at"]
    lease.run_at = rules.LAST_INSTANT if due is None else to_micros(due)
    lease.max_attempts = None
    return lease


@contextmanager
def fresh_table(url: str, *, keeps_all: bool = False) -> Iterator[None]:
    """An empty table of theirs in a database that `make_table` made one in."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute(EMPTY)
        connection.execute(KEEP_ALL if keeps_all else DROP_DONE)
    yield


def make_table(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(TABLE.encode())
        connection.execute(TRIGGER)
