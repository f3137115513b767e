"""Every job that ends passes `_ended`, whichever verb ends it, and its queue goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest

from tests.postgres.cluster import Cluster, Schema, fresh_schema
from windlass.model.job import Job
from windlass.store.records import (
    CANCEL,
    COMPLETE,
    RELEASE,
    ClaimRequest,
    Complete,
    Fail,
    Lease,
    NewJob,
    Outcome,
)
from windlass.stores.postgres import PostgresStore

RECORDER = """
CREATE TABLE {0}.heard (id bigint);
CREATE OR REPLACE FUNCTION {0}._ended(_ids bigint[], _tenants text[], _queues text[])
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO {0}.heard SELECT unnest(_ids);
  IF _queues IS NULL THEN
    RETURN false;
  END IF;
  PERFORM {0}._ring(_tenants, _queues);
  RETURN true;
END $$
"""
"""What `_ended` does, and a note of each job it is told of."""

KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "keyed": {"key": "k"},
    "queued": {"queue": "q"},
    "strict": {"queue": "q", "is_strict": 1},
    "kept": {"keep": 600.0},
    "of a tenant": {"tenant": "acme", "queue": "q", "key": "k"},
}

Way = Callable[[PostgresStore, Job], Awaitable[Any]]


async def _take(store: PostgresStore, suspects: int = 1) -> Lease:
    [lease] = await store.claim(ClaimRequest("w", ("t",), 1, suspects=suspects))
    return lease


def _settled(outcome: Outcome) -> Way:
    async def settle(store: PostgresStore, job: Job) -> None:
        await store.settle([(await _take(store), outcome)])

    return settle


async def _expire(store: PostgresStore, job: Job) -> None:
    await store.expire([await _take(store)], 1)
    await store.expire([await _take(store)], 1)


async def _unlock(store: PostgresStore, job: Job) -> None:
    await _take(store)
    await store.cancel([job.id])
    await store.unlock(["w"], 5)


async def _delete_failed(store: PostgresStore, job: Job) -> None:
    await store.settle([(await _take(store), Fail("no", final=True))])
    await store.delete_failed(10)


async def _retire(store: PostgresStore, job: Job) -> None:
    await _take(store)
    await store.cancel([job.id])
    await store.retire("w")


async def _in_transaction(store: PostgresStore, job: Job) -> None:
    lease = await _take(store)

    def complete() -> None:
        with store.transaction(lease) as tx:
            tx.complete(COMPLETE)

    await asyncio.to_thread(complete)


WAYS: dict[str, Way] = {
    "completed": _settled(COMPLETE),
    "completed with an output": _settled(Complete('"out"', keep=60.0)),
    "failed": _settled(Fail("no", final=True)),
    "cancelled": _settled(CANCEL),
    "completed in a transaction": _in_transaction,
    "expired": _expire,
    "unlocked": _unlock,
    "retired": _retire,
    "deleted": _delete_failed,
    "cancel": lambda store, job: store.cancel([job.id]),
    "complete": lambda store, job: store.complete([job.id]),
    "fail": lambda store, job: store.fail([job.id], "no"),
    "remove": lambda store, job: store.remove(job.key or "", job.tenant or ""),
}
SIMPLE = {("plain", "complete"), ("plain", "fail")}
"""An operator ends jobs on which nothing hangs in one pass, which does not pass `_ended`."""


@pytest.mark.parametrize("kind", KINDS)
def test_every_end_passes_one_function(pg: Cluster, kind: str) -> None:
    with fresh_schema(pg) as schema:
        asyncio.run(_walk(schema, kind))


async def _walk(schema: Schema, kind: str) -> None:
    store = PostgresStore(schema.url, schema_name=schema.name)
    await store.open()
    try:
        with psycopg.connect(schema.url, autocommit=True) as connection:
            connection.execute(RECORDER.format(schema.name).encode())
            for way, end in WAYS.items():
                if way == "remove" and "key" not in KINDS[kind]:
                    continue
                for table in ("_jobs", "_bells", "heard"):
                    connection.execute(f"TRUNCATE {schema.name}.{table}".encode())
                [job] = await store.enqueue([NewJob("t", **KINDS[kind])])
                behind = {**KINDS[kind], "key": None}
                [after] = await store.enqueue([NewJob("t", priority=1, **behind)])
                await end(store, job)
                heard = connection.execute(f"SELECT id FROM {schema.name}.heard".encode())
                expected = [] if (kind, way) in SIMPLE else [(job.id,)]
                assert list(dict.fromkeys(heard.fetchall())) == expected, way
                await _goes_on(store, way, job, after)
    finally:
        await store.close()


async def _goes_on(store: PostgresStore, way: str, job: Job, after: Job) -> None:
    """The next of the queue can be claimed, unless the job that failed holds it."""
    taken = await store.claim(ClaimRequest("next", ("t",), 5))
    still = await store.get(job.id)
    is_held = job.strict and still is not None and still.state == "failed"
    assert [lease.job_id for lease in taken] == ([] if is_held else [after.id]), way
    await store.settle([(lease, RELEASE) for lease in taken])
    await store.retire("next")
