"""What chains cost the server, in numbers that do not depend on the machine: index entries that are
read, counted within the call's own transaction, and what it writes to the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import psycopg
import pytest

from tests.postgres.cluster import Cluster, Schema, fresh_schema
from windlass.model.chain import Chain, ChainState
from windlass.store.records import (
    COMPLETE,
    ChainFilter,
    ClaimRequest,
    Complete,
    Fail,
    Lease,
    NewChain,
    NewJob,
    Outcome,
)
from windlass.stores.postgres import PostgresStore, find
from windlass.stores.postgres.schema import prepare
from windlass.stores.postgres.settlements import Settlements
from windlass.testing import FakeClock

TABLES = ("_jobs", "_history", "_chains", "_blockers", "_bells", "_batches")
READ = """
SELECT coalesce(sum(pg_stat_get_xact_tuples_returned(i.indexrelid)), 0)::bigint
FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indrelid
WHERE c.relnamespace = %s::regnamespace
"""
SCANNED = """
SELECT coalesce(sum(seq_tup_read), 0)::bigint FROM pg_stat_xact_user_tables
WHERE schemaname = %s AND relname IN ('_jobs', '_history', '_chains', '_blockers', '_bells')
"""
UPDATED = """
SELECT pg_stat_get_xact_tuples_updated(%s::regclass),
  pg_stat_get_xact_tuples_hot_updated(%s::regclass)
