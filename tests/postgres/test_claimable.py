"""A look before claims reads a few index entries for each scope, whatever the backlog, and never
says no where a claim would find a job."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import psycopg
import pytest

from tests.postgres.cluster import Cluster, Schema, fresh_schema
from tests.postgres.test_plans import BACKLOGS, READ, READY, SCANNED, SIZES, _number
from windlass.store.records import (
    COMPLETE,
    RELEASE,
    ClaimRequest,
    Complete,
    Lease,
    NewChain,
    NewJob,
    Outcome,
)
from windlass.store.server import ClaimScope
from windlass.stores.postgres import PostgresStore
from windlass.stores.postgres.requests import encode_scopes
from windlass.stores.postgres.schema import prepare

SCOPES = 500


@pytest.fixture
def made(pg: Cluster) -> Iterator[Schema]:
    with fresh_schema(pg) as schema:
        with psycopg.connect(schema.url, autocommit=True) as connection:
            prepare(connection, schema.name, "auto")
            connection.execute(
                f"ALTER TABLE {schema.name}._jobs SET (autovacuum_enabled = off)".encode()
            )
        yield schema


OTHERS = (
    "INSERT INTO {0}._jobs (run_at, created_at, updated_at, payload, state, task, tenant)"
    " SELECT now(), now(), now(), '{{}}', 'ready', 'a', 'tenant' || n % 1000"
    " FROM generate_series(1, {1}) AS n"
)
IN_BATCHES = (
    READY.format("{0}", "'a'", 0, 0, "{1}")
    + "; INSERT INTO {0}._batches SELECT 1, 1, now(), range_agg(int8range(id, id, '[]'))"
    " FROM {0}._jobs"
)
BEHIND = {
    **BACKLOGS,
    "of others": OTHERS,
    "in batches": IN_BATCHES.replace("'{}'", "'{{}}'"),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("backlog", BEHIND)
def test_a_look_reads_few_entries_for_each_scope(made: Schema, backlog: str, size: int) -> None:
    """Scopes of one task, of many, of a tenant, and of every task."""
    name = made.name
    scopes = [
        [
            ClaimScope(("a",), ("",)),
            ClaimScope(tuple(f"none{n}" for n in range(10)), ("",)),
            ClaimScope(("a",), (f"none{n}",)),
            ClaimScope(None, (f"none{n}",)),
            ClaimScope(("b", *(f"none{n}" for n in range(10)))),
        ][n % 5]
        for n in range(SCOPES)
    ]
    with psycopg.connect(made.url) as connection:
        if BEHIND[backlog]:
            connection.execute(BEHIND[backlog].format(name, size).encode())
        connection.execute(READY.format(name, "'b'", 0, 0, 1000).encode())
        connection.commit()
        for _ in range(2):
            before = _number(connection, READ.format(name))
            scanned = _number(connection, SCANNED.format(name))
            found = connection.execute(
                f"SELECT {name}._may_claim(%s::json)".encode(), [encode_scopes(scopes)]
            ).fetchone()
            assert found is not None
            is_a = backlog == "in batches"  # fifty were looked at, and none was free
            assert found[0] == [is_a, False, False, False, True] * (SCOPES // 5)
            read = _number(connection, READ.format(name)) - before
            each = 50 if is_a else 4
            assert read <= each * SCOPES // 5 + 4 * SCOPES
            assert _number(connection, SCANNED.format(name)) == scanned
            connection.rollback()
            connection.execute(f"ANALYZE {name}._jobs".encode())  # and with fresh statistics
            connection.commit()


def test_a_scope_stops_at_the_first_task_with_jobs(made: Schema) -> None:
    tasks = tuple(f"t{n}" for n in range(1000))
    with psycopg.connect(made.url) as connection:
        for task in ("t0", "t500"):
            connection.execute(READY.format(made.name, f"'{task}'", 0, 0, 10).encode())
        connection.commit()
        before = _number(connection, READ.format(made.name))
        scope = encode_scopes([ClaimScope(tasks), ClaimScope()])
        found = connection.execute(
            f"SELECT {made.name}._may_claim(%s::json)".encode(), [scope]
        ).fetchone()
        assert found == ([True, True],)
        assert _number(connection, READ.format(made.name)) - before <= 10


def test_what_a_claim_finds_was_never_denied(made: Schema) -> None:
    """Walks at random through jobs with queues, tenants, pauses and chains; before each claim it is
    asked, and what it said no to finds nothing, not even behind heads."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")

    async def walk() -> int:
        rng = random.Random(seed)
        store = PostgresStore(made.url, schema_name=made.name, listen=False)
        store.claims.least_batch = 2
        await store.open()
        denied = 0
        held: list[Lease] = []
        try:
            for step in range(250):
                await _stir(store, rng, held, step)
                scope = _scope(rng)
                [may] = await store.claimable([scope])
                request = ClaimRequest(
                    f"w{rng.randrange(3)}",
                    scope.tasks,
                    2,
                    scope.tenants,
                    suspects=2,
                    past_heads=True,
                )
                leases = await store.claim(request)
                assert may or not leases, (step, scope, leases)
                denied += not may
                held += leases
        finally:
            await store.close()
        return denied

    assert asyncio.run(walk()) > 0


