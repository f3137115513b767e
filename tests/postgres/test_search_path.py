"""Nothing that a role without rights plants in `public` runs in a call of Windlass.

The servers run functions and operators with the rights of the caller: of a worker, of the role
that migrates, of a superuser who looks after the jobs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import psycopg
import psycopg_pool
import pytest

from tests.postgres import emptying
from tests.postgres.cluster import Cluster, fresh_database, shared_cluster
from tests.postgres.test_import import SINCE_0_14
from tests.postgres.traps import MALLORY, plant, sprung
from windlass import App, Context
from windlass.clock import Clock
from windlass.store.port import Store
from windlass.store.records import NewChain, NewJob
from windlass.stores.postgres import PostgresStore, graphile
from windlass.stores.postgres.examine import examine
from windlass.stores.postgres.schema import prepare, script
from windlass.stores.postgres_connections.address import ServerAddress
from windlass.testing import contract

TRAPS = "traps"
"""A database that others are copied from."""
CASES = [
    case
    for case in contract.cases()
    if case.group
    in {
        *("crash", "transactions", "pages_counts", "history", "pause", "batches"),
        *("chains", "chain_operators", "chain_keys"),
    }
]
"""Every verb, and every statement that Python sends."""
UNBOUND = """
SELECT p.oid::regprocedure::text FROM pg_proc AS p
WHERE p.pronamespace = 'windlass'::regnamespace AND p.prosqlbody IS NULL
  AND 'search_path=pg_catalog, pg_temp' <> ALL (coalesce(p.proconfig, '{}'))
ORDER BY 1
"""
PLANTED = """
SELECT pg_describe_object(d.classid, d.objid, d.objsubid),
  pg_describe_object(d.refclassid, d.refobjid, d.refobjsubid)
FROM pg_depend AS d, pg_identify_object(d.classid, d.objid, d.objsubid) AS o,
  pg_identify_object(d.refclassid, d.refobjid, d.refobjsubid) AS r
WHERE d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass)
  AND r.schema = 'public' AND o.schema IS DISTINCT FROM 'public'
"""


@pytest.fixture
def empty(pg: Cluster) -> Iterator[str]:
    with fresh_database(pg) as url:
        yield url


@contextmanager
def connected(url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


def by_the_program(connection: psycopg.Connection) -> None:
    prepare(connection, "windlass", "auto")


def by_the_script(connection: psycopg.Connection) -> None:
    connection.execute(script("windlass").encode())


INSTALLS = pytest.mark.parametrize("install", [by_the_program, by_the_script])
Install = Callable[[psycopg.Connection], None]


@INSTALLS
def test_every_function_is_bound_when_made_or_has_a_fixed_search_path(
    empty: str, install: Install
) -> None:
    with connected(empty) as connection:
        install(connection)
        assert connection.execute(UNBOUND).fetchall() == []
        assert connection.execute(
            "SELECT count(*) > 60 FROM pg_proc WHERE pronamespace = 'windlass'::regnamespace"
        ).fetchone() == (True,)


def test_a_function_of_the_users_own_in_the_schema_is_left_alone(empty: str) -> None:
    with connected(empty) as connection:
        connection.execute("CREATE SCHEMA windlass")
        connection.execute(
            "CREATE FUNCTION windlass.theirs() RETURNS int"
            " LANGUAGE plpgsql AS 'BEGIN RETURN 1; END'"
        )
        prepare(connection, "windlass", "auto")
        assert connection.execute(UNBOUND).fetchall() == [("windlass.theirs()",)]


# ── with traps ──


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """How operators are looked up is the same in all versions; planting takes seconds."""
    cluster = shared_cluster(18)
    with cluster.connect() as connection:
        connection.execute(f"CREATE ROLE {MALLORY} LOGIN".encode())
    with connected(cluster.create_database(TRAPS)) as connection:
        plant(connection)
    yield cluster
    cluster.drop_database(TRAPS)
    with cluster.connect() as connection:
        connection.execute(f"DROP ROLE {MALLORY}".encode())


@pytest.fixture(scope="module")
def trapped(cluster: Cluster) -> Iterator[str]:
    """A database with traps in it, into which Windlass is installed afterwards."""
    with fresh_database(cluster, TRAPS) as url:
        with connected(url) as connection:
            prepare(connection, "windlass", "auto")
        yield url


@pytest.fixture(autouse=True)
def nothing_sprang(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "trapped" in request.fixturenames:
        with connected(request.getfixturevalue("trapped")) as connection:
            assert not sprung(connection)


@pytest.mark.slow
def test_the_traps_are_good_ones(trapped: str) -> None:
    """What a function without a fixed search path does in this database."""
    with connected(trapped) as connection:
        with pytest.raises(psycopg.Error, match="ran as postgres"):
            connection.execute("SELECT 2::bigint * interval '1 second'")
        assert sprung(connection)
        connection.execute("SELECT setval('public.sprung', 1, false)")


@INSTALLS
def test_nothing_that_is_installed_refers_to_what_was_planted(
    cluster: Cluster, install: Install
) -> None:
    with fresh_database(cluster, TRAPS) as url, connected(url) as connection:
        install(connection)
        assert connection.execute(PLANTED).fetchall() == []
        assert connection.execute(UNBOUND).fetchall() == []
        assert not sprung(connection)


def in_a_session_not_ours(url: str, clock: Clock) -> PostgresStore:
    return PostgresStore(url, clock=clock, listen=False, prepared_statements=False)


@pytest.mark.rig
@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_verb_runs_what_was_planted(case: contract.Case, trapped: str) -> None:
    """Without settings of the session, which poolers and callers' own pools do not have."""

    @contextmanager
    def fresh(clock: Clock) -> Iterator[Callable[[], Store]]:
        with connected(trapped) as connection:
            connection.execute("SET client_min_messages = warning")
            connection.execute("DROP TABLE IF EXISTS handlers_own")
            emptying.empty(connection, "windlass")
        yield lambda: in_a_session_not_ours(trapped, clock)

    contract.run(case, fresh)


