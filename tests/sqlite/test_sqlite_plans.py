"""What does not concern a claim costs it nothing: plans, and steps counted beside noise."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from windlass.store.records import COMPLETE, ClaimRequest, Lease, NewJob
from windlass.store.server import ClaimScope
from windlass.stores.sqlite import admin, upkeep
from windlass.stores.sqlite.claim import ClaimMemory, claim, leases_of, must_write
from windlass.stores.sqlite.claimable import claimable
from windlass.stores.sqlite.connection import Session, connect
from windlass.stores.sqlite.enqueue import Enqueue
from windlass.stores.sqlite.schema import migrate
from windlass.stores.sqlite.settle import Settle
from windlass.stores.sqlite.statements import SQL, Branches, for_branches

NOW = 1_767_225_600_000_000
REQUEST = ClaimRequest(worker="w", tasks=("t", "u", "v"), limit=50)

NOISE = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :each)
INSERT INTO windlass_jobs
  (task, payload, state, run_at, queue, finished_at, tenant, created_at, updated_at)
SELECT :task, '{}', :state, :run_at + i, :queue, :finished_at, :tenant, 0, 0 FROM n
"""


CHAINS = (
    """INSERT INTO windlass_chains
      (id, state, tenant, key, key_window, task, payload, length, created_at, finished_at)
    SELECT id, iif(id % 2, 'open', 'completed'), tenant, 'k' || id, 0, task, payload, 1, 0,
      iif(id % 2, NULL, 1767225600000000 - id)
    FROM windlass_jobs""",
    """INSERT INTO windlass_blockers (chain, job, place, state)
    SELECT id - 1, id, 0, 'open' FROM windlass_jobs WHERE state = 'blocked'""",
)


def _empty(path: Path) -> sqlite3.Connection:
    connection = connect(str(path), "normal", make=True)
    migrate(connection, str(path), 1.0)
    return connection