def _scope(rng: random.Random) -> ClaimScope:
    tasks = rng.choice([None, ("a",), ("b",), ("a", "c")])
    tenants = rng.choice([None, ("",), ("acme",), ("", "acme"), ("other",)])
    return ClaimScope(tasks, tenants)


async def _stir(store: PostgresStore, rng: random.Random, held: list[Lease], step: int) -> None:
    task, tenant = rng.choice("abc"), rng.choice(["", "", "acme", "other"])
    match rng.randrange(10):
        case 0 | 1:
            await store.enqueue([NewJob(task, tenant=tenant)] * rng.randrange(1, 4))
        case 2 | 3:
            queue = rng.choice("qr")
            await store.enqueue([NewJob(task, tenant=tenant, queue=queue)])
        case 4:
            [chain] = await store.start_chains([NewChain(job=NewJob(task, tenant=tenant))])
            await store.enqueue([NewJob("b", tenant=tenant, blockers=(chain.id,))])
        case 5:
            await store.pause(task=task, tenant=tenant)
        case 6:
            await store.resume(task=task, tenant=tenant)
        case 7:
            await store.unlock([f"w{rng.randrange(3)}"], 100)
        case _:
            if held:
                lease = held.pop(rng.randrange(len(held)))
                outcomes: list[Outcome] = [COMPLETE, RELEASE, Complete("1", keep=60.0)]
                await store.settle([(lease, rng.choice(outcomes))])


def test_every_task_means_none_of_our_own(made: Schema) -> None:
    async def look() -> None:
        store = PostgresStore(made.url, schema_name=made.name, listen=False)
        await store.open()
        try:
            await store.enqueue([NewJob("windlass.webhook"), NewJob("windlass.other", tenant="t")])
            scopes = [ClaimScope(), ClaimScope(None, ("t",)), ClaimScope(("windlass.webhook",))]
            assert await store.claimable(scopes) == [False, False, True]
            assert await store.claim(ClaimRequest("w", None, 5)) == []
            [lease] = await store.claim(ClaimRequest("dead", ("windlass.webhook",), 5))
            await store.unlock(["dead"], 5)
            assert await store.claimable(scopes) == [False, False, True]
            assert await store.claim(ClaimRequest("w", None, 5, suspects=5)) == []
            own = ClaimRequest("w", ("windlass.webhook",), 5, suspects=5)
            assert [it.job_id for it in await store.claim(own)] == [lease.job_id]
        finally:
            await store.close()

    asyncio.run(look())
