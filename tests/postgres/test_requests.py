"""Requests that may come twice: exact however many servers are asked at once, whatever is locked,
and whichever is killed meanwhile."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from tests.patience import PATIENCE
from tests.postgres.cluster import Cluster, Schema, fresh_database, fresh_schema
from tests.postgres.proxy import FaultProxy
from windlass.errors import ChainNotFoundError, StoreError
from windlass.model.job import JobState
from windlass.store.records import COMPLETE, ClaimRequest, JobFilter, NewChain, NewJob
from windlass.store.server import REQUESTS_KEPT, Request, Requested
from windlass.stores.postgres import PostgresStore
from windlass.stores.postgres.schema import prepare
from windlass.testing import FakeClock

SERVERS = 8
KEYS = 10
ROUNDS = 100


@pytest.fixture
def made(pg: Cluster) -> Iterator[Schema]:
    with fresh_schema(pg) as schema:
        with psycopg.connect(schema.url, autocommit=True) as connection:
            prepare(connection, schema.name, "auto")
        yield schema


@asynccontextmanager
async def _servers(
    made: Schema, count: int = 1, **settings: Any
) -> AsyncIterator[list[PostgresStore]]:
    stores = [
        PostgresStore(made.url, schema_name=made.name, listen=False, **settings)
        for _ in range(count)
    ]
    try:
        for store in stores:
            await store.open()
        yield stores
    finally:
        for store in stores:
            await store.close()


def _ask(made: Schema, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(made.url, autocommit=True) as connection:
        cursor = connection.execute(statement.replace("{0}", made.name).encode(), values or None)
        return cursor.fetchall() if cursor.description else []


async def _until(made: Schema, statement: str, *values: Any) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await asyncio.to_thread(_ask, made, statement, *values):
            await asyncio.sleep(0.01)


WAITS = (
    "SELECT pid FROM pg_stat_activity"
    " WHERE wait_event_type = 'Lock' AND query ~ '{0}.+_enqueue_once'"
)
DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"


def test_many_servers_are_asked_for_the_same_at_once(made: Schema) -> None:
    """Each in an order of its own, some jobs with keys and queues; one of them asks for others."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    rng = random.Random(seed)

    def requests(turn: int, server: int) -> list[Request]:
        found = []
        for n in range(KEYS):
            jobs = (NewJob("t", payload=f"[{turn},{n}]"), *[NewJob("t", queue=f"q{n}")] * (n % 3))
            if n % 4 == 1:
                jobs = (*jobs, NewJob("t", key=f"key {(n + server) % 3}"))
            digest = "another" if (server, n) == (3, 5) else "d"
            found.append(Request(f"{turn} {n}", digest, jobs))
        rng.shuffle(found)
        return found

    async def compete() -> None:
        async with _servers(made, SERVERS) as stores:
            for turn in range(ROUNDS):
                asked = [requests(turn, server) for server in range(SERVERS)]
                answers = await asyncio.gather(
                    *(store.enqueue_once(each) for store, each in zip(stores, asked, strict=True))
                )
                _check_round(asked, answers)

    before = _ask(made, DEADLOCKS)
    asyncio.run(compete())
    assert _ask(made, DEADLOCKS) == before
    [[jobs, ids]] = _ask(
        made,
        "SELECT (SELECT count(*) FROM {0}._jobs WHERE key IS NULL),"
        " (SELECT count(DISTINCT i.id) FROM {0}._requests AS q CROSS JOIN LATERAL unnest(q.ids)"
        " AS i (id) JOIN {0}._jobs AS j ON j.id = i.id AND j.key IS NULL)",
    )
    assert jobs == ids == ROUNDS * sum(1 + n % 3 for n in range(KEYS))


def _check_round(asked: list[list[Request]], answers: list[list[Requested]]) -> None:
    """All are told the same ids, one of them that they are new; who asked for others, nothing."""
    told: dict[str, set[tuple[int, ...]]] = {}
    new: list[str] = []
    conflicts: dict[str, set[str]] = {}
    for requests, answered in zip(asked, answers, strict=True):
        for request, answer in zip(requests, answered, strict=True):
            if answer.is_conflict:
                assert answer == Requested(is_conflict=True)
                conflicts.setdefault(request.key, set()).add(request.digest)
                continue
            told.setdefault(request.key, set()).add(answer.ids)
            new += [request.key] * answer.is_new
            assert [job and job.id for job in answer.jobs] == list(answer.ids)
    assert [len(ids) for ids in told.values()] == [1] * KEYS
    assert sorted(new) == sorted(told)
    assert [len(digests) for digests in conflicts.values()] == [1]


def test_what_they_stand_for_is_told_as_it_is_now(made: Schema) -> None:
    """Also where they run in a batch, are kept, or gone."""

    async def ask() -> None:
        async with _servers(made) as [store]:
            store.claims.least_batch = 1
            request = Request("k", "d", (NewJob("t"), NewJob("t", keep=60.0), NewJob("later")))
            await store.enqueue_once([request])
            leases = await store.claim(ClaimRequest("w", ("t",), 5))
            [again] = await store.enqueue_once([request])
            assert [job and job.state for job in again.jobs] == ["running", "running", "ready"]
            assert again.jobs == tuple([await store.get(job_id) for job_id in again.ids])
            await store.settle([(lease, COMPLETE) for lease in leases])
            [again] = await store.enqueue_once([request])
            assert [job and job.state for job in again.jobs] == [None, "completed", "ready"]

    asyncio.run(ask())


