"""Handlers on a real server: their writes and the end of their jobs, in one transaction."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import psycopg
import pytest

from tests.patience import PATIENCE
from tests.postgres.cluster import Cluster, Schema, fresh_schema, shared_cluster
from tests.postgres.proxy import FaultProxy
from tests.postgres.versions import VERSIONS
from windlass import App, Context, JobState, Retry, SyncContext
from windlass.errors import LeaseLostError
from windlass.model.job import Job
from windlass.store.records import COMPLETE, ClaimRequest, NewChain, NewJob
from windlass.stores.postgres import PostgresStore
from windlass.stores.postgres.job_ending import JobEnding
from windlass.stores.postgres_connections import pool
from windlass.stores.postgres_connections.transaction import _has_committed

Steps = Generator[Any, Any, None]
T = TypeVar("T")

KINDS = ["async def", "def"]


@pytest.fixture(scope="module", params=VERSIONS)
def cluster(request: pytest.FixtureRequest) -> Cluster:
    return shared_cluster(request.param)


@pytest.fixture
def schema(cluster: Cluster) -> Iterator[Schema]:
    """A schema, with a table of the handlers' own in it."""
    with fresh_schema(cluster) as schema:
        with psycopg.connect(schema.url) as connection:
            connection.execute(f'CREATE SCHEMA "{schema.name}"'.encode())
            connection.execute(f'CREATE TABLE "{schema.name}".effects (n integer)'.encode())
        yield schema


def make_app(url: str, schema: Schema, **settings: Any) -> App:
    return App(
        url,
        schema=schema.name,
        poll_interval=0.2,
        keep=60,
        retry=Retry.fixed(0, jitter=0),
        **settings,
    )


@pytest.fixture
def app(schema: Schema) -> App:
    return make_app(schema.url, schema)


def insert(schema: Schema) -> str:
    return f'INSERT INTO "{schema.name}".effects VALUES (%s)'


def effects(schema: Schema) -> list[int]:
    with psycopg.connect(schema.url) as connection:
        found = connection.execute(f'SELECT n FROM "{schema.name}".effects ORDER BY n'.encode())
        return [row[0] for row in found.fetchall()]


def run(app: App, body: Callable[[], Awaitable[Any]]) -> Any:
    async def whole() -> Any:
        async with app:
            return await body()

    return asyncio.run(whole())


async def worked(app: App, task: Any, **payload: Any) -> Job:
    """The job after a worker has run all there was to run."""
    job = await task.aenqueue(**payload)
    await app.run_once()
    found = await app.client.get_job(job.id)
    assert found is not None
    return found


