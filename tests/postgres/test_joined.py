"""Jobs added inside the caller's own transaction, whatever library it belongs to."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from typing import Any, NamedTuple

import asyncpg
import django
import django.conf
import psycopg
import pytest
import sqlalchemy
from asgiref.sync import sync_to_async
from psycopg import rows
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from tests.patience import PATIENCE
from tests.postgres.cluster import Cluster, Schema, fresh_schema, shared_cluster
from tests.postgres.emptying import empty
from windlass import App, Job, JobSpec, JobState
from windlass.errors import (
    ChainNotFoundError,
    ConfigError,
    OutcomeUnknownError,
    StoreBusyError,
    StoreError,
    StoreUnavailableError,
)
from windlass.model.chain import Chain
from windlass.stores.postgres.schema import prepare


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return shared_cluster(18)


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Iterator[Schema]:
    """With a table of the caller's own in it."""
    with fresh_schema(cluster) as schema:
        with psycopg.connect(schema.url, autocommit=True) as connection:
            prepare(connection, schema.name, "auto")
            connection.execute(f'CREATE TABLE "{schema.name}".orders (n integer)'.encode())
        yield schema


@pytest.fixture
def schema(installed: Schema) -> Schema:
    with psycopg.connect(installed.url, autocommit=True) as connection:
        empty(connection, installed.name)
    return installed


@pytest.fixture
def app(schema: Schema) -> Iterator[App]:
    app = App(schema.url, schema=schema.name, listen=False)

    @app.task(max_attempts=3)
    async def welcome(user_id: int) -> None: ...

    yield app
    asyncio.run(app.close())


def tcp(cluster: Cluster, driver: str = "") -> str:
    url = cluster.url(cluster.shared_database(), tcp=True)
    return url.replace("postgresql://", f"postgresql{driver}://")


# ── the libraries, each with the means to write, commit and roll back ──


class Blocking(NamedTuple):
    connection: Any
    execute: Callable[[str], object]
    commit: Callable[[], object]
    rollback: Callable[[], object]


class Awaited(NamedTuple):
    connection: Any
    execute: Callable[[str], Awaitable[object]]
    commit: Callable[[], Awaitable[object]]
    rollback: Callable[[], Awaitable[object]]


def _psycopg(**options: Any) -> Callable[[Cluster], AbstractContextManager[Blocking]]:
    @contextmanager
    def opened(cluster: Cluster) -> Iterator[Blocking]:
        with psycopg.connect(tcp(cluster), **options) as connection:
            cursor = psycopg.Cursor(connection)
            yield Blocking(
                connection,
                lambda text: cursor.execute(text.encode()),
                connection.commit,
                connection.rollback,
            )

    return opened


@contextmanager
def _psycopg_block(cluster: Cluster) -> Iterator[Blocking]:
    """Inside `connection.transaction()` on an autocommit connection."""
    with psycopg.connect(tcp(cluster), autocommit=True) as connection:
        block = connection.transaction()
        block.__enter__()
        yield Blocking(
            connection,
            lambda text: connection.execute(text.encode()),
            lambda: block.__exit__(None, None, None),
            lambda: block.__exit__(ValueError, ValueError(), None),
        )


@contextmanager
def _engine(cluster: Cluster) -> Iterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine(tcp(cluster, "+psycopg"))
    try:
        yield engine
    finally:
        engine.dispose()


def _sqlalchemy(connection: Any) -> Blocking:
    return Blocking(
        connection,
        lambda text: connection.execute(sqlalchemy.text(text)),
        connection.commit,
        connection.rollback,
    )


@contextmanager
def _core(cluster: Cluster) -> Iterator[Blocking]:
    with _engine(cluster) as engine, engine.connect() as connection:
        yield _sqlalchemy(connection)


@contextmanager
def _session(cluster: Cluster) -> Iterator[Blocking]:
    with _engine(cluster) as engine, Session(engine) as session:
        yield _sqlalchemy(session)


@contextmanager
def _scoped(cluster: Cluster) -> Iterator[Blocking]:
    with _engine(cluster) as engine:
        registry = scoped_session(sessionmaker(engine))
        yield _sqlalchemy(registry)
        registry.remove()


