"""An app on a psycopg pool of the caller's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import psycopg
import psycopg_pool
import pytest
from psycopg import rows

from tests.postgres.cluster import Cluster, Schema, fresh_schema, shared_cluster
from tests.postgres.proxy import FaultProxy
from windlass import App, Context, JobState, SyncContext
from windlass.errors import ConfigError, StoreUnavailableError
from windlass.stores.postgres_connections import connection, handlers

Opened = Callable[[str], AbstractAsyncContextManager[Any]]


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return shared_cluster(18)


@pytest.fixture
def schema(cluster: Cluster) -> Iterator[Schema]:
    """A schema, with a table of the handlers' own in it."""
    with fresh_schema(cluster) as schema:
        with psycopg.connect(schema.url) as connection:
            connection.execute(f'CREATE SCHEMA "{schema.name}"'.encode())
            connection.execute(f'CREATE TABLE "{schema.name}".effects (n integer)'.encode())
        yield schema


def _blocking(**options: Any) -> Opened:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Any]:
        with psycopg_pool.ConnectionPool(
            url, min_size=2, max_size=4, open=True, kwargs=options
        ) as pool:
            yield pool

    return opened


def _awaited(**options: Any) -> Opened:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Any]:
        async with psycopg_pool.AsyncConnectionPool(
            url, min_size=1, max_size=2, open=False, kwargs=options
        ) as pool:
            yield pool

    return opened


POOLS: dict[str, Opened] = {
    "blocking": _blocking(),
    "blocking autocommit": _blocking(autocommit=True),
    "blocking dict_row": _blocking(row_factory=rows.dict_row),
    "blocking raw cursors": _blocking(cursor_factory=psycopg.RawCursor),
    "async": _awaited(),
    "async dict_row": _awaited(row_factory=rows.dict_row),
}


def effects(schema: Schema) -> list[int]:
    with psycopg.connect(schema.url) as connection:
        found = connection.execute(f'SELECT n FROM "{schema.name}".effects ORDER BY n'.encode())
        return [row[0] for row in found.fetchall()]


def is_whole(pool: Any) -> bool:
    """Whether nobody has one of the pool's connections, or waits for one."""
    stats = pool.get_stats()
    there: int = stats["pool_available"]
    return there == stats["pool_size"] and not stats.get("requests_waiting", 0)


async def until_whole(pool: Any) -> None:
    async with asyncio.timeout(10):
        while not is_whole(pool):
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("name", POOLS)
def test_everything_works_on_it(schema: Schema, name: str) -> None:
    table = f'"{schema.name}".effects'

    async def scenario() -> None:
        async with POOLS[name](schema.url) as pool:
            app = App(pool=pool, schema=schema.name, keep=60, poll_interval=0.2)

            @app.task(max_attempts=1)
            async def on_loop(ctx: Context) -> None:
                async with ctx.transaction() as tx:
                    await tx.execute(f"INSERT INTO {table} VALUES (1)")
                    await ctx.add_job("after", {}, key="k")
                    await tx.complete("done")

            @app.task(max_attempts=1)
            def in_thread(ctx: SyncContext) -> None:
                with ctx.transaction() as tx:
                    tx.execute(f"INSERT INTO {table} VALUES (2)")
                    tx.complete("done")

            @app.task(max_attempts=1)
            async def refused(ctx: Context) -> None:
                async with ctx.transaction() as tx:
                    await tx.execute(f"INSERT INTO {table} VALUES (3)")
                    await tx.complete()
                    raise ValueError("rolled back")

            @app.task
            async def after() -> None: ...

            async with app:
                added = [
                    await on_loop.aenqueue(),
                    await in_thread.aenqueue(),
                    await refused.aenqueue(),
                ]
                await app.run_once()
                await app.store.reap(10, 5)
                found = [await app.client.get_job(job.id) for job in added]
                counts = await app.client.counts()
            assert [job.state for job in found if job] == [
                JobState.COMPLETED,
                JobState.COMPLETED,
                JobState.FAILED,
            ]
            assert counts[JobState.COMPLETED] == 3
            await until_whole(pool)
            assert not pool.closed

    asyncio.run(scenario())
    assert effects(schema) == [1, 2]


def test_its_connections_come_back_as_they_were(schema: Schema) -> None:
    async def scenario() -> None:
        kwargs = {"row_factory": rows.dict_row, "cursor_factory": psycopg.RawCursor}
        seen: list[Any] = []
        with psycopg_pool.ConnectionPool(
            schema.url, min_size=1, max_size=1, open=True, kwargs=kwargs
        ) as pool:
            async with App(pool=pool, schema=schema.name, listen=False) as app:
                await app.client.add_job("t", key="k")
                await app.client.list_jobs()
            with pool.connection() as connection:
                seen += [connection.row_factory, connection.cursor_factory]
                assert connection.autocommit is False
        assert seen == [rows.dict_row, psycopg.RawCursor]

    asyncio.run(scenario())


