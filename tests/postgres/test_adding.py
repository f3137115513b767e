"""Adding jobs from event loops: what it costs in calls and connections, and what may go wrong."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from tests.postgres.cluster import Schema
from windlass import App, Job
from windlass.errors import OutcomeUnknownError, StoreBusyError, StoreError
from windlass.model.job import JobSpec
from windlass.store.records import NewJob
from windlass.stores.postgres import PostgresStore, keyed
from windlass.stores.postgres_connections import loop_calls

LATER = datetime(2090, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
PLAIN: list[dict[str, Any]] = [
    {},
    {"payload": [1, "ä€", None, {"a": {}}]},
    {"payload": "text"},
    {"queue": "q"},
    {"queue": "q", "run_at": LATER, "priority": -3},
    {"delay": timedelta(days=3), "max_attempts": 7},
    {"flags": ["one", 'two"\\,{}'], "keep": 60.5, "payload": {"null": None}},
    {"run_at": datetime(2001, 1, 1, tzinfo=UTC)},
]


@asynccontextmanager
async def opened(schema: Schema, **options: Any) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(schema.url, schema_name=schema.name, **options)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@contextmanager
def watching(schema: Schema) -> Iterator[Callable[[], list[int]]]:
    """Who is connected to the schema's database besides this function: process ids."""
    with psycopg.connect(schema.url, autocommit=True) as connection:
        others = "pid <> pg_backend_pid() AND backend_type = 'client backend'"

        def look() -> list[int]:
            found = connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
                f" AND {others} AND application_name = 'windlass' AND query LIKE %s".encode(),
                [f"%{schema.name}%"],
            )
            return [pid for [pid] in found]

        yield look


@contextmanager
def locked(schema: Schema) -> Iterator[psycopg.Connection]:
    """Nobody can add a job until the transaction of this connection ends."""
    with psycopg.connect(schema.url) as connection:
        connection.execute(f'LOCK TABLE "{schema.name}"._jobs IN SHARE MODE'.encode())
        yield connection


async def waits_for_the_lock(connection: psycopg.Connection) -> None:
    """Return when a call of somebody else waits for what this connection holds."""
    statement = "SELECT FROM pg_locks AS l WHERE NOT granted AND pg_backend_pid() = ANY(%s)"
    statement = statement.replace("%s", "pg_blocking_pids(l.pid)")
    async with asyncio.timeout(30):
        while connection.execute(statement.encode()).fetchone() is None:
            await asyncio.sleep(0.005)


def test_one_after_the_other_is_one_call_each_on_one_connection(schema: Schema) -> None:
    async def count() -> tuple[list[int], int]:
        async with opened(schema) as store:
            threads = threading.active_count()
            calls = []
            for n in range(8):
                before = store.statements
                await store.enqueue([NewJob("t", f'{{"n":{n}}}')])
                calls.append(store.statements - before)
            assert threading.active_count() == threads + 1  # the one that once connected
            with watching(schema) as look:
                return calls, len(look())

    assert asyncio.run(count()) == ([1] * 8, 1)


def test_a_batch_is_one_call(schema: Schema) -> None:
    async def count() -> tuple[int, int]:
        async with opened(schema) as store:
            before = store.statements
            await store.enqueue([NewJob("t", str(n)) for n in range(1_000)])
            alike = store.statements
            await store.enqueue([NewJob(f"t{n}") for n in range(1_000)])
            return alike - before, store.statements - alike

    assert asyncio.run(count()) == (1, 1)


def test_sixteen_at_once_share_calls(schema: Schema) -> None:
    async def count() -> int:
        async with opened(schema) as store:
            await store.enqueue([NewJob("first")])
            before = store.statements

            async def add_five() -> None:
                for _ in range(5):
                    await store.enqueue([NewJob("t")])

            await asyncio.gather(*(add_five() for _ in range(16)))
            assert sum((await store.counts()).values()) == 81
            return store.statements - before - 1

    assert asyncio.run(count()) == 6  # one alone, then four times sixteen, then fifteen