def _django(name: str) -> Callable[[Cluster], AbstractContextManager[Blocking]]:
    @contextmanager
    def opened(cluster: Cluster) -> Iterator[Blocking]:
        if not django.conf.settings.configured:
            server = {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": cluster.shared_database(),
                "USER": "postgres",
                "HOST": "127.0.0.1",
                "PORT": cluster.port,
            }
            django.conf.settings.configure(DATABASES={"default": server}, USE_TZ=True)
            django.setup()
        from django.db import (
            connection,
            connections,
            transaction,
        )

        block = transaction.atomic()
        block.__enter__()
        used = connection if name == "proxy" else connections["default"]

        def execute(text: str) -> None:
            with used.cursor() as cursor:
                cursor.execute(text)

        yield Blocking(
            used,
            execute,
            lambda: block.__exit__(None, None, None),
            lambda: block.__exit__(ValueError, ValueError(), None),
        )
        connection.close()

    return opened


BLOCKING: dict[str, Callable[[Cluster], AbstractContextManager[Blocking]]] = {
    "psycopg": _psycopg(),
    "psycopg dict_row": _psycopg(row_factory=rows.dict_row),
    "psycopg namedtuple_row": _psycopg(row_factory=rows.namedtuple_row),
    "psycopg scalar_row": _psycopg(row_factory=rows.scalar_row),
    "psycopg raw cursors": _psycopg(cursor_factory=psycopg.RawCursor),
    "psycopg client cursors": _psycopg(cursor_factory=psycopg.ClientCursor),
    "psycopg never prepared": _psycopg(prepare_threshold=None),
    "psycopg block": _psycopg_block,
    "sqlalchemy core": _core,
    "sqlalchemy session": _session,
    "sqlalchemy scoped session": _scoped,
    "django proxy": _django("proxy"),
    "django wrapper": _django("wrapper"),
}
THREADLESS = [name for name in BLOCKING if not name.startswith("django")]
"""Those that may be used from any thread."""


def _async_psycopg(**options: Any) -> Callable[[Cluster], AbstractAsyncContextManager[Awaited]]:
    @asynccontextmanager
    async def opened(cluster: Cluster) -> AsyncIterator[Awaited]:
        connecting = psycopg.AsyncConnection.connect(tcp(cluster), **options)
        async with await connecting as connection:
            cursor = psycopg.AsyncCursor(connection)
            yield Awaited(
                connection,
                lambda text: cursor.execute(text.encode()),
                connection.commit,
                connection.rollback,
            )

    return opened


@asynccontextmanager
async def _asyncpg(cluster: Cluster) -> AsyncIterator[Awaited]:
    connection = await asyncpg.connect(tcp(cluster))
    block = connection.transaction()
    await block.start()
    yield Awaited(connection, connection.execute, block.commit, block.rollback)
    await connection.close()


@asynccontextmanager
async def _asyncpg_pool(cluster: Cluster) -> AsyncIterator[Awaited]:
    async with asyncpg.create_pool(tcp(cluster), min_size=1, max_size=1) as pool:
        async with pool.acquire() as connection:
            block = connection.transaction()
            await block.start()
            yield Awaited(connection, connection.execute, block.commit, block.rollback)


def _async_sqlalchemy(
    driver: str, kind: str
) -> Callable[[Cluster], AbstractAsyncContextManager[Awaited]]:
    @asynccontextmanager
    async def opened(cluster: Cluster) -> AsyncIterator[Awaited]:
        engine = create_async_engine(tcp(cluster, driver))
        try:
            used: Any
            if kind == "core":
                used = await engine.connect().start()
            elif kind == "session":
                used = AsyncSession(engine)
            else:
                used = async_scoped_session(async_sessionmaker(engine), asyncio.current_task)
            yield Awaited(
                used, lambda text: used.execute(sqlalchemy.text(text)), used.commit, used.rollback
            )
            await used.close()
        finally:
            await engine.dispose()

    return opened


AWAITED: dict[str, Callable[[Cluster], AbstractAsyncContextManager[Awaited]]] = {
    "psycopg": _async_psycopg(),
    "psycopg dict_row": _async_psycopg(row_factory=rows.dict_row),
    "psycopg raw cursors": _async_psycopg(cursor_factory=psycopg.AsyncRawCursor),
    "asyncpg": _asyncpg,
    "asyncpg pool": _asyncpg_pool,
    **{
        f"sqlalchemy {driver[1:]} {kind}": _async_sqlalchemy(driver, kind)
        for driver in ("+psycopg", "+asyncpg")
        for kind in ("core", "session", "scoped session")
    },
}

