"""One lease for many jobs, against everybody who may come in between.

Orders are forced with locks: a call that must stop in its middle is made to wait for a table or a
row, and the others go on while it does.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import conninfo

from tests.patience import PATIENCE
from tests.postgres.cluster import Cluster, Schema, fresh_schema
from tests.postgres.emptying import empty
from tests.postgres.private_sql import claim as claim_call
from windlass.errors import OutcomeUnknownError
from windlass.model.job import Job, JobState
from windlass.store.records import (
    COMPLETE,
    RELEASE,
    ClaimRequest,
    Complete,
    Fail,
    JobFilter,
    Lease,
    LostReason,
    NewJob,
    Note,
    Outcome,
    Settled,
    Verdict,
)
from windlass.stores.postgres import PostgresStore
from windlass.stores.postgres.schema import prepare
from windlass.stores.postgres.wire import decode_leases
from windlass.testing import FakeClock

Connection = psycopg.Connection[Any]
Work = Callable[[PostgresStore], Coroutine[Any, Any, None]]

WAITS = """
SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid = ANY (%s)
"""
LATER = 3600 * 1_000_000


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


def _with_store(schema: Schema, work: Work, **options: Any) -> None:
    """Run `work` with a store whose every claim of plain jobs is a batch."""

    async def run() -> None:
        url = options.pop("url", schema.url)
        store = PostgresStore(url, schema_name=schema.name, listen=False, **options)
        store.claims.least_batch = 1
        await store.open()
        try:
            await work(store)
        finally:
            await store.close()

    asyncio.run(run())


async def _claim(store: PostgresStore, limit: int = 100, worker: str = "w") -> list[Lease]:
    return await store.claim(ClaimRequest(worker=worker, tasks=("a",), limit=limit, suspects=limit))


async def _settle(
    store: PostgresStore, leases: list[Lease], outcome: Outcome = COMPLETE
) -> set[Verdict]:
    answers = await store.settle([(lease, outcome) for lease in leases])
    return {answer.verdict for answer in answers}


async def _job(store: PostgresStore, job_id: int) -> Job:
    job = await store.get(job_id)
    assert job is not None
    return job


def _ask(schema: Schema, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(schema.url, autocommit=True) as connection:
        cursor = connection.execute(statement.format(schema.name).encode(), values or None)
        return cursor.fetchall() if cursor.description else []


def _batches(schema: Schema) -> int:
    return int(_ask(schema, "SELECT count(*) FROM {0}._batches")[0][0])


def _until_waiting(schema: Schema, *connections: Connection) -> None:
    """Return when all of these wait for a lock."""
    pids = [connection.info.backend_pid for connection in connections]
    end = time.monotonic() + PATIENCE
    while _ask(schema, WAITS, pids) != [(len(pids),)]:
        assert time.monotonic() < end, "nobody waits"


@contextmanager
def _in_thread(work: Callable[[], Any]) -> Iterator[Future[Any]]:
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(work)


def _claim_by_hand(
    connection: Connection, schema: Schema, worker: str, limit: int, base: int
) -> list[int]:
    call = claim_call(
        schema.name, "leases, is_batch", worker="%s", limit="%s", base="%s", least="1"
    )
    row = connection.execute(call.encode(), [worker, limit, base]).fetchone()
    assert row is not None
    return sorted(lease.job_id for lease in decode_leases(row[0]))


# ── claims against claims ──


@pytest.mark.parametrize("tasks", [1, 70], ids=["one task", "many tasks"])
def test_competing_claims_take_every_job_once(made: Schema, tasks: int) -> None:
    names = [f"t{n}" for n in range(tasks)]
    jobs, threads = 1500, 8
    add = "SELECT {0}._enqueue(%s, false)"
    _ask(made, add, json.dumps([{"task": names[n % tasks]} for n in range(jobs)]))
    line = threading.Barrier(threads)
    statement = claim_call(
        made.name, "leases, is_batch", worker="%s", tasks="%s", limit="%s", base="%s", least="1"
    )

    def work(number: int) -> list[int]:
        taken: list[int] = []
        with psycopg.connect(made.url, autocommit=True) as connection:
            line.wait()
            for turn in range(jobs):
                row = connection.execute(
                    statement.encode(),
                    [f"w{number}", names, 7 + number, (number + 1) * 10**12 + turn * 10**6],
                ).fetchone()
                assert row is not None
                mine = [lease.job_id for lease in decode_leases(row[0])]
                taken += mine
                if not mine:
                    break
        return taken

    with ThreadPoolExecutor(threads) as pool:
        taken = [job for mine in pool.map(work, range(threads)) for job in mine]
    assert len(taken) == len(set(taken)) == jobs


@pytest.mark.parametrize("limit", [10, 20], ids=["the same jobs", "some of the same jobs"])
def test_a_claim_that_looked_before_another_had_written_its_batch(made: Schema, limit: int) -> None:
    """It has looked for batches; then the other commits; then it locks rows."""
    _ask(made, "SELECT {0}._enqueue(%s, false)", json.dumps([{"task": "a"}] * 30))
    with (
        psycopg.connect(made.url) as first,
        psycopg.connect(made.url) as gate,
        psycopg.connect(made.url) as second,
    ):
        of_first = _claim_by_hand(first, made, "w1", 10, 10**9)
        with (
            _in_thread(
                lambda: gate.execute(f"LOCK TABLE {made.name}._jobs IN EXCLUSIVE MODE")
            ) as closed,
        ):
            _until_waiting(made, gate)
            with _in_thread(lambda: _claim_by_hand(second, made, "w2", limit, 2 * 10**9)) as claim:
                # behind the gate, which is behind the first; a gate of this mode stops the second
                # where it locks rows, and not where it reads the table before
                _until_waiting(made, gate, second)
                first.commit()
                closed.result()
                gate.rollback()
                of_second = claim.result()
        second.commit()
    assert (len(of_first), len(of_second)) == (10, limit)
    assert not set(of_first) & set(of_second)


def test_large_claims_take_turns_but_wait_for_nobody(made: Schema) -> None:
    """The first has its turn, and a transaction that does not end."""
    _ask(made, "SELECT {0}._enqueue(%s, false)", json.dumps([{"task": "a"}] * 1100))
    with (
        psycopg.connect(made.url) as first,
        psycopg.connect(made.url, autocommit=True) as second,
    ):
        begun = _claim_by_hand(second, made, "w2", 50, 10**9)
        of_first = _claim_by_hand(first, made, "w1", 500, 2 * 10**9)
        turns = _ask(
            made,
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = %s",
            first.info.backend_pid,
        )
        of_second = _claim_by_hand(second, made, "w2", 500, 3 * 10**9)
        first.commit()
    assert turns == [(1,)]
    assert len(begun + of_first + of_second) == len({*begun, *of_first, *of_second}) == 1050


def test_a_claim_that_comes_short_before_all_is_looked_at(made: Schema) -> None:
    """More queues rang than one call answers: it hints that another claim may find more."""
    _ask(made, "INSERT INTO {0}._bells (queue) SELECT 'q' || n FROM generate_series(1, 4500) AS n")

    async def work(store: PostgresStore) -> None:
        hints: list[int] = []
        store.subscribe(lambda: hints.append(1), lambda _: None)
        await store.enqueue([NewJob(task="a", payload="1")])
        hints.clear()
        assert len(await _claim(store, 10)) == 1
        assert len(hints) == 1
        assert await _claim(store, 10) == []
        assert len(hints) == 1

    _with_store(made, work)


def test_a_claim_reads_no_more_of_ended_batches_than_it_must(made: Schema) -> None:
    """While an old snapshot keeps their entries, new ones are not added without end."""
    with psycopg.connect(made.url) as old:
        old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        old.execute(f"SELECT FROM {made.name}._batches".encode())
        _ask(
            made,
            "INSERT INTO {0}._batches SELECT -n, 1, now(), '{{}}' FROM generate_series(1, 2000) n",
        )
        _ask(made, "DELETE FROM {0}._batches")
        _ask(made, "SELECT {0}._enqueue(%s, false)", json.dumps([{"task": "a"}] * 20))

        async def work(store: PostgresStore) -> None:
            leases = await _claim(store)
            assert len(leases) == 20
            assert _batches(made) == 0
            assert await _settle(store, leases) == {Verdict.APPLIED}

        _with_store(made, work)


# ── operators ──


@pytest.mark.parametrize("verb", ["cancel", "complete", "fail", "reschedule", "retry"])
def test_an_operator_and_a_job_of_a_batch(made: Schema, verb: str) -> None:
    async def work(store: PostgresStore) -> None:
        await store.enqueue([NewJob("a")] * 3)
        leases = await _claim(store)
        chosen = leases[1]
        ids = [chosen.job_id]
        verbs: dict[str, Callable[[], Coroutine[Any, Any, list[Job]]]] = {
            "cancel": lambda: store.cancel(ids),
            "complete": lambda: store.complete(ids),
            "fail": lambda: store.fail(ids, "no"),
            "reschedule": lambda: store.reschedule(ids, priority=7),
            "retry": lambda: store.retry(ids),
        }
        changed = await verbs[verb]()
        assert [job.id for job in changed] == (ids if verb == "cancel" else [])
        job = await _job(store, chosen.job_id)
        assert (job.state, job.locked_by, job.attempts, job.deliveries, job.priority) == (
            JobState.RUNNING,
            "w",
            1,
            1,
            0,
        )
        renewal = store.lifeline().check("w", leases)
        assert renewal.lost == {}
        assert renewal.cancel == frozenset(ids if verb == "cancel" else [])
        assert await _claim(store, worker="other") == []
        assert await _settle(store, leases) == {Verdict.APPLIED}
        assert await _claim(store) == []
        assert _batches(made) == 0

    _with_store(made, work)


@pytest.mark.parametrize("queue", [None, "q"], ids=["simple", "queued"])
@pytest.mark.parametrize("verb", ["cancel", "complete", "fail", "reschedule"])
def test_an_operator_who_waits_while_a_scheduled_job_is_claimed(
    made: Schema, verb: str, queue: str | None
) -> None:
    """When it comes to the job, that runs. Simple jobs were changed by then, and are again."""
    call = {
        "cancel": "{0}._cancel_jobs(%s)",
        "complete": "{0}._complete_jobs(%s)",
        "fail": "{0}._fail_jobs(%s, 'no')",
        "reschedule": "{0}._reschedule_jobs(%s, now() + interval '1 day', NULL, NULL, NULL)",
    }[verb].format(made.name)
    clock = FakeClock()

    async def work(store: PostgresStore) -> None:
        [held] = await store.enqueue([NewJob("b", queue=queue)])
        [later] = await store.enqueue([NewJob("a", delay=LATER)])
        with psycopg.connect(made.url) as owner, psycopg.connect(made.url) as operator:
            owner.execute(
                f"SELECT FROM {made.name}._jobs WHERE id = %s FOR UPDATE".encode(), [held.id]
            )
            with _in_thread(
                lambda: operator.execute(
                    f"SELECT id FROM {call}".encode(), [[held.id, later.id]]
                ).fetchall()
            ) as changed:
                _until_waiting(made, operator)
                clock.advance(LATER / 1_000_000)
                assert await store.promote(10) == 1
                [lease] = await _claim(store)
                owner.rollback()
                answer = {job_id for [job_id] in changed.result()}
            operator.commit()
        assert answer == ({held.id, later.id} if verb == "cancel" else {held.id})
        assert (await _job(store, later.id)).state is JobState.RUNNING
        assert await _settle(store, [lease]) == {Verdict.APPLIED}

    _with_store(made, work, clock=clock)


@pytest.mark.parametrize("end", ["commit", "rollback"])
@pytest.mark.parametrize("kept", [False, True], ids=["", "kept"])
def test_an_open_transaction_that_cancelled_one_of_a_batch(
    made: Schema, end: str, kept: bool
) -> None:
    """The others are settled at once; the one it holds is busy, and settled afterwards."""
    outcome = Complete("1", keep=60.0) if kept else COMPLETE

    async def work(store: PostgresStore) -> None:
        await store.enqueue([NewJob("a")] * 25)
        leases = await _claim(store)
        one = leases[7]
        with psycopg.connect(made.url) as owner:
            owner.execute(f"SELECT FROM {made.name}._cancel_jobs(%s)".encode(), [[one.job_id]])
            answers = await store.settle([(lease, outcome) for lease in leases])
            busy = [lease.job_id for lease, a in zip(leases, answers, strict=True) if _is_busy(a)]
            assert busy == [one.job_id]
            assert {a.verdict for a in answers} == {Verdict.APPLIED, Verdict.BUSY}
            assert (await _job(store, one.job_id)).state is JobState.RUNNING
            # Nor does anybody else who works wait for it.
            assert await store.note(one, Note(progress="1")) is Verdict.BUSY
            assert store.lifeline().renew("w", 30.0, [one], [(one, 60.0)]).locked == {one.job_id}
            assert await _claim(store) == []
            assert await _settle(store, [one], RELEASE) == {Verdict.BUSY}
            getattr(owner, end)()
        renewal = store.lifeline().check("w", [one])
        assert renewal.lost == {}
        assert renewal.cancel == ({one.job_id} if end == "commit" else set())
        assert await _settle(store, [one], outcome) == {Verdict.APPLIED}
        await _claim(store)
        assert _batches(made) == 0
        assert (await store.counts())[JobState.COMPLETED] == (25 if kept else 0)

    _with_store(made, work)


def _is_busy(answer: Settled) -> bool:
    return answer.verdict is Verdict.BUSY


def test_unlocking_waits_for_a_job_of_a_batch_that_somebody_holds(made: Schema) -> None:
    async def work(store: PostgresStore) -> None:
        await store.enqueue([NewJob("a")] * 5)
        leases = await _claim(store)
        ids = [lease.job_id for lease in leases]
        with psycopg.connect(made.url) as owner, psycopg.connect(made.url) as operator:
            owner.execute(
                f"SELECT FROM {made.name}._jobs WHERE id = %s FOR UPDATE".encode(), [ids[2]]
            )
            unlock = f"SELECT id FROM {made.name}.force_unlock_workers(ARRAY['w'])".encode()
            with _in_thread(lambda: operator.execute(unlock).fetchall()) as unlocked:
                _until_waiting(made, operator)
                owner.rollback()
                assert sorted(unlocked.result()) == [(job,) for job in ids]
            operator.commit()
        assert _batches(made) == 0
        assert store.lifeline().check("w", leases).lost == dict.fromkeys(
            ids, LostReason.TAKEN_BY_ANOTHER_WORKER
        )
        assert await _settle(store, leases) == {Verdict.LOST}
        again = await _claim(store, worker="other")
        assert [lease.job_id for lease in again] == ids
        assert {lease.deliveries for lease in again} == {2}

    _with_store(made, work)


# ── the ends of workers ──


@pytest.mark.parametrize("end", ["reap", "retire"])
def test_what_a_gone_worker_held_comes_back(made: Schema, end: str) -> None:
    """Also what a transaction holds at that moment, as soon as it does not."""
    clock = FakeClock()

    async def work(store: PostgresStore) -> None:
        await store.enqueue([NewJob("a")] * 30)
        ids = [lease.job_id for lease in await _claim(store)]
        with psycopg.connect(made.url) as owner:
            owner.execute(
                f"SELECT FROM {made.name}._jobs WHERE id = %s FOR UPDATE".encode(), [ids[3]]
            )
            if end == "retire":
                await store.retire("w")
            else:
                clock.advance(31)
                assert (await store.reap(100, 5)).total == 29
            assert [lease.job_id for lease in await _claim(store, worker="next")] == [
                job for job in ids if job != ids[3]
            ]
            owner.rollback()
        assert (await store.reap(100, 5)).requeued == (ids[3],)
        assert [lease.job_id for lease in await _claim(store, worker="next")] == [ids[3]]
        assert _batches(made) == 0
        assert [worker.id for worker in await store.workers()] == ["next"]

    _with_store(made, work, clock=clock)


def test_a_batch_of_a_worker_nobody_knows(made: Schema) -> None:
    async def work(store: PostgresStore) -> None:
        await store.enqueue([NewJob("a")] * 3)
        await _claim(store)
        _ask(made, "DELETE FROM {0}._workers")
        reaped = [await store.reap(100, 5) for _ in range(12)]
        assert sum(each.total for each in reaped) == 3
        assert _batches(made) == 0

    _with_store(made, work)


def test_batches_that_grow_old_are_dissolved(made: Schema) -> None:
    clock = FakeClock()

    async def work(store: PostgresStore) -> None:
        await store.enqueue([NewJob("a")] * 10)
        leases = await _claim(store)
        lifeline = store.lifeline()
        lifeline.check("w", leases)
        assert _batches(made) == 1
        clock.advance(2)
        with psycopg.connect(made.url) as owner:
            owner.execute(
                f"SELECT FROM {made.name}._jobs WHERE id = %s FOR UPDATE".encode(),
                [leases[0].job_id],
            )
            assert lifeline.check("w", leases[5:]).lost == {}
            assert _batches(made) == 1  # it stays for the job that is held
            assert _ask(made, "SELECT count(*) FROM {0}._jobs WHERE state = 'ready'") == [(1,)]
            owner.rollback()
        assert lifeline.check("w", leases).lost == {}
        assert _batches(made) == 0
        assert (await store.counts())[JobState.RUNNING] == 10
        assert await _claim(store, worker="other") == []
        assert await _settle(store, leases) == {Verdict.APPLIED}

    _with_store(made, work, clock=clock)


# ── answers that nobody heard ──


def test_a_claim_whose_answer_was_lost(made: Schema) -> None:
    async def work(store: PostgresStore) -> None:
        await store.enqueue([NewJob("a")] * 30 + [NewJob("a", queue="q")])
        real = store.claims._ask

        async def lose(*args: Any) -> Any:
            store.claims._ask = real  # type: ignore[method-assign]
            await real(*args)
            raise OutcomeUnknownError("lost")

        store.claims._ask = lose  # type: ignore[method-assign,assignment]
        with pytest.raises(OutcomeUnknownError):
            await _claim(store)
        assert (await store.counts())[JobState.RUNNING] == 31
        leases = await _claim(store)
        assert len(leases) == 31
        assert await _settle(store, leases) == {Verdict.APPLIED}
        assert await _claim(store) == []
        assert _batches(made) == 0

    _with_store(made, work)


def test_a_claim_whose_caller_went_away(made: Schema) -> None:
    """It is handed back, and nothing of it stays."""

    async def work(store: PostgresStore) -> None:
        await store.enqueue([NewJob("a")] * 30)
        entered, go_on = asyncio.Event(), asyncio.Event()
        real = store.claims._ask

        async def slow(*args: Any) -> Any:
            entered.set()
            await go_on.wait()
            return await real(*args)

        store.claims._ask = slow  # type: ignore[method-assign,assignment]
        claim = asyncio.create_task(_claim(store))
        await entered.wait()
        claim.cancel()
        with pytest.raises(asyncio.CancelledError):
            await claim
        go_on.set()
        await store.claims.ended("w")
        store.claims._ask = real  # type: ignore[method-assign]
        leases = await _claim(store)
        assert [lease.deliveries for lease in leases] == [2] * 30
        assert _batches(made) == 0

    _with_store(made, work)


# ── how they look ──


def test_how_jobs_of_batches_are_seen(made: Schema) -> None:
    async def work(store: PostgresStore) -> None:
        await store.enqueue([NewJob("a", priority=n) for n in range(4)] + [NewJob("other")])
        leases = await _claim(store, limit=3)
        await _settle(store, leases[:1])
        await _settle(store, leases[1:2], Fail("no", delay=60))
        running, ready, scheduled = [
            [job.id for job in await store.find(JobFilter(states=(state,)))]
            for state in (JobState.RUNNING, JobState.READY, JobState.SCHEDULED)
        ]
        assert running == [leases[2].job_id]
        assert scheduled == [leases[1].job_id]
        assert len(ready) == 2
        assert sorted(running + ready, reverse=True) == [
            job.id for job in await store.find(JobFilter(states=(JobState.RUNNING, JobState.READY)))
        ]
        counts = await store.counts()
        assert (counts[JobState.RUNNING], counts[JobState.READY]) == (1, 2)
        assert [(worker.id, worker.running) for worker in await store.workers()] == [("w", 1)]
        found = _ask(
            made,
            "SELECT id, state, attempts, deliveries, locked_by, locked_at IS NOT NULL"
            " FROM {0}.jobs WHERE task_identifier = 'a' ORDER BY priority",
        )
        assert found == [
            (leases[1].job_id, "scheduled", 1, 1, None, False),
            (leases[2].job_id, "running", 1, 1, "w", True),
            (ready[1], "ready", 0, 0, None, False),
        ]

    _with_store(made, work)


# ── transactions of another isolation ──


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
@pytest.mark.parametrize(
    "call",
    [
        "{0}.complete_jobs(%s)",
        "{0}.permanently_fail_jobs(%s)",
        "{0}.reschedule_jobs(%s, priority => 7)",
        "{0}._cancel_jobs(%s)",
    ],
    ids=["complete", "fail", "reschedule", "cancel"],
)
def test_ready_jobs_need_a_read_committed_transaction(made: Schema, level: str, call: str) -> None:
    """Since a batch that was written after its snapshot could not be seen."""
    jobs = [{"task": "a"}, {"task": "a", "delay": LATER}, {"task": "a", "queue": "q"}]
    [[[ready, *others]]] = _ask(made, "SELECT ids FROM {0}._enqueue(%s, false)", json.dumps(jobs))
    statement = f"SELECT id FROM {call}".format(made.name).encode()
    with psycopg.connect(made.url) as owner:
        owner.execute(f"SET TRANSACTION ISOLATION LEVEL {level}".encode())
        assert sorted(owner.execute(statement, [others]).fetchall()) == [(n,) for n in others]
        with pytest.raises(psycopg.Error) as refused:
            owner.execute(statement, [[ready]])
        assert refused.value.sqlstate == "WLISO"
        assert "READ COMMITTED" in (refused.value.diag.message_hint or "")


def test_a_server_whose_transactions_are_repeatable_read(made: Schema) -> None:
    options = "-c default_transaction_isolation=repeatable\\ read"
    url = conninfo.make_conninfo(made.url, options=options)
    clock = FakeClock()

    async def work(store: PostgresStore) -> None:
        await store.enqueue([NewJob("a")] * 40)
        leases = await _claim(store, limit=30)
        assert len(leases) == 30 and _batches(made) == 1
        [level] = await store._calls.row("SELECT current_setting('default_transaction_isolation')")
        assert level == "repeatable read"
        assert [job.id for job in await store.cancel([leases[0].job_id])] == [leases[0].job_id]
        assert await store.note(leases[1], Note(progress="1")) is Verdict.APPLIED
        lifeline = store.lifeline()
        clock.advance(2)
        assert lifeline.renew("w", 30.0, leases).lost == {}
        with store.transaction(leases[2]) as transaction:
            transaction.complete(COMPLETE)
        assert await _settle(store, leases[3:4], Fail("no")) == {Verdict.APPLIED}
        assert await _settle(store, leases[4:]) == {Verdict.APPLIED}
        clock.advance(60)
        assert (await store.reap(100, 5)).total == 2
        assert len(await store.unlock(["w"], 5)) == 0
        assert len(await _claim(store)) == 12

    _with_store(made, work, url=url, clock=clock, prepared_statements=False)


def test_a_keeper_with_one_snapshot_and_a_job_settled_meanwhile(made: Schema) -> None:
    """Its leases are renewed all the same."""
    options = "-c default_transaction_isolation=repeatable\\ read"
    url = conninfo.make_conninfo(made.url, options=options)

    async def work(store: PostgresStore) -> None:
        await store.enqueue([NewJob("a")] * 3)
        leases = await _claim(store)
        _ask(made, "UPDATE {0}._batches SET claimed_at = claimed_at - interval '1 minute'")
        with psycopg.connect(url) as keeper:
            check = f"SELECT id, answer FROM {made.name}._check(%s, %s)".encode()
            ids, tokens = [x.job_id for x in leases], [x.token for x in leases]
            keeper.execute("SELECT FROM pg_class")  # its snapshot is taken here
            assert await _settle(store, leases[:1]) == {Verdict.APPLIED}
            assert keeper.execute(check, [ids, tokens]).fetchall() == []

    _with_store(made, work)
