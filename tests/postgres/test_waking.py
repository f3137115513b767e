"""What wakes a worker on PostgreSQL. The poll interval is so long that polling would not do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.patience import PATIENCE
from tests.postgres.cluster import Schema
from windlass import App, Context, Retry
from windlass.errors import StoreError
from windlass.store.records import COMPLETE, ClaimRequest, Fail, NewJob
from windlass.stores.postgres import PostgresStore
from windlass.stores.postgres.rendering import channel

NEVER = 300.0


@pytest.fixture
def app(schema: Schema) -> App:
    return App(schema.url, schema=schema.name, poll_interval=NEVER)


def at_work(app: App, body: Callable[[], Awaitable[Any]]) -> Any:
    """Run `body` beside a worker that is listening."""

    async def whole() -> Any:
        async with app:
            listening = asyncio.Event()
            app.events.on("pool:listen:success", lambda **_: listening.set())
            runner = await app.run(handle_signals=False, concurrency=2)
            await asyncio.wait_for(listening.wait(), PATIENCE)
            try:
                return await asyncio.wait_for(body(), PATIENCE)
            finally:
                await runner.stop()

    return asyncio.run(whole())


def test_a_serial_queue_goes_on_when_its_job_ends(app: App) -> None:
    done: list[int] = []
    last = asyncio.Event()

    @app.task(queue="q")
    async def step(n: int) -> None:
        done.append(n)
        if n == 9:
            last.set()

    async def body() -> None:
        await step.aenqueue_many([{"n": n} for n in range(10)])
        await last.wait()

    at_work(app, body)
    assert done == list(range(10))


def test_with_one_slot_a_serial_queue_goes_before_less_urgent_jobs(app: App) -> None:
    """Its next job is claimable only once the one before is settled, when others lie buffered."""
    ran: list[str] = []

    @app.task
    async def t(name: str) -> None:
        ran.append(name)

    async def whole() -> None:
        async with app:
            await t.using(priority=10).aenqueue_many([{"name": "later"}] * 300)
            await t.using(queue="q").aenqueue_many([{"name": "serial"}] * 20)
            runner = await app.run(handle_signals=False, concurrency=1, once=True)
            await asyncio.wait_for(runner.wait(), PATIENCE)

    asyncio.run(whole())
    assert ran == ["serial"] * 20 + ["later"] * 300


def test_a_retry_and_a_delayed_job_are_on_time(app: App) -> None:
    attempts: list[int] = []
    done = asyncio.Event()

    @app.task(retry=Retry.fixed(0.2))
    async def again(ctx: Context) -> None:
        attempts.append(ctx.job.attempts)
        if ctx.job.attempts < 3:
            raise ValueError("not yet")
        done.set()

    async def body() -> None:
        await again.using(delay=0.2).aenqueue()
        await done.wait()

    at_work(app, body)
    assert attempts == [1, 2, 3]


WAYS = {
    "add_job": "SELECT {0}.add_job('soon', run_at := now() + interval '1 s')",
    "add_job with a key": "SELECT {0}.add_job('soon', run_at := now() + interval '1 s',"
    " job_key := 'k')",
    "add_jobs": "SELECT {0}.add_jobs(ARRAY[json_populate_record(NULL::{0}.job_spec,"
    " json_build_object('identifier', 'soon', 'run_at', now() + interval '1 s'))])",
    "reschedule_jobs": "SELECT {0}.reschedule_jobs(ARRAY[(SELECT id FROM {0}.jobs)],"
    " run_at := now() + interval '1 s')",
}
"""How another program schedules a job for a second from now, in SQL."""


@pytest.mark.slow
@pytest.mark.parametrize("way", [*WAYS, "client", "transaction"])
def test_a_job_that_another_program_schedules_for_soon_is_on_time(
    app: App, schema: Schema, way: str
) -> None:
    done = asyncio.Event()

    @app.task
    async def soon() -> None:
        done.set()

    async def body() -> None:
        async with App(schema.url, schema=schema.name) as other:
            with psycopg.connect(schema.url) as user:
                if way in WAYS:
                    if way == "reschedule_jobs":
                        await other.client.add_job("soon", delay=3_600)
                    user.execute(WAYS[way].format(schema.name).encode())
                elif way == "transaction":
                    await other.client.using(user).add_job("soon", delay=1.0)
                else:
                    await other.client.add_job("soon", delay=1.0)
            await done.wait()

    at_work(app, body)


def test_jobs_to_come_notify_once_in_a_transaction_and_only_if_they_are_due_soon(
    schema: Schema,
) -> None:
    asyncio.run(_installed(schema))
    add = f"SELECT {schema.name}.add_job('t', run_at := now() + interval '%s s')"

    def heard(*statements: str) -> list[str]:
        with psycopg.connect(schema.url, autocommit=True) as listener:
            listener.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel(schema.name))))
            with psycopg.connect(schema.url) as user:
                for statement in statements:
                    user.execute(statement.encode())
            # The server sends what was committed before it answers the next statement.
            listener.execute("SELECT 1")
            return [notice.payload for notice in listener.notifies(timeout=0)]

    far = f"SELECT {schema.name}.reschedule_jobs(array_agg(id), run_at := now() + interval '301 s')"
    assert heard(*[add % seconds for seconds in (301, 3_600)]) == []
    assert heard(*[add % seconds for seconds in (1, 299, 301)]) == ["due"]
    assert heard(add % 1, add % 0, add % 2, add % 0) == ["due", ""]
    assert heard(f"{far} FROM {schema.name}.jobs WHERE run_at > now()") == []
    near = far.replace("301 s", "299 s")
    assert heard(f"{near} FROM {schema.name}.jobs WHERE run_at > now()") == ["due"]


def test_a_retry_notifies_if_it_is_due_soon(schema: Schema) -> None:
    async def whole() -> None:
        store = PostgresStore(schema.url, schema_name=schema.name, listen=False)
        await store.open()
        await store.enqueue([NewJob("t")] * 2)
        leases = await store.claim(ClaimRequest(worker="w", tasks=("t",), limit=2))
        with psycopg.connect(schema.url, autocommit=True) as listener:
            listener.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel(schema.name))))
            for lease, delay, expected in zip(leases, (299, 301), (["due"], []), strict=True):
                await store.settle([(lease, Fail("no", delay=delay))])
                listener.execute("SELECT 1")  # the answer comes after what was sent before
                heard = [notice.payload for notice in listener.notifies(timeout=0)]
                assert heard == expected
        await store.close()

    asyncio.run(whole())


def test_keyed_adds_that_wait_stall_no_worker(app: App, schema: Schema) -> None:
    """Ten adds wait for one open transaction; a job of somebody else runs meanwhile."""
    ran = asyncio.Event()

    @app.task
    async def other() -> None:
        ran.set()

    async def body() -> None:
        with psycopg.connect(schema.url) as user:
            user.execute(f"SELECT {schema.name}.add_job('unknown', job_key := 'k')".encode())
            waiting = [
                asyncio.ensure_future(app.client.add_job("unknown", key="k")) for _ in range(10)
            ]
            await other.aenqueue()
            await ran.wait()
            assert not any(add.done() for add in waiting)
            user.rollback()
            jobs = await asyncio.gather(*waiting)
        assert len({job.id for job in jobs}) == 1

    at_work(app, body)


def test_what_one_worker_makes_ready_and_may_not_run_wakes_another(schema: Schema) -> None:
    """A claim that admits a job of another task, and takes one of its own, tells the others."""
    heard = threading.Event()

    async def whole() -> None:
        store = PostgresStore(schema.url, schema_name=schema.name)
        await store.open()
        try:
            await store.enqueue([NewJob("mine"), NewJob("theirs", queue="q")])
            listening = threading.Event()
            store.subscribe(heard.set, lambda error: listening.set())
            assert await asyncio.to_thread(listening.wait, PATIENCE)
            await asyncio.to_thread(heard.wait, PATIENCE)
            heard.clear()
            [lease] = await store.claim(ClaimRequest(worker="w", tasks=("mine",), limit=5))
            assert await asyncio.to_thread(heard.wait, PATIENCE)
            await store.settle([(lease, COMPLETE)])
        finally:
            await store.close()

    asyncio.run(whole())


def test_more_bells_than_one_look_answers(schema: Schema) -> None:
    """Bells of queues that have nothing waiting do not hide one that has."""

    async def whole() -> list[str]:
        store = PostgresStore(schema.url, schema_name=schema.name)
        await store.open()
        try:
            with psycopg.connect(schema.url) as user:
                user.execute(
                    (
                        f"INSERT INTO {schema.name}._bells (queue)"
                        " SELECT 'gone' || n FROM generate_series(1, 7000) AS n"
                    ).encode()
                )
            await store.enqueue([NewJob("t", queue="q")])
            leases = await store.claim(ClaimRequest(worker="w", tasks=("t",), limit=1))
            return [lease.task for lease in leases]
        finally:
            await store.close()

    assert asyncio.run(whole()) == ["t"]


def test_a_claim_that_was_cancelled_leaves_nothing_with_its_worker(schema: Schema) -> None:
    async def whole() -> tuple[int, int]:
        store = PostgresStore(schema.url, schema_name=schema.name)
        await store.open()
        try:
            await store.enqueue([NewJob("t")] * 2_000)
            claim = asyncio.ensure_future(
                store.claim(ClaimRequest(worker="w", tasks=("t",), limit=2_000))
            )
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            claim.cancel()
            await asyncio.gather(claim, return_exceptions=True)
            await store.retire("w")
            counts = await store.counts()
            return sum(counts.values()), sum(info.running for info in await store.workers())
        finally:
            await store.close()

    assert asyncio.run(whole()) == (2_000, 0)


async def _installed(schema: Schema) -> None:
    async with App(schema.url, schema=schema.name) as app:
        await app.migrate()


@pytest.mark.parametrize("without", ["grants", "schema"])
def test_a_worker_that_may_not_work_ends_and_says_so(schema: Schema, without: str) -> None:
    """Waiting would not help."""
    role = f"nobody_{schema.name}"
    with psycopg.connect(schema.url, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {role} LOGIN".encode())
        if without == "grants":
            asyncio.run(_installed(schema))
            owner.execute(f"GRANT USAGE ON SCHEMA {schema.name} TO {role}".encode())
        url = schema.url.replace("postgres@", f"{role}@")
        app = App(url, schema=schema.name, migrate="never")

        @app.task
        async def never() -> None: ...

        try:
            with pytest.raises(StoreError, match=r"may not|missing"):
                asyncio.run(asyncio.wait_for(app.run_once(), PATIENCE))
        finally:
            asyncio.run(app.close())
            owner.execute(f"DROP OWNED BY {role}".encode())
            owner.execute(f"DROP ROLE {role}".encode())