MIXED = [
    JobSpec("welcome", {"user_id": 3}, priority=-5, flags=["a", "b"]),
    JobSpec("letter", 'two\n"lines" %s :x é 😀', key="k2", delay=60),
    JobSpec("letter", None, queue="q: %s", keep=5),
]


def add_sync(app: App, connection: Any) -> list[Job]:
    """Plain, keyed, in bulk and by handle."""
    client = app.sync.using(connection)
    task = app.registry.get("welcome")
    return [
        client.add_job("welcome", {"user_id": 1}),
        client.add_job("welcome", {"user_id": 2}, key="k1", max_attempts=7),
        *client.add_jobs(MIXED),
        *task.using(connection=connection, key="k3").enqueue_many([{"user_id": 4}]),
        task.using(connection=connection).enqueue(user_id=5),
    ]


async def add_async(app: App, connection: Any) -> list[Job]:
    client = app.client.using(connection)
    task = app.registry.get("welcome")
    return [
        await client.add_job("welcome", {"user_id": 1}),
        await client.add_job("welcome", {"user_id": 2}, key="k1", max_attempts=7),
        *await client.add_jobs(MIXED),
        *await task.using(connection=connection, key="k3").aenqueue_many([{"user_id": 4}]),
        await task.using(connection=connection).aenqueue(user_id=5),
    ]


def check_added(added: list[Job], stored: list[Job]) -> None:
    assert stored == sorted(added, key=lambda job: job.id, reverse=True)
    assert [job.payload for job in added] == [
        {"user_id": 1},
        {"user_id": 2},
        {"user_id": 3},
        'two\n"lines" %s :x é 😀',
        {},
        {"user_id": 4},
        {"user_id": 5},
    ]
    assert [job.key for job in added] == [None, "k1", None, "k2", None, "k3", None]
    assert [job.max_attempts for job in added][:2] == [3, 7]
    assert [job.state for job in added].count(JobState.SCHEDULED) == 1


def orders(schema: Schema) -> int:
    with psycopg.connect(schema.url) as connection:
        found = connection.execute(f'SELECT count(*) FROM "{schema.name}".orders'.encode())
        [count] = found.fetchone() or (0,)
    return int(count)


def write(schema: Schema) -> str:
    return f'INSERT INTO "{schema.name}".orders VALUES (1)'


# ── it exists if and only if the transaction commits ──


@pytest.mark.parametrize("name", BLOCKING)
def test_a_job_exists_when_the_transaction_commits(
    app: App, schema: Schema, cluster: Cluster, name: str
) -> None:
    with BLOCKING[name](cluster) as own:
        own.execute(write(schema))
        added = add_sync(app, own.connection)
        assert app.sync.list_jobs() == []
        assert orders(schema) == 0
        own.commit()
        check_added(added, app.sync.list_jobs())
        assert orders(schema) == 1


@pytest.mark.parametrize("name", BLOCKING)
def test_a_job_is_gone_when_the_transaction_rolls_back(
    app: App, schema: Schema, cluster: Cluster, name: str
) -> None:
    before = app.sync.add_job("welcome", {"user_id": 0}, key="k1")
    with BLOCKING[name](cluster) as own:
        own.execute(write(schema))
        added = add_sync(app, own.connection)
        assert (added[1].id, added[1].revision) == (before.id, 1)
        own.rollback()
        assert app.sync.list_jobs() == [before]
        assert orders(schema) == 0


@pytest.mark.parametrize("ends", ["commits", "rolls back"])
@pytest.mark.parametrize("name", AWAITED)
def test_an_async_connection(
    app: App, schema: Schema, cluster: Cluster, name: str, ends: str
) -> None:
    async def scenario() -> None:
        async with AWAITED[name](cluster) as own:
            await own.execute(write(schema))
            added = await add_async(app, own.connection)
            assert await app.client.list_jobs() == []
            await (own.commit() if ends == "commits" else own.rollback())
            stored = await app.client.list_jobs()
        if ends == "commits":
            check_added(added, stored)
        else:
            assert stored == []

    asyncio.run(scenario())
    assert orders(schema) == (ends == "commits")


# ── chains ──