def _noisy(path: Path, rows: int) -> sqlite3.Connection:
    """Future, foreign, stuck, held, parked, another tenant's, dead and blocked jobs, as many of
    each, and chains."""
    connection = _empty(path)
    connection.execute("BEGIN")
    noise = (
        ("t", "scheduled", NOW + 10**12, None, None, ""),
        ("foreign", "ready", 0, None, None, ""),
        ("foreign", "ready", 0, None, None, "other"),
        ("t", "waiting", 0, "stuck", None, ""),
        ("t", "waiting", 0, "held", None, ""),
        ("t", "waiting", 0, None, None, "other"),
        ("t", "failed", 0, None, 1, ""),
        ("t", "blocked", 0, "stuck", None, ""),
    )
    for task, state, run_at, queue, finished_at, tenant in noise:
        parameters = {
            "each": rows // len(noise),
            "task": task,
            "state": state,
            "run_at": run_at,
            "queue": queue,
            "finished_at": finished_at,
            "tenant": tenant,
        }
        connection.execute(NOISE, parameters)
    connection.execute(
        "INSERT INTO windlass_jobs (task, payload, state, run_at, queue, created_at, updated_at)"
        " VALUES ('foreign', '{}', 'running', 0, 'stuck', 0, 0)"
    )
    connection.execute(
        "INSERT INTO windlass_jobs (task, payload, state, run_at, queue, is_strict, holds,"
        " finished_at, created_at, updated_at)"
        " VALUES ('t', '{}', 'failed', 0, 'held', 1, 1, 1, 0, 0)"
    )
    connection.execute("INSERT INTO windlass_paused VALUES ('other', 'task', 't')")
    for text in CHAINS:
        connection.execute(text)
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
    "peek_ready": [
        "windlass_jobs_ready (task=?)",
        "windlass_jobs_ready_others (task=?)",
        "windlass_jobs_ready_tenant (tenant=? AND task=?)",
    ],
    "peek_others": ["windlass_jobs_ready_others (task>?)"],
    "find_branches": [
        "windlass_jobs_ready (task=?)",
        "windlass_jobs_ready_others (task=?)",
        "windlass_jobs_ready_tenant (tenant=? AND task=?)",
    ],
    "list_tasks": [
        "windlass_jobs_ready (task>?)",
        "windlass_jobs_ready_others (task>?)",
        "windlass_jobs_ready_tenant (tenant=? AND task>?)",
        "windlass_jobs_waiting_task (task>?)",
    ],
    "park_jobs": ["windlass_jobs_ready_tenant (tenant=? AND task=?)"],
    "unpark_jobs": ["windlass_jobs_waiting (queue=? AND tenant=?)"],
    "list_waiting_queues": ["windlass_jobs_waiting_task (task=? AND tenant=?"],
    "find_claimable": [
        "windlass_jobs_ready (task=?)",
        "windlass_jobs_ready_others (task=?)",
        "windlass_jobs_ready_tenant (tenant=? AND task=?)",
        "windlass_jobs_ready (task>?)",
        "windlass_jobs_ready_others (task>?)",
        "windlass_jobs_ready_tenant (tenant=? AND task>?)",
        "SEARCH p USING PRIMARY KEY (tenant=? AND kind=? AND name=?)",
    ],
    "peek_waiting": ["windlass_jobs_waiting_task (task>?)"],
    "find_token": ["windlass_tokens_digest (digest=?)"],
    "read_token": ["SEARCH t USING PRIMARY KEY (name=?)"],
    "revoke_token": ["windlass_tokens USING PRIMARY KEY (name=?)"],
    "read_secret": ["windlass_secrets USING PRIMARY KEY (tenant=? AND name=?)"],
    "read_requests": ["SEARCH r USING PRIMARY KEY (tenant=? AND key=?)"],
    "prune_requests": ["windlass_requests_asked (asked_at<?)", "(tenant=? AND key=?)"],
    "peek_due": ["windlass_jobs_scheduled (run_at<?)"],
    "read_due": ["windlass_jobs_scheduled (run_at<?)"],
    "next_due": ["windlass_jobs_scheduled"],
    "lease_jobs": ["INTEGER PRIMARY KEY"],
    "lease_jobs_longer": ["INTEGER PRIMARY KEY"],
    "delete_completed": ["INTEGER PRIMARY KEY"],
    "delete_completed_pairs": ["INTEGER PRIMARY KEY"],
    "keep_completed": ["INTEGER PRIMARY KEY"],
    "demote_heads": [
        "windlass_jobs_active (queue=? AND tenant=?)",
        "windlass_jobs_waiting (queue=? AND tenant=?",
        "windlass_jobs_holding (queue=? AND tenant=?",
    ],
    "admit_heads": [
        "windlass_jobs_active (queue=? AND tenant=?)",
        "windlass_jobs_waiting (queue=? AND tenant=?)",
        "windlass_jobs_holding (queue=? AND tenant=?)",
    ],
    "demote_heads_of_others": ["windlass_jobs_active (queue=? AND tenant=?)"],
    "admit_heads_of_others": ["windlass_jobs_waiting (queue=? AND tenant=?)"],
    "find_past_heads": [
        "windlass_jobs_waiting_task (task=? AND tenant=? AND queue>?)",
        "windlass_jobs_waiting_task (task=? AND tenant>?)",
        "windlass_jobs_waiting_task (task=? AND tenant=? AND queue=?)",
        "windlass_jobs_active (queue=? AND tenant=?)",
        "windlass_jobs_holding (queue=? AND tenant=?)",
    ],
    "read_expired": ["windlass_jobs_running (worker=?)"],
    "read_held": ["windlass_jobs_running (worker=?)"],
    "delete_dead_workers": ["windlass_jobs_running (worker=?)"],
    "clamp_leases": ["windlass_jobs_running (worker=?)"],
    "find_stranded": [
        "windlass_jobs_ready (task>?)",
        "windlass_jobs_ready_others (task>?)",
        "windlass_jobs_waiting_task (task>?)",
        "windlass_jobs_ready (task=?)",
        "windlass_jobs_ready_others (task=?)",
        "windlass_jobs_waiting_task (task=?)",
    ],
    "read_keyed": ["windlass_jobs_key (key=? AND tenant=?)"],
    "read_keyed_of_others": ["windlass_jobs_key (key=? AND tenant=?)"],
    "read_jobs": ["INTEGER PRIMARY KEY"],
    "update_jobs": ["INTEGER PRIMARY KEY"],
    "check_leases": ["INTEGER PRIMARY KEY"],
    "note_job": ["INTEGER PRIMARY KEY"],
    "peek_prune": [
        "windlass_history_expires",
        "windlass_jobs_cancelled (finished_at<?)",
        "windlass_requests_asked (asked_at<?)",
    ],
    "prune_history": ["windlass_history_expires (expires_at<?)"],
    "prune_cancelled": ["windlass_jobs_cancelled (finished_at<?)"],
    "prune_chains": ["windlass_chains_ended (state=? AND finished_at<?)", "(chain=?)"],
    "prune_history_blockers": ["windlass_history_expires (expires_at<?)", "(job=?)"],
    "prune_cancelled_blockers": ["windlass_jobs_cancelled (finished_at<?)", "(job=?)"],
    "delete_continued": ["INTEGER PRIMARY KEY"],
    "delete_continued_pairs": ["INTEGER PRIMARY KEY"],
    "keep_continued": ["INTEGER PRIMARY KEY"],
    "become_chains": ["INTEGER PRIMARY KEY"],
    "begin_chains": ["windlass_jobs_chain (chain>? AND chain<?)"],
    "name_chains": ["INTEGER PRIMARY KEY"],
    "complete_chains": ["INTEGER PRIMARY KEY"],
    "find_waiting": ["PRIMARY KEY (chain=?)", "INTEGER PRIMARY KEY"],
    "meet_blockers": ["PRIMARY KEY (chain=?)", "INTEGER PRIMARY KEY"],
    "count_down": ["INTEGER PRIMARY KEY"],
    "release_jobs": ["INTEGER PRIMARY KEY"],
    "read_chains": ["INTEGER PRIMARY KEY"],
    "read_chain_states": ["INTEGER PRIMARY KEY"],
    "read_open_chains": ["windlass_chains_key (key=? AND tenant=?)"],
    "read_ended_chain": ["windlass_chains_key_ended (key=? AND tenant=? AND finished_at>?)"],
    "read_current_jobs": ["windlass_jobs_chain (chain=?)"],
    "read_kept_of_chain": ["windlass_history_chain (chain=?)"],
    "read_naming": ["PRIMARY KEY (chain=?)"],
    "read_blockers": ["windlass_blockers_job (job=?)"],
    "read_named_chains": ["windlass_blockers_job (job=?)", "INTEGER PRIMARY KEY"],
    "read_lease_blockers": ["windlass_blockers_job (job=?", "INTEGER PRIMARY KEY"],
    "update_blockers": ["windlass_blockers USING"],
    "delete_blockers": ["windlass_blockers USING", "windlass_blockers_job (job=?)"],
    "find_blocked": ["PRIMARY KEY (chain=?)", "INTEGER PRIMARY KEY"],
    "find_chains": ["INTEGER PRIMARY KEY (rowid<?)", "windlass_jobs_chain (chain=?)"],
    "find_chains_in_states": [
        "windlass_chains_task (task>?)",
        "windlass_chains_task (task=? AND state=? AND rowid<?)",
    ],
    "find_chains_of_tenant": ["windlass_chains_tenant (tenant=? AND state=? AND rowid<?)"],
    "show_chains": [
        "windlass_jobs_chain (chain=?)",
        "windlass_history_chain (chain=? AND step=?)",
    ],
    "peek_job": ["INTEGER PRIMARY KEY"],
    "read_failed": ["windlass_jobs_ended (state=?)"],
    "find_ended": ["windlass_jobs_ended (state=?"],
    "read_failed_of_others": ["windlass_jobs_ended_tenant (tenant=? AND state=?)"],
    "find_ended_of_others": ["windlass_jobs_ended_tenant (tenant=? AND state=?"],
    "find_failed": ["windlass_jobs_errors (<expr>=? AND id<?)"],
    "find_among": ["INTEGER PRIMARY KEY (rowid=?)"],
    "find_keyed": ["windlass_jobs_key (key=?)", "windlass_jobs_key_cancelled (key=?)"],
    "find_kept_keyed": ["windlass_history_key (key=? AND rowid<?)"],
    "find_error_groups": ["windlass_jobs_errors (<expr>>? AND <expr><?)"],
    "find_oldest_ready": [
        "windlass_jobs_ready (task=? AND priority>?)",
        "windlass_jobs_ready (task>?)",
        "windlass_jobs_ready_others (task=? AND priority>?)",
        "windlass_jobs_ready_others (task>?)",
    ],
    "sample_jobs": ["INTEGER PRIMARY KEY (rowid=?)"],
    "note_rates": [],
    "prune_rates": ["windlass_rates_period (period<?)"],
    "read_rates": ["SEARCH r USING PRIMARY KEY (task=? AND period>?)"],
    "read_rates_by_task": ["windlass_rates_period (period>?)"],
    "find_jobs_of_others": ["windlass_jobs_tenant (tenant=? AND rowid<?)"],
    "find_history_of_others": ["windlass_history_tenant (tenant=? AND rowid<?)"],
}
SORTS_A_FEW = {
    *("read_expired", "read_held", "find_branches", "list_tasks", "park_jobs"),
    *("find_waiting", "read_blockers", "read_lease_blockers"),
    *("find_chains_in_states", "find_chains_of_tenant"),
    *(
        "find_among",
        "find_keyed",
        "find_error_groups",
        "sample_jobs",
        "read_rates",
        "read_rates_by_task",
    ),
}
"""These sort what dead workers held, the tasks of a claim, the jobs that wait for chains which end,
the pages of a few tasks and states, or what was counted up to a limit, never the backlog."""

