"""What a claim reads: what it returns, one entry per task, and next to nothing else.

Index entries are counted by the server within the claim's own transaction, so the numbers do not
depend on the machine. Backlogs are written straight into the table, in the states they would be in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.postgres.cluster import Cluster, Schema, fresh_schema
from tests.postgres.private_sql import claim as claim_call
from windlass.store.records import (
    COMPLETE,
    RELEASE,
    ClaimRequest,
    Complete,
    Fail,
    Lease,
    NewJob,
    Outcome,
    Verdict,
)
from windlass.stores.postgres import PostgresStore
from windlass.stores.postgres.marks import SPARE, IndexPlace
from windlass.stores.postgres.wire import decode_leases, mark_array
from windlass.testing import FakeClock

TASKS = ("a", "b", "c")
SIZES = (3_000, 100_000)
RETURNED = 100

ROW = (
    "INSERT INTO {0}._jobs (run_at, created_at, updated_at, payload, state, task, queue, priority)"
)

BACKLOGS = {
    "none": "",
    "future": ROW + " SELECT now() + n * interval '1 minute', now(), now(), '{{}}', 'scheduled',"
    " 'a', NULL, 0 FROM generate_series(1, {1}) AS n",
    "foreign": ROW + " SELECT now() - interval '1 day', now(), now(), '{{}}', 'ready',"
    " 'other' || n % 20, NULL, -9 FROM generate_series(1, {1}) AS n",
    "stuck": ROW + " SELECT now() - interval '1 day', now(), now(), '{{}}',"
    " CASE WHEN n <= 2 THEN 'running' ELSE 'waiting' END::{0}._job_state,"
    " 'a', 'busy' || n % 2, -9 FROM generate_series(1, {1}) AS n",
    "idle queues": ROW + " SELECT now() + interval '1 day', now(), now(), '{{}}', 'scheduled',"
    " 'a', 'q' || n, -9 FROM generate_series(1, {1}) AS n",
    "dead": ROW + " SELECT now() - interval '1 day', now(), now(), '{{}}', 'failed',"
    " 'a', NULL, -9 FROM generate_series(1, {1}) AS n",
}

READ = """
SELECT coalesce(sum(pg_stat_get_xact_tuples_returned(i.indexrelid)), 0)::bigint
FROM pg_index AS i WHERE i.indrelid IN ('{0}._jobs'::regclass, '{0}._bells'::regclass)
"""
SCANNED = """
SELECT coalesce(sum(seq_tup_read), 0)::bigint FROM pg_stat_xact_user_tables
WHERE schemaname = '{0}' AND relname IN ('_jobs', '_bells', '_history')
"""


@pytest.fixture
def made(pg: Cluster) -> Iterator[Schema]:
    with fresh_schema(pg) as schema:
        asyncio.run(_open_and_close(schema))
        with psycopg.connect(schema.url, autocommit=True) as connection:
            for table in ("_jobs", "_bells"):
                connection.execute(
                    f"ALTER TABLE {schema.name}.{table} SET (autovacuum_enabled = off)".encode()
                )
        yield schema


async def _open_and_close(schema: Schema) -> None:
    store = PostgresStore(schema.url, schema_name=schema.name)
    await store.open()
    await store.close()


def _number(connection: psycopg.Connection[Any], statement: str, *values: Any) -> int:
    row = connection.execute(statement.encode(), values or None).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize(
    "size", [pytest.param(size, marks=pytest.mark.slow if size > 10_000 else ()) for size in SIZES]
)
@pytest.mark.parametrize("backlog", BACKLOGS)
def test_a_claim_reads_what_it_returns(made: Schema, backlog: str, size: int) -> None:
    name = made.name
    least_batch = 1 if size == min(SIZES) else RETURNED + 1
    with psycopg.connect(made.url) as connection:
        if BACKLOGS[backlog]:
            connection.execute(BACKLOGS[backlog].format(name, size).encode())
        connection.execute(
            (
                ROW.format(name) + " SELECT now(), now(), now(), '{}', 'ready', 'b', NULL, 0"
                " FROM generate_series(1, 1000)"
            ).encode()
        )
        connection.commit()
        for _ in range(2):
            before = _number(connection, READ.format(name))
            scanned = _number(connection, SCANNED.format(name))
            taken = _number(
                connection,
                claim_call(
                    name,
                    "json_array_length(leases::json)",
                    tasks="%s",
                    limit="%s",
                    suspects="10",
                    least="%s",
                ),
                list(TASKS),
                RETURNED,
                least_batch,
            )
            read = _number(connection, READ.format(name)) - before
            assert taken == RETURNED
            assert read <= RETURNED + len(TASKS) + SPARE
            assert _number(connection, SCANNED.format(name)) == scanned
            connection.rollback()
            connection.execute(f"ANALYZE {name}._jobs".encode())  # and with fresh statistics
            connection.commit()


READY = (
    ROW + " SELECT now() - {2} * interval '1 second', now(), now(), '{{}}', 'ready', {1}, NULL, {3}"
    " FROM generate_series(1, {4}) AS n"
)


def _claim_of_many(
    connection: psycopg.Connection[Any], name: str, tasks: list[str], marks: str = "{}"
) -> tuple[set[int], int, int]:
    """The jobs that a claim of `RETURNED` takes, the index entries that were read, and those that
    it says it read without need."""
    before = _number(connection, READ.format(name))
    most = str(RETURNED)
    call = claim_call(
        name, "leases, entries", tasks="%s", limit=most, suspects="10", marks="%s", least=most
    )
    row = connection.execute(call.encode(), [tasks, marks]).fetchone()
    assert row is not None
    read = _number(connection, READ.format(name)) - before
    taken = {lease.job_id for lease in decode_leases(row[0])}
    return taken, read, row[1] - len(taken)


def _best(connection: psycopg.Connection[Any], name: str, offset: int = 0) -> set[int]:
    found = connection.execute(
        f"SELECT id FROM {name}._jobs ORDER BY priority, run_at, id"
        f" LIMIT {RETURNED} OFFSET {offset}".encode()
    )
    return {job for [job] in found}


@pytest.mark.parametrize("number", [1, 2, 4, 5, 16, 17, 64, 65, 200])
def test_the_first_of_many_tasks_are_taken(made: Schema, number: int) -> None:
    """Whatever the number of tasks; up to 16 of them nothing is read that is not returned."""
    name = made.name
    tasks = [f"t{n}" for n in range(number)]
    with psycopg.connect(made.url) as connection:
        ready = READY.format(name, f"'t' || n % {number}", "(n * 37 % 101)", "n % 3", 3_000)
        connection.execute(ready.encode())
        expected = _best(connection, name)
        connection.commit()
        taken, read, needless = _claim_of_many(connection, name, tasks)
        assert taken == expected
        assert needless <= SPARE
        assert read <= (RETURNED + number if number <= 16 else 3 * (RETURNED + number)) + SPARE


SPREADS = {
    # task, age in seconds, priority of the nth of the jobs
    "even": ("'t' || n % 500", "n", "0"),
    "a few have the oldest": ("'t' || CASE WHEN n <= 9000 THEN n % 3 ELSE n % 500 END", "-n", "0"),
    "half have many": ("'t' || CASE WHEN n <= 9500 THEN n % 250 ELSE n % 500 END", "-n", "n % 5"),
    "one by one": ("'t' || n / 20", "-n", "0"),
    "all at once": ("'t' || n % 500", "0", "0"),
}


@pytest.mark.parametrize("spread", SPREADS)
def test_a_claim_for_many_tasks_reads_little_of_each(made: Schema, spread: str) -> None:
    """About one job of each task and a few times those it returns, however jobs are spread. Those
    that other claims have locked are passed by, and those before a mark are not read."""
    name, number = made.name, 500
    tasks = [f"t{n}" for n in range(number)] + [f"idle{n}" for n in range(number)]
    task, age, priority = SPREADS[spread]
    with psycopg.connect(made.url) as connection, psycopg.connect(made.url) as other:
        connection.execute(READY.format(name, task, age, priority, 10_000).encode())
        expected, behind = _best(connection, name), _best(connection, name, RETURNED)
        connection.commit()

        def check(expected: set[int], marks: str = "{}") -> None:
            taken, read, needless = _claim_of_many(connection, name, tasks, marks)
            connection.rollback()
            assert taken == expected
            assert needless <= SPARE
            assert read <= 2 * number + 20 * RETURNED

        check(expected)
        lock = f"SELECT FROM {name}._jobs WHERE id = ANY (%s) FOR UPDATE"
        other.execute(lock.encode(), [list(expected)])
        check(behind)
        other.rollback()
        marks: dict[str, IndexPlace] = {}
        for each in connection.execute(
            f"SELECT task, priority, {name}._micros(run_at), id FROM {name}._jobs"
            " WHERE id = ANY (%s) ORDER BY priority, run_at, id".encode(),
            [list(expected)],
        ):
            marks[each[0]] = each[1:]
        check(behind, mark_array(tasks, marks))


def test_what_a_claim_sends_is_parsed_once(made: Schema) -> None:
    """A `json` is a text that every `->` parses from its beginning."""
    with psycopg.connect(made.url) as connection:
        found = connection.execute(
            "SELECT p.proname FROM pg_proc AS p, unnest(p.proargtypes) AS a (type)"
            " WHERE p.pronamespace = %s::regnamespace AND a.type = 'json'::regtype"
            " AND p.proname ~ '^_(claim|pick|admit|exchange)'",
            [made.name],
        ).fetchall()
    assert found == []


def test_a_paused_task_leaves_the_marks_of_others(made: Schema) -> None:
    """Marks belong to tasks by their places, and a paused task has none."""
    name = made.name
    with psycopg.connect(made.url) as connection:
        connection.execute(READY.format(name, "'t' || n % 3", "-n", "0", 300).encode())
        connection.execute(f"INSERT INTO {name}._paused VALUES ('task', 't0')".encode())
        jobs = connection.execute(
            f"SELECT id, task, priority, {name}._micros(run_at) FROM {name}._jobs"
            " ORDER BY id".encode()
        ).fetchall()
        half = [job for job in jobs if job[0] > 150]
        mark = next((job[2], job[3], job[0]) for job in jobs if job[0] == 150)
        tasks = ["t0", "t1", "t2"]
        marks = mark_array(tasks, {"t1": mark, "t2": mark})
        taken, *_ = _claim_of_many(connection, name, tasks, marks)
    assert taken == {job[0] for job in half if job[1] != "t0"}


@pytest.mark.slow
@pytest.mark.parametrize("queues", [0, 50], ids=["free", "queued"])
@pytest.mark.parametrize("held", [False, True], ids=["unvacuumed", "held snapshot"])
def test_a_claim_does_not_read_what_was_claimed_before(
    made: Schema, held: bool, queues: int
) -> None:
    """After 100k cycles nobody has vacuumed, also while somebody holds an old snapshot."""
    cycles = 100_000 if queues == 0 else 10_000
    clock = FakeClock()
    with psycopg.connect(made.url) as other:
        if held:
            other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            _number(other, f"SELECT count(*) FROM {made.name}._jobs")
        entries = asyncio.run(_cycle(made, clock, cycles, queues))
        if held:
            _number(other, f"SELECT count(*) FROM {made.name}._jobs")  # it is still there
    assert len(entries) == 5
    for read, returned in entries:
        assert returned > 0
        assert read <= returned + len(TASKS) + SPARE


async def _cycle(
    schema: Schema, clock: FakeClock, cycles: int, queues: int
) -> list[tuple[int, int]]:
    """Run jobs through, then claim a few times in one moment: what each claim read and returned."""
    store = PostgresStore(schema.url, schema_name=schema.name, clock=clock)
    await store.open()
    seen: list[tuple[int, int]] = []
    real = store.claims._ask

    async def ask(request: ClaimRequest, *rest: Any) -> Any:
        claimed = await real(request, *rest)
        seen.append((claimed.entries, len(claimed.leases)))
        return claimed

    async def claim(limit: int) -> list[Lease]:
        return await store.claim(ClaimRequest(worker="w", tasks=TASKS, limit=limit))

    try:
        done = 0
        while done < cycles:
            names: list[str | None] = [f"q{n}" for n in range(queues)] or [None]
            batch = [NewJob("a", queue=names[n % len(names)]) for n in range(queues or 2_000)]
            await store.enqueue(batch)
            clock.advance(0.001)
            leases = await claim(len(batch))
            await store.settle([(lease, COMPLETE) for lease in leases])
            done += len(leases)
        await store.enqueue([NewJob("a")] * 1_000)
        await claim(RETURNED)  # the first one meets them, and marks the place
        store.claims._ask = ask  # type: ignore[method-assign,assignment]
        for _ in range(5):
            await claim(RETURNED)
    finally:
        await store.close()
    return seen


def test_the_timer_does_not_read_what_it_made_ready_before(made: Schema) -> None:
    """While somebody holds an old snapshot; and a job that is committed late is not forgotten."""
    clock = FakeClock()
    seen: list[tuple[int, int]] = []

    async def work() -> None:
        store = PostgresStore(made.url, schema_name=made.name, clock=clock, listen=False)
        await store.open()
        real = store._calls.row

        async def row(statement: str, *values: Any) -> tuple[Any, ...]:
            answer = await real(statement, *values)
            if "_promote(" in statement or "_next_due(" in statement:
                seen.append((answer[-1], answer[0] if "_promote(" in statement else 1))
            return answer

        store._calls.row = row  # type: ignore[method-assign]
        try:
            later = clock.now() + 3600 * 1_000_000
            await store.enqueue([NewJob("a", run_at=later + n) for n in range(3_000)])
            with psycopg.connect(made.url) as late:
                late.execute(
                    f"INSERT INTO {made.name}._jobs"
                    f" (run_at, created_at, updated_at, payload, state, task)"
                    f" SELECT min(run_at), now(), now(), '{{}}', 'scheduled', 'late'"
                    f" FROM {made.name}._jobs".encode()
                )
                clock.advance(3600.001)
                assert await store.promote(500) == 500
                await store.next_due()  # meets those 500, and then goes past them
                seen.clear()
                for left in (500, 1):
                    assert await store.promote(500) == left
                    await store.next_due()
                assert all(read <= returned + SPARE for read, returned in seen)
                clock.advance(0.002)
                assert await store.promote(5_000) == 1_999  # from the very start
                await store.next_due()
                seen.clear()
                for _ in range(3):
                    assert await store.promote(10) == 0
                    assert await store.next_due() is not None  # it will look again then
                assert all(read <= SPARE for read, _ in seen)
                late.commit()
            clock.advance(2.0)
            assert await store.next_due() == 0.0
            assert await store.promote(10) == 1
            clock.advance(2.0)
            assert await store.next_due() is None
        finally:
            await store.close()

    with psycopg.connect(made.url) as other:
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        _number(other, f"SELECT count(*) FROM {made.name}._jobs")
        asyncio.run(work())


RUNNING = (
    "INSERT INTO {0}._jobs (run_at, created_at, updated_at, payload, state, task, token, worker)"
    " SELECT now(), now(), now(), '{{}}', 'running', 'a', n, 1 FROM generate_series(1, {1}) AS n"
)


@pytest.mark.parametrize("call", ["settle", "careful settle", "check"])
def test_a_worker_reads_the_jobs_it_asks_about_and_no_others(made: Schema, call: str) -> None:
    """Also where the plan was made while the table was empty."""
    name = made.name
    statement = {
        "settle": f"SELECT {name}._settle(%s, %s, NULL, NULL, NULL, false)",
        "careful settle": f"SELECT {name}._settle(%s, %s, NULL, NULL, NULL, true)",
        "check": f"SELECT count(*) FROM {name}._check(%s, %s)",
    }[call]

    def ask(connection: psycopg.Connection[Any], count: int) -> int:
        rows = connection.execute(
            f"SELECT id, token FROM {name}._jobs ORDER BY id LIMIT {count}".encode()
        ).fetchall()
        before = _number(connection, READ.format(name))
        connection.execute(statement.encode(), [[r[0] for r in rows], [r[1] for r in rows]])
        return _number(connection, READ.format(name)) - before

    with psycopg.connect(made.url) as connection:
        connection.execute(RUNNING.format(name, 1).encode())
        ask(connection, 1)
        connection.commit()
        connection.execute(RUNNING.format(name, 5_000).encode())
        connection.commit()
        assert ask(connection, 500) <= 2 * 500 + SPARE
        if call != "check":
            assert _number(connection, f"SELECT count(*) FROM {name}._jobs") == 4_500


OPERATORS = {
    # Whether all of them are simple, and the change; a rescheduled row has one version more, and is
    # looked at once more to see what to tell of it.
    "complete": ("complete_jobs({1})", 2),
    "fail": ("permanently_fail_jobs({1})", 2),
    "reschedule": ("reschedule_jobs({1}, now())", 4),
}


@pytest.mark.parametrize("verb", OPERATORS)
def test_an_operator_reads_the_jobs_it_names_and_no_others(made: Schema, verb: str) -> None:
    """As often as it must, also where the plan was made while the table was empty."""
    name = made.name
    call, times = OPERATORS[verb]
    ids = "ARRAY(SELECT generate_series(%s::bigint, %s::bigint))"
    statement = f"SELECT count(*) FROM {name}." + call.format(name, ids)
    ready = READY.format(name, "'a'", "0", "0", 5_000)
    with psycopg.connect(made.url) as connection:
        _number(connection, statement, 1, 2)
        connection.execute(ready.encode())
        first = _number(connection, f"SELECT min(id) FROM {name}._jobs")
        connection.commit()
        before = _number(connection, READ.format(name)) + _number(connection, SCANNED.format(name))
        assert _number(connection, statement, first + 100, first + 599) == 500
        read = _number(connection, READ.format(name)) + _number(connection, SCANNED.format(name))
        assert read - before <= times * 500 + SPARE


def test_a_claim_is_one_statement_and_so_is_a_batch_of_outcomes(made: Schema) -> None:
    async def count() -> tuple[int, int, int]:
        store = PostgresStore(made.url, schema_name=made.name)
        await store.open()
        try:
            await store.claim(ClaimRequest(worker="w", tasks=TASKS, limit=1))  # asks for the time
            await store.enqueue([NewJob("a", queue=f"q{n % 7}") for n in range(50)])
            await store.enqueue([NewJob("b") for _ in range(50)])
            start = store.statements
            leases = await store.claim(ClaimRequest(worker="w", tasks=TASKS, limit=100))
            claimed = store.statements
            outcomes: list[Outcome] = [COMPLETE, Fail("no"), RELEASE, Complete("1", keep=60.0)]
            answers = await store.settle(
                [(lease, outcomes[n % 4]) for n, lease in enumerate(leases)]
            )
            assert {answer.verdict for answer in answers} == {Verdict.APPLIED}
            return len(leases), claimed - start, store.statements - claimed
        finally:
            await store.close()

    assert asyncio.run(count()) == (57, 1, 1)


# ── tenants ──

OWNED = (
    "INSERT INTO {0}._jobs"
    " (run_at, created_at, updated_at, payload, state, task, queue, tenant)"
    " SELECT now(), now(), now(), '{{}}', '{1}', '{2}', {3}, '{4}'"
    " FROM generate_series(1, {5}) AS n"
)


@pytest.mark.parametrize("tasks", [1, 3, 20], ids="{} tasks".format)
@pytest.mark.parametrize(
    ("served", "whose"),
    [("{acme}", "acme"), ('{""}', ""), ("{acme,bond}", "acme")],
    ids=["one", "default", "two"],
)
def test_a_worker_of_one_tenant_reads_no_row_of_anothers(
    made: Schema, tasks: int, served: str, whose: str
) -> None:
    """Neither ready jobs of theirs, nor suspects, nor waiting ones, nor bells."""
    name, own = made.name, 100
    names = ["a", *(f"t{n}" for n in range(tasks - 1))]
    others = {"", "acme", "bond", "cole"} - {whose} - ({"bond"} if "bond" in served else set())
    with psycopg.connect(made.url) as connection:
        for other in others:
            for state, queue in (("ready", "NULL"), ("waiting", f"'q' || n || '{other}'")):
                rows = OWNED.format(name, state, "a", queue, other, 10_000)
                connection.execute(rows.encode())
            connection.execute(
                f"INSERT INTO {name}._bells (tenant, queue)"
                f" SELECT '{other}', 'q' || n FROM generate_series(1, 1000) AS n".encode()
            )
            suspects = OWNED.format(name, "ready", "s", "NULL", other, 1_000)
            connection.execute(suspects.encode())
        suspect = f"UPDATE {name}._jobs SET task = 'a', suspect = true WHERE task = 's'"
        connection.execute(suspect.encode())
        connection.execute(OWNED.format(name, "ready", "a", "NULL", whose, own).encode())
        connection.commit()
        connection.autocommit = True
        connection.execute(f"VACUUM {name}._jobs".encode())
        connection.autocommit = False
        for _ in range(2):
            before = _number(connection, READ.format(name))
            scanned = _number(connection, SCANNED.format(name))
            call = claim_call(
                name,
                "json_array_length(leases::json)",
                tasks="%s",
                tenants="%s",
                limit="200",
                suspects="200",
                past_heads="true",
            )
            assert _number(connection, call, names, served) == own
            read = _number(connection, READ.format(name)) - before
            assert read <= own + 2 * tasks + SPARE
            assert _number(connection, SCANNED.format(name)) == scanned
            connection.rollback()
            connection.execute(f"ANALYZE {name}._jobs".encode())
            connection.commit()


@pytest.mark.parametrize("tasks", [1, 3, 20], ids="{} tasks".format)
def test_a_worker_of_all_tenants_reads_what_it_takes(made: Schema, tasks: int) -> None:
    name = made.name
    names = ["a", *(f"t{n}" for n in range(tasks - 1))]
    with psycopg.connect(made.url) as connection:
        for number in range(50):
            owner = "" if number == 0 else f"tenant-{number}"
            connection.execute(OWNED.format(name, "ready", "a", "NULL", owner, 100).encode())
        connection.commit()
        for _ in range(2):
            before = _number(connection, READ.format(name))
            call = claim_call(name, "json_array_length(leases::json)", tasks="%s", limit="500")
            assert _number(connection, call, names) == 500
            read = _number(connection, READ.format(name)) - before
            assert read <= (500 + 2 * tasks + SPARE if tasks <= 16 else 4 * 500)
            connection.rollback()
            connection.execute(f"ANALYZE {name}._jobs".encode())
            connection.commit()