"""
JOBS = 1_000


class Cost(NamedTuple):
    """Index entries and rows of scanned tables that were read; what was written."""

    entries: int
    scanned: int
    records: int
    bytes: int


@pytest.fixture
def made(pg: Cluster) -> Iterator[Schema]:
    """Without autovacuum, and on a server that writes no images of whole pages."""
    with fresh_schema(pg) as schema:
        with psycopg.connect(schema.url, autocommit=True) as connection:
            prepare(connection, schema.name, "auto")
            for table in TABLES:
                connection.execute(
                    f"ALTER TABLE {schema.name}.{table} SET (autovacuum_enabled = off)".encode()
                )
        yield schema


@asynccontextmanager
async def opened(schema: Schema, **options: Any) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(schema.url, schema_name=schema.name, listen=False, **options)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def _number(connection: psycopg.Connection[Any], statement: str, *values: Any) -> int:
    row = connection.execute(statement.encode(), values).fetchone()
    assert row is not None
    return int(row[0])


def cost_of(
    connection: psycopg.Connection[Any], schema: Schema, statement: str, values: Sequence[Any]
) -> Cost:
    """Run it, in the transaction of the connection."""
    name = schema.name
    entries, scanned = _number(connection, READ, name), _number(connection, SCANNED, name)
    explained = f"EXPLAIN (ANALYZE, WAL, FORMAT JSON) {statement}"
    row = connection.execute(explained.encode(), values).fetchone()
    assert row is not None
    plan = row[0][0]["Plan"]
    return Cost(
        _number(connection, READ, name) - entries,
        _number(connection, SCANNED, name) - scanned,
        plan["WAL Records"],
        plan["WAL Bytes"],
    )


def cost_of_settling(
    connection: psycopg.Connection[Any], schema: Schema, pairs: Sequence[tuple[Lease, Outcome]]
) -> Cost:
    settlements = Settlements(pairs)
    statement = f"SELECT {settlements.calls(schema.name)}"
    return cost_of(connection, schema, statement, settlements.values(False, None))


async def _take(store: PostgresStore, *tasks: str, limit: int = JOBS) -> list[Lease]:
    return await store.claim(ClaimRequest("w", tasks, limit, lease=600.0))


# ── the end of one blocker ──


def test_the_end_of_a_blocker_costs_the_same_however_many_there_are(made: Schema) -> None:
    """A job that waits for 20,000 chains beside one that waits for 2."""

    async def measure(number: int) -> list[Cost]:
        async with opened(made) as store:
            chains: list[Chain[Any]] = []
            for _ in range(0, number, 2_000):
                count = min(2_000, number - len(chains))
                chains += await store.start_chains([NewChain(job=NewJob("part"))] * count)
            await store.enqueue([NewJob("merge", blockers=tuple(c.id for c in chains))])
            await _take(store, "nothing")  # answers the bell
            leases = await _take(store, "part", limit=2)
            costs = []
            with psycopg.connect(made.url) as connection:
                for lease in leases[:1]:
                    # The first call of a session plans: it is undone, and only the next counts.
                    for _ in range(2):
                        cost = cost_of_settling(connection, made, [(lease, Complete("1"))])
                        updated = connection.execute(
                            UPDATED.encode(), [f"{made.name}._blockers"] * 2
                        ).fetchone()
                        connection.rollback()
                        costs.append(cost)
                    assert updated in ((1, 1), (2, 2))  # every one of them in place
            return costs[-1:]

    [few] = asyncio.run(measure(2))
    [many] = asyncio.run(measure(20_000))
    assert many.scanned == few.scanned == 0
    assert many.entries <= few.entries + 4
    assert many.records <= few.records + 4
    assert few.entries <= 40


def test_the_end_of_the_last_blocker_writes_its_job_once(made: Schema) -> None:
    async def measure() -> Cost:
        async with opened(made) as store:
            await store.enqueue([NewJob("split")])
            [split] = await _take(store, "split")
            starts = tuple(NewChain(job=NewJob("part")) for _ in range(JOBS))
            merge = NewJob("merge", blockers=tuple(range(-1, -JOBS - 1, -1)))
            await store.settle([(split, Complete(next=merge, starts=starts))])
            leases = await _take(store, "part")
            with psycopg.connect(made.url) as connection:
                cost = cost_of_settling(connection, made, [(it, COMPLETE) for it in leases])
                updated = connection.execute(
                    UPDATED.encode(), [f"{made.name}._jobs"] * 2
                ).fetchone()
                assert updated is not None
                assert updated[0] == 1
                connection.commit()
            assert len(await _take(store, "merge")) == 1
            return cost

    cost = asyncio.run(measure())
    # The job goes; the chain is written, with an entry in each of its four indexes; its blocker is
    # turned in place.
    assert cost.records <= 9 * JOBS + 100
    assert cost.scanned == 0


# ── a chain that goes on ──


def test_what_a_step_writes(made: Schema) -> None:
    """The job before goes, the next one comes with three entries; the chain is not touched."""

    async def measure() -> tuple[Cost, Cost]:
        async with opened(made) as store:
            await store.start_chains([NewChain(job=NewJob("a", f"[{n}]")) for n in range(JOBS)])
            with psycopg.connect(made.url) as connection:
                leases = await _take(store, "a")
                on = [(lease, Complete(next=NewJob("a", lease.payload))) for lease in leases]
                step = cost_of_settling(connection, made, on)
                connection.commit()
                leases = await _take(store, "a")
                assert [lease.step for lease in leases] == [1] * JOBS
                last = cost_of_settling(connection, made, [(it, Complete("1")) for it in leases])
                connection.commit()
            return step, last

    step, last = asyncio.run(measure())
    assert step.records <= 5 * JOBS + 100
    assert step.bytes <= 480 * JOBS
    assert last.records <= 7 * JOBS + 100
    assert step.scanned == last.scanned == 0


@pytest.mark.slow
def test_a_loop_costs_the_same_at_step_five_thousand(pg18: Cluster) -> None:
    """And so does looking at it."""

    async def measure(schema: Schema) -> list[tuple[Cost, Cost]]:
        seen = []
        async with opened(schema) as store:
            await store.start_chains([NewChain(job=NewJob("a"))])
            for step in range(5_001):
                [lease] = await _take(store, "a", limit=1)
                on = [(lease, Complete(next=NewJob("a")))]
                if step in (20, 5_000):
                    with psycopg.connect(schema.url) as connection:
                        for _ in range(2):
                            cost = cost_of_settling(connection, schema, on)
                            connection.rollback()
                        statement, values = find.one_chain(lease.chain or 0, None)
                        text = statement.replace("{schema}", schema.name)
                        look = cost_of(connection, schema, text, values)
                        connection.rollback()
                        seen.append((cost, look))
                await store.settle(on)
        return seen

    with fresh_schema(pg18) as schema:
        with psycopg.connect(schema.url, autocommit=True) as connection:
            prepare(connection, schema.name, "auto")
            connection.execute(
                f"ALTER TABLE {schema.name}._jobs SET (autovacuum_enabled = off)".encode()
            )
        [(early, early_look), (late, late_look)] = asyncio.run(measure(schema))
    assert late.entries <= early.entries + 4
    assert late.records <= early.records + 4
    assert late.bytes <= early.bytes + 400
    assert late_look.entries <= early_look.entries + 4
    assert late_look.scanned == late.scanned == 0


# ── calls ──


def test_one_call_settles_all_kinds(made: Schema) -> None:
    async def count() -> int:
        async with opened(made) as store:
            await store.start_chains([NewChain(job=NewJob("a"))] * 4)
            await store.enqueue([NewJob("a")] * 4)
            leases = await _take(store, "a")
            before = store.statements
            outcomes: list[Outcome] = [
                Complete(next=NewJob("b")),
                Complete("1"),
                Complete(starts=(NewChain(job=NewJob("b"), key="k"),)),
                Fail("no", final=True),
                COMPLETE,
                Complete(next=NewJob("b", blockers=(-1,)), starts=(NewChain(job=NewJob("b")),)),
                Fail("no"),
                COMPLETE,
            ]
            answers = await store.settle(list(zip(leases, outcomes, strict=True)))
            assert {answer.verdict.value for answer in answers} == {"applied"}
            return store.statements - before

    assert asyncio.run(count()) == 1


# ── lists, and what is pruned ──


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"states": (ChainState.FAILED,)},
        {"states": (ChainState.OPEN, ChainState.COMPLETED)},
        {"task": "rare"},
        {"task": "common"},
        {"task": "common", "states": (ChainState.FAILED,)},
        {"tenant": "acme"},
        {"tenant": "acme", "states": (ChainState.OPEN,)},
        {"after": 10_000, "task": "common"},
    ],
    ids=str,
)
def test_a_page_of_chains_reads_what_it_shows(made: Schema, wanted: dict[str, Any]) -> None:
    """However many others there are."""
    name = made.name
    with psycopg.connect(made.url) as connection:
        connection.execute(
            f"""
            INSERT INTO {name}._chains (id, created_at, state, tenant, task, payload)
            SELECT n, now(), (CASE n % 1000 WHEN 1 THEN 'failed' WHEN 2 THEN 'open'
              ELSE 'completed' END)::{name}._chain_state,
              CASE n % 500 WHEN 2 THEN 'acme' ELSE '' END,
              CASE n % 400 WHEN 7 THEN 'rare' ELSE 'common' END, '{{}}'
            FROM generate_series(1, 30000) AS n
            """.encode()
        )
        connection.commit()
        connection.execute(f"ANALYZE {name}._chains".encode())
        connection.commit()
        statement, values = find.chains(ChainFilter(limit=20, **wanted))
        text = statement.replace("{schema}", name)
        cost = cost_of(connection, made, text, values)
        connection.rollback()
    # One page of each of the states of the two tasks, a look for each task, and one for the job of
    # each chain that is shown.
    assert cost.entries <= 2 * 4 * 20 + 3 + 4 * 20
    assert cost.scanned == 0


def test_chains_that_open_jobs_name_are_not_met_again_and_again(made: Schema) -> None:
    """They have ended long ago, are first in the order of pruning, and must stay."""
    named, free = 1_500, 300

    async def work() -> tuple[list[Cost], list[int]]:
        clock = FakeClock()
        async with opened(made, clock=clock) as store:
            chains = await store.start_chains([NewChain(job=NewJob("a"))] * named)
            [last] = await store.start_chains([NewChain(job=NewJob("last"))])
            refs = tuple(chain.id for chain in chains)
            await store.enqueue([NewJob("b", blockers=(*refs, last.id))])
            while leases := await _take(store, "a"):
                await store.settle([(lease, COMPLETE) for lease in leases])
            clock.advance(1)
            await store.start_chains([NewChain(job=NewJob("a"))] * free)
            await store.settle([(lease, COMPLETE) for lease in await _take(store, "a")])
            clock.advance(1_000)
            seen, pruned = [], []
            with psycopg.connect(made.url) as connection:
                for _ in range(6):
                    seen.append(
                        cost_of(
                            connection,
                            made,
                            f"SELECT {made.name}._prune(500, 1e6, 10.0, 10.0, %s)",
                            [store._calls.now],
                        )
                    )
                    left = _number(connection, f"SELECT count(*) FROM {made.name}._chains")
                    pruned.append(named + 1 + free - left)
                    connection.commit()
            return seen, pruned

    seen, pruned = asyncio.run(work())
    assert pruned[-1] == free
    assert seen[-1].entries <= 2_000
    assert seen[-1].scanned == 0