WALKS_A_PARTIAL_INDEX = {"next_due"}
BIG = ("SCAN windlass_jobs", "SCAN windlass_chains", "SCAN windlass_blockers")


@pytest.mark.parametrize("name", sorted(HOT))
def test_the_plan_of(name: str, noisy: sqlite3.Connection) -> None:
    plan = _plan(noisy, SQL[name])
    for index in HOT[name]:
        assert any(index in step for step in plan), plan
    for step in plan:
        if name not in WALKS_A_PARTIAL_INDEX:
            assert not step.startswith(BIG), plan
        if name not in SORTS_A_FEW:
            assert "TEMP B-TREE" not in step, plan


WALKS = {
    "windlass_jobs_ready (task=?)": Branches(of_default=5),
    "windlass_jobs_ready_others (task=?)": Branches(of_others=5),
    "windlass_jobs_ready_tenant (tenant=? AND task=?)": Branches(of_one=5),
}


@pytest.mark.parametrize("index", WALKS)
@pytest.mark.parametrize("name", ["claim_ready", "claim_chosen"])
def test_many_branches_are_merged_not_sorted(
    name: str, index: str, noisy: sqlite3.Connection
) -> None:
    """Each walks its own index, and none of another owner's."""
    plan = _plan(noisy, for_branches(name, WALKS[index]))
    assert any("MERGE" in step for step in plan), plan
    assert sum(index in step for step in plan) == 5, plan
    assert not any(other in step for other in WALKS if other != index for step in plan), plan
    assert not any("TEMP B-TREE" in step or step.startswith("SCAN windlass") for step in plan)