def start_sync(app: App, connection: Any) -> list[Chain[Any]]:
    """Plain, by key, twice by one key, and behind others; and a job that waits for them."""
    client = app.sync.using(connection)
    task = app.registry.get("welcome")
    first = client.start_chain("welcome", {"user_id": 1})
    keyed = client.start_chain("letter", 'two\n"lines" %s :x é 😀', key="k: %s")
    again = task.using(connection=connection, key="k: %s").start(user_id=2)
    last = client.start_chains([JobSpec("letter", None, blockers=[first, keyed])])
    waiting = client.add_job("welcome", {"user_id": 3}, blockers=[last[0]])
    assert (waiting.state, waiting.blockers_open) == (JobState.BLOCKED, 1)
    return [first, keyed, again, *last]


async def start_async(app: App, connection: Any) -> list[Chain[Any]]:
    client = app.client.using(connection)
    task = app.registry.get("welcome")
    first = await client.start_chain("welcome", {"user_id": 1})
    keyed = await client.start_chain("letter", 'two\n"lines" %s :x é 😀', key="k: %s")
    again = await task.using(connection=connection, key="k: %s").astart(user_id=2)
    last = await client.start_chains([JobSpec("letter", None, blockers=[first, keyed])])
    waiting = await client.add_job("welcome", {"user_id": 3}, blockers=[last[0]])
    assert (waiting.state, waiting.blockers_open) == (JobState.BLOCKED, 1)
    return [first, keyed, again, *last]


def check_started(started: list[Chain[Any]], stored: list[Chain[Any]]) -> None:
    first, keyed, again, last = started
    assert stored == [last, keyed, first]
    assert (again.id, again.deduplicated, again.payload) == (keyed.id, True, keyed.payload)
    assert last.job is not None
    assert (last.job.state, last.job.blockers_open) == (JobState.BLOCKED, 2)


@pytest.mark.parametrize("ends", ["commits", "rolls back"])
@pytest.mark.parametrize("name", BLOCKING)
def test_a_chain_exists_when_the_transaction_commits(
    app: App, cluster: Cluster, name: str, ends: str
) -> None:
    with BLOCKING[name](cluster) as own:
        started = start_sync(app, own.connection)
        assert app.sync.list_chains() == []
        own.commit() if ends == "commits" else own.rollback()
        stored = app.sync.list_chains()
    if ends == "commits":
        check_started(started, stored)
        assert len(app.sync.list_jobs()) == 4
    else:
        assert stored == []
        assert app.sync.list_jobs() == []


@pytest.mark.parametrize("ends", ["commits", "rolls back"])
@pytest.mark.parametrize("name", [*AWAITED, "psycopg of the caller's thread"])
def test_a_chain_on_an_async_connection(app: App, cluster: Cluster, name: str, ends: str) -> None:
    async def scenario() -> None:
        if name in AWAITED:
            async with AWAITED[name](cluster) as own:
                started = await start_async(app, own.connection)
                assert await app.client.list_chains() == []
                await (own.commit() if ends == "commits" else own.rollback())
        else:
            with BLOCKING["psycopg"](cluster) as blocking:
                started = await start_async(app, blocking.connection)
                blocking.commit() if ends == "commits" else blocking.rollback()
        stored = await app.client.list_chains()
        if ends == "commits":
            check_started(started, stored)
        else:
            assert stored == []

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ["psycopg", "sqlalchemy core", "django proxy"])
def test_an_unknown_blocker_in_the_callers_transaction(
    app: App, cluster: Cluster, name: str
) -> None:
    for call in ("start_chain", "add_job"):
        with BLOCKING[name](cluster) as own:
            client = app.sync.using(own.connection)
            with pytest.raises(ChainNotFoundError) as caught:
                getattr(client, call)("welcome", {"user_id": 1}, blockers=[7, 9])
            assert caught.value.ids == (7, 9)
            own.rollback()


@pytest.mark.parametrize("name", ["psycopg", "asyncpg", "sqlalchemy asyncpg core"])
def test_an_unknown_blocker_on_an_async_connection(app: App, cluster: Cluster, name: str) -> None:
    async def scenario() -> None:
        async with AWAITED[name](cluster) as own:
            client = app.client.using(own.connection)
            with pytest.raises(ChainNotFoundError) as caught:
                await client.start_chain("welcome", {"user_id": 1}, blockers=[7, 9])
            assert caught.value.ids == (7, 9)
            await own.rollback()

    asyncio.run(scenario())