def test_a_request_is_forgotten_after_its_time(made: Schema) -> None:
    clock = FakeClock()

    async def ask() -> None:
        async with _servers(made, clock=clock) as [store]:
            request = Request("k", "d", (NewJob("t"),))
            first, *_ = await store.enqueue_once([request, *_many(5)])
            clock.advance(REQUESTS_KEPT - 1)
            await store.prune(100)
            assert [it.is_new for it in await store.enqueue_once([request])] == [False]
            clock.advance(1)
            other = Request("k", "another", (NewJob("t"),))
            [second] = await store.enqueue_once([other])
            assert second.is_new
            assert second.ids != first.ids
            assert [await store.prune(2) for _ in range(4)] == [2, 2, 1, 0]
            assert _ask(made, "SELECT key, digest FROM {0}._requests") == [("k", "another")]

    asyncio.run(ask())


def _many(count: int) -> list[Request]:
    return [Request(f"more {n}", "d", (NewJob("t"),)) for n in range(count)]


def test_nothing_is_stored_where_one_is_refused(made: Schema) -> None:
    async def ask() -> None:
        async with _servers(made) as [store]:
            fine = Request("k", "d", (NewJob("t"),))
            with pytest.raises(ChainNotFoundError):
                await store.enqueue_once([fine, Request("b", "d", (NewJob("t", blockers=(9,)),))])
            with pytest.raises(StoreError):
                await store.enqueue_once([fine, Request("p", "d", (NewJob("t", payload="{"),))])
            assert await store.find(JobFilter()) == []
            [chain] = await store.start_chains([NewChain(job=NewJob("t"))])
            waiting = Request("b", "d", (NewJob("u", blockers=(chain.id,)), NewJob("v")))
            for is_new in (True, False):
                one, two = await store.enqueue_once([fine, waiting])
                assert (one.is_new, two.is_new) == (is_new, is_new)
                states = [job and job.state for job in two.jobs]
                assert states == [JobState.BLOCKED, JobState.READY]

    asyncio.run(ask())


def test_an_open_transaction_holds_up_only_what_needs_its_key(made: Schema) -> None:
    async def ask() -> None:
        async with _servers(made, 2) as [store, other]:
            with psycopg.connect(made.url) as user:
                user.execute(f"SELECT {made.name}.add_job('t', job_key := 'held')".encode())
                held = Request("k", "d", (NewJob("t", key="held"),))
                waiting = [
                    asyncio.create_task(each.enqueue_once([held])) for each in (store, other)
                ]
                await _until(made, WAITS)
                for each in (store, other):
                    for request in _many(20):
                        await each.enqueue_once([request])
                    await each.enqueue_once([Request("free", "d", (NewJob("t", key="free"),))])
                    await each.enqueue([NewJob("t")])
                    assert await each.claim(ClaimRequest("w", ("t",), 5))
                assert not any(task.done() for task in waiting)
            [[one], [two]] = await asyncio.gather(*waiting)
        assert one.ids == two.ids
        assert sorted([one.is_new, two.is_new]) == [False, True]

    asyncio.run(ask())


def test_a_server_that_is_killed_in_the_middle_leaves_all_or_nothing(made: Schema) -> None:
    """Its session is ended while it waits: it asks again by itself, and others go on at once."""

    async def ask() -> None:
        async with _servers(made, 2) as [store, other]:
            requests = [Request("a", "d", (NewJob("t"),)), Request("b", "d", (NewJob("t"),))]
            with psycopg.connect(made.url) as rival:
                row = "VALUES (now(), 1, '', 'b', 'd', NULL)"
                rival.execute(f"INSERT INTO {made.name}._requests {row}".encode())
                waiting = asyncio.create_task(store.enqueue_once(requests))
                await _until(made, WAITS)
                ended = f"SELECT pg_terminate_backend(w.pid, 5000) FROM ({WAITS}) AS w"
                await _until(made, ended)
                [first] = await other.enqueue_once(requests[:1])  # the other's waits are short
                rival.rollback()
            answers = await waiting
            assert {answer.ids for answer in answers} >= {first.ids}
            assert [it.is_new for it in answers] == [not first.is_new, True]
            again = await other.enqueue_once(requests)
            assert [it.ids for it in again] == [it.ids for it in answers]
            assert len(await store.find(JobFilter(limit=10))) == 2

    asyncio.run(ask())


def test_an_answer_that_is_lost_is_asked_for_again(pg: Cluster) -> None:
    """It says what the first call did: that call's jobs, and that they are new."""

    async def ask(url: str, proxy: FaultProxy) -> None:
        store = PostgresStore(proxy.url(), prepared_statements=False, listen=False)
        await store.open()
        try:
            dropped = proxy.drop_answer_after(b"_enqueue_once(")
            [answer] = await store.enqueue_once([Request("k", "d", (NewJob("t"),))])
            assert await asyncio.to_thread(dropped.wait, PATIENCE)
            assert answer.is_new
            assert [job.id for job in await store.find(JobFilter())] == [*answer.ids]
        finally:
            await store.close()

    with fresh_database(pg) as url:
        database = url.partition("?")[0].rpartition("/")[2]
        with FaultProxy("127.0.0.1", pg.port, database) as proxy:
            asyncio.run(ask(url, proxy))


def test_all_that_ask_for_a_secret_at_once_get_the_same(made: Schema) -> None:

    async def ask() -> None:
        async with _servers(made, SERVERS) as stores:
            for turn in range(10):
                told = await asyncio.gather(
                    *(store.secret(f"s{turn}", f"{n}") for n, store in enumerate(stores))
                )
                assert len(set(told)) == 1

    asyncio.run(ask())
