"""What dashboards ask for costs the same however many jobs there are; estimates are near."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.sqlite.test_sqlite_plans import Steps
from windlass.model.job import JobState
from windlass.store.figures import RateFilter
from windlass.store.records import JobFilter
from windlass.stores.sqlite import SqliteStore, admin, figures
from windlass.stores.sqlite.connection import Session, connect
from windlass.stores.sqlite.depths import depths, statement
from windlass.stores.sqlite.schema import migrate

NOW = 1_767_225_600_000_000
MOST = 50
"""What is counted one by one here, so that few rows are many."""
SIZES = (1_000, 12_000)

FILL = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :each)
INSERT INTO windlass_jobs (task, payload, state, run_at, queue, finished_at, tenant, last_error,
  fingerprint, created_at, updated_at)
SELECT 't' || (i % 5), '{}', s.value, :now - i * 1000000,
  iif(s.value = 'waiting', 'q' || (i % 7), NULL),
  iif(s.value IN ('failed', 'cancelled'), :now - i, NULL), iif(i % 10 = 0, 'acme', ''),
  'error ' || i, iif(s.value = 'failed', 'f' || (i % 3), NULL), 0, 0
FROM n, json_each('["blocked","scheduled","ready","waiting","failed","cancelled"]') AS s
"""
KEPT = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :each)
INSERT INTO windlass_history (id, task, payload, priority, run_at, attempts, deliveries, revision,
  resets, created_at, updated_at, finished_at, expires_at)
SELECT 10000000 + i * 2, 't', '{}', 0, 0, 1, 1, 0, 0, 0, 0, 0, :now FROM n
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[sqlite3.Connection]]:
    """A small one and a large one."""
    made = []
    for each in SIZES:
        path = tmp_path_factory.mktemp("figures") / "jobs.db"
        connection = connect(str(path), "normal", make=True)
        migrate(connection, str(path), 1.0)
        connection.execute("BEGIN")
        for text in (FILL, KEPT):
            connection.execute(text, {"each": each, "now": NOW})
        connection.execute("COMMIT")
        made.append(connection)
    yield made
    for connection in made:
        connection.close()


WORDS: list[tuple[str | None, str | None, str | None]] = [
    (None, None, None),
    ("t1", None, None),
    (None, "q1", None),
    (None, None, ""),
    (None, None, "acme"),
]


def _depths(words: tuple[str | None, str | None, str | None], db: Session) -> Any:
    return depths(db, *words, MOST, NOW)


LOOKS: dict[str, Callable[[Session], Any]] = {
    **{f"depths {words}": partial(_depths, words) for words in WORDS},
    "groups": lambda db: figures.error_groups(db, 50, None, MOST),
    "groups of acme": lambda db: figures.error_groups(db, 50, "acme", MOST),
    "failed": lambda db: admin.find(db, JobFilter(states=(JobState.FAILED,), limit=MOST)),
    "running": lambda db: admin.find(db, JobFilter(states=(JobState.RUNNING,), limit=MOST)),
    "key": lambda db: admin.find(db, JobFilter(key="k", limit=MOST)),
    "group": lambda db: admin.find(db, JobFilter(fingerprint="f1", limit=MOST)),
    "newest": lambda db: admin.find(db, JobFilter(limit=MOST)),
    "rates": lambda db: figures.rates(db, RateFilter(60.0), NOW),
}


@pytest.mark.parametrize("name", LOOKS)
def test_a_look_costs_the_same_beside_many_jobs(files: list[sqlite3.Connection], name: str) -> None:
    small, large = (
        Steps(connection).of(partial(LOOKS[name], Session(connection))) for connection in files
    )
    assert large <= small * 1.3 + 100


@pytest.mark.parametrize("words", WORDS, ids=str)
def test_depths_walk_the_indexes_that_they_name(
    files: list[sqlite3.Connection], words: tuple[str | None, str | None, str | None]
) -> None:
    task, queue, tenant = words
    text = statement(task is not None, queue is not None, tenant and "*")
    values = {"task": task, "queue": queue, "tenant": tenant, "bound": MOST}
    plan = files[0].execute(f"EXPLAIN QUERY PLAN {text}", values).fetchall()
    assert not [row[3] for row in plan if row[3] in ("SCAN windlass_jobs", "SCAN windlass_history")]


def test_what_is_beyond_the_limit_is_estimated(files: list[sqlite3.Connection]) -> None:
    db, each = Session(files[1]), SIZES[1]
    found = depths(db, None, None, None, MOST, NOW)
    assert found.states[JobState.RUNNING].count == 0
    for state in (JobState.FAILED, JobState.SCHEDULED, JobState.COMPLETED):
        assert found.states[state].is_estimate
        assert 0.7 * each <= found.states[state].count <= 1.3 * each
    assert found.oldest_ready == each  # its head, though not all were counted
    of_task = depths(db, "t1", None, None, MOST, NOW)
    assert 0.05 * each <= of_task.states[JobState.FAILED].count <= 0.45 * each


def _run(path: Path, work: Callable[[SqliteStore], Awaitable[None]]) -> None:
    async def go() -> None:
        store = SqliteStore(path)
        await store.open()
        try:
            await work(store)
        finally:
            await store.close()

    asyncio.run(go())


def test_a_job_that_failed_before_there_were_fingerprints_has_a_group(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"

    async def nothing(store: SqliteStore) -> None:
        pass

    _run(path, nothing)
    with closing(sqlite3.connect(path)) as connection, connection:
        for tenant in ("", "acme"):
            connection.execute(
                "INSERT INTO windlass_jobs (task, payload, state, run_at, finished_at, tenant,"
                " last_error, created_at, updated_at) VALUES ('t', '{}', 'failed', 0, 1, ?, 'no',"
                " 0, 0)",
                [tenant],
            )

    async def look(store: SqliteStore) -> None:
        [group] = (await store.error_groups()).groups
        assert (group.fingerprint, group.count.count, group.error) == ("", 2, "no")
        [own] = (await store.error_groups(tenant="acme")).groups
        assert (own.tenant, own.count.count) == ("acme", 1)
        assert (await store.error_groups(tenant="other")).groups == ()
        found = await store.find(JobFilter(fingerprint="", tenant="acme"))
        assert [job.id for job in found] == [own.latest_job]
        assert len(await store.find(JobFilter(fingerprint=""))) == 2

    _run(path, look)
