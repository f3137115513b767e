"""Leases in PostgreSQL: clocks that are set, workers that are ended, claims that are given up.

Orders are forced with locks, as in `test_batches.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.patience import PATIENCE
from tests.postgres.cluster import Cluster, Schema, fresh_schema
from tests.postgres.emptying import empty
from tests.postgres.private_sql import claim as claim_call
from windlass import App
from windlass.clock import SYSTEM
from windlass.model.job import JobState
from windlass.store.records import COMPLETE, ClaimRequest, Lease, NewJob, Reaped
from windlass.stores.postgres import PostgresStore
from windlass.stores.postgres.schema import prepare
from windlass.stores.postgres.wire import decode_leases
from windlass.testing import FakeClock

Connection = psycopg.Connection[Any]
Work = Callable[[PostgresStore], Coroutine[Any, Any, None]]

ORPHANS = """
SELECT count(*) FROM {0}._jobs AS j
WHERE j.state = 'running' AND NOT EXISTS (SELECT FROM {0}._workers AS w WHERE w.id = j.worker)
"""
PLAIN, BATCH = 100, 1
"""From how many jobs on a claim by hand makes a batch of them."""


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


def _with_store(schema: Schema, work: Work, **options: Any) -> None:
    async def run() -> None:
        store = PostgresStore(schema.url, schema_name=schema.name, listen=False, **options)
        await store.open()
        try:
            await work(store)
        finally:
            await store.close()

    asyncio.run(run())


async def _claim(store: PostgresStore, worker: str = "w") -> list[Lease]:
    return await store.claim(ClaimRequest(worker=worker, tasks=("a",), limit=100, suspects=100))


def _claim_by_hand(connection: Connection, schema: Schema, base: int, least: int) -> list[int]:
    statement = claim_call(schema.name, worker="%s", suspects="10", base="%s", least="%s").encode()
    row = connection.execute(statement, ["w", base, least]).fetchone()
    assert row is not None
    return sorted(lease.job_id for lease in decode_leases(row[0]))


@contextmanager
def _in_thread(work: Callable[[], Any]) -> Iterator[Future[Any]]:
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(work)


def _waits_for_a_lock(schema: Schema, connection: Connection) -> bool:
    return bool(
        _ask(
            schema,
            "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid = %s",
            connection.info.backend_pid,
        )
    )


def _until_waiting(schema: Schema, connection: Connection, call: Future[Any]) -> None:
    end = time.monotonic() + PATIENCE
    while not _waits_for_a_lock(schema, connection):
        assert not call.done(), "it did not wait"
        assert time.monotonic() < end


# ── clocks ──


def test_a_machine_that_has_not_watched_the_clock_waits_for_one_lease(made: Schema) -> None:
    """It cannot tell hours in which nobody ran from a clock that was set forward just now."""
    clock = FakeClock()

    async def work(store: PostgresStore) -> None:
        [job] = await store.enqueue([NewJob("a")])
        await _claim(store)
        clock.advance(3600)
        _ask(made, "UPDATE {0}._clocks SET machine = 'another'")
        new = PostgresStore(made.url, schema_name=made.name, listen=False, clock=clock)
        await new.open()
        try:
            assert (await new.reap(10, 5)).total == 0
            clock.advance(29.999999)
            assert (await new.reap(10, 5)).total == 0
            clock.advance(0.000001)
            assert (await new.reap(10, 5)).requeued == (job.id,)
        finally:
            await new.close()

    _with_store(made, work, clock=clock)


def test_a_machine_that_did_not_see_the_clock_set_back_cuts_what_ends_too_late(
    made: Schema,
) -> None:
    """It cannot tell by how much; but no lease ends later than its length from now."""
    clock = FakeClock()

    async def work(store: PostgresStore) -> None:
        [job] = await store.enqueue([NewJob("a")])
        await _claim(store)
        clock.jump(-3600)
        _ask(made, "UPDATE {0}._clocks SET machine = 'another'")
        new = PostgresStore(made.url, schema_name=made.name, listen=False, clock=clock)
        await new.open()
        try:
            assert (await new.reap(10, 5)).total == 0
            clock.advance(29.999999)
            assert (await new.reap(10, 5)).total == 0
            clock.advance(0.000001)
            assert (await new.reap(10, 5)).requeued == (job.id,)
        finally:
            await new.close()

    _with_store(made, work, clock=clock)


def test_a_sign_of_life_that_had_to_wait_counts_from_when_it_is_written(made: Schema) -> None:
    """In between the clock may have been set, and all other leases moved along."""

    async def work(store: PostgresStore) -> None:
        lifeline = store.lifeline()
        lifeline.renew("w", 30.0, [])
        assert lifeline._connection is not None
        with psycopg.connect(made.url) as owner:
            owner.execute(f"SELECT FROM {made.name}._workers FOR UPDATE".encode())
            with _in_thread(lambda: lifeline.renew("w", 30.0, [])) as renewed:
                await asyncio.to_thread(_until_waiting, made, lifeline._connection, renewed)
                [[freed_at]] = owner.execute("SELECT clock_timestamp()").fetchall()
                owner.rollback()
                renewed.result()
        [[is_later]] = _ask(
            made, "SELECT expires_at > %s + interval '30 s' FROM {0}._workers", freed_at
        )
        assert is_later

    _with_store(made, work)


class JumpingClock:
    """The machine's clocks, but the wall clock can be set."""

    def __init__(self) -> None:
        self.shift = 0

    def now(self) -> int:
        return SYSTEM.now() + self.shift

    def monotonic(self) -> float:
        return SYSTEM.monotonic()


