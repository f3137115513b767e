"""Schedules on PostgreSQL: its own clock, its locks, and firings that never commit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.faults.kit import until
from tests.postgres.cluster import Cluster, Schema
from windlass.clock import to_micros
from windlass.errors import StoreBusyError
from windlass.model.cron import Schedule
from windlass.store.records import JobFilter, NewJob
from windlass.store.schedules import Fired, FireVerdict
from windlass.stores.postgres import PostgresStore

SECOND = 1_000_000
ONE_JOB = '[{"task":"t","payload":{}}]'


@asynccontextmanager
async def opened(schema: Schema) -> AsyncIterator[PostgresStore]:
    """A store that has no clock but the database's."""
    store = PostgresStore(schema.url, schema_name=schema.name)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def a_schedule(identifier: str) -> Schedule:
    return Schedule(identifier=identifier, task="t", pattern="* * * * *")


async def begin(store: PostgresStore, schema: Schema, *identifiers: str) -> int:
    """Know schedules whose floor is a minute ago: that instant."""
    await store.register([a_schedule(name) for name in identifiers])
    with connect(schema) as connection:
        connection.execute(
            "UPDATE _schedules SET floor_at = date_trunc('second', now()) - interval '60s'"
        )
        [floor] = connection.execute("SELECT floor_at FROM _schedules").fetchone() or [None]
    assert floor is not None
    return to_micros(floor)


def connect(schema: Schema) -> psycopg.Connection[Any]:
    """A session that finds the schema's own names."""
    connection = psycopg.connect(schema.url)
    name = sql.Identifier(schema.name)
    connection.execute(sql.SQL("SET search_path = {}").format(name))
    connection.commit()
    return connection


async def tasks_of(store: PostgresStore) -> list[str]:
    return [job.task for job in reversed(await store.find(JobFilter()))]


def fire_in(connection: psycopg.Connection[Any], floor: int, instant: int) -> None:
    """Fire `s` in the connection's transaction, which stays open."""
    row = connection.execute(
        "SELECT verdict FROM _fire('', 's', timestamptz 'epoch' + %s * interval '1 microsecond',"
        " timestamptz 'epoch' + %s * interval '1 microsecond', %s, false)",
        [floor, instant, ONE_JOB],
    ).fetchone()
    assert row == ("applied",)


async def wait_for_a_rival(schema: Schema, pid: int) -> None:
    """Until somebody waits for a lock of this server process."""

    def is_waited_for() -> bool:
        with psycopg.connect(schema.url) as connection:
            row = connection.execute(
                "SELECT count(*) FROM pg_locks AS l"
                " WHERE NOT l.granted AND %s = ANY (pg_blocking_pids(l.pid))",
                [pid],
            ).fetchone()
        assert row is not None
        return bool(row[0])

    await asyncio.to_thread(until, is_waited_for, "a rival that waits")


def test_the_databases_clock_decides(schema: Schema) -> None:
    async def check() -> None:
        async with opened(schema) as store:
            before = await store.now()
            [known] = await store.register([a_schedule("s")])
            after = await store.now()
            assert before <= known.known_since == known.floor_at == known.seen_at <= after
            soon = after + 3600 * SECOND
            answer = await store.fire("s", known.floor_at, soon, [NewJob("t")])
            assert answer == Fired(FireVerdict.EARLY, known.floor_at)
            paused = await store.pause_schedule("s")
            assert paused is not None and paused.paused_at is not None
            resumed = await store.resume_schedule("s")
            assert resumed is not None
            assert after <= paused.paused_at <= resumed.floor_at <= await store.now()
            assert await tasks_of(store) == []

    asyncio.run(check())


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_rival_waits_for_an_open_firing(schema: Schema, end: str) -> None:
    """What commits has won; what never does, as of a worker killed just before, fired nothing."""

    async def check() -> None:
        async with opened(schema) as store:
            floor = await begin(store, schema, "s")
            instant = floor + 10 * SECOND
            with connect(schema) as first:
                fire_in(first, floor, instant)
                assert await tasks_of(store) == []
                firing = asyncio.create_task(
                    store.fire("s", floor, floor + 20 * SECOND, [NewJob("rival")])
                )
                await wait_for_a_rival(schema, first.info.backend_pid)
                getattr(first, end)()
            if end == "commit":
                assert await firing == Fired(FireVerdict.LOST, instant)
                assert await tasks_of(store) == ["t"]
            else:
                assert await firing == Fired(FireVerdict.APPLIED, floor + 20 * SECOND)
                assert await tasks_of(store) == ["rival"]

    asyncio.run(check())


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ("_pause_schedule", FireVerdict.PAUSED),
        ("_forget_schedule", FireVerdict.MISSING),
    ],
)
def test_a_rival_waits_for_an_operator(schema: Schema, change: str, answer: FireVerdict) -> None:
    async def check() -> None:
        async with opened(schema) as store:
            floor = await begin(store, schema, "s")
            with connect(schema) as operator:
                operator.execute(
                    sql.SQL("SELECT * FROM {}('', 's')").format(sql.Identifier(change))
                )
                firing = asyncio.create_task(
                    store.fire("s", floor, floor + SECOND, [NewJob("rival")])
                )
                await wait_for_a_rival(schema, operator.info.backend_pid)
                operator.commit()
            assert (await firing).verdict is answer
            assert await tasks_of(store) == []

    asyncio.run(check())


