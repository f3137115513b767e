"""What does not concern a claim costs it nothing: plans, and steps counted beside noise."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from windlass.store.records import COMPLETE, ClaimRequest, NewJob
from windlass.stores.sqlite import admin, upkeep
from windlass.stores.sqlite.claim import PastHeads, claim, leases_of, must_write
from windlass.stores.sqlite.connection import Session, connect
from windlass.stores.sqlite.enqueue import Enqueue
from windlass.stores.sqlite.schema import migrate
from windlass.stores.sqlite.settle import Settle
from windlass.stores.sqlite.statements import SQL, for_tasks

NOW = 1_767_225_600_000_000
REQUEST = ClaimRequest(worker="w", tasks=("t", "u", "v"), limit=50)

NOISE = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :each)
INSERT INTO windlass_jobs (task, payload, state, run_at, queue, finished_at, created_at, updated_at)
SELECT :task, '{}', :state, :run_at + i, :queue, :finished_at, 0, 0 FROM n
"""


def _noisy(path: Path, rows: int) -> sqlite3.Connection:
    """Future, foreign, stuck and dead jobs, a quarter each."""
    connection = connect(str(path), "normal", make=True)
    migrate(connection, str(path), 1.0)
    connection.execute("BEGIN")
    for task, state, run_at, queue, finished_at in (
        ("t", "scheduled", NOW + 10**12, None, None),
        ("foreign", "ready", 0, None, None),
        ("t", "waiting", 0, "stuck", None),
        ("t", "failed", 0, None, 1),
    ):
        parameters = {
            "each": rows // 4,
            "task": task,
            "state": state,
            "run_at": run_at,
            "queue": queue,
            "finished_at": finished_at,
        }
        connection.execute(NOISE, parameters)
    connection.execute(
        "INSERT INTO windlass_jobs (task, payload, state, run_at, queue, created_at, updated_at)"
        " VALUES ('foreign', '{}', 'running', 0, 'stuck', 0, 0)"
    )
    connection.execute("COMMIT")
    return connection