@pytest.mark.parametrize("hours", [1, -1])
def test_a_running_job_goes_on_when_the_clock_is_set(made: Schema, hours: int) -> None:
    """Two workers reap all the time, and both hold a job when the clock jumps."""
    clock = JumpingClock()
    starts: list[int] = []

    async def scenario() -> None:
        apps = [
            App(
                made.url, schema=made.name, clock=clock, lease=60, reap_interval=0.05, concurrency=1
            )
            for _ in range(2)
        ]
        done = asyncio.Event()
        reaps = 0

        async def wait(n: int) -> None:
            starts.append(n)
            await done.wait()

        for app in apps:
            app.task(name="wait")(wait)
        runners = [await app.run(handle_signals=False, poll_interval=0.2) for app in apps]
        try:
            for n in range(2):
                await apps[0].client.add_job("wait", {"n": n})
            while len(starts) < 2:
                await asyncio.sleep(0.01)
            for app in apps:
                real = app.store.reap

                async def counted(
                    limit: int, most: int, real: Callable[[int, int], Any] = real
                ) -> Reaped:
                    nonlocal reaps
                    reaped: Reaped = await real(limit, most)
                    assert reaped.total == 0
                    reaps += 1
                    return reaped

                app.store.reap = counted  # type: ignore[method-assign,assignment]
            clock.shift = hours * 3_600_000_000
            while reaps < 20:
                await asyncio.sleep(0.01)
            counts = await apps[0].client.counts()
            assert counts[JobState.RUNNING] == 2
        finally:
            done.set()
            for runner in runners:
                await runner.stop()
            for app in apps:
                await app.close()

    asyncio.run(asyncio.wait_for(scenario(), 120))
    assert sorted(starts) == [0, 1]


def test_a_lease_of_a_jobs_own_that_ends_too_late_is_cut_where_its_worker_is_dead(
    made: Schema,
) -> None:
    """The clock showed another year when it was given; its worker's lease is of after that."""
    clock = FakeClock()

    async def work(store: PostgresStore) -> None:
        [job] = await store.enqueue([NewJob("a")])
        await store.claim(
            ClaimRequest(worker="w", tasks=("a",), limit=1, longer_leases={"a": 100.0})
        )
        _ask(made, "UPDATE {0}._jobs SET lease_until = lease_until + interval '1 year'")
        clock.advance(31)
        assert (await store.reap(10, 5)).total == 0
        clock.advance(99)
        assert (await store.reap(10, 5)).total == 0
        clock.advance(2)
        assert (await store.reap(10, 5)).requeued == (job.id,)

    _with_store(made, work, clock=clock)


# ── the ends of workers ──


@pytest.mark.parametrize("least", [PLAIN, BATCH], ids=["plain", "batch"])
def test_unlocking_a_worker_that_is_just_claiming(made: Schema, least: int) -> None:
    """The operator comes second, and frees what the claim takes too."""

    async def work(store: PostgresStore) -> None:
        jobs = await store.enqueue([NewJob("a")] * 4)
        store.lifeline().renew("w", 30.0, [])
        with psycopg.connect(made.url) as claimer, psycopg.connect(made.url) as operator:
            assert len(_claim_by_hand(claimer, made, 10**9, least)) == 4
            unlock = f"SELECT id FROM {made.name}.force_unlock_workers(ARRAY['w'])".encode()
            with _in_thread(lambda: operator.execute(unlock).fetchall()) as unlocked:
                try:
                    await asyncio.to_thread(_until_waiting, made, operator, unlocked)
                finally:
                    claimer.commit()
                assert sorted(unlocked.result()) == [(job.id,) for job in jobs]
            operator.commit()
        assert _ask(made, ORPHANS) == [(0,)]
        assert len(await _claim(store, "other")) == 4

    _with_store(made, work)


@pytest.mark.parametrize("least", [PLAIN, BATCH], ids=["plain", "batch"])
def test_a_claim_of_a_worker_that_is_just_being_unlocked(made: Schema, least: int) -> None:
    """The claim comes second: it is refused, and made again as that of a new worker."""

    async def work(store: PostgresStore) -> None:
        await store.enqueue([NewJob("a")] * 4)
        store.lifeline().renew("w", 30.0, [])
        with psycopg.connect(made.url) as operator, psycopg.connect(made.url) as claimer:
            operator.execute(f"SELECT {made.name}.force_unlock_workers(ARRAY['w'])".encode())
            with pytest.raises(psycopg.errors.SerializationFailure):
                _claim_by_hand(claimer, made, 10**9, least)
            claimer.rollback()
            operator.commit()
            assert len(_claim_by_hand(claimer, made, 10**9, least)) == 4
        assert _ask(made, ORPHANS) == [(0,)]
        for _ in range(13):  # one of them looks for orphans
            assert (await store.reap(100, 5)).total == 0

    _with_store(made, work)