@pytest.mark.parametrize("ends", ["commits", "rolls back"])
@pytest.mark.parametrize("name", THREADLESS)
def test_a_blocking_connection_in_async_code(
    app: App, schema: Schema, cluster: Cluster, name: str, ends: str
) -> None:
    async def scenario() -> None:
        with BLOCKING[name](cluster) as own:
            own.execute(write(schema))
            added = await add_async(app, own.connection)
            assert await app.client.list_jobs() == []
            own.commit() if ends == "commits" else own.rollback()
            stored = await app.client.list_jobs()
        if ends == "commits":
            check_added(added, stored)
        else:
            assert stored == []

    asyncio.run(scenario())
    assert orders(schema) == (ends == "commits")


def test_a_worker_runs_the_job_after_the_commit_and_not_before(app: App, cluster: Cluster) -> None:
    async def scenario() -> None:
        async with AWAITED["asyncpg"](cluster) as own:
            await app.client.using(own.connection).add_job("welcome", {"user_id": 1})
            assert await app.run_once() == 0
            await own.commit()
            assert await app.run_once() == 1

    asyncio.run(scenario())


def test_without_a_transaction_autocommit_commits_at_once(app: App, cluster: Cluster) -> None:
    with psycopg.connect(tcp(cluster), autocommit=True) as connection:
        app.sync.using(connection).add_job("welcome", {"user_id": 1})
        assert len(app.sync.list_jobs()) == 1

    async def scenario() -> None:
        connection = await asyncpg.connect(tcp(cluster))
        await app.client.using(connection).add_job("welcome", {"user_id": 2}, key="k")
        assert len(await app.client.list_jobs()) == 2
        await connection.close()

    asyncio.run(scenario())


def test_a_savepoint_takes_its_jobs_with_it(app: App, cluster: Cluster) -> None:
    with psycopg.connect(tcp(cluster)) as connection:
        client = app.sync.using(connection)
        kept = client.add_job("welcome", {"user_id": 1})
        with connection.transaction(force_rollback=True):
            client.add_job("welcome", {"user_id": 2})
    assert app.sync.list_jobs() == [kept]


def test_the_codecs_of_a_connection_do_not_matter(app: App, cluster: Cluster) -> None:
    async def scenario() -> None:
        connection = await asyncpg.connect(tcp(cluster))
        for kind in ("int8", "json", "timestamptz"):
            await connection.set_type_codec(
                kind, schema="pg_catalog", encoder=str, decoder=lambda text: f"<{text}>"
            )
        [first, second] = await app.client.using(connection).add_jobs(
            [JobSpec("welcome", {"user_id": 1}), JobSpec("welcome", {"user_id": 2}, key="k")]
        )
        await connection.close()
        assert await app.client.list_jobs() == [second, first]

    asyncio.run(scenario())
    with psycopg.connect(tcp(cluster)) as connection:
        connection.adapters.register_loader("int8", psycopg.types.string.TextLoader)
        [third] = app.sync.using(connection).add_jobs([JobSpec("welcome", {"user_id": 3})])
    assert app.sync.get_job(third.id) == third


def test_inside_run_sync_the_blocking_client_is_right(app: App, cluster: Cluster) -> None:
    async def scenario() -> None:
        engine = create_async_engine(tcp(cluster, "+asyncpg"))
        async with engine.begin() as connection:
            job = await connection.run_sync(
                lambda inner: app.sync.using(inner).add_job("welcome", {"user_id": 1}, key="k")
            )
        await engine.dispose()
        assert await app.client.list_jobs() == [job]

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ['s:che"ma', "back\\slash"])
def test_any_schema_name_will_do(cluster: Cluster, name: str) -> None:
    async def scenario() -> None:
        app = App(cluster.url(cluster.shared_database()), schema=name, listen=False)
        async with app:
            for way in ("psycopg", "asyncpg", "sqlalchemy asyncpg core"):
                async with AWAITED[way](cluster) as own:
                    await app.client.using(own.connection).add_job("welcome", {"user_id": 1})
                    await own.commit()
            for way in ("psycopg", "sqlalchemy core"):
                with BLOCKING[way](cluster) as blocking:
                    await app.client.using(blocking.connection).add_job("welcome", {})
                    blocking.commit()
            assert len(await app.client.list_jobs()) == 5

    try:
        asyncio.run(scenario())
    finally:
        with cluster.connect(cluster.shared_database()) as connection:
            statement = psycopg.sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE")
            connection.execute("SET client_min_messages = warning")
            connection.execute(statement.format(psycopg.sql.Identifier(name)))


# ── waiting for a key that somebody holds ──


