"""Pauses of one tenant, and holds that operators make, beside claims that are just under way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest

from tests.patience import PATIENCE
from tests.postgres.cluster import Cluster, Schema, fresh_database, fresh_schema
from tests.postgres.private_sql import claim as claim_call
from windlass.model.job import JobState
from windlass.store.records import COMPLETE, RELEASE, ClaimRequest, Fail, Lease, NewJob, Verdict
from windlass.stores.postgres import PostgresStore

MANY = 12_000
"""More paused jobs than one claim parks."""


async def _claim(store: PostgresStore, limit: int = 10, **options: Any) -> list[Lease]:
    return await store.claim(ClaimRequest("w", ("t",), limit, **options))


async def _first_claimed(store: PostgresStore) -> list[int]:
    """What a worker is given first that asks until it is given something."""
    async with asyncio.timeout(PATIENCE):
        while not (taken := await _claim(store)):
            await asyncio.sleep(0.01)
    return [lease.job_id for lease in taken]


def _with_store(
    url: str, schema: str, body: Callable[[PostgresStore], Awaitable[None]], **options: Any
) -> None:
    async def whole() -> None:
        store = PostgresStore(url, schema_name=schema, **options)
        await store.open()
        try:
            await body(store)
        finally:
            await store.close()

    asyncio.run(whole())


def test_no_job_of_a_paused_task_starts_however_many_there_are(pg: Cluster) -> None:
    async def body(store: PostgresStore) -> None:
        jobs = await store.enqueue([NewJob("t", tenant="acme")] * MANY)
        await store.pause(task="t", tenant="acme")
        [other] = await store.enqueue([NewJob("t", tenant="bond")])
        assert await _first_claimed(store) == [other.id]
        assert await _claim(store) == []
        assert (await store.counts("acme"))[JobState.READY] == MANY
        await store.resume(task="t", tenant="acme")
        assert await _first_claimed(store) == [job.id for job in jobs[:10]]

    with fresh_schema(pg) as schema:
        _with_store(schema.url, schema.name, body)


def test_a_claim_that_parks_leaves_jobs_of_others_to_others(pg: Cluster) -> None:
    """It locks paused jobs, and no others than it takes."""

    async def body(store: PostgresStore) -> None:
        await store.enqueue([NewJob("t", tenant="acme")])
        await store.pause(task="t", tenant="acme")
        rest = await store.enqueue([NewJob("t", tenant="bond")] * 20)
        with psycopg.connect(store_url) as rival:
            rival.execute(claim_call(name, worker="'rival'", tasks="'{t}'", limit="1").encode())
            taken = await _claim(store)
            assert [lease.job_id for lease in taken] == [job.id for job in rest[1:11]]
            rival.rollback()

    with fresh_schema(pg) as schema:
        store_url, name = schema.url, schema.name
        _with_store(schema.url, schema.name, body)


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
def test_a_resume_that_waits_for_a_claim_sees_what_it_has_parked(
    pg: Cluster, isolation: str
) -> None:
    async def body(store: PostgresStore) -> None:
        [job] = await store.enqueue([NewJob("t", tenant="acme")])
        await store.pause(task="t", tenant="acme")
        with psycopg.connect(url) as rival:
            rival.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            rival.execute(claim_call("windlass", worker="'rival'", tasks="'{t}'").encode())
            resuming = asyncio.create_task(store.resume(task="t", tenant="acme"))
            async with asyncio.timeout(PATIENCE):
                while not resuming.done() and not _waits(url):
                    await asyncio.sleep(0.01)
            rival.commit()
            await resuming
        assert [lease.job_id for lease in await _claim(store)] == [job.id]

    with fresh_database(pg) as url:
        with psycopg.connect(url, autocommit=True) as owner:
            change = f"ALTER DATABASE {owner.info.dbname} SET default_transaction_isolation"
            owner.execute(f"{change} = '{isolation}'".encode())
        _with_store(url, "windlass", body, prepared_statements=False)


def _waits(url: str) -> bool:
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        ).fetchone()
    return found is not None


async def _answer_bells(store: PostgresStore) -> None:
    """The first job of each queue is ready from now on."""
    assert await store.claim(ClaimRequest("other", ("x",), 1)) == []


def test_behind_a_parked_head_others_run(pg: Cluster) -> None:
    async def body(store: PostgresStore) -> None:
        head, behind = await store.enqueue(
            [NewJob(task, tenant="acme", queue="q") for task in ("t", "u")]
        )
        await _answer_bells(store)
        await store.pause(task="t", tenant="acme")
        both = ClaimRequest("w", ("t", "u"), 10)
        [lease] = await store.claim(both) or await store.claim(both)
        assert lease.job_id == behind.id
        await store.settle([(lease, COMPLETE)])
        await store.resume(task="t", tenant="acme")
        assert await _first_claimed(store) == [head.id]

    with fresh_schema(pg) as schema:
        _with_store(schema.url, schema.name, body)


def test_jobs_that_a_worker_has_in_a_batch_are_not_parked(pg: Cluster) -> None:
    """Their rows are as they were, and look ready."""

    async def body(store: PostgresStore) -> None:
        await store.enqueue([NewJob("t", tenant="acme")] * 200)
        batch = await _claim(store, limit=100)
        assert len(batch) == 100
        await store.pause(task="t", tenant="acme")
        assert await store.claim(ClaimRequest("other", ("t",), 10)) == []
        settled = await store.settle([(lease, COMPLETE) for lease in batch])
        assert {each.verdict for each in settled} == {Verdict.APPLIED}
        assert sum((await store.counts("acme")).values()) == 100

    with fresh_schema(pg) as schema:
        _with_store(schema.url, schema.name, body)


def test_a_hold_keeps_back_its_own_queue_of_its_own_tenant_alone(pg: Cluster) -> None:
    async def body(store: PostgresStore) -> None:
        [held, _, free] = await store.enqueue(
            [
                NewJob("t", queue="q", tenant="acme", is_strict=1),
                NewJob("t", queue="q", tenant="acme"),
                NewJob("t", queue="q", tenant="bond"),
            ]
        )
        await _answer_bells(store)
        [first, other] = await _claim(store)
        assert {first.job_id, other.job_id} == {held.id, free.id}
        failed, released = (first, other) if first.job_id == held.id else (other, first)
        await store.settle([(failed, Fail("no", delay=0.0)), (released, RELEASE)])
        await _answer_bells(store)
        assert {lease.job_id for lease in await _claim(store)} == {held.id, free.id}

    with fresh_schema(pg) as schema:
        _with_store(schema.url, schema.name, body)


def test_a_job_that_was_locked_when_its_queue_was_held_does_not_start(pg: Cluster) -> None:
    async def body(store: PostgresStore) -> None:
        first, second = await store.enqueue(
            [NewJob("t", queue="q"), NewJob("t", queue="q", is_strict=1)]
        )
        await _answer_bells(store)
        with psycopg.connect(schema.url) as user:
            user.execute(
                f"SELECT FROM {schema.name}._jobs WHERE id = {first.id} FOR UPDATE".encode()
            )
            await store.fail([second.id], "no")
            user.rollback()
        assert await _claim(store, past_heads=True) == []
        await store.complete([second.id])
        [lease] = await _claim(store)
        assert lease.job_id == first.id
        await store.settle([(lease, COMPLETE)])

    schema: Schema
    with fresh_schema(pg) as schema:
        _with_store(schema.url, schema.name, body)


def test_one_delivery_named_twice_is_taken_back_once(pg: Cluster) -> None:
    async def body(store: PostgresStore) -> None:
        await store.enqueue([NewJob("t")])
        [lease] = await _claim(store)
        answers = await store.expire([lease, lease], 5)
        assert [answer.verdict.value for answer in answers] == ["applied", "lost"]

    with fresh_schema(pg) as schema:
        _with_store(schema.url, schema.name, body)
