"""Heads of serial queues that a claim finds behind their bells: whom it takes, whom it leaves."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest

from tests.postgres.cluster import Schema
from tests.postgres.private_sql import claim as claim_call
from windlass.store.records import COMPLETE, ClaimRequest, Lease, NewJob
from windlass.stores.postgres import PostgresStore
from windlass.stores.postgres.wire import decode_leases
from windlass.testing import FakeClock


def _with_store(schema: Schema, body: Callable[[PostgresStore], Awaitable[Any]]) -> Any:
    async def whole() -> Any:
        store = PostgresStore(schema.url, schema_name=schema.name, listen=False)
        await store.open()
        try:
            return await body(store)
        finally:
            await store.close()

    return asyncio.run(whole())


async def _claim(store: PostgresStore, limit: int, worker: str = "w", **more: Any) -> list[Lease]:
    tasks = more.pop("tasks", ("a", "b"))
    return await store.claim(ClaimRequest(worker=worker, tasks=tasks, limit=limit, **more))


def _states(schema: Schema) -> dict[int, str]:
    with psycopg.connect(schema.url) as connection:
        found = connection.execute(f"SELECT id, state::text FROM {schema.name}._jobs".encode())
        return dict(found.fetchall())


@pytest.mark.parametrize("limit", [1, 7, 40, 60, 100])
def test_heads_and_other_jobs_come_in_one_order(schema: Schema, limit: int) -> None:
    """However many heads a claim has to leave: by far too many, or fewer than it takes."""
    dice = random.Random(limit)

    async def body(store: PostgresStore) -> tuple[list[int], list[int]]:
        jobs = [
            NewJob(
                dice.choice("ab"), priority=dice.randrange(4), queue=dice.choice([None, f"q{n}"])
            )
            for n in range(100)
        ]
        added = await store.enqueue(jobs)
        best = sorted(added, key=lambda job: (job.priority, job.run_at, job.id))
        claimed: list[int] = []
        while leases := await _claim(store, limit):
            claimed += [lease.job_id for lease in leases]
        return claimed, [job.id for job in best]

    claimed, best = _with_store(schema, body)
    assert claimed == best


def test_a_more_urgent_head_comes_before_jobs_that_were_ready(schema: Schema) -> None:
    async def body(store: PostgresStore) -> None:
        plain = await store.enqueue([NewJob("a")] * 3)
        [urgent, late] = await store.enqueue(
            [NewJob("a", queue="q", priority=-1), NewJob("a", queue="r", priority=1)]
        )
        expected = [[urgent.id, plain[0].id, plain[1].id], [plain[2].id, late.id]]
        found = [[lease.job_id for lease in await _claim(store, 3)] for _ in range(2)]
        assert found == expected

    _with_store(schema, body)


@pytest.mark.parametrize("limit", [2, 5])
def test_what_a_claim_leaves_is_for_another_worker(schema: Schema, limit: int) -> None:
    async def body(store: PostgresStore) -> None:
        jobs = await store.enqueue([NewJob("a", queue=f"q{n}") for n in range(8)])
        mine = await _claim(store, limit)
        theirs = await _claim(store, 8, worker="other")
        assert [lease.job_id for lease in mine + theirs] == [job.id for job in jobs]

    _with_store(schema, body)


def test_few_that_are_left_are_looked_at_again_and_many_become_ready(schema: Schema) -> None:
    async def body(store: PostgresStore) -> None:
        first, second, third = (
            job.id for job in await store.enqueue([NewJob("a", queue=f"q{n}") for n in range(3)])
        )
        await _claim(store, 2)
        assert _states(schema) == {first: "running", second: "running", third: "waiting"}
        [*_, last] = await store.enqueue([NewJob("a", queue=f"r{n}") for n in range(3)])
        [lease] = await _claim(store, 1)
        assert lease.job_id == third
        assert _states(schema)[last.id] == "ready"

    _with_store(schema, body)


def test_heads_that_the_caller_may_not_run_become_ready(schema: Schema) -> None:
    """Another's task and a forbidden flag; behind them nothing moves."""

    async def body(store: PostgresStore) -> None:
        jobs = await store.enqueue(
            [
                NewJob("other", queue="q"),
                NewJob("a", queue="q"),
                NewJob("a", queue="r", flags=("f",)),
                NewJob("a", queue="s"),
            ]
        )
        [lease] = await _claim(store, 9, forbidden_flags=("f",))
        assert lease.job_id == jobs[3].id
        states = _states(schema)
        assert [states[job.id] for job in jobs] == ["ready", "waiting", "ready", "running"]
        [other] = await _claim(store, 9, worker="other", tasks=("other",))
        await store.settle([(other, COMPLETE)])
        assert {lease.job_id for lease in await _claim(store, 9)} == {jobs[1].id, jobs[2].id}

    _with_store(schema, body)