@contextmanager
def held_key(cluster: Cluster, app: App) -> Iterator[psycopg.Connection]:
    """The key "k", as long as the transaction on the connection is open."""
    with psycopg.connect(tcp(cluster)) as holder:
        app.sync.using(holder).add_job("welcome", {"user_id": 0}, key="k")
        yield holder


def waiting(cluster: Cluster) -> int:
    """How many backends wait for somebody else's transaction."""
    with cluster.connect(cluster.shared_database()) as connection:
        found = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND wait_event_type = 'Lock'"
        )
        [count] = found.fetchone() or (0,)
    return int(count)


async def until_waiting(cluster: Cluster) -> None:
    """Pass when a backend waits; the loop must turn for that, so a blocked one ends here."""
    async with asyncio.timeout(PATIENCE):
        while not await asyncio.to_thread(waiting, cluster):
            await asyncio.sleep(0.005)


async def _while_held(
    app: App, cluster: Cluster, connection: Any, commit: Callable[[], Any]
) -> None:
    with held_key(cluster, app) as holder:
        adding = asyncio.create_task(
            app.client.using(connection).add_job("welcome", {"user_id": 1}, key="k")
        )
        await until_waiting(cluster)
        assert not adding.done()
        holder.commit()
        job = await adding
        assert (job.revision, job.payload) == (1, {"user_id": 1})
        ended = commit()
        if ended is not None:
            await ended
        assert await app.client.list_jobs() == [job]


@pytest.mark.parametrize("name", ["psycopg", "sqlalchemy core", "sqlalchemy scoped session"])
def test_a_blocking_connection_that_waits_does_not_block_the_loop(
    app: App, cluster: Cluster, name: str
) -> None:
    async def scenario() -> None:
        with BLOCKING[name](cluster) as own:
            await _while_held(app, cluster, own.connection, own.commit)

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ["psycopg", "asyncpg", "sqlalchemy asyncpg session"])
def test_an_async_connection_that_waits_does_not_block_the_loop(
    app: App, cluster: Cluster, name: str
) -> None:
    async def scenario() -> None:
        async with AWAITED[name](cluster) as own:
            await _while_held(app, cluster, own.connection, own.commit)

    asyncio.run(scenario())


def test_many_that_wait_leave_the_loops_own_threads_alone(app: App, cluster: Cluster) -> None:
    async def scenario() -> None:
        with held_key(cluster, app) as holder:
            connections = [psycopg.connect(tcp(cluster), autocommit=True) for _ in range(40)]
            adding = [
                asyncio.create_task(
                    app.client.using(connection).add_job("welcome", {"user_id": 1}, key="k")
                )
                for connection in connections
            ]
            async with asyncio.timeout(PATIENCE):
                while await asyncio.to_thread(waiting, cluster) < len(connections):
                    await asyncio.sleep(0.01)
            holder.commit()
            await asyncio.gather(*adding)
            for connection in connections:
                connection.close()
        [job] = await app.client.list_jobs()
        assert job.revision == 40

    asyncio.run(scenario())


def test_a_cancelled_add_leaves_nothing_running_on_the_connection(
    app: App, cluster: Cluster
) -> None:
    async def scenario() -> None:
        with held_key(cluster, app) as holder, psycopg.connect(tcp(cluster)) as connection:
            adding = asyncio.create_task(
                app.client.using(connection).add_job("welcome", {"user_id": 1}, key="k")
            )
            await until_waiting(cluster)
            adding.cancel()
            with pytest.raises(asyncio.CancelledError):
                await adding
            status = connection.info.transaction_status
            assert status is psycopg.pq.TransactionStatus.INERROR
            connection.rollback()
            holder.rollback()
            await app.client.using(connection).add_job("welcome", {"user_id": 2})
            connection.commit()
            assert [job.payload for job in await app.client.list_jobs()] == [{"user_id": 2}]

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ["psycopg", "sqlalchemy session", "django proxy"])
def test_a_wait_that_ends_is_busy_in_our_words(
    app: App, schema: Schema, cluster: Cluster, name: str
) -> None:
    with held_key(cluster, app), short_waits(cluster, schema), BLOCKING[name](cluster) as own:
        with pytest.raises(StoreBusyError, match="open transaction"):
            app.sync.using(own.connection).add_job("welcome", {"user_id": 1}, key="k")
        own.rollback()