def test_a_claim_of_every_tenant_merges_two_branches_a_task(noisy: sqlite3.Connection) -> None:
    plan = _plan(noisy, for_branches("claim_ready", Branches(3, 3)))
    for index in ("windlass_jobs_ready (task=?)", "windlass_jobs_ready_others (task=?)"):
        assert sum(index in step for step in plan) == 3, plan
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
    Enqueue(new).write(db, NOW)
    Enqueue([NewJob("t", key="k"), NewJob("t", key="k", queue="stuck")]).write(db, NOW)
    assert must_write(db, request, NOW, ClaimMemory())
    leases = leases_of(claim(db, request, NOW, ClaimMemory()))
    assert len(leases) > 30
    assert {
        answer.verdict for answer in Settle([(x, COMPLETE) for x in leases]).write(db, NOW)
    } == {"applied"}
    upkeep.promote(db, 100, NOW)
    reaper.reap(db, 100, 5, NOW)
    upkeep.prune(db, 100, upkeep.Pruning(NOW))
    admin.pause(db, None, "a", "")
    admin.resume(db, None, "a", "")
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


# ── tenants ──


def _with_backlog_of_others(path: Path, rows: int) -> sqlite3.Connection:
    """Jobs of another tenant that a worker could run: ready, and behind the heads of queues."""
    connection = _empty(path)
    db = Session(connection)
    db.control("BEGIN IMMEDIATE")
    Enqueue([NewJob("t", priority=-1, tenant="other")] * rows).write(db, NOW)
    Enqueue([NewJob("t", queue=f"q{n % 7}", tenant="other") for n in range(rows)]).write(db, NOW)
    db.control("COMMIT")
    return connection