def test_bells_that_are_put_back_are_not_passed_by_the_mark(schema: Schema) -> None:
    """`next_bell` is before the first bell that is still there."""
    call = claim_call(schema.name, "next_bell", limit="3")

    async def body(store: PostgresStore) -> None:
        await store.enqueue([NewJob("a", queue=f"q{n}") for n in range(5)])

    _with_store(schema, body)
    with psycopg.connect(schema.url, autocommit=True) as connection:
        row = connection.execute(call.encode()).fetchone()
        assert row is not None
        left = connection.execute(f"SELECT n FROM {schema.name}._bells".encode()).fetchall()
    assert len(left) == 2
    assert row[0] == min(n for (n,) in left) - 1


def test_a_head_behind_thousands_of_bells_is_claimed_once(schema: Schema) -> None:
    """Its queue has rung so often that one look does not answer all of them."""
    ring = f"INSERT INTO {schema.name}._bells (queue) SELECT 'q' FROM generate_series(1, 2500)"

    async def body(store: PostgresStore) -> None:
        jobs = await store.enqueue([NewJob("a", queue="q")] * 2)
        with psycopg.connect(schema.url) as connection:
            connection.execute(ring.encode())
        plain = await store.enqueue([NewJob("a")] * 2)
        leases = await _claim(store, 3)
        assert [lease.job_id for lease in leases] == [jobs[0].id, plain[0].id, plain[1].id]
        assert await _claim(store, 3) == []
        await store.settle([(leases[0], COMPLETE)])
        assert [lease.job_id for lease in await _claim(store, 3)] == [jobs[1].id]

    _with_store(schema, body)


GATE = """
CREATE FUNCTION {0}.gate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(4711);
  RETURN new;
END $$;
CREATE TRIGGER gate BEFORE UPDATE ON {0}._jobs FOR EACH ROW WHEN (new.task = 'gate')
EXECUTE FUNCTION {0}.gate()
"""


def test_a_queue_that_rings_twice_has_one_head(schema: Schema) -> None:
    """A better job comes between two looks of one claim, which has chosen the queue's head. The
    first look makes another worker's job ready, and is held there."""
    waiting = (
        "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%_claim(%'"
    )

    async def body(store: PostgresStore) -> None:
        names = [f"n{number}" for number in range(998)]
        await store.enqueue([NewJob("gate", queue="gate")])
        await store.enqueue([NewJob("a", queue=name) for name in ["first", *names]])
        await store.enqueue([NewJob("a", queue="first", priority=5)])  # its bell is the last
        with (
            psycopg.connect(schema.url) as other,
            psycopg.connect(schema.url, autocommit=True) as watcher,
        ):
            watcher.execute(GATE.format(schema.name).encode())
            other.execute("SELECT pg_advisory_xact_lock(4711)")
            claim = asyncio.create_task(_claim(store, 5_000))
            while not watcher.execute(waiting.encode()).rowcount:
                assert not claim.done()
                await asyncio.sleep(0.005)
            await store.enqueue([NewJob("a", queue="first", priority=-5)])
            other.rollback()
        leases = await claim
        assert len(leases) == 999
        assert [lease.priority for lease in leases if lease.queue == "first"] == [0]
        await store.settle([(lease, COMPLETE) for lease in leases])
        assert [lease.priority for lease in await _claim(store, 5_000)] == [-5]

    _with_store(schema, body)


