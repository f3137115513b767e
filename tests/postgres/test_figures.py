"""What dashboards ask for reads a bounded number of entries; fingerprints are those of Python."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from hashlib import md5
from typing import Any

import psycopg
import pytest

from tests.postgres.cluster import Cluster, Schema, fresh_schema
from tests.unit.test_fingerprint import ALIKE, UNLIKE
from windlass.model.fingerprint import fingerprint_of_text
from windlass.model.job import JobState
from windlass.store.figures import COLUMNS, Figures, RateFilter, TaskFigures
from windlass.store.records import ClaimRequest, JobFilter
from windlass.stores.postgres import PostgresStore
from windlass.stores.postgres.find import query

SIZES = (2_000, pytest.param(50_000, marks=pytest.mark.slow))
MOST = 50
"""What is counted one by one here, so that few rows are many."""

FILL = """
INSERT INTO {0}._jobs (run_at, created_at, updated_at, finished_at, payload, state, task, queue,
  tenant, last_error, fingerprint)
SELECT now() - n * interval '1 second', now(), now(),
  CASE WHEN s IN ('failed', 'cancelled') THEN now() - n * interval '1 s' END, '{{}}',
  s::{0}._job_state, 't' || n % 5, CASE WHEN s = 'waiting' THEN 'q' || n % 7 END,
  CASE n % 10 WHEN 0 THEN 'acme' ELSE '' END, 'error ' || n,
  CASE WHEN s = 'failed' THEN md5('x' || n % 3) END
FROM generate_series(1, {1}) AS n,
  unnest('{{blocked,scheduled,ready,waiting,failed,cancelled}}'::text[]) AS s
"""
KEPT = """
INSERT INTO {0}._history (id, run_at, created_at, finished_at, expires_at, priority, attempts,
  deliveries, revision, resets, task, payload)
SELECT 10000000 + n, now(), now(), now(), now() + interval '1 hour', 0, 1, 1, 0, 0, 't', '{{}}'
FROM generate_series(1, {1}) AS n
"""
READ = """
SELECT coalesce(sum(pg_stat_get_xact_tuples_returned(i.indexrelid)), 0)::bigint FROM pg_index AS i
WHERE i.indrelid IN (
  '{0}._jobs'::regclass, '{0}._history'::regclass, '{0}._rates'::regclass, '{0}._batches'::regclass)
