"""A database of an older version, with jobs in every state, is brought up to date in place.

`before_NNNN.*.sql` is what the version before that migration left: made by its own code, on a clock
that began with 2026, and dumped. The JSON beside it is what that version said of it.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Literal, cast, get_args

import msgspec
import pytest

from tests.postgres.cluster import Cluster, destroy_shared_clusters, fresh_database, shared_cluster
from windlass.model.chain import ChainState
from windlass.model.job import JobState
from windlass.store.figures import FigureStore
from windlass.store.port import Store
from windlass.store.records import (
    COMPLETE,
    ChainFilter,
    ClaimRequest,
    Complete,
    JobFilter,
    NewChain,
    NewJob,
)
from windlass.store.server import ClaimScope, Request
from windlass.store.webhooks import WEBHOOK_TASK
from windlass.stores.postgres import PostgresStore
from windlass.stores.sqlite import SqliteStore
from windlass.testing import FakeClock

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
SQLITE = {n: HERE / f"before_{n:04}.sqlite.sql" for n in (3, 4, 5, 6)}
BEFORE_TENANTS = (3, 4)
BEFORE_CHAINS = (3, 4, 5)
POSTGRES = {n: HERE / f"before_{n:04}.postgres.sql" for n in (10, 12)}
TASKS = (
    *("plain", "ready", "scheduled", "line", "keyed", "failed", "retry", "suspect", "running"),
    *("stopping", "replaced"),
)
Check = Callable[[Store, FakeClock, dict[str, Any]], Awaitable[None]]


@pytest.fixture(scope="module", autouse=True)
def _servers_end() -> Iterator[None]:
    yield
    destroy_shared_clusters()


@contextmanager
def on_sqlite(tmp_path: Path, migration: int) -> Iterator[tuple[Store, FakeClock, dict[str, Any]]]:
    file, old = tmp_path / "jobs.db", SQLITE[migration]
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(old.read_text())
    clock = FakeClock()
    said = json.loads(old.with_suffix(".json").read_text())
    yield SqliteStore(file, clock=clock), clock, said


@contextmanager
def on_postgres(
    cluster: Cluster, migration: int
) -> Iterator[tuple[Store, FakeClock, dict[str, Any]]]:
    old = POSTGRES[migration]
    with fresh_database(cluster) as url:
        subprocess.run(
            [cluster.bin / "psql", "-q", "-v", "ON_ERROR_STOP=1", "-d", url, "-f", old],
            check=True,
            capture_output=True,
        )
        clock = FakeClock()
        said = json.loads(old.with_suffix(".json").read_text())
        yield PostgresStore(url, clock=clock), clock, said


def _plain(records: Any) -> Any:
    """As JSON has them."""
    return json.loads(msgspec.json.encode(records))


def _without_job(chain: dict[str, Any]) -> dict[str, Any]:
    """The job is compared with the others."""
    return {name: value for name, value in chain.items() if name != "job"}


def checked(place: Any, check: Check) -> None:
    async def work() -> None:
        with place as (store, clock, said):
            await store.open()
            try:
                await check(store, clock, said)
            finally:
                await store.close()

    asyncio.run(work())


Version = Literal[16, 18]
PLACES: list[tuple[int, Version | None]] = [
    *((n, None) for n in SQLITE),
    *((n, server) for n in POSTGRES for server in get_args(Version)),
]
"""The migration before which it was, and the server, where it was one."""


def place_of(migration: int, server: Version | None, tmp_path: Path) -> Any:
    if server is None:
        return on_sqlite(tmp_path, migration)
    return on_postgres(shared_cluster(server), migration)


@pytest.fixture(params=PLACES, ids=str)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    migration, server = request.param
    return place_of(migration, server, tmp_path)


def test_nothing_is_lost_or_changed(place: Any) -> None:
    async def check(store: Store, clock: FakeClock, said: dict[str, Any]) -> None:
        jobs = await store.find(JobFilter(limit=1_000))
        found = {job["id"]: job for job in _plain(jobs)}
        expected = {job["id"]: job for job in said["jobs"]}
        assert found.keys() == expected.keys()
        for job_id, job in expected.items():
            assert {name: found[job_id][name] for name in job} == job
        counts = {str(state): count for state, count in (await store.counts()).items()}
        assert counts == said["counts"]
        chains = _plain(await store.find_chains(ChainFilter(limit=100)))
        assert [_without_job(chain) for chain in chains] == [
            _without_job(chain) for chain in said.get("chains", [])
        ]
        schedules = _plain(await store.schedules())
        assert [[s[name] for name in said["schedules"][0]] for s in schedules] == [
            list(s.values()) for s in said["schedules"]
        ]
        assert (await store.paused()).tasks == ("ready",)
        assert (await store.paused()).queues == ("q",)

    checked(place, check)


def test_every_job_comes_to_its_end(place: Any) -> None:
    """Leases of the workers of before run out, and everything is run."""

    async def check(store: Store, clock: FakeClock, said: dict[str, Any]) -> None:
        await store.resume(task="ready")
        await store.resume(queue="q")
        seen: set[int] = set()
        for _ in range(400):
            clock.advance(900)
            await store.reap(1_000, 5)
            await store.promote(1_000)
            leases = await store.claim(ClaimRequest("new", TASKS, 100, suspects=100))
            seen |= {lease.job_id for lease in leases}
            await store.settle([(lease, COMPLETE) for lease in leases])
        counts = await store.counts()
        left = {state for state, count in counts.items() if count}
        assert left == {JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED}
        open_before = {
            job["id"] for job in said["jobs"] if job["state"] in ("ready", "scheduled", "running")
        }
        ended = {job.id for job in await store.find(JobFilter(limit=1_000))}
        assert open_before <= seen | ended

    checked(place, check)


def test_what_had_failed_before_is_a_group_of_errors(place: Any) -> None:
    async def check(store: Store, clock: FakeClock, said: dict[str, Any]) -> None:
        failed = [job["id"] for job in said["jobs"] if job["state"] == "failed"]
        [group] = (await cast(FigureStore, store).error_groups()).groups
        assert (group.fingerprint, group.count.count) == ("", len(failed))
        found = await store.find(JobFilter(fingerprint="", limit=1_000))
        assert sorted(job.id for job in found) == sorted(failed)
        depths = (await cast(FigureStore, store).depths()).states
        assert {str(state): depth.count for state, depth in depths.items()} == said["counts"]

    checked(place, check)


def _schema(file: Path) -> set[tuple[str, ...]]:
    with closing(sqlite3.connect(file)) as connection:
        return set(connection.execute("SELECT type, name, sql FROM sqlite_master"))


@pytest.mark.parametrize("migration", SQLITE)
def test_an_old_file_gets_the_schema_of_a_new_one(tmp_path: Path, migration: int) -> None:
    async def look(store: Store, clock: FakeClock, said: dict[str, Any]) -> None:
        new = SqliteStore(tmp_path / "new.db")
        await new.open()
        await new.close()

    checked(on_sqlite(tmp_path, migration), look)
    assert _schema(tmp_path / "jobs.db") == _schema(tmp_path / "new.db")


@pytest.mark.parametrize("migration", BEFORE_TENANTS)
def test_what_an_old_file_had_belongs_to_the_default_tenant(tmp_path: Path, migration: int) -> None:
    """Its names are free for others, and nothing of it is strict."""

    async def check(store: Store, clock: FakeClock, said: dict[str, Any]) -> None:
        before = await store.find(JobFilter(limit=1_000))
        assert {(job.tenant, job.strict) for job in before} == {(None, False)}
        assert await store.find(JobFilter(tenant="", limit=1_000)) == before
        assert await store.schedules("") == await store.schedules()
        assert (await store.paused("")).tasks == ("ready",)
        [keyed] = await store.enqueue([NewJob("keyed", key="k", tenant="acme")])
        queued = await store.enqueue([NewJob("line", queue="q", tenant="acme")])
        free = await store.enqueue([NewJob("ready", tenant="acme")])
        assert keyed.id > max(job.id for job in before)
        leases = await store.claim(ClaimRequest("new", TASKS, 100, tenants=("acme",)))
        assert [lease.job_id for lease in leases] == [keyed.id, queued[0].id, free[0].id]

    checked(on_sqlite(tmp_path, migration), check)


@pytest.mark.parametrize(
    ("migration", "server"),
    [place for place in PLACES if place[1] or place[0] in BEFORE_CHAINS],
    ids=str,
)
def test_a_job_of_before_goes_on_as_a_chain(
    migration: int, server: Version | None, tmp_path: Path
) -> None:
    """What it had is in no chain and waits for none; a job of before may begin one."""

    async def check(store: Store, clock: FakeClock, said: dict[str, Any]) -> None:
        before = await store.find(JobFilter(limit=1_000))
        assert {(job.chain, job.step, job.blockers_total) for job in before} == {(None, 0, 0)}
        assert await store.find_chains(ChainFilter()) == []
        [lease] = await store.claim(ClaimRequest("new", ("keyed",), 1, tenants=("",)))
        going_on = Complete("1", next=NewJob("ready", blockers=(-1,)), starts=(_chain("line"),))
        await store.settle([(lease, going_on)])
        started, chain = await store.find_chains(ChainFilter())
        assert (chain.id, chain.task, chain.length) == (lease.job_id, "keyed", 2)
        assert chain.job is not None and chain.job.state is JobState.BLOCKED
        assert [job.id for job in await store.blocked_jobs(started.id)] == [chain.job.id]
        await store.complete_chain(started.id, COMPLETE)
        released = await store.get(chain.job.id)
        assert released is not None and released.state is JobState.READY

    checked(place_of(migration, server, tmp_path), check)


def test_jobs_and_chains_of_before_are_served(tmp_path: Path) -> None:
    """Chains go on, what ends is posted, and the file keeps what a server needs."""

    async def check(store: Store, clock: FakeClock, said: dict[str, Any]) -> None:
        assert isinstance(store, SqliteStore)
        assert await store.tokens() == []
        [chain] = await store.find_chains(ChainFilter(states=(ChainState.OPEN,)))
        added = NewJob("posted", meta='{"webhook":"https://example.org/"}', blockers=(chain.id,))
        [first] = await store.enqueue_once([Request("k", "d", (added,))])
        [again] = await store.enqueue_once([Request("k", "d", (added,))])
        assert first.is_new and (again.is_new, again.ids) == (False, first.ids)
        assert await store.claimable([ClaimScope(("posted",))]) == [False]
        await store.complete_chain(chain.id, COMPLETE)
        assert await store.claimable([ClaimScope(("posted",))]) == [True]
        [lease] = await store.claim(ClaimRequest("new", ("posted",), 1))
        await store.settle([(lease, COMPLETE)])
        [post] = await store.find(JobFilter(task=WEBHOOK_TASK))
        assert post.payload["job"]["id"] == lease.job_id == first.ids[0]

    checked(on_sqlite(tmp_path, 6), check)


def _chain(task: str) -> NewChain:
    return NewChain(job=NewJob(task))


_COLUMNS = """
SELECT table_name, column_name, data_type, is_nullable, column_default
FROM information_schema.columns WHERE table_schema = %(schema)s
UNION ALL
SELECT tablename, indexname, replace(indexdef, %(schema)s || '.', ''), NULL, NULL
FROM pg_indexes WHERE schemaname = %(schema)s
"""


@pytest.mark.parametrize("migration", POSTGRES)
def test_an_old_schema_gets_the_tables_of_a_new_one(migration: int) -> None:
    async def check(store: Store, clock: FakeClock, said: dict[str, Any]) -> None:
        assert isinstance(store, PostgresStore)
        new = PostgresStore(store._address.conninfo, schema_name="newer")
        await new.open()
        await new.close()
        found = [
            {
                tuple(str(value).replace("newer", "windlass") for value in row)
                for row in await store._calls.threads.rows(_COLUMNS, {"schema": name})
            }
            for name in ("windlass", "newer")
        ]
        assert found[0] == found[1]

    checked(on_postgres(shared_cluster(18), migration), check)