def declare(
    app: App, kind: str, body: Callable[[Any, Any], Steps], name: str = "effect", **options: Any
) -> Any:
    """A task of either kind whose transaction does what `body(ctx, tx)` says, step by step.

    In an `async def` what it yields is awaited; in a plain function it is the answer already.
    """

    async def on_loop(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            steps = body(ctx, tx)
            answer = None
            while True:
                try:
                    step = steps.send(answer)
                except StopIteration:
                    return
                answer = await step if inspect.isawaitable(step) else step

    def in_thread(ctx: SyncContext) -> None:
        with ctx.transaction() as tx:
            steps = body(ctx, tx)
            answer = None
            while True:
                try:
                    answer = steps.send(answer)
                except StopIteration:
                    return

    declare: Any = app.task(name=name, **options)
    return declare(on_loop if kind == "async def" else in_thread)


def unlock_workers(schema: Schema) -> None:
    """What another program does when it thinks that the workers are dead."""
    name = f'"{schema.name}"'
    held = f"SELECT DISTINCT locked_by FROM {name}.jobs WHERE locked_by IS NOT NULL"
    with psycopg.connect(schema.url) as connection:
        connection.execute(
            f"SELECT count(*) FROM {name}.force_unlock_workers(ARRAY({held}))".encode()
        )


# ── together or not at all ──


@pytest.mark.parametrize("kind", KINDS)
def test_writes_and_completion_commit_together(app: App, schema: Schema, kind: str) -> None:
    seen: list[Any] = []

    def body(ctx: Any, tx: Any) -> Steps:
        seen.append((yield tx.execute(insert(schema) + " RETURNING n, 'x%%'", (7,))))
        seen.append((yield tx.execute("SELECT '%'")))
        seen.append((yield tx.execute("SELECT %(a)s::int", {"a": 3})))
        seen.append((yield tx.execute(insert(schema), [8])))
        yield tx.complete({"n": 7})
        seen.append(effects(schema))

    job = run(app, lambda: worked(app, declare(app, kind, body)))
    assert (job.state, job.output, job.attempts) == (JobState.COMPLETED, {"n": 7}, 1)
    assert seen == [[(7, "x%")], [("%",)], [(3,)], [], []]
    assert effects(schema) == [7, 8]


@pytest.mark.parametrize("kind", KINDS)
def test_an_exception_rolls_both_back_and_the_job_is_retried(
    app: App, schema: Schema, kind: str
) -> None:
    def body(ctx: Any, tx: Any) -> Steps:
        yield tx.execute(insert(schema), [ctx.job.attempts])
        yield tx.complete()
        if ctx.job.attempts < 3:
            raise ValueError("not yet")

    job = run(app, lambda: worked(app, declare(app, kind, body)))
    assert (job.state, job.attempts) == (JobState.COMPLETED, 3)
    assert effects(schema) == [3]


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_attempt_rolls_back_too(app: App, schema: Schema, kind: str) -> None:
    def body(ctx: Any, tx: Any) -> Steps:
        yield tx.execute(insert(schema), [ctx.job.attempts])
        yield tx.complete()
        yield tx.execute("SELECT 1 / 0")

    job = run(app, lambda: worked(app, declare(app, kind, body, max_attempts=2)))
    assert (job.state, job.attempts) == (JobState.FAILED, 2)
    assert job.last_error is not None and "DivisionByZero" in job.last_error
    assert effects(schema) == []


@pytest.mark.parametrize("kind", KINDS)
def test_without_completion_the_return_completes_the_job(
    app: App, schema: Schema, kind: str
) -> None:
    def body(ctx: Any, tx: Any) -> Steps:
        yield tx.execute(insert(schema), [1])

    job = run(app, lambda: worked(app, declare(app, kind, body)))
    assert job.state is JobState.COMPLETED
    assert effects(schema) == [1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_lease_rolls_back(app: App, schema: Schema, kind: str) -> None:
    deliveries: list[int] = []

    def body(ctx: Any, tx: Any) -> Steps:
        deliveries.append(1)
        yield tx.execute(insert(schema), [len(deliveries)])
        if len(deliveries) == 1:
            unlock_workers(schema)
        yield tx.complete()

    job = run(app, lambda: worked(app, declare(app, kind, body)))
    assert job.state is JobState.COMPLETED
    assert effects(schema) == [2]


def test_a_lost_lease_rolls_back_even_where_the_handler_does_not_care(
    app: App, schema: Schema
) -> None:
    deliveries: list[int] = []

    @app.task
    async def effect(ctx: Context) -> None:
        deliveries.append(1)
        async with ctx.transaction() as tx:
            await tx.execute(insert(schema), [len(deliveries)])
            if len(deliveries) == 1:
                unlock_workers(schema)
            try:
                await tx.complete()
            except LeaseLostError:
                pass

    job = run(app, lambda: worked(app, effect))
    assert job.state is JobState.COMPLETED
    assert effects(schema) == [2]


def test_a_failed_statement_that_was_caught_fails_the_transaction(app: App, schema: Schema) -> None:
    """The server would answer COMMIT by a silent rollback, and the job would be nobody's."""

    @app.task
    async def effect(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            await tx.execute(insert(schema), [ctx.job.attempts])
            await tx.complete()
            if ctx.job.attempts == 1:
                try:
                    await tx.execute("SELECT 1 / 0")
                except psycopg.Error:
                    pass

    job = run(app, lambda: worked(app, effect))
    assert (job.state, job.attempts) == (JobState.COMPLETED, 2)
    assert job.last_error is not None and "a statement in this transaction" in job.last_error
    assert effects(schema) == [2]


def test_the_connection_cannot_commit_behind_our_back(app: App, schema: Schema) -> None:
    refused: list[str] = []

    @app.task(max_attempts=1)
    def effect(ctx: SyncContext) -> None:
        with ctx.transaction() as tx:
            with tx.connection.transaction():
                tx.execute(insert(schema), [1])
            assert effects(schema) == []
            with tx.connection.transaction(force_rollback=True):
                tx.execute(insert(schema), [2])
            for end in (tx.connection.commit, tx.connection.rollback):
                try:
                    end()
                except psycopg.ProgrammingError as error:
                    refused.append(str(error))
            tx.complete()

    job = run(app, lambda: worked(app, effect))
    assert job.state is JobState.COMPLETED
    assert len(refused) == 2
    assert effects(schema) == [1]


def test_what_the_commit_itself_refuses_is_the_jobs_error(app: App, schema: Schema) -> None:
    with psycopg.connect(schema.url) as connection:
        connection.execute(
            f'ALTER TABLE "{schema.name}".effects ADD CONSTRAINT once UNIQUE (n)'
            " DEFERRABLE INITIALLY DEFERRED".encode()
        )

    def body(ctx: Any, tx: Any) -> Steps:
        yield tx.execute(insert(schema), [1])
        yield tx.execute(insert(schema), [ctx.job.attempts])
        yield tx.complete()

    job = run(app, lambda: worked(app, declare(app, "async def", body)))
    assert (job.state, job.attempts) == (JobState.COMPLETED, 2)
    assert job.last_error is not None and "once" in job.last_error
    assert effects(schema) == [1, 2]


# ── a COMMIT that nobody answered ──


@pytest.mark.parametrize("table", ["_jobs", "_chains"])
def test_a_lock_of_the_servers_own_is_waited_for(schema: Schema, table: str) -> None:
    """As while a table grows on a slow disk: the handler's work must not be undone by it."""

    def waits_long(watcher: psycopg.Connection[Any]) -> bool:
        found = watcher.execute(
            "SELECT FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid) WHERE NOT l.granted"
            " AND l.relation = %s::regclass"
            " AND a.query_start < clock_timestamp() - interval '100 ms'",
            [f'"{schema.name}".{table}'],
        )
        return found.fetchone() is not None

    async def scenario() -> None:
        store = PostgresStore(schema.url, schema_name=schema.name)
        await store.open()
        try:
            if table == "_chains":
                await store.start_chains([NewChain(job=NewJob("t"))])
            else:
                await store.enqueue([NewJob("t")])
            [lease] = await store.claim(ClaimRequest("w", ("t",), 1))

            def handle() -> None:
                with store.transaction(lease) as tx:
                    tx.execute(insert(schema), [1])
                    tx.complete(COMPLETE)

            with (
                psycopg.connect(schema.url) as rival,
                psycopg.connect(schema.url, autocommit=True) as watcher,
            ):
                rival.execute(f'LOCK TABLE "{schema.name}".{table} IN SHARE MODE'.encode())
                handling = asyncio.create_task(asyncio.to_thread(handle))
                while not handling.done() and not waits_long(watcher):
                    await asyncio.sleep(0.01)
                rival.rollback()
            await handling
        finally:
            await store.close()

    asyncio.run(scenario())
    assert effects(schema) == [1]


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[FaultProxy]:
    with FaultProxy("127.0.0.1", cluster.port, cluster.shared_database()) as proxy:
        yield proxy


def proxied(proxy: FaultProxy, cluster: Cluster, schema: Schema) -> App:
    url = f"postgresql://postgres@127.0.0.1:{proxy.port}/{cluster.shared_database()}"
    return make_app(url, schema)


@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_answer_to_a_commit_that_happened(
    proxy: FaultProxy, cluster: Cluster, schema: Schema, kind: str
) -> None:
    app = proxied(proxy, cluster, schema)
    deliveries: list[int] = []

    def body(ctx: Any, tx: Any) -> Steps:
        deliveries.append(1)
        yield tx.execute(insert(schema), [len(deliveries)])
        yield tx.complete("once")

    async def work() -> Any:
        dropped = proxy.drop_next_commit_answer(after=b"effects")
        job = await worked(app, declare(app, kind, body))
        assert dropped.is_set()
        return job

    job = run(app, work)
    assert (job.state, job.output, job.attempts) == (JobState.COMPLETED, "once", 1)
    assert effects(schema) == [1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", ["cut", "terminate"])
def test_a_connection_lost_before_its_commit(
    proxy: FaultProxy, cluster: Cluster, schema: Schema, kind: str, fault: str
) -> None:
    app = proxied(proxy, cluster, schema)
    deliveries: list[int] = []

    def body(ctx: Any, tx: Any) -> Steps:
        deliveries.append(1)
        yield tx.execute(insert(schema), [len(deliveries)])
        yield tx.complete()
        if len(deliveries) == 1:
            if fault == "cut":
                proxy.cut()
            else:
                with cluster.connect() as connection:
                    connection.execute(
                        "SELECT pg_terminate_backend(%s, 5000)", [tx.connection.info.backend_pid]
                    )

    job = run(app, lambda: worked(app, declare(app, kind, body)))
    assert job.state is JobState.COMPLETED
    assert job.last_error is not None and "rolled back" in job.last_error
    assert effects(schema) == [2]


def test_numbers_of_transactions_on_another_server(schema: Schema) -> None:
    """After a failover the number may be unknown, or somebody else's: the lease decides."""

    async def scenario() -> None:
        store = PostgresStore(schema.url, schema_name=schema.name, listen=False)
        await store.open()
        await store.enqueue([NewJob("t")])
        [lease] = await store.claim(ClaimRequest("w", ("t",), 1))
        with psycopg.connect(schema.url) as connection:
            found = connection.execute("SELECT pg_current_xact_id()::text").fetchone()
        assert found is not None
        ending = JobEnding(f'"{schema.name}"', lease, lambda: None)
        for number in (found[0], str(int(found[0]) + 1_000_000)):
            assert _has_committed(store._address, ending, number) is False
        await store.close()

    asyncio.run(scenario())


# ── jobs added inside ──


@pytest.mark.parametrize("way", ["handle", "context", "client", "sync handle", "sync client"])
def test_jobs_added_inside_belong_to_the_transaction(app: App, schema: Schema, way: str) -> None:
    @app.task
    async def after(n: int) -> None: ...

    async def add(ctx: Context, n: int) -> None:
        match way:
            case "handle":
                await after.aenqueue(n=n)
            case "context":
                await ctx.add_job("after", {"n": n})
            case "client":
                await app.client.add_job("after", {"n": n}, key=f"k{n}")
            case "sync handle":
                after.enqueue(n=n)
            case "sync client":
                app.sync.add_job("after", {"n": n}, key=f"k{n}")

    @app.task(max_attempts=1)
    async def effect(ctx: Context, n: int, fails: bool) -> None:
        async with ctx.transaction() as tx:
            await tx.execute(insert(schema), (n,))
            await add(ctx, n)
            if fails:
                raise ValueError("rolled back")
            await tx.complete({"n": n})

    async def body() -> list[Any]:
        good = await effect.aenqueue(n=1, fails=False)
        bad = await effect.aenqueue(n=2, fails=True)
        await app.run_once(only=["effect"])
        left = await app.client.list_jobs(task="after")
        return [await app.client.get_job(good.id), await app.client.get_job(bad.id), left]

    good, bad, left = run(app, body)
    assert (good.state, good.output) == (JobState.COMPLETED, {"n": 1})
    assert bad.state == JobState.FAILED
    assert [job.payload for job in left] == [{"n": 1}]
    assert effects(schema) == [1]


def test_a_plain_function_adds_inside_its_transaction_too(app: App, schema: Schema) -> None:
    @app.task
    async def after(n: int) -> None: ...

    @app.task(max_attempts=1)
    def effect(ctx: SyncContext, fails: bool) -> None:
        with ctx.transaction() as tx:
            ctx.add_job("after", {"n": 1}, key="k")
            after.enqueue(n=2)
            app.sync.add_job("after", {"n": 3})
            after.using(connection=tx.connection).enqueue(n=4)
            assert not fails
            tx.complete()

    async def body() -> list[Any]:
        await effect.aenqueue(fails=True)
        await app.run_once(only=["effect"])
        before = await app.client.list_jobs(task="after")
        await effect.aenqueue(fails=False)
        await app.run_once(only=["effect"])
        return [before, await app.client.list_jobs(task="after")]

    before, added = run(app, body)
    assert before == []
    assert [job.payload["n"] for job in added] == [4, 3, 2, 1]


# ── connections ──


@pytest.mark.parametrize("kind", KINDS)
def test_connections_and_queries(app: App, schema: Schema, kind: str) -> None:
    seen: list[Any] = []

    @app.task(name="async def", max_attempts=1)
    async def on_loop(ctx: Context) -> None:
        async with ctx.connection() as connection:
            assert isinstance(connection, psycopg.AsyncConnection)
            await connection.execute(insert(schema), [1])
        try:
            async with ctx.connection() as connection:
                await connection.execute(insert(schema), [2])
                raise LookupError
        except LookupError:
            pass
        seen.append(await ctx.query(insert(schema), [3]))
        seen.append(await ctx.query(insert(schema) + " RETURNING n", [4]))
        seen.append(await ctx.query("SELECT '%'"))
        [row] = await ctx.query("SELECT %(a)s || '%%' AS text, 1 AS text", {"a": "x"})
        seen.append([row["text"], row[1], dict(row)])

    @app.task(name="def", max_attempts=1)
    def in_thread(ctx: SyncContext) -> None:
        with ctx.connection() as connection:
            connection.execute(insert(schema), [1])
        try:
            with ctx.connection() as connection:
                connection.execute(insert(schema), [2])
                raise LookupError
        except LookupError:
            pass
        seen.append(ctx.query(insert(schema), [3]))
        seen.append(ctx.query(insert(schema) + " RETURNING n", [4]))
        seen.append(ctx.query("SELECT '%'"))
        [row] = ctx.query("SELECT %(a)s || '%%' AS text, 1 AS text", {"a": "x"})
        seen.append([row["text"], row[1], dict(row)])

    job = run(app, lambda: worked(app, on_loop if kind == "async def" else in_thread))
    assert job.last_error is None
    assert seen == [[], [(4,)], [("%",)], ["x%", 1, {"text": "x%"}]]
    assert effects(schema) == [1, 3, 4]


def test_a_blocking_connection_on_the_loop_is_refused(app: App) -> None:
    @app.task(max_attempts=1)
    async def effect(ctx: Context) -> None:
        with ctx.connection():
            pass

    job = run(app, lambda: worked(app, effect))
    assert "async with ctx.connection()" in (job.last_error or "")


def test_jobs_added_through_an_async_connection_share_its_fate(app: App, schema: Schema) -> None:
    @app.task
    async def after(n: int) -> None: ...

    @app.task(max_attempts=1)
    async def effect(ctx: Context) -> None:
        async with ctx.connection() as connection:
            await after.using(connection=connection).aenqueue(n=1)
        async with ctx.connection() as connection:
            await after.using(connection=connection).aenqueue(n=2)
            raise LookupError

    async def body() -> list[Any]:
        await worked(app, effect)
        return [job.payload["n"] for job in await app.client.list_jobs(task="after")]

    assert run(app, body) == [1]


@pytest.mark.parametrize("kind", KINDS)
def test_two_handlers_at_once(app: App, schema: Schema, kind: str) -> None:
    """Both are in the middle of their transactions when the first may go on."""
    inside: list[int] = []

    def body(ctx: Any, tx: Any) -> Steps:
        inside.append(ctx.job.id)
        yield tx.execute(insert(schema), [len(inside)])
        while len(inside) < 2:
            yield tx.execute("SELECT pg_sleep(0.01)")
        assert effects(schema) in ([], [1], [2])
        yield tx.complete()

    task = declare(app, kind, body, max_attempts=1)

    async def work() -> int:
        await task.aenqueue_many([{}, {}])
        async with asyncio.timeout(PATIENCE):
            return await app.run_once()

    assert run(app, work) == 2
    assert effects(schema) == [1, 2]


def hold_all_connections(schema: Schema, kind: str, threads: int) -> int:
    """Two hold the only connections, ten wait for one, and other jobs come and go meanwhile.

    `threads` is how many the event loop has for what blocks. Returns how many jobs failed.
    """
    app = make_app(schema.url, schema, max_pool_size=2, concurrency=14, prefetch=0)
    holding: list[int] = []
    quick_ones: list[int] = []

    def body(ctx: Any, tx: Any) -> Steps:
        holding.append(ctx.job.id)
        yield tx.execute(insert(schema), [len(holding)])
        while len(quick_ones) < 20:
            yield tx.execute("SELECT pg_sleep(0.01)")
        yield tx.complete()

    effect = declare(app, kind, body, max_attempts=1)

    @app.task
    async def quick(n: int) -> None:
        quick_ones.append(n)

    async def work() -> int:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(threads))
        await effect.aenqueue_many([{}] * 12)
        runner = await app.run(handle_signals=False)
        async with asyncio.timeout(PATIENCE):
            while len(holding) < 2:
                await asyncio.sleep(0.005)
            lifeline = app.store.lifeline()
            with ThreadPoolExecutor(1) as own:
                own.submit(lifeline.renew, "somebody", 30.0, []).result()
            for n in range(20):  # one by one: each is claimed while the others hold on
                await quick.aenqueue(n=n)
                while len(quick_ones) <= n:
                    await asyncio.sleep(0.005)
            while (ended := await app.client.counts()) and (
                ended[JobState.COMPLETED] + ended[JobState.FAILED] < 32
            ):
                await asyncio.sleep(0.01)
        await runner.stop()
        return ended[JobState.FAILED]

    failed: int = run(app, work)
    return failed


@pytest.mark.parametrize("kind", KINDS)
def test_handlers_that_hold_all_connections_stall_nobody_else(schema: Schema, kind: str) -> None:
    assert hold_all_connections(schema, kind, threads=32) == 0
    assert effects(schema) == list(range(1, 13))


def test_handlers_that_wait_leave_the_holders_a_thread(
    schema: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "WAIT_LIMIT", 2.0)
    assert hold_all_connections(schema, "async def", threads=6) == 0


def test_a_timeout_ends_the_statement_too(app: App, schema: Schema) -> None:
    """The server is asked to stop; nobody waits for a statement that nobody wants any more."""

    @app.task(timeout=0.3, max_attempts=1)
    async def slow(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            await tx.execute("SELECT pg_sleep(50)")

    job = run(app, lambda: worked(app, slow))
    assert job.state is JobState.FAILED
    assert "timeout" in (job.last_error or "")