def test_a_held_schedule_holds_up_no_other(schema: Schema) -> None:
    """Whoever waits for it in vain is told so; it is fired when it is let go."""

    async def check() -> None:
        async with opened(schema) as store:
            floor = await begin(store, schema, "other", "s")
            with connect(schema) as holder:
                holder.execute("SELECT FROM _schedules WHERE identifier = 's' FOR UPDATE")
                fired = await store.fire("other", floor, floor + SECOND, [NewJob("other")])
                assert fired.verdict is FireVerdict.APPLIED
                with pytest.raises(StoreBusyError):
                    await store.fire("s", floor, floor + SECOND, [NewJob("s")])
                assert await tasks_of(store) == ["other"]
            fired = await store.fire("s", floor, floor + SECOND, [NewJob("s")])
            assert fired.verdict is FireVerdict.APPLIED
            assert await tasks_of(store) == ["other", "s"]

    asyncio.run(check())


def test_a_job_that_cannot_be_stored_leaves_the_schedule(schema: Schema) -> None:
    """The statement fails after the schedule was moved, and takes that back with it."""

    async def check() -> None:
        async with opened(schema) as store:
            floor = await begin(store, schema, "s")
            with connect(schema) as connection:
                connection.execute(
                    "ALTER TABLE _jobs ADD CONSTRAINT no_such_task CHECK (task <> 'refused')"
                )
            for key in (None, "k"):
                jobs = [NewJob("t"), NewJob("refused", key=key)]
                with pytest.raises(Exception, match="no_such_task"):
                    await store.fire("s", floor, floor + SECOND, jobs)
                [known] = await store.schedules()
                assert (known.floor_at, known.last_at) == (floor, None)
                assert await tasks_of(store) == []

    asyncio.run(check())


def test_opposite_orders_never_deadlock(pg: Cluster, schema: Schema) -> None:
    """A deadlock would be tried again and hardly be seen, except in the server's log."""
    names = [f"s{n:03}" for n in range(200)]
    orders = [names, names[::-1]] * 2

    async def check() -> None:
        async with AsyncExitStack() as stack:
            stores = [await stack.enter_async_context(opened(schema)) for _ in orders]
            floor = await begin(stores[0], schema, *names)
            for step in range(6):
                known = await asyncio.gather(
                    *(
                        store.register([a_schedule(name) for name in order])
                        for store, order in zip(stores, orders, strict=True)
                    )
                )
                assert [[each.identifier for each in told] for told in known] == orders
                fired = await asyncio.gather(
                    *(
                        store.fire(
                            names[number],
                            floor + step,
                            floor + step + 1,
                            [NewJob("t", key=name) for name in order],
                        )
                        for number, (store, order) in enumerate(zip(stores, orders, strict=True))
                    )
                )
                assert {answer.verdict for answer in fired} == {FireVerdict.APPLIED}
            assert len(await stores[0].find(JobFilter(limit=1000))) == len(names)

    mark = len(pg.log())
    asyncio.run(check())
    assert "deadlock detected" not in pg.log()[mark:]
