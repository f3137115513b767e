"""What a job costs the server, in numbers that do not depend on the machine.

`EXPLAIN (ANALYZE, WAL)` counts what a call writes, with all that the functions it calls write.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import psycopg
import pytest

from tests.postgres.cluster import Cluster, Schema, fresh_schema
from tests.postgres.private_sql import claim as claim_call
from windlass.store.records import COMPLETE, ClaimRequest, Lease, NewJob, Verdict
from windlass.stores.postgres import PostgresStore
from windlass.stores.postgres.marks import SPARE
from windlass.stores.postgres.rendering import MOST_SPANS
from windlass.stores.postgres.schema import prepare
from windlass.testing import FakeClock

JOBS = 1_000
ENQUEUE = "SELECT {0}._enqueue(%s, false)"
CLAIM = claim_call("{0}", limit="%s", base="%s").replace("'{", "'{{").replace("}'", "}}'")
SETTLE = "SELECT {0}._settle(%s, %s, NULL, NULL, NULL, false)"
BASE = 10**12


class Cost(NamedTuple):
    records: int
    bytes: int


@pytest.fixture
def made(pg: Cluster) -> Iterator[Schema]:
    """Without autovacuum, and on a server that writes no images of whole pages."""
    with fresh_schema(pg) as schema:
        with psycopg.connect(schema.url, autocommit=True) as connection:
            prepare(connection, schema.name, "auto")
            for table in ("_jobs", "_batches"):
                connection.execute(
                    f"ALTER TABLE {schema.name}.{table} SET (autovacuum_enabled = off)".encode()
                )
        yield schema


def _cost(connection: psycopg.Connection[Any], schema: Schema, call: str, *values: Any) -> Cost:
    statement = f"EXPLAIN (ANALYZE, WAL, FORMAT JSON) {call.format(schema.name)}"
    row = connection.execute(statement.encode(), values).fetchone()
    assert row is not None
    plan = row[0][0]["Plan"]
    assert plan["WAL FPI"] == 0
    return Cost(plan["WAL Records"], plan["WAL Bytes"])


def test_what_a_job_writes(made: Schema) -> None:
    """Its row and two index entries when it is added; its lock when it is claimed; its end."""
    payloads = [{"task": "a", "payload": {"n": n}} for n in range(JOBS)]
    with psycopg.connect(made.url, autocommit=True) as connection:
        for turn in range(2):  # in a new table, and in one with room left by others
            base = BASE * (turn + 1)
            added = _cost(connection, made, ENQUEUE, json.dumps(payloads))
            claimed = _cost(connection, made, CLAIM, JOBS, base)
            ids = [
                job for [job] in connection.execute(f"SELECT id FROM {made.name}._jobs".encode())
            ]
            settled = _cost(connection, made, SETTLE, ids, [base + job for job in ids])
            assert len(ids) == JOBS
            assert connection.execute(f"SELECT FROM {made.name}._jobs".encode()).rowcount == 0
            assert added.records <= 3 * JOBS + 60
            assert claimed.records <= JOBS + 40
            assert settled.records <= JOBS + 20
            assert added.bytes <= 330 * JOBS
            assert claimed.bytes <= 73 * JOBS
            assert settled.bytes <= 62 * JOBS


def test_what_a_job_of_a_serial_queue_writes(made: Schema) -> None:
    """Claimed behind its bell, its row is written once, with three index entries."""
    jobs = [{"task": "a", "payload": {"n": n}, "queue": f"q{n}"} for n in range(JOBS)]
    with psycopg.connect(made.url, autocommit=True) as connection:
        _cost(connection, made, ENQUEUE, json.dumps(jobs))
        claimed = _cost(connection, made, CLAIM, JOBS, BASE)
        found = connection.execute(f"SELECT id, state::text FROM {made.name}._jobs".encode())
        states: dict[int, str] = dict(found.fetchall())
        settled = _cost(connection, made, SETTLE, list(states), [BASE + job for job in states])
    assert list(states.values()) == ["running"] * JOBS
    # The bell goes; a lock, and one more as the row moves to another page; the row; and entries
    # by id, by queue and by worker.
    assert claimed.records <= 7 * JOBS + 100
    assert settled.records <= 3 * JOBS + 40  # it goes, and a bell with its entry comes


SPECS = (
    "ARRAY(SELECT ('a', json_build_object('n', n), NULL, NULL, NULL, {key}, NULL, NULL)"
    "::{{0}}.job_spec FROM generate_series(1, %s) AS n)"
)
ADD = f"SELECT count(*) FROM {{0}}.add_jobs({SPECS.format(key='NULL')})"
ADD_KEYED = (
    f"SELECT count(*) FROM {{0}}.add_jobs({SPECS.format(key=chr(39) + 'k' + chr(39) + ' || n')})"
)
IDS = "ARRAY(SELECT id FROM {0}._jobs)"
BULK = {
    # The row, and its entries by id and by task; and one by key, with no row written to try it.
    "add": (None, ADD, 3),
    "add with new keys": (None, ADD_KEYED, 4),
    # A lock, and one more as the row moves to another page; the row; and these three entries.
    "add with old keys": (ADD_KEYED, ADD_KEYED, 6),
    # The row, an entry by id and one by state, and one lock: there is none before.
    "reschedule": (ADD, f"SELECT count(*) FROM {{0}}.reschedule_jobs({IDS}, now())", 4),
    # The same, and an entry by what it failed of.
    "fail": (ADD, f"SELECT count(*) FROM {{0}}.permanently_fail_jobs({IDS})", 5),
    "complete": (ADD, f"SELECT count(*) FROM {{0}}.complete_jobs({IDS})", 1),
}
"""What is called before, the call itself, and records of the log that it may write per job."""


@pytest.mark.parametrize("name", BULK)
def test_what_a_call_for_many_writes(made: Schema, name: str) -> None:
    before, call, most = BULK[name]
    with psycopg.connect(made.url, autocommit=True) as connection:
        if before is not None:
            connection.execute(before.format(made.name).encode(), [JOBS])
        cost = _cost(connection, made, call, *([JOBS] if "%s" in call else []))
    assert cost.records <= most * JOBS + 100


def test_calls_per_batch(made: Schema) -> None:
    """One to add, one to claim, one to settle; taking away the ended batch is part of a claim. Only
    the very first claim also looks at the clock."""

    async def count() -> list[int]:
        store = PostgresStore(made.url, schema_name=made.name, listen=False)
        await store.open()
        try:
            assert await _claim(store) == []  # the first one also asks for the time
            seen = [store.statements]
            for _ in range(2):
                await store.enqueue([NewJob("a")] * JOBS)
                seen.append(store.statements)
                leases = await _claim(store)
                seen.append(store.statements)
                answers = await store.settle([(lease, COMPLETE) for lease in leases])
                seen.append(store.statements)
                assert [answer.verdict for answer in answers] == [Verdict.APPLIED] * JOBS
            return seen
        finally:
            await store.close()

    seen = asyncio.run(count())
    assert [after - before for before, after in itertools.pairwise(seen)] == [1] * 6


async def _claim(store: PostgresStore, limit: int = JOBS) -> list[Lease]:
    return await store.claim(ClaimRequest(worker="w", tasks=("a",), limit=limit))


def test_what_a_claim_reads_while_thousands_are_in_batches(made: Schema) -> None:
    """From the very start it passes each of them once; from its mark it reads what it returns."""
    held, limit = 3_000, 100

    async def read() -> list[int]:
        store = PostgresStore(made.url, schema_name=made.name, listen=False, clock=FakeClock())
        await store.open()
        entries: list[int] = []
        real = store.claims._ask

        async def ask(*args: Any) -> Any:
            claimed = await real(*args)
            entries.append(claimed.entries)
            return claimed

        try:
            await store.enqueue([NewJob("a")] * (held + 4 * limit))
            for _ in range(3):
                assert len(await _claim(store, held // 3)) == held // 3
            # Another process has no mark yet.
            store._workers.forget("w")
            store.claims._ask = ask  # type: ignore[method-assign,assignment]
            for _ in range(4):
                assert len(await _claim(store, limit)) == limit
            return entries
        finally:
            await store.close()

    first, *later = asyncio.run(read())
    assert first <= held + limit + 1 + SPARE
    assert all(read <= limit + 1 + SPARE for read in later)


def test_batches_of_scattered_jobs_do_not_pile_up(made: Schema) -> None:
    """Every claim reads each range of ids in a batch, and there is one for each job where those in
    between are of another task. So beyond some of them jobs are leased one by one."""
    spans = "SELECT count(*) FROM {0}._batches AS b CROSS JOIN LATERAL unnest(b.ids)"
    most = MOST_SPANS // JOBS

    async def count() -> list[int]:
        store = PostgresStore(made.url, schema_name=made.name, listen=False)
        await store.open()
        try:
            await store.enqueue([NewJob("ab"[n % 2]) for n in range(2 * JOBS * (most + 2))])
            seen = []
            with psycopg.connect(made.url, autocommit=True) as connection:
                for _ in range(most + 2):
                    leases = await _claim(store)
                    assert len(leases) == JOBS
                    found = connection.execute(spans.format(made.name).encode()).fetchone()
                    assert found is not None
                    seen.append(int(found[0]))
            answers = await store.settle([(lease, COMPLETE) for lease in leases])
            assert {answer.verdict for answer in answers} == {Verdict.APPLIED}
            return seen
        finally:
            await store.close()

    held = [JOBS * (n + 1) for n in range(most)]
    assert asyncio.run(count()) == [*held, MOST_SPANS, MOST_SPANS]


def test_the_server_compiles_none_of_our_statements(made: Schema) -> None:
    """What just-in-time compilation costs is many times what any of them takes."""

    async def ask() -> list[object]:
        store = PostgresStore(made.url, schema_name=made.name, listen=False)
        await store.open()
        try:
            statement = "SELECT pg_catalog.current_setting('jit')"
            return [*await store._calls.row(statement), *await store._calls.texts(statement, [])]
        finally:
            await store.close()

    assert asyncio.run(ask()) == ["off", "off"]
