"""What a claim reads: what it returns, one entry per task, and next to nothing else.

Index entries are counted by the server within the claim's own transaction, so the numbers do not
depend on the machine. Backlogs are written straight into the table, in the states they would be in.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.postgres.cluster import Cluster, Schema, fresh_schema
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
from windlass.stores.postgres.marks import SPARE
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


@pytest.mark.parametrize("size", SIZES)
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
                f"SELECT json_array_length(leases::json) FROM {name}._claim('w', %s, %s, 10, 30, 1,"
                " '{}', '{}', false, '', '{}', 0, %s, '{}')",
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


@pytest.mark.parametrize("number", [1, 2, 4, 5, 16, 17, 64, 65, 200])
def test_the_first_of_many_tasks_are_taken(made: Schema, number: int) -> None:
    """Whatever the number of tasks; up to 64 of them nothing is read that is not returned."""
    name = made.name
    tasks = [f"t{n}" for n in range(number)]
    with psycopg.connect(made.url) as connection:
        connection.execute(
            (
                ROW.format(name) + " SELECT now() - (n * 37 % 101) * interval '1 second', now(),"
                f" now(), '{{}}', 'ready', 't' || n % {number}, NULL, n % 3"
                " FROM generate_series(1, 3000) AS n"
            ).encode()
        )
        expected = connection.execute(
            f"SELECT id FROM {name}._jobs ORDER BY priority, run_at, id LIMIT 100".encode()
        ).fetchall()
        connection.commit()
        before = _number(connection, READ.format(name))
        [leases] = connection.execute(
            (
                f"SELECT leases FROM {name}._claim('w', %s, 100, 10, 30, 1, '{{}}', '{{}}', false,"
                " '', '{}', 0, 1, '{}')"
            ).encode(),
            [tasks],
        ).fetchone() or [None]
        read = _number(connection, READ.format(name)) - before
        assert leases is not None
        assert {row[0] for row in json.loads(leases)} == {job for [job] in expected}
        if number <= 64:
            assert read <= RETURNED + number + SPARE


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
    real = store._ask_claim

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
        store._ask_claim = ask  # type: ignore[method-assign,assignment]
        for _ in range(5):
            await claim(RETURNED)
    finally:
        await store.close()
    return seen


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


def test_a_claim_is_one_statement_and_so_is_a_batch_of_outcomes(made: Schema) -> None:
    async def count() -> tuple[int, int, int]:
        store = PostgresStore(made.url, schema_name=made.name)
        await store.open()
        try:
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