def test_a_batch_that_ended_while_it_was_dissolved_does_not_stay(made: Schema) -> None:
    """The claim that was to remove it passed it by; the worker's next sign of life removes it."""
    clock = FakeClock()

    async def work(store: PostgresStore) -> None:
        store.claims.least_batch = 1
        await store.enqueue([NewJob("a")] * 3)
        leases = await _claim(store)
        await store.settle([(lease, COMPLETE) for lease in leases])
        with psycopg.connect(made.url) as keeper:
            keeper.execute(f"SELECT FROM {made.name}._batches FOR UPDATE".encode())
            assert await _claim(store) == []
        assert _ask(made, "SELECT count(*) FROM {0}._batches") == [(1,)]
        clock.advance(2)
        store.lifeline().renew("w", 30.0, [])
        assert _ask(made, "SELECT count(*) FROM {0}._batches") == [(0,)]

    _with_store(made, work, clock=clock)


# ── claims that were given up ──


@pytest.mark.parametrize("least", [PLAIN, BATCH], ids=["plain", "batch"])
@pytest.mark.parametrize("is_known", [True, False], ids=["known worker", "new worker"])
def test_a_claim_that_was_given_up_cannot_happen_any_more(
    made: Schema, least: int, is_known: bool
) -> None:
    """It is stopped before it takes anything, its caller gives up and asks, and then it goes on."""

    async def work(store: PostgresStore) -> None:
        await store.enqueue([NewJob("a")] * 4)
        if is_known:
            store.lifeline().renew("w", 30.0, [])
        with psycopg.connect(made.url) as gate, psycopg.connect(made.url) as claimer:
            gate.execute(f"LOCK TABLE {made.name}._bells IN ACCESS EXCLUSIVE MODE")
            with _in_thread(lambda: _claim_by_hand(claimer, made, 10**9, least)) as claim:
                try:
                    await asyncio.to_thread(_until_waiting, made, claimer, claim)
                    store._workers.add_unresolved("w", 10**9)
                    assert await store.claims.resolve("w", 30.0) == []
                    assert not store._workers.claiming("w").unresolved
                finally:
                    gate.rollback()
                with pytest.raises(psycopg.errors.SerializationFailure):
                    claim.result()
        assert (await store.counts())[JobState.RUNNING] == 0
        assert len(await _claim(store)) == 4

    _with_store(made, work)


@pytest.mark.parametrize("least", [PLAIN, BATCH], ids=["plain", "batch"])
def test_a_claim_that_was_given_up_and_happens_all_the_same_is_waited_for(
    made: Schema, least: int
) -> None:
    async def work(store: PostgresStore) -> None:
        jobs = await store.enqueue([NewJob("a")] * 4)
        store.lifeline().renew("w", 30.0, [])
        with psycopg.connect(made.url) as claimer:
            assert len(_claim_by_hand(claimer, made, 10**9, least)) == 4
            store._workers.add_unresolved("w", 10**9)
            asked = asyncio.ensure_future(_claim(store))
            while not _ask(
                made,
                "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s",
                "%._claimed(%",
            ):
                assert not asked.done(), "it did not wait"
                await asyncio.sleep(0.01)
            claimer.commit()
            leases = await asked
        assert sorted(lease.job_id for lease in leases) == [job.id for job in jobs]
        answers = await store.settle([(lease, COMPLETE) for lease in leases])
        assert {answer.state for answer in answers} == {JobState.COMPLETED}

    _with_store(made, work)


def test_a_claim_is_asked_about_until_there_is_an_answer(made: Schema) -> None:
    clock = FakeClock()

    async def work(store: PostgresStore) -> None:
        await store.enqueue([NewJob("a")])
        store.lifeline().renew("w", 30.0, [])
        with psycopg.connect(made.url) as claimer:
            assert len(_claim_by_hand(claimer, made, 10**9, PLAIN)) == 1
            store._workers.add_unresolved("w", 10**9)
            clock.advance(3600)  # however long it takes
            claimer.commit()
        assert len(await _claim(store)) == 1

    _with_store(made, work, clock=clock)


# ── lifelines ──


def test_no_lifeline_outlives_its_run(made: Schema) -> None:
    async def scenario() -> None:
        app = App(made.url, schema=made.name)
        app.task(name="nothing")(_nothing)
        async with app:
            store = app.store
            assert isinstance(store, PostgresStore)
            for _ in range(4):
                await app.client.add_job("nothing", {})
                await app.run_once()
                assert len(store._lifelines) <= 1

    asyncio.run(scenario())


async def _nothing() -> None: ...