def _claim_for(db: Session, tenant: str, *, past_heads: bool, tasks: tuple[str, ...] | None) -> int:
    """A worker of one tenant adds, looks and claims; how many jobs it gets."""
    request = ClaimRequest(
        "w", tasks, limit=50, tenants=(tenant,), suspects=5, past_heads=past_heads
    )
    new = [NewJob("t", queue=queue, tenant=tenant) for queue in (None, None, "q1", "q2")] * 4
    db.control("BEGIN IMMEDIATE")
    must_write(db, request, NOW, ClaimMemory())
    Enqueue(new).write(db, NOW)
    assert must_write(db, request, NOW, ClaimMemory())
    leases = leases_of(claim(db, request, NOW, ClaimMemory()))
    assert {lease.tenant for lease in leases} == {tenant}
    Settle([(lease, COMPLETE) for lease in leases]).write(db, NOW)
    admin.pause(db, None, "q1", tenant)
    admin.resume(db, None, "q1", tenant)
    db.control("ROLLBACK")
    return len(leases)


@pytest.mark.parametrize("tasks", [("t", "u"), None], ids=["tasks", "every task"])
@pytest.mark.parametrize("past_heads", [False, True])
@pytest.mark.parametrize("tenant", ["", "acme"])
def test_a_worker_of_one_tenant_reads_nothing_of_anothers(
    tmp_path: Path, tenant: str, past_heads: bool, tasks: tuple[str, ...] | None
) -> None:
    steps = []
    for rows in (20, 5_000):
        with closing(_with_backlog_of_others(tmp_path / f"{rows}.db", rows)) as connection:
            db = Session(connection)

            def work(db: Session = db) -> None:
                assert _claim_for(db, tenant, past_heads=past_heads, tasks=tasks) == 10

            steps.append(Steps(connection).of(work))
    few, many = steps
    assert few > 100, "the counter counts"
    assert many <= few * 1.02, (few, many)