def test_queues_whose_jobs_a_transaction_holds_cost_little_and_are_not_forgotten(
    schema: Schema,
) -> None:
    """A claim looks at their bells once and writes nothing, the next ones not even that; when the
    transaction ends each queue goes on."""
    count = 4_500  # more than one claim looks at
    clock = FakeClock()
    bells = f"SELECT count(*), max(n), sum(xmin::text::bigint) FROM {schema.name}._bells"

    async def body(store: PostgresStore) -> None:
        assert await _claim(store, 1) == []  # the first one also asks for the time
        clock.advance(2.0)
        jobs = await store.enqueue([NewJob("a", queue=f"q{n}") for n in range(count)])
        with (
            psycopg.connect(schema.url) as other,
            psycopg.connect(schema.url, autocommit=True) as watcher,
        ):
            found = watcher.execute(bells.encode()).fetchone()
            assert found is not None and found[0] == count
            other.execute(f"SELECT FROM {schema.name}._jobs FOR UPDATE".encode())
            before = store.statements
            assert await _claim(store, 10) == []
            assert store.statements - before == 2
            for _ in range(5):  # in the same moment
                [plain] = await store.enqueue([NewJob("a")])
                before = store.statements
                [lease] = await _claim(store, 1)
                assert lease.job_id == plain.id
                assert store.statements - before == 1
            assert watcher.execute(bells.encode()).fetchone() == found
            other.rollback()
        claimed: list[int] = []
        while len(claimed) < count:
            clock.advance(2.0)
            leases = await _claim(store, 1_000)
            assert leases
            claimed += [lease.job_id for lease in leases]
        assert sorted(claimed) == [job.id for job in jobs]

    async def whole() -> None:
        store = PostgresStore(schema.url, schema_name=schema.name, listen=False, clock=clock)
        await store.open()
        try:
            await body(store)
        finally:
            await store.close()

    asyncio.run(whole())


def test_two_claims_at_once_choose_one_head(schema: Schema) -> None:
    """The first has chosen and is not done: the second neither waits for it nor chooses another."""

    async def body(store: PostgresStore) -> None:
        first, second = await store.enqueue([NewJob("a", queue="q")] * 2)
        statement = claim_call(schema.name, worker="%s", base="%s", least="100").encode()
        with psycopg.connect(schema.url) as one, psycopg.connect(schema.url) as other:
            other.execute("SET lock_timeout = '10s'")
            [[taken]] = one.execute(statement, ["one", 10**9]).fetchall()
            assert [lease.job_id for lease in decode_leases(taken)] == [first.id]
            assert other.execute(statement, ["other", 2 * 10**9]).fetchall() == [("[]",)]
            other.commit()
            one.commit()
        assert _states(schema) == {first.id: "running", second.id: "waiting"}

    _with_store(schema, body)


@pytest.mark.parametrize("state", ["ready", "running"])
def test_the_database_refuses_a_second_active_job_of_a_queue(schema: Schema, state: str) -> None:
    """Whatever a program does to the rows."""

    async def body(store: PostgresStore) -> None:
        _, second = await store.enqueue([NewJob("a", queue="q")] * 2)
        assert len(await _claim(store, 10)) == 1
        with psycopg.connect(schema.url) as connection:
            change = f"UPDATE {schema.name}._jobs SET state = %s WHERE id = %s".encode()
            with pytest.raises(psycopg.errors.UniqueViolation, match="_jobs_active"):
                connection.execute(change, [state, second.id])

    _with_store(schema, body)