BY_HAND = (
    "SELECT windlass.add_job('t', '{}', 'q', now() + interval '2 s', 3, 'k', 1, '{f}')",
    "SELECT windlass.add_job('t', '{}', job_key := 'k', job_key_mode := 'preserve_run_at')",
    "SELECT windlass.add_jobs(ARRAY[('t', NULL, NULL, NULL, NULL, 'k2', NULL, NULL),"
    " ('t', NULL, 'q', NULL, NULL, NULL, NULL, '{f}')]::windlass.job_spec[])",
    "SELECT * FROM windlass.jobs",
    "SELECT windlass.remove_job('k')",
    "SELECT * FROM windlass.reschedule_jobs(ARRAY(SELECT id FROM windlass.jobs), now(), 1, 0, 5)",
    "SELECT * FROM windlass.permanently_fail_jobs(ARRAY(SELECT id FROM windlass.jobs))",
    "SELECT * FROM windlass.complete_jobs(ARRAY(SELECT id FROM windlass.jobs))",
    "SELECT * FROM windlass.force_unlock_workers(ARRAY['w'])",
    "SELECT windlass.start_chain('t', '{}', 'q', now() + interval '2 s', 3, 'k', 1, '{f}')",
    "SELECT windlass.start_chain('t', blockers := ARRAY(SELECT id FROM windlass.chains))",
    "SELECT * FROM windlass.chains",
    "SELECT windlass.complete_chain(id) FROM windlass.chains",
)


def test_no_function_that_a_superuser_calls_runs_what_was_planted(trapped: str) -> None:
    with connected(trapped) as connection:
        emptying.empty(connection, "windlass")
        for statement in BY_HAND:
            connection.execute(statement.encode())


def test_an_enqueue_in_the_callers_transaction_runs_nothing_planted(trapped: str) -> None:
    async def scenario(store: PostgresStore) -> None:
        with psycopg.connect(trapped) as connection:
            store.joined(connection).enqueue([NewJob("t"), NewJob("t", queue="q", delay=5)])
            store.joined(connection).enqueue([NewJob("t", key="k", delay=5)])
            [chain] = store.joined(connection).start_chains([NewChain(job=NewJob("t"), key="k")])
            store.joined(connection).start_chains(
                [NewChain(job=NewJob("t", blockers=(chain.id,))), NewChain(job=NewJob("t"))]
            )
            store.joined(connection).enqueue([NewJob("t", blockers=(chain.id,))])

    opened(trapped, scenario)


def test_looking_for_what_is_wrong_runs_nothing_planted(trapped: str) -> None:
    found = examine(ServerAddress(trapped), "windlass", listens=True, pool_size=10)
    assert "database" in {finding.code for finding in found}


def test_an_import_runs_nothing_planted(trapped: str) -> None:
    with connected(trapped) as connection:
        emptying.empty(connection, "windlass")
        connection.execute(SINCE_0_14.replace("{s}", "graphile_old").encode())
        connection.execute(
            "INSERT INTO graphile_old._private_tasks (identifier) VALUES ('t');"
            "INSERT INTO graphile_old._private_jobs (task_id, flags) VALUES (1, '{\"f\": true}')"
        )

    def borrow() -> AbstractContextManager[psycopg.Connection]:
        return psycopg.connect(trapped)

    assert graphile.survey(borrow, "graphile_old", "windlass").movable.count == 1
    assert graphile.move(borrow, "graphile_old", "windlass").moved == 1


def test_a_worker_on_the_callers_own_pool_runs_nothing_planted(trapped: str) -> None:
    async def scenario() -> int:
        with psycopg_pool.ConnectionPool(trapped, min_size=1, open=True) as pool:
            app = App(pool=pool)
            ran = []

            @app.task
            async def t(ctx: Context) -> None:
                async with ctx.transaction() as transaction:
                    await transaction.complete(None)
                ran.append(1)

            async with app:
                await t.aenqueue()
                await app.run_once()
            return len(ran)

    with connected(trapped) as connection:
        emptying.empty(connection, "windlass")
    assert asyncio.run(scenario()) == 1


def opened(url: str, scenario: Callable[[PostgresStore], Awaitable[None]]) -> None:
    async def run() -> None:
        store = PostgresStore(url, migrate="check")
        await store.open()
        try:
            await scenario(store)
        finally:
            await store.close()

    asyncio.run(run())