"""
SCANNED = """
SELECT coalesce(sum(seq_tup_read), 0)::bigint FROM pg_stat_xact_user_tables
WHERE schemaname = '{0}' AND relname IN ('_jobs', '_history', '_rates')
"""


async def _open_and_close(schema: Schema) -> None:
    store = PostgresStore(schema.url, schema_name=schema.name)
    await store.open()
    await store.close()


@pytest.fixture
def made(pg: Cluster) -> Iterator[Schema]:
    with fresh_schema(pg) as schema:
        asyncio.run(_open_and_close(schema))
        yield schema


@pytest.fixture(params=SIZES)
def filled(request: pytest.FixtureRequest, made: Schema) -> Schema:
    """So many jobs in each state."""
    with psycopg.connect(made.url, autocommit=True) as connection:
        for text in (FILL, KEPT):
            connection.execute(text.format(made.name, request.param).encode())
        connection.execute(f"ANALYZE {made.name}._jobs, {made.name}._history".encode())
    return made


def _number(connection: psycopg.Connection[Any], statement: str) -> int:
    row = connection.execute(statement.encode()).fetchone()
    assert row is not None
    return int(row[0])


def _read(made: Schema, statement: str, *values: Any) -> tuple[int, int]:
    """How many entries of indexes a statement reads, and rows without one."""
    with psycopg.connect(made.url) as connection:
        name = made.name
        before = _number(connection, READ.format(name)), _number(connection, SCANNED.format(name))
        connection.execute(statement.replace("{schema}", name).encode(), values or None)
        after = _number(connection, READ.format(name)), _number(connection, SCANNED.format(name))
        return after[0] - before[0], after[1] - before[1]


@pytest.mark.parametrize(
    "words",
    [
        (None, None, None),
        ("t1", None, None),
        (None, "q1", None),
        (None, None, ""),
        (None, None, "acme"),
    ],
    ids=str,
)
def test_depths_read_no_more_than_they_count(
    filled: Schema, words: tuple[str | None, str | None, str | None]
) -> None:
    entries, rows = _read(filled, f"SELECT {{schema}}._depths(%s, %s, %s, {MOST})", *words)
    assert rows == 0
    assert entries <= 12 * (MOST + 1) + 100


def test_groups_read_no_more_than_they_count(filled: Schema) -> None:
    entries, rows = _read(filled, f"SELECT {{schema}}._error_groups(50, NULL, '', {MOST}, 1000)")
    assert rows == 0
    assert entries <= 3 * (MOST + 1) + 30


GROUP = md5(b"x1", usedforsecurity=False).hexdigest()
PAGES = {
    "newest": JobFilter(),
    "failed": JobFilter(states=(JobState.FAILED,)),
    "blocked": JobFilter(states=(JobState.BLOCKED,)),
    "running": JobFilter(states=(JobState.RUNNING,)),
    "completed": JobFilter(states=(JobState.COMPLETED,)),
    "key": JobFilter(key="k"),
    "group": JobFilter(fingerprint=GROUP),
    "after": JobFilter(after=1_000),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_reads_what_it_shows(filled: Schema, name: str) -> None:
    statement, values = query(filled.name, PAGES[name])
    entries, rows = _read(filled, statement, *values)
    assert rows == 0
    assert entries <= 20_000  # some hundreds, or all of a small table


def _run(made: Schema, work: Callable[[PostgresStore], Awaitable[None]]) -> None:
    async def go() -> None:
        store = PostgresStore(made.url, schema_name=made.name)
        await store.open()
        try:
            await work(store)
        finally:
            await store.close()

    asyncio.run(go())


def test_what_is_beyond_the_limit_is_estimated(filled: Schema) -> None:
    async def work(store: PostgresStore) -> None:
        counts = await store.counts()
        depths = await store.depths(most=MOST)
        of_task = await store.depths(task="t1", most=MOST)
        for state, depth in depths.states.items():
            assert depth.is_estimate == (counts[state] > MOST)
            assert 0.8 * counts[state] <= depth.count <= 1.2 * counts[state]
        for state in (JobState.READY, JobState.FAILED):
            assert of_task.states[state].is_estimate
            assert counts[state] * 0.1 <= of_task.states[state].count <= counts[state] * 0.4
        assert depths.oldest_ready is not None
        oldest = (await store.depths()).oldest_ready
        assert oldest is not None
        assert abs(depths.oldest_ready - oldest) < 5.0

    _run(filled, work)


def test_rates_of_a_task_read_its_own_rows(made: Schema) -> None:
    columns = ", ".join(COLUMNS)
    with psycopg.connect(made.url, autocommit=True) as connection:
        connection.execute(
            f"INSERT INTO {made.name}._rates (period, task, tenant, {columns})"
            " SELECT date_bin('10 s', now(), 'epoch') - n * interval '10 s', task, '',"
            f" {', '.join(['1'] * len(COLUMNS))} FROM generate_series(0, 499) AS n,"
            " (SELECT '' UNION ALL SELECT 't' || m FROM generate_series(1, 9) AS m)"
            " AS t (task)".encode()
        )
        connection.execute(f"ANALYZE {made.name}._rates".encode())

    async def work(store: PostgresStore) -> None:
        assert sum(r.figures.ok for r in await store.rates(RateFilter(600.0))) in (60, 61)
        by_task = await store.rates(RateFilter(600.0, step=3600.0, by_task=True))
        assert {rate.task for rate in by_task} == {f"t{n}" for n in range(1, 10)}

    _run(made, work)


def test_reports_at_once_are_added_up_and_none_waits_for_another(made: Schema) -> None:
    reported = [TaskFigures(f"t{n}", Figures(ok=1)) for n in range(20)]

    async def work(store: PostgresStore) -> None:
        await asyncio.gather(*[store.note_rates(reported[:: (-1) ** n]) for n in range(30)])
        rates = await store.rates(RateFilter(60.0, step=3600.0))
        assert sum(rate.figures.ok for rate in rates) == 30 * 20

    _run(made, work)


TEXTS = [
    *(text for pair in (*ALIKE, *UNLIKE) for text in pair),
    "",
    "müde ' 12",
    "\n",
    "tab\t'x'\ry 7",
    "it's 0x and 'a' \"b' c\"",
    "0X1g 12ab34cd-12ab-12ab-12ab-12ab34cd56ef7",
    "\\d+ %s {0} $1",
]


def test_a_fingerprint_is_the_same_in_sql(made: Schema) -> None:
    with psycopg.connect(made.url) as connection:
        for text in TEXTS:
            statement = f"SELECT {made.name}._fingerprint(%s, %s, %s)"
            for tenant in ("", "acme"):
                row = connection.execute(statement.encode(), [tenant, "a/b", text]).fetchone()
                assert row == (fingerprint_of_text(tenant, "a/b", text),), text


def test_what_other_programs_settle_gets_a_fingerprint(made: Schema) -> None:
    """A worker of an older version says none."""

    with psycopg.connect(made.url, autocommit=True) as connection:
        connection.execute(f"SELECT {made.name}.add_job('t')".encode())

    async def fail(store: PostgresStore) -> None:
        [lease] = await store.claim(ClaimRequest("w", ("t",), 1))
        with psycopg.connect(made.url, autocommit=True) as connection:
            others = (
                f'[{{"id": {lease.job_id}, "token": {lease.token}, "outcome":'
                ' {"kind": "fail", "error": "no 7", "max_attempts": 1}}]'
            )
            connection.execute(
                f"SELECT {made.name}._settle('{{}}', '{{}}', NULL, NULL, %s, false)".encode(),
                [others],
            )
        [group] = (await store.error_groups()).groups
        assert group.fingerprint == fingerprint_of_text("", "t", "no 8")

    _run(made, fail)