@pytest.fixture(scope="module", params=[3_000, 100_000])
def noisy(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[sqlite3.Connection]:
    with closing(_noisy(tmp_path_factory.mktemp("noise") / "jobs.db", request.param)) as made:
        yield made


class _Anything(dict[str, object]):
    def __missing__(self, key: str) -> object:
        return "[]"


def _plan(connection: sqlite3.Connection, sql: str) -> list[str]:
    rows = connection.execute(f"EXPLAIN QUERY PLAN {sql}", _Anything()).fetchall()
    return [row[3] for row in rows]


HOT = {
    "claim_ready": ["INDEX windlass_jobs_ready (task=?)", "INTEGER PRIMARY KEY"],
    "claim_chosen": ["INDEX windlass_jobs_ready (task=?)", "INTEGER PRIMARY KEY"],
    "peek_ready": ["windlass_jobs_ready (task=?)"],
    "peek_due": ["windlass_jobs_scheduled (run_at<?)"],
    "read_due": ["windlass_jobs_scheduled (run_at<?)"],
    "next_due": ["windlass_jobs_scheduled"],
    "lease_jobs": ["INTEGER PRIMARY KEY"],
    "lease_jobs_longer": ["INTEGER PRIMARY KEY"],
    "delete_completed": ["INTEGER PRIMARY KEY"],
    "delete_completed_pairs": ["INTEGER PRIMARY KEY"],
    "keep_completed": ["INTEGER PRIMARY KEY"],
    "demote_heads": ["windlass_jobs_active (queue=?)", "windlass_jobs_waiting (queue=?"],
    "admit_heads": ["windlass_jobs_active (queue=?)", "windlass_jobs_waiting (queue=?)"],
    "find_past_heads": ["windlass_jobs_waiting_task (task=?", "windlass_jobs_active (queue=?)"],
    "read_expired": ["windlass_jobs_running (worker=?)"],
    "read_held": ["windlass_jobs_running (worker=?)"],
    "delete_dead_workers": ["windlass_jobs_running (worker=?)"],
    "clamp_leases": ["windlass_jobs_running (worker=?)"],
    "find_stranded": ["windlass_jobs_ready (task>?)", "windlass_jobs_waiting_task (task>?)"],
    "read_keyed": ["windlass_jobs_key (key=?)"],
    "read_jobs": ["INTEGER PRIMARY KEY"],
    "update_jobs": ["INTEGER PRIMARY KEY"],
    "check_leases": ["INTEGER PRIMARY KEY"],
    "note_job": ["INTEGER PRIMARY KEY"],
    "peek_prune": ["windlass_history_expires", "windlass_jobs_cancelled (finished_at<?)"],
    "prune_history": ["windlass_history_expires (expires_at<?)"],
    "prune_cancelled": ["windlass_jobs_cancelled (finished_at<?)"],
    "delete_failed": ["windlass_jobs_ended (state=?)"],
    "find_ended": ["windlass_jobs_ended (state=?"],
}
SORTS_A_FEW = {"read_expired", "read_held"}
"""These sort what dead workers held, never the backlog."""

WALKS_A_PARTIAL_INDEX = {"next_due"}


@pytest.mark.parametrize("name", sorted(HOT))
def test_the_plan_of(name: str, noisy: sqlite3.Connection) -> None:
    plan = _plan(noisy, SQL[name])
    for index in HOT[name]:
        assert any(index in step for step in plan), plan
    for step in plan:
        if name not in WALKS_A_PARTIAL_INDEX:
            assert not step.startswith("SCAN windlass_jobs"), plan
        if name not in SORTS_A_FEW:
            assert "TEMP B-TREE" not in step, plan


@pytest.mark.parametrize("name", ["claim_ready", "claim_chosen"])
def test_many_tasks_are_merged_not_sorted(name: str, noisy: sqlite3.Connection) -> None:
    plan = _plan(noisy, for_tasks(name, 5))
    assert any("MERGE" in step for step in plan), plan
    assert sum("windlass_jobs_ready (task=?)" in step for step in plan) == 5
    assert not any("TEMP B-TREE" in step or step.startswith("SCAN windlass") for step in plan)


class Steps:
    """Counts what SQLite's own machine does."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def of(self, work: Any) -> int:
        count = 0

        def step() -> int:
            nonlocal count
            count += 1
            return 0

        self._connection.set_progress_handler(step, 10)
        try:
            work()
        finally:
            self._connection.set_progress_handler(None, 10)
        return count


def _cycle(db: Session, request: ClaimRequest) -> None:
    """What workers do all day, in one transaction that is undone."""
    new = [NewJob(task, queue=queue) for task in "tu" for queue in (None, None, "a", "b")] * 8
    reaper = upkeep.Reaper("no.db", _Clock())
    db.control("BEGIN IMMEDIATE")
    Enqueue(new)(db, NOW)
    Enqueue([NewJob("t", key="k"), NewJob("t", key="k", queue="stuck")])(db, NOW)
    assert must_write(db, request, NOW, PastHeads())
    leases = leases_of(claim(db, request, NOW, PastHeads()))
    assert len(leases) > 30
    assert {answer.verdict for answer in Settle([(x, COMPLETE) for x in leases])(db, NOW)} == {
        "applied"
    }
    upkeep.promote(db, 100, NOW)
    reaper.reap(db, 100, 5, NOW)
    upkeep.prune(db, 100, NOW)
    admin.pause(db, None, "a")
    admin.resume(db, None, "a")
    db.control("ROLLBACK")


class _Clock:
    def now(self) -> int:
        return NOW

    def monotonic(self) -> float:
        return 1.0


@pytest.mark.parametrize(
    "request_",
    [
        REQUEST,
        ClaimRequest(worker="w", tasks=("t", "u"), limit=200, past_heads=True),
        ClaimRequest(
            worker="w", tasks=("t", "u"), limit=50, forbidden_flags=("x",), longer_leases={"t": 9.0}
        ),
    ],
    ids=["plain", "past heads", "flags"],
)
def test_noise_costs_nothing(tmp_path: Path, request_: ClaimRequest) -> None:
    steps = []
    for rows in (0, 400, 20_000):
        with closing(_noisy(tmp_path / f"{rows}.db", rows)) as connection:
            db = Session(connection)
            steps.append(Steps(connection).of(lambda db=db: _cycle(db, request_)))
    quiet, little, much = steps
    assert quiet > 100, "the counter counts"
    assert much <= little * 1.05, (quiet, little, much)
    assert much <= quiet * 1.5, (quiet, little, much)


def _claim_beside_paused(path: Path, paused: int) -> int:
    """The steps of a claim that finds five jobs beside those of a paused task."""
    with closing(connect(str(path), "normal", make=True)) as connection:
        migrate(connection, str(path), 1.0)
        connection.execute("BEGIN")
        noise = {"each": paused, "task": "resting", "state": "ready", "run_at": 0}
        connection.execute(NOISE, {**noise, "queue": None, "finished_at": None})
        connection.execute("COMMIT")
        db = Session(connection)
        db.control("BEGIN IMMEDIATE")
        admin.pause(db, "resting", None)
        Enqueue([NewJob("t")] * 5)(db, NOW)
        request = ClaimRequest(worker="w", tasks=("resting", "t"), limit=50)
        found: list[Any] = []
        steps = Steps(connection).of(
            lambda: found.extend(leases_of(claim(db, request, NOW, PastHeads())))
        )
        db.control("ROLLBACK")
    assert [lease.task for lease in found] == ["t"] * 5
    return steps


def test_a_claim_visits_no_jobs_of_a_paused_task(tmp_path: Path) -> None:
    few = _claim_beside_paused(tmp_path / "few.db", 20)
    many = _claim_beside_paused(tmp_path / "many.db", 20_000)
    assert few > 5, "the counter counts"
    assert many <= few * 1.1, (few, many)