def test_a_held_job_is_busy_and_not_an_error(schema: Schema) -> None:
    """Settling asks a second time after a refusal, which takes a statement of its own."""

    async def scenario() -> None:
        with psycopg_pool.ConnectionPool(schema.url, min_size=1, max_size=4, open=True) as pool:
            app = App(pool=pool, schema=schema.name, keep=60, poll_interval=0.2)
            holder = psycopg.connect(schema.url)

            @app.task(max_attempts=1)
            async def effect(ctx: Context) -> None:
                holder.execute(
                    f'SELECT FROM "{schema.name}"._jobs WHERE id = %s FOR UPDATE'.encode(),
                    [ctx.job.id],
                )
                asyncio.get_running_loop().call_later(0.2, holder.rollback)

            async with app:
                job = await effect.aenqueue()
                await app.run_once()
                found = await app.client.get_job(job.id)
            holder.close()
            assert found is not None
            assert (found.state, found.attempts) == (JobState.COMPLETED, 1)

    asyncio.run(scenario())


def test_closing_the_app_leaves_the_pool_open(schema: Schema) -> None:
    async def scenario() -> None:
        with psycopg_pool.ConnectionPool(schema.url, min_size=1, max_size=2, open=True) as pool:
            for _ in range(2):
                app = App(pool=pool, schema=schema.name, listen=False)
                async with app:
                    await app.client.add_job("t")
                await until_whole(pool)
                with pool.connection() as connection:
                    assert connection.execute("SELECT 1").fetchone() == (1,)

    asyncio.run(scenario())


def test_its_links_that_went_silent_are_left(
    cluster: Cluster, schema: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store's calls and handlers have others, which the pool makes."""
    monkeypatch.setattr(connection, "PROBE_AFTER", 0.0)
    monkeypatch.setattr(handlers, "PROBE_LIMIT", 0.3)

    async def scenario() -> None:
        with (
            FaultProxy("127.0.0.1", cluster.port, cluster.shared_database()) as proxy,
            psycopg_pool.ConnectionPool(proxy.url(), min_size=2, max_size=4, open=True) as pool,
        ):
            async with App(pool=pool, schema=schema.name, listen=False) as app:
                await app.client.add_job("before")
                proxy.silence()
                async with asyncio.timeout(20):
                    await app.client.add_job("after")
                    with app.store.connection() as own:
                        own.execute("SELECT 1")
                    assert len(await app.client.list_jobs()) == 2
                proxy.cut()

    asyncio.run(scenario())


def test_a_url_and_a_pool_are_too_much(schema: Schema) -> None:
    with psycopg_pool.ConnectionPool(schema.url, min_size=0, max_size=1, open=True) as pool:
        with pytest.raises(ConfigError, match="url or pool, not both"):
            App(schema.url, pool=pool)


@pytest.mark.parametrize("thing", [object(), "postgresql:///x"])
def test_something_else_than_a_pool_is_refused(thing: Any) -> None:
    with pytest.raises(ConfigError, match=r"psycopg_pool\.ConnectionPool"):
        App(pool=thing)


def test_a_pool_that_is_not_open_says_so(schema: Schema) -> None:
    async def scenario() -> None:
        pool = psycopg_pool.ConnectionPool(schema.url, min_size=0, max_size=1, open=False)
        app = App(pool=pool, schema=schema.name, listen=False)
        with pytest.raises(StoreUnavailableError, match=r"gives no connection.*not open"):
            async with app:
                await app.client.add_job("t")

    asyncio.run(scenario())


def test_an_exhausted_pool_says_so(schema: Schema) -> None:
    async def scenario() -> None:
        with psycopg_pool.ConnectionPool(
            schema.url, min_size=1, max_size=1, open=True, timeout=0.1
        ) as pool:
            async with App(pool=pool, schema=schema.name, listen=False) as app:
                with pool.connection():
                    with pytest.raises(StoreUnavailableError, match="no connection came free"):
                        await app.client.add_job("t")
                await app.client.add_job("t")
                assert len(await app.client.list_jobs()) == 1

    asyncio.run(scenario())


def test_the_address_has_what_the_pools_connections_have(cluster: Cluster, schema: Schema) -> None:
    """Settings may be keywords of the pool as well as parts of its text."""

    async def scenario() -> None:
        kwargs = {
            "host": "127.0.0.1",
            "port": cluster.port,
            "dbname": cluster.shared_database(),
            "user": "postgres",
            "application_name": "shop",
            "autocommit": True,
        }
        with psycopg_pool.ConnectionPool("", min_size=1, max_size=2, open=True, kwargs=kwargs) as p:
            async with App(pool=p, schema=schema.name, listen=False) as app:
                address = app.store._address  # type: ignore[attr-defined]
                assert "application_name=shop" in address.conninfo
                await app.client.add_job("t")

    asyncio.run(scenario())
