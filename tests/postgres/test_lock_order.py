"""Locks: calls about the same jobs in opposite orders, and calls about jobs that are held.

A transaction holds the job in the middle. Two calls come, one from each side, and are let go when
both wait: whoever had locked the jobs in the order given would now wait for the other for ever.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from tests.patience import PATIENCE
from tests.postgres.cluster import Cluster, Schema, fresh_schema
from tests.postgres.emptying import empty
from windlass.model.job import JobState
from windlass.store.records import COMPLETE, ClaimRequest, Fail, Lease, NewJob, Verdict
from windlass.stores.postgres import PostgresStore
from windlass.stores.postgres.schema import prepare
from windlass.testing import FakeClock

HOLD = "SELECT FROM {0}._jobs WHERE id = %s FOR UPDATE"
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid = ANY (%s)"


@pytest.fixture(scope="module")
def installed(pg18: Cluster) -> Iterator[Schema]:
    with fresh_schema(pg18) as schema:
        with psycopg.connect(schema.url, autocommit=True) as connection:
            prepare(connection, schema.name, "auto")
        yield schema


@pytest.fixture
def made(installed: Schema) -> Schema:
    with psycopg.connect(installed.url, autocommit=True) as connection:
        empty(connection, installed.name)
    return installed


def _ask(schema: Schema, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(schema.url, autocommit=True) as connection:
        cursor = connection.execute(statement.format(schema.name).encode(), values or None)
        return cursor.fetchall() if cursor.description else []


def _add(schema: Schema, jobs: Sequence[dict[str, Any]]) -> list[int]:
    statement = "SELECT unnest(ids) FROM {0}._enqueue(%s, true)"
    return [job for [job] in _ask(schema, statement, json.dumps(jobs))]


def _fetch(connection: psycopg.Connection[Any], text: bytes, value: Any) -> list[tuple[Any, ...]]:
    return connection.execute(text, [value]).fetchall()


def _from_both_sides(
    schema: Schema, held: Any, statement: str, forwards: Any, backwards: Any, hold: str = HOLD
) -> list[list[tuple[Any, ...]]]:
    """Make both calls while a transaction holds one row, which then lets go; their answers."""
    with (
        psycopg.connect(schema.url) as owner,
        psycopg.connect(schema.url, autocommit=True) as one,
        psycopg.connect(schema.url, autocommit=True) as other,
        ThreadPoolExecutor(2) as pool,
    ):
        owner.execute(hold.format(schema.name).encode(), [held])
        text = statement.format(schema.name).encode()
        calls = [
            pool.submit(_fetch, connection, text, value)
            for connection, value in ((one, forwards), (other, backwards))
        ]
        pids = [one.info.backend_pid, other.info.backend_pid]
        end = time.monotonic() + PATIENCE
        while _ask(schema, WAITING, pids) != [(2,)]:
            assert time.monotonic() < end and not any(call.done() for call in calls)
        owner.rollback()
        return [call.result(PATIENCE) for call in calls]


@pytest.mark.parametrize(
    "call",
    [
        "_cancel_jobs(%s)",
        "_fail_jobs(%s, 'no')",
        "_reschedule_jobs(%s, now() + interval '1 day', NULL, NULL, NULL)",
        "_complete_jobs(%s)",
    ],
    ids=["cancel", "fail", "reschedule", "complete"],
)
@pytest.mark.parametrize("keyed", [False, True], ids=["simple", "keyed"])
def test_operators_who_name_jobs_in_opposite_orders(made: Schema, call: str, keyed: bool) -> None:
    jobs = [{"task": "a"} | ({"key": f"key {9 - n}"} if keyed else {}) for n in range(5)]
    ids = _add(made, jobs)
    statement = "SELECT id FROM {0}." + call
    answers = _from_both_sides(made, ids[2], statement, ids, ids[::-1])
    assert {job for answer in answers for [job] in answer} == set(ids)


def test_retries_of_jobs_in_opposite_orders(made: Schema) -> None:
    ids = _add(made, [{"task": "a"}] * 5)
    _ask(made, "SELECT FROM {0}._fail_jobs(%s, 'no')", ids)
    statement = "SELECT id FROM {0}._retry_jobs(%s)"
    answers = _from_both_sides(made, ids[2], statement, ids, ids[::-1])
    assert sorted(job for answer in answers for [job] in answer) == ids


def test_keys_that_are_added_in_opposite_orders(made: Schema) -> None:
    jobs = [{"task": "a", "key": f"key {n}"} for n in range(5)]
    ids = _add(made, jobs)
    statement = "SELECT ids FROM {0}._enqueue(%s, true)"
    answers = _from_both_sides(made, ids[2], statement, json.dumps(jobs), json.dumps(jobs[::-1]))
    assert answers == [[(ids,)], [(ids[::-1],)]]


def _while_open(schema: Schema, before: str, value: Any, jobs: Any) -> list[int]:
    """The ids that a call adds or changes which began while another transaction had done `before`,
    and waited for its commit."""
    statement = f"SELECT unnest(ids) FROM {schema.name}._enqueue(%s, true)".encode()
    with (
        psycopg.connect(schema.url) as owner,
        psycopg.connect(schema.url, autocommit=True) as caller,
        ThreadPoolExecutor(1) as pool,
    ):
        owner.execute(before.format(schema.name).encode(), [value])
        call = pool.submit(_fetch, caller, statement, json.dumps(jobs))
        end = time.monotonic() + PATIENCE
        while _ask(schema, WAITING, [caller.info.backend_pid]) != [(1,)]:
            assert time.monotonic() < end and not call.done()
        owner.commit()
        return [job for [job] in call.result(PATIENCE)]


def test_keys_that_come_while_they_are_added(made: Schema) -> None:
    jobs = [{"task": "a", "key": f"key {n}"} for n in range(5)]
    before = "SELECT FROM {0}._enqueue(%s, true)"
    ids = _while_open(made, before, json.dumps(jobs[1:3]), jobs[::-1])
    found = _ask(made, "SELECT id, key, revision FROM {0}._jobs ORDER BY key")
    assert [(key, revision) for _, key, revision in found] == [
        (f"key {n}", int(n in (1, 2))) for n in range(5)
    ]
    assert ids == [job for job, _, _ in found][::-1]


def test_keys_that_go_while_they_are_changed(made: Schema) -> None:
    jobs = [{"task": "a", "key": f"key {n}"} for n in range(5)]
    old = _add(made, jobs)
    ids = _while_open(made, "SELECT FROM {0}.remove_job(%s)", "key 2", jobs)
    assert ids[:2] + ids[3:] == old[:2] + old[3:] and ids[2] not in old
    found = _ask(made, "SELECT id, revision FROM {0}._jobs ORDER BY key")
    assert found == [(job, int(job in old)) for job in ids]


def test_schedules_that_are_told_of_in_opposite_orders(made: Schema) -> None:
    pairs = [[f"s{n}", "{}"] for n in range(5)]
    statement = "SELECT FROM {0}._register_schedules('', %s)"
    _ask(made, statement, json.dumps(pairs))
    hold = "SELECT FROM {0}._schedules WHERE identifier = %s FOR UPDATE"
    both = json.dumps(pairs), json.dumps(pairs[::-1])
    assert _from_both_sides(made, "s2", statement, *both, hold) == [[()], [()]]


def _with_held(
    schema: Schema,
    work: Callable[[PostgresStore, FakeClock, list[Lease]], Coroutine[Any, Any, None]],
) -> None:
    """Run `work` with three jobs that the worker "w" has claimed; the second one is held."""
    clock = FakeClock()

    async def run() -> None:
        store = PostgresStore(schema.url, schema_name=schema.name, listen=False, clock=clock)
        await store.open()
        try:
            await store.enqueue([NewJob("a")] * 3)
            leases = await store.claim(ClaimRequest(worker="w", tasks=("a",), limit=3))
            leases.sort(key=lambda lease: lease.job_id)
            with psycopg.connect(schema.url) as owner:
                owner.execute(HOLD.format(schema.name).encode(), [leases[1].job_id])
                await asyncio.wait_for(work(store, clock, leases), PATIENCE)
                owner.rollback()
            answers = await store.settle([(lease, COMPLETE) for lease in leases])
            assert answers[1].verdict is not Verdict.BUSY
        finally:
            await store.close()

    asyncio.run(run())


def test_a_held_job_keeps_no_other_from_failing(made: Schema) -> None:
    async def work(store: PostgresStore, clock: FakeClock, leases: list[Lease]) -> None:
        outcome = Fail("oops", final=True)
        answers = await store.settle([(lease, outcome) for lease in leases])
        assert [answer.verdict for answer in answers] == [
            Verdict.APPLIED,
            Verdict.BUSY,
            Verdict.APPLIED,
        ]

    _with_held(made, work)


def test_a_held_job_keeps_no_other_from_the_reaper(made: Schema) -> None:
    async def work(store: PostgresStore, clock: FakeClock, leases: list[Lease]) -> None:
        clock.advance(31)
        reaped = await store.reap(10, 5)
        assert reaped.requeued == (leases[0].job_id, leases[2].job_id)
        held = await store.get(leases[1].job_id)
        assert held is not None and held.state is JobState.RUNNING

    _with_held(made, work)