@pytest.mark.parametrize("name", ["psycopg", "asyncpg", "sqlalchemy asyncpg core"])
def test_an_async_wait_that_ends_is_busy_in_our_words(
    app: App, schema: Schema, cluster: Cluster, name: str
) -> None:
    async def scenario() -> None:
        with held_key(cluster, app), short_waits(cluster, schema):
            async with AWAITED[name](cluster) as own:
                with pytest.raises(StoreBusyError, match="open transaction"):
                    await app.client.using(own.connection).add_job("welcome", None, key="k")
                await own.rollback()

    asyncio.run(scenario())


@contextmanager
def short_waits(cluster: Cluster, schema: Schema) -> Iterator[None]:
    """Adding waits for others 20 ms only."""
    change = f'ALTER FUNCTION "{schema.name}"._enqueue(text, boolean, timestamptz)'
    with cluster.connect(cluster.shared_database()) as connection:
        connection.execute(f"{change} SET lock_timeout = '20ms'".encode())
        yield
        connection.execute(f"{change} RESET lock_timeout".encode())


# ── refusals ──


@pytest.mark.parametrize("name", AWAITED)
def test_an_async_connection_in_blocking_code_is_refused(
    app: App, cluster: Cluster, name: str
) -> None:
    async def scenario() -> None:
        async with AWAITED[name](cluster) as own:
            await app.client.list_jobs()
            with pytest.raises(ConfigError, match=r"is async: await it.*aenqueue"):
                app.sync.using(own.connection).add_job("welcome", {"user_id": 1})
            task = app.registry.get("welcome").using(connection=own.connection)
            with pytest.raises(ConfigError, match="is async"):
                task.enqueue(user_id=1)
            await own.rollback()

    asyncio.run(scenario())


def test_something_else_than_a_connection_is_refused(app: App, cluster: Cluster) -> None:
    engine = sqlalchemy.create_engine(tcp(cluster, "+psycopg"))
    for thing in ("postgresql:///x", object(), engine, threading.Lock()):
        with pytest.raises(ConfigError, match="must be an open psycopg, asyncpg, SQLAlchemy or"):
            app.sync.using(thing).add_job("welcome", {"user_id": 1})
    engine.dispose()


def test_another_kind_of_database_is_refused(app: App) -> None:
    engine = sqlalchemy.create_engine("sqlite://")
    with engine.connect() as connection, Session(engine) as session:
        for used in (connection, session):
            with pytest.raises(ConfigError, match="PostgreSQL database, not one to sqlite"):
                app.sync.using(used).add_job("welcome", {"user_id": 1})
    engine.dispose()


@pytest.mark.parametrize("name", BLOCKING)
def test_a_database_without_the_schema(app: App, cluster: Cluster, name: str) -> None:
    app.sync.list_jobs()
    with BLOCKING[name](cluster) as own:
        away(app, own.execute)
        with pytest.raises(StoreUnavailableError, match="windlass migrate"):
            app.sync.using(own.connection).add_job("welcome", {"user_id": 1})
        own.rollback()


@pytest.mark.parametrize("name", AWAITED)
def test_a_database_without_the_schema_async(app: App, cluster: Cluster, name: str) -> None:
    async def scenario() -> None:
        await app.client.list_jobs()
        async with AWAITED[name](cluster) as own:
            await own.execute(away_statement(app))
            with pytest.raises(StoreUnavailableError, match="windlass migrate"):
                await app.client.using(own.connection).add_job("welcome", {"user_id": 1})
            await own.rollback()

    asyncio.run(scenario())


def away(app: App, execute: Callable[[str], object]) -> None:
    """The schema is missing, as far as this transaction can see."""
    execute(away_statement(app))


def away_statement(app: App) -> str:
    return f'ALTER SCHEMA "{app.settings.schema}" RENAME TO "{app.settings.schema}_away"'


@pytest.mark.parametrize("name", ["psycopg", "sqlalchemy core"])
def test_a_closed_connection(app: App, cluster: Cluster, name: str) -> None:
    with BLOCKING[name](cluster) as own:
        own.connection.close()
        with pytest.raises(StoreUnavailableError, match="is closed") as caught:
            app.sync.using(own.connection).add_job("welcome", {"user_id": 1})
    assert not isinstance(caught.value, OutcomeUnknownError)