def test_a_pause_of_another_tenant_is_paid_once(tmp_path: Path) -> None:
    """The first claim for all tenants parks what is paused; further ones read none of it."""
    request = ClaimRequest("w", ("t", "u"), limit=50)
    with closing(_empty(tmp_path / "jobs.db")) as connection:
        db = Session(connection)
        db.control("BEGIN IMMEDIATE")
        admin.pause(db, "t", None, "other")
        Enqueue([NewJob("t", priority=-1, tenant="other")] * 1_500).write(db, NOW)
        Enqueue([NewJob("t", tenant="acme")] * 100).write(db, NOW)
        db.control("COMMIT")
        memory, steps = ClaimMemory(), []

        def work() -> None:
            assert len(leases_of(claim(db, request, NOW, memory))) == 50

        for _ in range(2):
            db.control("BEGIN IMMEDIATE")
            steps.append(Steps(connection).of(work))
            db.control("COMMIT")
        first, second = steps
        assert second * 5 < first, (first, second)
        states = connection.execute(
            "SELECT state, count(*) FROM windlass_jobs WHERE tenant = 'other' GROUP BY 1"
        )
        assert states.fetchall() == [("waiting", 1_500)]


def test_more_is_parked_than_one_claim_takes_out_of_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim that must leave some says that there is more, and the next goes on."""
    monkeypatch.setattr("windlass.stores.sqlite.claim._MOST_PARKED", 10)
    request = ClaimRequest("w", ("t",), limit=5)
    with closing(_empty(tmp_path / "jobs.db")) as connection:
        db = Session(connection)
        db.control("BEGIN IMMEDIATE")
        admin.pause(db, "t", None, "other")
        Enqueue([NewJob("t", priority=-1, tenant="other")] * 200).write(db, NOW)
        Enqueue([NewJob("t", tenant="acme")]).write(db, NOW)
        claims = 0
        leases: list[Lease] = []
        while not leases:
            db.made_ready = False
            leases = leases_of(claim(db, request, NOW, ClaimMemory()))
            assert leases or db.made_ready
            claims += 1
        db.control("ROLLBACK")
    assert claims > 1
    assert [lease.tenant for lease in leases] == ["acme"]


def test_other_tenants_jobs_are_looked_for_only_while_there_are_any(tmp_path: Path) -> None:
    request = ClaimRequest("w", ("t",), limit=1)
    with closing(_empty(tmp_path / "jobs.db")) as connection:
        db, memory, seen = Session(connection), ClaimMemory(), []
        db.control("BEGIN IMMEDIATE")
        for tenant in ("", "acme", "", ""):
            Enqueue([NewJob("t", tenant=tenant)]).write(db, NOW)
            [lease] = leases_of(claim(db, request, NOW, memory))
            assert lease.tenant == tenant
            seen.append(memory.has_others)
        db.control("ROLLBACK")
    assert seen == [False, True, False, False]


def _claim_beside_paused(path: Path, paused: int) -> int:
    """The steps of a claim that finds five jobs beside those of a paused task."""
    with closing(connect(str(path), "normal", make=True)) as connection:
        migrate(connection, str(path), 1.0)
        connection.execute("BEGIN")
        noise = {"each": paused, "task": "resting", "state": "ready", "run_at": 0, "tenant": ""}
        connection.execute(NOISE, {**noise, "queue": None, "finished_at": None})
        connection.execute("COMMIT")
        db = Session(connection)
        db.control("BEGIN IMMEDIATE")
        admin.pause(db, "resting", None, "")
        Enqueue([NewJob("t")] * 5).write(db, NOW)
        request = ClaimRequest(worker="w", tasks=("resting", "t"), limit=50)
        found: list[Any] = []
        steps = Steps(connection).of(
            lambda: found.extend(leases_of(claim(db, request, NOW, ClaimMemory())))
        )
        db.control("ROLLBACK")
    assert [lease.task for lease in found] == ["t"] * 5
    return steps


def test_a_claim_visits_no_jobs_of_a_paused_task(tmp_path: Path) -> None:
    few = _claim_beside_paused(tmp_path / "few.db", 20)
    many = _claim_beside_paused(tmp_path / "many.db", 20_000)
    assert few > 5, "the counter counts"
    assert many <= few * 1.1, (few, many)


# ── looks of servers ──


def _backlog(path: Path, rows: int) -> sqlite3.Connection:
    """All noise, and as many jobs that a server's workers could run: ready ones of every tenant,
    and queues whose heads run."""
    connection = _noisy(path, rows)
    db = Session(connection)
    db.control("BEGIN IMMEDIATE")
    for tenant in ("", "acme", "bond"):
        Enqueue([NewJob("ready", tenant=tenant)] * rows).write(db, NOW)
        Enqueue([NewJob("queued", queue=f"q{n}", tenant=tenant) for n in range(rows // 10)]).write(
            db, NOW
        )
    Enqueue([NewJob("windlass.webhook", tenant="acme")] * rows).write(db, NOW)
    taken = ClaimRequest("w", ("queued",), limit=10**9)
    claim(db, taken, NOW, ClaimMemory())
    for tenant in ("", "acme", "bond"):
        Enqueue([NewJob("queued", queue=f"q{n}", tenant=tenant) for n in range(rows // 10)]).write(
            db, NOW
        )
    db.control("COMMIT")
    return connection


SCOPES = [
    *(ClaimScope(("ready", "t", "u"), tenants) for tenants in (None, ("",), ("acme", "bond"))),
    *(ClaimScope(tasks, ("other",)) for tasks in (("t", "u"), ("windlass.webhook",))),
    *(ClaimScope(None, tenants) for tenants in (None, ("acme",), ("nobody",), ("", "nobody"))),
    *(ClaimScope(("queued", "x"), tenants) for tenants in (None, ("",), ("acme",))),
]


def test_a_look_reads_no_backlog(tmp_path: Path) -> None:
    """Whatever is there, a look reads a few entries for each task and owner, and those of a few
    queues."""
    steps = []
    for rows in (400, 8_000):
        with closing(_backlog(tmp_path / f"{rows}.db", rows)) as connection:
            db = Session(connection)
            answers: list[bool] = []
            steps.append(
                Steps(connection).of(lambda db=db, to=answers: to.extend(claimable(db, SCOPES)))
            )
            assert answers[:5] == [True, True, True, False, False]
            assert answers[5:9] == [True, True, False, True]
    few, many = steps
    assert few > 100, "the counter counts"
    assert many <= few * 1.05, (few, many)


def test_a_look_for_many_scopes_is_one_statement(tmp_path: Path) -> None:
    with closing(_empty(tmp_path / "jobs.db")) as connection:
        db = Session(connection)
        Enqueue([NewJob("t", tenant="acme 7"), NewJob("u", tenant="acme 9")]).write(db, NOW)
        seen: list[str] = []
        connection.set_trace_callback(seen.append)
        scopes = [ClaimScope((("t", "u")[n % 2],), (f"acme {n}",)) for n in range(500)]
        answers = claimable(db, scopes)
        connection.set_trace_callback(None)
    assert [n for n, answer in enumerate(answers) if answer] == [9]
    assert len(seen) == 2, "the branches, and whether any queue has jobs that wait"


def test_jobs_behind_more_heads_than_are_looked_at_may_be_claimable(tmp_path: Path) -> None:
    """No look says that there is nothing, unless it has looked at every queue."""
    with closing(_empty(tmp_path / "jobs.db")) as connection:
        db = Session(connection)
        queues = [f"q{n:03}" for n in range(60)]
        Enqueue([NewJob("t", queue=queue) for queue in queues]).write(db, NOW)
        claim(db, ClaimRequest("w", ("t",), limit=100), NOW, ClaimMemory())
        Enqueue([NewJob("t", queue=queue) for queue in queues]).write(db, NOW)
        assert claimable(db, [ClaimScope(("t",))]) == [True]
        Enqueue([NewJob("u", queue=queue) for queue in queues[:5]]).write(db, NOW)
        assert claimable(db, [ClaimScope(("u",))]) == [False]