@pytest.mark.parametrize("options", PLAIN, ids=str)
def test_what_comes_back_is_what_is_there(schema: Schema, options: dict[str, Any]) -> None:
    async def both(together: bool) -> tuple[list[Job], list[Job]]:
        async with App(schema.url, schema=schema.name) as app:
            specs = [JobSpec("t", **options) for _ in range(3)]
            if together:
                specs.insert(1, JobSpec("other", {"in": "between"}))
            added = await app.client.add_jobs(specs)
            found = await app.client.list_jobs(ids=[job.id for job in added])
            return added, found[::-1]

    for together in (False, True):
        added, found = asyncio.run(both(together))
        assert added == found
        assert [job.task for job in added] == ["t", *["other"] * together, "t", "t"]


def test_payloads_keep_their_order_and_come_in_any_size(schema: Schema) -> None:
    """More than a socket takes at once goes out bit by bit."""
    payloads = [f'["{n}{"x" * (n % 3) * 200_000}"]' for n in range(40)]

    async def add() -> list[Job]:
        async with opened(schema) as store:
            added = await store.enqueue([NewJob("t", payload) for payload in payloads])
            assert await store.get(added[-1].id) == added[-1]
            assert added == sorted(added, key=lambda job: job.id)
            return added

    assert [job.payload[0][:2].strip("x") for job in asyncio.run(add())] == [
        str(n) for n in range(40)
    ]


def test_loops_and_threads_share_a_store(schema: Schema) -> None:
    async def all_at_once() -> int:
        async with opened(schema) as store:

            async def add(name: str) -> None:
                for n in range(10):
                    await store.enqueue([NewJob(name, str(n))])

            threads = [asyncio.to_thread(asyncio.run, add(f"t{n}")) for n in range(4)]
            await asyncio.gather(*threads, add("here"))
            with watching(schema) as look:
                assert len(look()) <= 5
            for n in range(3):  # a loop of its own each time, and the same connections
                await asyncio.to_thread(asyncio.run, add(f"again {n}"))
            with watching(schema) as look:
                assert len(look()) <= 5
            return sum((await store.counts()).values())

    assert asyncio.run(all_at_once()) == 80


def test_a_connection_the_server_closed_is_replaced(schema: Schema) -> None:
    async def scenario() -> None:
        async with opened(schema) as store:
            await store.enqueue([NewJob("before")])
            with watching(schema) as look:
                pids = look()
                with psycopg.connect(schema.url, autocommit=True) as connection:
                    connection.execute(
                        "SELECT pg_terminate_backend(pid, 5000) FROM unnest(%s::int[]) AS pid",
                        [pids],
                    )
                await store.enqueue([NewJob("after")])
                assert pids
                assert not set(pids) & set(look())

    asyncio.run(scenario())