@pytest.mark.parametrize("name", ["psycopg", "asyncpg", "sqlalchemy asyncpg core"])
def test_a_closed_async_connection(app: App, cluster: Cluster, name: str) -> None:
    async def scenario() -> None:
        async with AWAITED[name](cluster) as own:
            await own.connection.close()
            with pytest.raises(StoreUnavailableError, match="is closed") as caught:
                await app.client.using(own.connection).add_job("welcome", {"user_id": 1})
            assert not isinstance(caught.value, OutcomeUnknownError)

    asyncio.run(scenario())


def test_a_connection_given_back_to_its_pool(app: App, cluster: Cluster) -> None:
    async def scenario() -> None:
        async with asyncpg.create_pool(tcp(cluster), min_size=1, max_size=1) as pool:
            async with pool.acquire() as connection:
                pass
            with pytest.raises(StoreUnavailableError, match="released back to the pool"):
                await app.client.using(connection).add_job("welcome", {"user_id": 1})

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ["psycopg", "asyncpg", "sqlalchemy asyncpg session"])
def test_a_connection_that_is_lost_meanwhile(app: App, cluster: Cluster, name: str) -> None:
    async def scenario() -> None:
        with held_key(cluster, app):
            async with AWAITED[name](cluster) as own:
                adding = asyncio.create_task(
                    app.client.using(own.connection).add_job("welcome", None, key="k")
                )
                await until_waiting(cluster)
                with cluster.connect(cluster.shared_database()) as connection:
                    connection.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
                    )
                with pytest.raises(StoreUnavailableError):
                    await adding
                if name.startswith("sqlalchemy"):
                    await own.connection.invalidate()

    asyncio.run(scenario())


def test_a_transaction_that_failed_before_is_refused(app: App, cluster: Cluster) -> None:
    with psycopg.connect(tcp(cluster)) as connection:
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("SELECT 1 / 0")
        with pytest.raises(StoreError, match="transaction is aborted"):
            app.sync.using(connection).add_job("welcome", {"user_id": 1})
        connection.rollback()


def test_a_transaction_the_server_gave_up_says_so(app: App, cluster: Cluster) -> None:
    job = app.sync.add_job("welcome", {"user_id": 1}, key="k")
    with psycopg.connect(tcp(cluster)) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT 1")
        app.sync.add_job("welcome", {"user_id": 2}, key="k")
        with pytest.raises(StoreError, match="roll it back and do it again") as caught:
            app.sync.using(connection).add_job("welcome", {"user_id": 3}, key="k")
        assert isinstance(caught.value.__cause__, psycopg.errors.SerializationFailure)
        connection.rollback()
    assert [found.id for found in app.sync.list_jobs()] == [job.id]


def test_a_django_connection_on_an_event_loop_says_where_to_go(app: App, cluster: Cluster) -> None:
    with BLOCKING["django proxy"](cluster) as own:
        own.rollback()

    async def scenario() -> Job:
        from django.db import connection, transaction

        with pytest.raises(ConfigError, match=r"sync_to_async.*app\.sync\.using"):
            await app.client.using(connection).add_job("welcome", {"user_id": 1})

        @sync_to_async
        def work() -> Job:
            with transaction.atomic():
                job = app.sync.using(connection).add_job("welcome", {"user_id": 2})
            connection.close()
            return job

        return await work()

    job = asyncio.run(scenario())
    assert app.sync.list_jobs() == [job]


def test_a_blocking_face_of_an_async_driver_says_what_to_give(app: App, cluster: Cluster) -> None:
    async def scenario() -> None:
        engine = create_async_engine(tcp(cluster, "+asyncpg"))
        connection: AsyncConnection
        async with engine.connect() as connection:
            inner = connection.sync_connection
            with pytest.raises(ConfigError, match="give the AsyncConnection or AsyncSession"):
                await app.client.using(inner).add_job("welcome", {"user_id": 1})
        await engine.dispose()

    asyncio.run(scenario())


def test_errors_of_the_callers_own_pass_untouched(app: App, cluster: Cluster) -> None:
    """A limit the caller set on its own connection is the caller's to handle."""

    async def scenario() -> None:
        with held_key(cluster, app):
            connection = await asyncpg.connect(tcp(cluster), command_timeout=0.05)
            with pytest.raises(TimeoutError):
                await app.client.using(connection).add_job("welcome", None, key="k")
            connection.terminate()

    asyncio.run(scenario())


def test_the_package_imports_none_of_the_libraries() -> None:
    program = (
        "import sys, windlass.stores.postgres\n"
        "print(sorted({'asyncpg', 'sqlalchemy', 'django', 'psycopg2'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
