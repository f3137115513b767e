"""The roles of docs/postgres.md: its statements are run as they stand there, and then tried out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest

from tests.docs.doc_pages import blocks
from tests.postgres.cluster import Cluster, fresh_database
from tests.postgres.test_postgres_page import PAGE, is_about_roles
from windlass import App, Context, JobState, parse_crontab
from windlass.errors import StoreError
from windlass.store.records import ClaimRequest, NewChain, NewJob, Verdict
from windlass.store.schedules import jobs_at
from windlass.store.server import ClaimScope, Request, Token
from windlass.stores.postgres import PostgresStore

ROLES = ("shop_app", "shop_server", "shop_worker", "shop_owner")


@dataclass(frozen=True, slots=True)
class Shop:
    """A database after the recipe."""

    url: str

    def url_of(self, role: str) -> str:
        return self.url.replace("postgres@", f"{role}@")

    def connect(self, role: str = "postgres") -> psycopg.Connection:
        return psycopg.connect(self.url_of(role), autocommit=True)

    def app(self, role: str, migrate: str = "check") -> App:
        return App(self.url_of(role), migrate=migrate)

    def tasks(self) -> list[str]:
        with self.connect() as connection:
            found = connection.execute("SELECT task FROM windlass._jobs ORDER BY id").fetchall()
        return [task for [task] in found]


def recipe() -> list[str]:
    return [
        block.text for block in blocks(PAGE) if block.language == "sql" and is_about_roles(block)
    ]


@pytest.fixture(scope="module")
def prepared(pg: Cluster) -> Iterator[Shop]:
    first, grants, wrapper = recipe()
    with fresh_database(pg) as url:
        shop = Shop(url)
        with shop.connect() as connection:
            connection.execute(first.encode())
        asyncio.run(opened(shop.app("shop_owner", "auto")))
        with shop.connect("shop_owner") as connection:
            connection.execute(grants.encode())
            connection.execute(grants.encode())  # they can be repeated
        with shop.connect() as connection:
            connection.execute(wrapper.encode())
        yield shop
    with pg.connect() as connection:
        for role in ROLES:
            connection.execute(f"DROP ROLE {role}".encode())


@pytest.fixture
def shop(prepared: Shop) -> Shop:
    with prepared.connect() as connection:
        connection.execute("DELETE FROM windlass._jobs")
        connection.execute("DELETE FROM windlass._chains")
        connection.execute("DELETE FROM windlass._blockers")
        connection.execute("DELETE FROM windlass._history")
        connection.execute("DELETE FROM windlass._workers")
        for table in OF_SERVERS:
            connection.execute(f"DELETE FROM windlass.{table}".encode())
    return prepared


async def opened(app: App) -> None:
    async with app:
        pass


OF_SERVERS = ("_tokens", "_secrets", "_requests")
"""Tables that are for servers."""


def denied(shop: Shop, role: str, statement: str) -> None:
    with shop.connect(role) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(statement.encode())


# ── the role that adds ──


def test_the_app_role_adds_by_python(shop: Shop) -> None:
    app = shop.app("shop_app")

    @app.task
    async def typed(n: int) -> None: ...

    async def add() -> None:
        async with app:
            await app.client.add_job("one", {"n": 1})
            await app.client.add_jobs([])
            await typed.aenqueue_many([{"n": 1}, {"n": 2}])
            job = await app.client.add_job("keyed", {"n": 1}, key="k", queue="q")
            again = await app.client.add_job("keyed", {"n": 2}, key="k", queue="q")
            assert (again.id, again.payload, again.revision) == (job.id, {"n": 2}, 1)
        with shop.connect("shop_app") as connection, connection.transaction():
            app.sync.using(connection).add_job("joined")
        await app.close()

    asyncio.run(add())
    assert shop.tasks() == ["one", "typed", "typed", "keyed", "joined"]


def test_the_app_role_starts_chains(shop: Shop) -> None:
    app = shop.app("shop_app")

    async def start() -> None:
        async with app:
            first = await app.client.start_chain("one", {"n": 1})
            keyed = await app.client.start_chain("two", key="k", blockers=[first])
            again = await app.client.start_chain("three", key="k")
            assert (again.id, again.deduplicated) == (keyed.id, True)
            await app.client.add_job("four", blockers=[first])
        with shop.connect("shop_app") as connection, connection.transaction():
            app.sync.using(connection).start_chain("joined", key="joined")
        await app.close()

    asyncio.run(start())
    with shop.connect("shop_app") as connection:
        connection.execute(
            "SELECT windlass.start_chain('sql', blockers := ARRAY["
            "(windlass.start_chain('sql', chain_key := 's')).id])"
        )
    assert shop.tasks() == ["one", "two", "four", "joined", "sql", "sql"]


def test_the_app_role_adds_by_sql(shop: Shop) -> None:
    with shop.connect("shop_app") as connection:
        connection.execute("SELECT windlass.add_job('one', '{}', 'q', job_key := 'k')")
        connection.execute("SELECT windlass.add_job('two', '{}', 'q', job_key := 'k')")
        connection.execute(
            "SELECT windlass.add_jobs(ARRAY[('three', NULL, NULL, NULL, NULL, NULL, NULL, NULL)]"
            "::windlass.job_spec[])"
        )
    assert shop.tasks() == ["two", "three"]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM windlass.jobs",
        "SELECT payload FROM windlass._jobs",
        "SELECT output FROM windlass._history",
        "INSERT INTO windlass._bells (queue) VALUES ('q')",
        "UPDATE windlass._jobs SET priority = 0",
        "DELETE FROM windlass._jobs",
        "SELECT windlass._settle('{1}', '{1}', NULL, NULL, NULL, false)",
        "SELECT windlass.complete_jobs(ARRAY[1])",
        "SELECT windlass.permanently_fail_jobs(ARRAY[1])",
        "SELECT windlass.reschedule_jobs(ARRAY[1])",
        "SELECT windlass.force_unlock_workers(ARRAY['w'])",
        "SELECT windlass.remove_job('k')",
        "SELECT * FROM windlass.chains",
        "SELECT output FROM windlass._chains",
        "SELECT chain FROM windlass._blockers",
        "SELECT windlass.complete_chain(1)",
        "SELECT windlass._complete_chain(1, NULL, NULL, NULL, '{}', NULL)",
        "SELECT windlass._delete_chains('{1}', true, NULL)",
        "SELECT windlass._show_chains('{1}')",
        "SELECT windlass._add_job(r, now())"
        ' FROM json_populate_record(NULL::windlass._request, \'{"task": "t"}\') AS r',
        "SELECT windlass._pause('', 'task', 't')",
        "SELECT schedule FROM windlass._schedules",
        "SELECT windlass._forget_schedule('', 's')",
        "INSERT INTO windlass._migrations VALUES (99, 'x', true)",
        *(f"SELECT * FROM windlass.{table}" for table in OF_SERVERS),
        *(f"DELETE FROM windlass.{table}" for table in OF_SERVERS),
        "SELECT windlass._secret('', 'deliveries', 'x')",
        "SELECT windlass._revoke_token('t')",
        """SELECT windlass._add_token('{"name": "mine"}')""",
        "SELECT windlass._enqueue_once('{\"\"}', '{k}', '{d}', '{1}', '[]', false, 1)",
        "SELECT windlass._may_claim('[{}]')",
        "SELECT windlass._move(1, 1, NULL, 'w', 1)",
        "SELECT windlass._delete_jobs('{1}', NULL)",
    ],
)
def test_the_app_role_can_do_nothing_else(shop: Shop, statement: str) -> None:
    denied(shop, "shop_app", statement)


def test_the_app_role_cannot_claim(shop: Shop) -> None:
    app = shop.app("shop_app")

    async def claim() -> None:
        async with app:
            await app.client.add_job("t")
            with pytest.raises(StoreError, match="permission denied"):
                await app.store.claim(ClaimRequest("w", ("t",), 1))

    asyncio.run(claim())
    assert shop.tasks() == ["t"]


def test_the_app_role_sees_what_the_page_says_it_sees(shop: Shop) -> None:
    with shop.connect() as connection:
        connection.execute("""SELECT windlass.add_job('t', '"secret"', job_key := 'guessed')""")
    with shop.connect("shop_app") as connection:
        [found] = connection.execute(
            "SELECT payload FROM windlass.add_job('t', job_key := 'guessed',"
            " job_key_mode := 'unsafe_dedupe')"
        )
    assert found == ("secret",)
    assert "`unsafe_dedupe` returns the job" in PAGE.read_text(encoding="utf-8")


def test_the_app_role_may_be_given_more(shop: Shop) -> None:
    with shop.connect("shop_owner") as connection, connection.transaction(force_rollback=True):
        connection.execute("GRANT SELECT ON windlass.jobs TO shop_app")
        connection.execute("GRANT EXECUTE ON FUNCTION windlass.remove_job TO shop_app")
        connection.execute("GRANT EXECUTE ON FUNCTION windlass.complete_chain TO shop_app")
        connection.execute("SELECT windlass.add_job('t', job_key := 'k')")
        with shop.connect() as superuser:
            superuser.execute("GRANT shop_app TO shop_owner")
        connection.execute("SET LOCAL ROLE shop_app")
        connection.execute("SELECT windlass.remove_job('k')")
        connection.execute("SELECT windlass.complete_chain((windlass.start_chain('t')).id)")
        assert connection.execute("SELECT count(*) FROM windlass.jobs").fetchone() == (0,)
    with shop.connect() as superuser:
        superuser.execute("REVOKE shop_app FROM shop_owner")


# ── the role of servers ──


def test_the_server_role_serves(shop: Shop) -> None:
    app = shop.app("shop_server")
    token = Token(name="t", digest="d", roles=("worker",), created_at=1)
    request = Request("k", "d", (NewJob("t", key="j"), NewJob("t")))

    async def serve() -> None:
        async with app:
            store = app.store
            assert isinstance(store, PostgresStore)
            assert await store.add_token(token)
            assert await store.find_token("d") == token
            assert await store.tokens() == [token]
            assert await store.revoke_token("t") != token
            assert await store.secret("deliveries", "s") == "s"
            await store.replace_secret("deliveries", "new")
            assert await store.secret("deliveries", "s") == "new"
            for is_new in (True, False):
                [asked] = await store.enqueue_once([request])
                assert asked.is_new is is_new
            assert await store.claimable([ClaimScope()]) == [True]
            [lease] = await store.claim(ClaimRequest("w", ("t",), 1))
            assert await store.move(lease, "v", 10.0) is Verdict.APPLIED
            await store.retire("v")
            await store.prune(10)

    asyncio.run(serve())
    assert shop.tasks() == ["t", "t"]


@pytest.mark.parametrize("table", ["_tokens", "_secrets"])
def test_the_worker_role_sees_no_token_and_no_secret(shop: Shop, table: str) -> None:
    for statement in ("SELECT * FROM", "DELETE FROM", "INSERT INTO"):
        ending = " VALUES ('a', 'b', 'c')" if statement.startswith("INSERT") else ""
        denied(shop, "shop_worker", f"{statement} windlass.{table}{ending}")


def test_no_role_adds_jobs_of_windlass_by_sql(shop: Shop) -> None:
    for role in ROLES:
        with shop.connect(role) as connection:
            for call in (
                "add_job('windlass.webhook')",
                "add_jobs(ARRAY[('windlass.x',NULL,NULL,NULL,NULL,NULL,NULL,NULL)]"
                "::windlass.job_spec[])",
                "add_jobs(ARRAY[('windlass.x',NULL,NULL,NULL,NULL,'k',NULL,NULL)]"
                "::windlass.job_spec[])",
                "start_chain('windlass.webhook')",
            ):
                with pytest.raises(psycopg.Error, match="own") as refused:
                    connection.execute(f"SELECT windlass.{call}".encode())
                assert refused.value.sqlstate == "GWBID"
            connection.execute("SELECT windlass.add_job('windlass')")
    assert shop.tasks() == ["windlass"] * len(ROLES)


def test_an_end_is_posted_by_any_role(shop: Shop) -> None:
    """Also by the one that adds, where a job fails at once because of its chain."""
    meta = '{"webhook": "https://example.org"}'

    async def end() -> None:
        async with shop.app("shop_worker") as worker:
            [chain] = await worker.store.start_chains([NewChain(job=NewJob("t", meta=meta))])
            await worker.store.cancel_chains([chain.id])
        async with shop.app("shop_app") as adding:
            await adding.store.enqueue([NewJob("u", blockers=(chain.id,), meta=meta)])

    asyncio.run(end())
    assert shop.tasks() == ["t", "windlass.webhook", "u", "windlass.webhook"]


# ── the role that works ──


@pytest.mark.parametrize("migrate", ["auto", "check", "never"])
def test_the_worker_role_works(shop: Shop, migrate: str) -> None:
    ran: list[int] = []
    app = shop.app("shop_worker", migrate)

    @app.task(max_attempts=1)
    async def fine(n: int) -> int:
        ran.append(n)
        if n == 1:
            await app.client.add_job("fine", {"n": 9}, key="k", queue="q")
        return n

    @app.task(max_attempts=1)
    async def broken() -> None:
        raise LookupError

    async def work() -> None:
        async with app:
            for n in range(3):
                await fine.using(queue="q", keep=60).aenqueue(n=n)
            await broken.aenqueue()
            await app.run_once()
            counts = await app.client.counts()
            assert (counts[JobState.COMPLETED], counts[JobState.FAILED]) == (3, 1)
            [failed] = await app.client.list_jobs(state="failed")
            await app.client.retry_jobs([failed.id])
            await app.client.cancel_jobs([failed.id])
            await app.client.pause(task="fine")
            await app.client.resume(task="fine")
            await app.client.cleanup("prune", "delete-failed")
            await app.client.force_unlock_workers(["nobody"])
            assert await app.client.workers() == []

    asyncio.run(work())
    assert ran == [0, 1, 2, 9]


def test_the_worker_role_works_on_chains(shop: Shop) -> None:
    app = shop.app("shop_worker")
    merged: list[object] = []

    @app.task
    async def part(n: int) -> int:
        return n

    @app.task
    async def merge(ctx: Context) -> None:
        merged.extend(chain.output for chain in ctx.blockers)

    @app.task
    async def split(ctx: Context) -> object:
        parts = [ctx.start(part, n=n) for n in range(3)]
        return ctx.continue_with(merge.using(blockers=parts))

    async def work() -> None:
        async with app:
            chain = await split.astart()
            await app.run_once()
            client = app.client
            assert (await client.get_chain(chain.id) or chain).state == "completed"
            lost = await client.start_chain("part", {"n": 1}, run_at=None, delay=60)
            await client.cancel_chains([lost.id])
            await client.retry_chains([lost.id])
            await client.complete_chain(lost.id)
            assert len(await client.list_chains()) == 5
            await client.delete_chains([lost.id])
            await client.cleanup("prune")

    asyncio.run(work())
    assert merged == [0, 1, 2]


def test_the_worker_role_fires_schedules(shop: Shop) -> None:
    app = shop.app("shop_worker")
    [schedule] = parse_crontab("* * * * * nightly ?jobKey=k")

    async def fire() -> None:
        async with app:
            [known] = await app.store.register([schedule])
            until = known.floor_at + 1
            jobs = jobs_at(schedule, [until], backfilled=False)
            fired = await app.store.fire("nightly", known.floor_at, until, jobs)
            assert fired.verdict == "applied"
            assert (await app.client.pause_schedule("nightly")).paused_at is not None
            assert (await app.client.resume_schedule("nightly")).paused_at is None
            await app.client.trigger_schedule("nightly")
            await app.client.remove_schedule("nightly")
            assert await app.client.list_schedules() == []

    asyncio.run(fire())
    assert shop.tasks() == ["nightly"]


def test_the_worker_role_calls_the_functions(shop: Shop) -> None:
    with shop.connect("shop_worker") as connection:
        for statement in (
            "SELECT windlass.add_job('t', job_key := 'k')",
            "SELECT windlass.remove_job('k')",
            "SELECT windlass.complete_jobs(ARRAY[1])",
            "SELECT windlass.permanently_fail_jobs(ARRAY[1])",
            "SELECT windlass.reschedule_jobs(ARRAY[1])",
            "SELECT windlass.force_unlock_workers(ARRAY['w'])",
            "SELECT * FROM windlass.jobs",
            "SELECT windlass.start_chain('t', chain_key := 'k')",
            "SELECT windlass.complete_chain(id) FROM windlass.chains",
            "SELECT * FROM windlass.chains",
        ):
            connection.execute(statement.encode())


@pytest.mark.parametrize(
    "statement",
    [
        "DROP SCHEMA windlass CASCADE",
        "DROP TABLE windlass._jobs",
        "TRUNCATE windlass._jobs",
        "ALTER TABLE windlass._jobs ADD COLUMN x int",
        "CREATE TABLE windlass.x (id int)",
        "CREATE FUNCTION windlass.x() RETURNS int LANGUAGE sql RETURN 1",
        "DROP FUNCTION windlass.add_job",
        "DROP VIEW windlass.jobs",
        "CREATE INDEX x ON windlass._jobs (task)",
        "INSERT INTO windlass._migrations VALUES (99, 'x', true)",
        "DELETE FROM windlass._migrations",
    ],
)
@pytest.mark.parametrize("role", ["shop_app", "shop_worker"])
def test_neither_can_change_the_schema(shop: Shop, role: str, statement: str) -> None:
    denied(shop, role, statement)


# ── around them ──


def test_a_role_without_grants_can_do_nothing(shop: Shop) -> None:
    with shop.connect() as connection:
        connection.execute("CREATE ROLE shop_stranger LOGIN")
    try:
        denied(shop, "shop_stranger", "SELECT windlass.add_job('t')")
        with pytest.raises(StoreError):
            asyncio.run(opened(shop.app("shop_stranger", "auto")))
        with shop.connect("shop_stranger") as connection:
            connection.execute("SELECT ask_for_report('May')")
    finally:
        with shop.connect() as connection:
            connection.execute("DROP OWNED BY shop_stranger; DROP ROLE shop_stranger")
    assert shop.tasks() == ["report"]


def test_a_right_to_use_the_schema_is_no_right_to_add(shop: Shop) -> None:
    """The functions with the owner's rights are nobody's until they are granted."""
    with shop.connect() as connection:
        connection.execute("CREATE ROLE shop_reader LOGIN")
        connection.execute("GRANT USAGE ON SCHEMA windlass TO shop_reader")
        connection.execute("GRANT SELECT ON windlass.jobs TO shop_reader")
    try:
        denied(shop, "shop_reader", "SELECT windlass.add_job('t')")
        denied(shop, "shop_reader", "SELECT windlass.add_jobs('{}')")
        denied(shop, "shop_reader", "SELECT windlass.remove_job('k')")
        denied(shop, "shop_reader", "SELECT windlass._enqueue('[]', false)")
        denied(shop, "shop_reader", "SELECT windlass.start_chain('t')")
        denied(shop, "shop_reader", "SELECT windlass.complete_chain(1)")
        denied(shop, "shop_reader", "SELECT windlass._start_chains('{}', false)")
        with shop.connect("shop_reader") as connection:
            connection.execute("SELECT * FROM windlass.jobs")
    finally:
        with shop.connect() as connection:
            connection.execute("DROP OWNED BY shop_reader; DROP ROLE shop_reader")


def test_every_function_with_the_owners_rights_has_a_fixed_search_path(shop: Shop) -> None:
    with shop.connect() as connection:
        found = connection.execute(
            "SELECT p.proname, p.proconfig FROM pg_proc AS p"
            " JOIN pg_namespace AS n ON n.oid = p.pronamespace"
            " WHERE n.nspname = 'windlass' AND p.prosecdef ORDER BY 1"
        ).fetchall()
    assert [name for name, _ in found] == [
        *("_enqueue", "_start_chains", "add_job", "add_jobs", "complete_chain", "remove_job"),
        "start_chain",
    ]
    assert all("search_path=pg_catalog, pg_temp" in settings for _, settings in found)