def test_a_server_that_falls_silent(schema: Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows what became of it; the next call is made on another connection."""

    async def scenario() -> None:
        async with opened(schema) as store:
            await store.enqueue([NewJob("before")])
            with locked(schema) as holder:
                with monkeypatch.context() as patch:
                    patch.setattr(loop_calls, "CALL_LIMIT", 0.2)
                    with pytest.raises(OutcomeUnknownError, match=r"within 0\.2 s"):
                        await store.enqueue([NewJob("silent")])
                holder.rollback()
            assert [job.task for job in await store.enqueue([NewJob("after")])] == ["after"]

    asyncio.run(scenario())


def test_a_cancelled_call_leaves_the_store_usable(schema: Schema) -> None:
    async def scenario() -> None:
        async with opened(schema) as store:
            await store.enqueue([NewJob("before")])
            with locked(schema) as holder:
                calls = [
                    asyncio.ensure_future(store.enqueue([NewJob(name)])) for name in ("a", "b", "c")
                ]
                await waits_for_the_lock(holder)
                calls[0].cancel()
                calls[1].cancel()
                await asyncio.wait(calls[:2])
                holder.rollback()
            assert [job.task for job in await calls[2]] == ["c"]
            await store.enqueue([NewJob("after")])

    asyncio.run(scenario())


def test_closing_waits_for_calls_that_are_under_way(schema: Schema) -> None:
    async def scenario() -> None:
        async with opened(schema) as store:
            with locked(schema) as holder:
                adding = asyncio.ensure_future(store.enqueue([NewJob("t")]))
                await waits_for_the_lock(holder)
                closing = asyncio.ensure_future(store.close())
                await asyncio.wait({closing}, timeout=0.05)
                assert not closing.done()
                holder.rollback()
            assert [job.task for job in await adding] == ["t"]
            await closing
            with pytest.raises(StoreError, match="not open"):
                await store.enqueue([NewJob("t")])

    asyncio.run(scenario())


def test_a_loop_that_ends_during_a_call_leaves_nothing_behind(schema: Schema) -> None:
    """asyncio.run cancels what is under way; the connection goes with it."""

    async def begin(store: PostgresStore, holder: psycopg.Connection) -> None:
        asyncio.ensure_future(store.enqueue([NewJob("t")]))  # noqa: RUF006
        await waits_for_the_lock(holder)

    async def scenario() -> None:
        async with opened(schema) as store:
            with locked(schema) as holder:
                await asyncio.to_thread(asyncio.run, begin(store, holder))
                holder.rollback()
            await store.enqueue([NewJob("after")])

    asyncio.run(scenario())


@pytest.mark.parametrize("prepared", [True, False])
def test_statements_are_prepared_only_in_sessions_of_our_own(
    schema: Schema, prepared: bool
) -> None:
    async def scenario() -> Any:
        async with opened(schema, prepared_statements=prepared) as store:
            for _ in range(3):
                await store.enqueue([NewJob("t")])
            assert store._calls._loop_calls is not None
            connection = store._calls._loop_calls._idle[0].connection
            found = connection.execute("SELECT name FROM pg_prepared_statements").fetchall()
            return [name for [name] in found]

    assert asyncio.run(scenario()) == (["windlass_0"] if prepared else [])


def test_a_connection_is_made_when_it_is_needed_and_used_again(
    schema: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    connect: Callable[..., Any] = psycopg.Connection.connect.__func__  # type: ignore[attr-defined]

    def counted(cls: Any, *args: Any, **options: Any) -> Any:
        made.append(cls)
        return connect(cls, *args, **options)

    monkeypatch.setattr(psycopg.Connection, "connect", classmethod(counted))

    def run(scenario: Coroutine[Any, Any, None]) -> int:
        made.clear()
        asyncio.run(scenario)
        return len(made)

    async def nothing() -> None:
        async with opened(schema):
            pass

    async def one() -> None:
        async with opened(schema) as store:
            await store.enqueue([NewJob("t")])

    async def others() -> None:
        async with opened(schema) as store:
            for _ in range(5):
                await store.counts()
                await store.workers()

    # The first looks at the schema.
    assert [run(nothing()), run(one()), run(others())] == [1, 2, 2]


def test_adds_that_wait_for_a_held_key_hold_up_no_other(schema: Schema) -> None:
    """However many there are; they use a few connections, and go on when the key is free."""
    held, adds = 4, 60

    async def work() -> None:
        async with opened(schema, listen=False) as store:
            await store.enqueue([NewJob("t", key=f"held {n}") for n in range(held)])
            with psycopg.connect(schema.url) as other, watching(schema) as look:
                other.execute(f'SELECT FROM "{schema.name}"._jobs FOR UPDATE'.encode())
                blocked = [
                    asyncio.create_task(store.enqueue([NewJob("new", key=f"held {n % held}")]))
                    for n in range(adds)
                ]
                await waits_for_the_lock(other)
                for n in range(20):
                    [job] = await store.enqueue([NewJob("t", key=f"free {n}")])
                    assert job.key == f"free {n}"
                both = [NewJob("both", key="held 1"), NewJob("both", key="free 1")]
                blocked.append(asyncio.create_task(store.enqueue(both)))
                await store.enqueue([NewJob("t", key="free 2")])
                assert not any(task.done() for task in blocked)
                assert len(look()) <= 12
            answers = await asyncio.gather(*blocked)
            assert all(job.task in ("new", "both") for jobs in answers for job in jobs)
            assert sum((await store.counts()).values()) == held + 20

    asyncio.run(work())


def test_an_add_gives_up_when_its_key_is_held_too_long(
    schema: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyed, "MOST_WAIT", 0.1)

    async def work() -> None:
        async with opened(schema, listen=False) as store:
            [job] = await store.enqueue([NewJob("t", key="k")])
            with psycopg.connect(schema.url) as other:
                other.execute(f'SELECT FROM "{schema.name}"._jobs FOR UPDATE'.encode())
                for _ in range(2):
                    with pytest.raises(StoreBusyError, match="open transaction"):
                        await store.enqueue([NewJob("t", key="k")])
            [again] = await store.enqueue([NewJob("t", key="k")])
            assert (again.id, again.revision) == (job.id, 1)

    asyncio.run(work())
