"""Servers, roles, addresses and pools whose transactions are not READ COMMITTED by default."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, ClassVar

import psycopg
import psycopg_pool
import pytest
from psycopg import conninfo, pq, sql

from tests.patience import PATIENCE
from tests.postgres.cluster import Cluster, fresh_database
from tests.postgres.pooler import TransactionPooler
from windlass.model.job import JobState
from windlass.store.records import COMPLETE, ClaimRequest, Fail, Lease, NewJob, Note, Verdict
from windlass.store.server import ClaimScope, Request
from windlass.store.webhooks import WEBHOOK_TASK
from windlass.stores.postgres import PostgresStore
from windlass.stores.postgres.rendering import lock_number
from windlass.stores.postgres_connections.address import ServerAddress

LEVELS = ("repeatable read", "serializable")


@pytest.fixture(scope="module", params=LEVELS)
def url(request: pytest.FixtureRequest, pg18: Cluster) -> Iterator[str]:
    """A database whose transactions are of another isolation by default."""
    with fresh_database(pg18) as url:
        _set_default(url, request.param)
        yield url


def _set_default(url: str, level: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            sql.SQL("ALTER DATABASE {} SET default_transaction_isolation = {}").format(
                sql.Identifier(connection.info.dbname), sql.Literal(level)
            )
        )
    with psycopg.connect(url) as connection:
        assert connection.execute("SHOW transaction_isolation").fetchone() == (level,)


# ── installing ──


def _migrate(url: str) -> None:
    async def work() -> None:
        store = PostgresStore(url)
        await store.open()
        await store.close()

    asyncio.run(work())


@pytest.mark.parametrize("level", LEVELS)
def test_several_migrate_at_once(pg18: Cluster, level: str) -> None:
    """All of them wait for their turn; one installs, and the others see what it did."""
    count = 4
    with fresh_database(pg18) as url:
        _set_default(url, level)
        with psycopg.connect(url, autocommit=True) as gate, ThreadPoolExecutor(count) as pool:
            gate.execute("SELECT pg_advisory_lock(%s)", [lock_number("migrate", "windlass")])
            migrated = [pool.submit(_migrate, url) for _ in range(count)]
            try:
                _until_waiting(gate, count)
            finally:
                gate.execute("SELECT pg_advisory_unlock_all()")
            for each in migrated:
                each.result()
        _migrate(url)


def _until_waiting(connection: psycopg.Connection[Any], count: int) -> None:
    statement = """
        SELECT count(*) FROM pg_locks
        WHERE locktype = 'advisory' AND NOT granted
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    """
    end = time.monotonic() + PATIENCE
    while connection.execute(statement).fetchone() != (count,):
        assert time.monotonic() < end


# ── working ──


@contextmanager
def _plain(url: str) -> Iterator[dict[str, Any]]:
    yield {"url": url}


@contextmanager
def _no_session(url: str) -> Iterator[dict[str, Any]]:
    yield {"url": url, "prepared_statements": False}


@contextmanager
def _own_pool(url: str) -> Iterator[dict[str, Any]]:
    with psycopg_pool.ConnectionPool(url, min_size=1, max_size=4, open=True) as pool:
        yield {"pool": pool}


@contextmanager
def _through_a_pooler(url: str) -> Iterator[dict[str, Any]]:
    given = conninfo.conninfo_to_dict(url)
    database = str(given["dbname"])
    with TransactionPooler("127.0.0.1", int(str(given["port"])), database, size=4) as pooler:
        yield {"url": pooler.url(database), "prepared_statements": False}


@contextmanager
def _in_the_address(url: str) -> Iterator[dict[str, Any]]:
    options = "-c default_transaction_isolation=serializable"
    yield {"url": conninfo.make_conninfo(url, options=options)}


WAYS: dict[str, Callable[[str], Any]] = {
    "address": _plain,
    "no session": _no_session,
    "own pool": _own_pool,
    "pooler": _through_a_pooler,
    "options": _in_the_address,
}


async def _claim(store: PostgresStore, limit: int) -> list[Lease]:
    return await store.claim(ClaimRequest(worker="w", tasks=("a",), limit=limit, suspects=limit))


async def _work(store: PostgresStore) -> None:
    await store.enqueue([NewJob("a")] * 40 + [NewJob("a", queue="q"), NewJob("a", key="k")])
    leases = await _claim(store, 42)
    assert len(leases) == 42
    assert [job.id for job in await store.cancel([leases[0].job_id])] == [leases[0].job_id]
    assert await store.note(leases[1], Note(progress="[0.5, null]")) is Verdict.APPLIED
    lifeline = store.lifeline()
    assert lifeline.renew("w", 30.0, leases, [(leases[2], 60.0)]).lost == {}
    assert lifeline.check("w", leases).lost == {}
    with store.transaction(leases[2]) as transaction:
        transaction.complete(COMPLETE)
    [failed] = await store.settle([(leases[3], Fail("no"))])
    assert failed.state is JobState.READY
    answers = await store.settle([(lease, COMPLETE) for lease in leases[4:]])
    assert {answer.verdict for answer in answers} == {Verdict.APPLIED}
    assert (await store.reap(100, 5)).total == 0
    assert len(await store.unlock(["w"], 5)) == 2
    assert len(await _claim(store, 42)) == 2
    await store.retire("w")
    assert await store.delete_failed(10) == 0
    request = Request("once", "d", (NewJob("a"), NewJob("a", key="other")))
    for is_new in (True, False):
        [asked] = await store.enqueue_once([request])
        assert asked.is_new is is_new
    assert await store.claimable([ClaimScope(("a",)), ClaimScope(("b",), ("",))]) == [True, False]
    assert [await store.secret("s", fresh) for fresh in "ab"] == ["a", "a"]
    [posted] = await store.enqueue([NewJob("p", meta='{"webhook": "https://example.org"}')])
    [lease] = await store.claim(ClaimRequest(worker="w", tasks=("p",), limit=1))
    await store.settle([(lease, COMPLETE)])
    [call] = await store.claim(ClaimRequest(worker="w", tasks=(WEBHOOK_TASK,), limit=1))
    assert await store.move(call, "v", 10.0) is Verdict.APPLIED
    await store.settle([(call, COMPLETE)])
    assert [job.id for job in await store.delete([posted.id, call.job_id])] == [call.job_id]


@pytest.mark.parametrize("way", WAYS)
def test_everything_works(url: str, way: str) -> None:
    async def scenario(options: dict[str, Any]) -> None:
        store = PostgresStore(schema_name=way.replace(" ", "_"), listen=False, **options)
        await store.open()
        try:
            await _work(store)
        finally:
            await store.close()

    with WAYS[way](url) as options:
        asyncio.run(scenario(options))


class Watched(psycopg.Connection[Any]):
    """Notes the state in which each message to the server leaves the session."""

    states: ClassVar[list[pq.TransactionStatus]] = []

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        try:
            return super().wait(gen, *args, **options)
        finally:
            self.states.append(pq.TransactionStatus(self.pgconn.transaction_status))


def test_no_transaction_is_open_between_two_messages(url: str) -> None:
    """A process that is stopped there would keep the latch, and the jobs, from all others."""

    async def scenario(pool: Any) -> None:
        store = PostgresStore(schema_name="watched", listen=False, pool=pool)
        await store.open()
        try:
            await store.enqueue([NewJob("a"), NewJob("a", queue="q")])
            Watched.states.clear()
            leases = await _claim(store, 10)
            assert len(leases) == 2
            await store.settle([(lease, COMPLETE) for lease in leases])
            await store.reap(10, 5)
        finally:
            await store.close()

    with psycopg_pool.ConnectionPool(
        url, min_size=1, max_size=2, open=True, connection_class=Watched
    ) as pool:
        asyncio.run(scenario(pool))
    assert Watched.states
    # A refused statement is rolled back, and what failed holds nothing.
    assert pq.TransactionStatus.INTRANS not in Watched.states


# ── PGOPTIONS ──


@pytest.mark.parametrize("given", ["", "-c temp_buffers=800kB"], ids=["alone", "with options"])
def test_pgoptions_are_heeded_where_the_address_has_none(
    pg18: Cluster, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by every program that uses libpq."""
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=7MB -c default_transaction_isolation=serializable")
    base = pg18.url("postgres")
    url = conninfo.make_conninfo(base, options=given) if given else base
    with psycopg.connect(url) as theirs, ServerAddress(url).connect() as ours:
        expected = theirs.execute("SHOW work_mem").fetchone()
        assert ours.execute("SHOW work_mem").fetchone() == expected
        assert (expected == ("7MB",)) is not bool(given)
        assert ours.execute("SHOW transaction_isolation").fetchone() == ("read committed",)
        assert ours.execute("SHOW statement_timeout").fetchone() == ("30s",)


def test_a_limit_in_the_options_is_the_users(pg18: Cluster) -> None:
    url = conninfo.make_conninfo(pg18.url("postgres"), options="-c statement_timeout=7s")
    with ServerAddress(url).connect() as connection:
        assert connection.execute("SHOW statement_timeout").fetchone() == ("7s",)
