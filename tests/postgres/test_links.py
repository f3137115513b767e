"""Links that went silent or stale: calls of the store and of handlers end, and others take over."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from tests.patience import PATIENCE
from tests.postgres.cluster import Cluster, fresh_database, shared_cluster
from tests.postgres.proxy import FaultProxy
from windlass import App, Context, JobState, Retry, SyncContext
from windlass.errors import StoreClosedError, StoreUnavailableError
from windlass.model.job import Job
from windlass.store.records import ClaimRequest, NewJob
from windlass.stores.postgres import PostgresStore
from windlass.stores.postgres_connections import (
    address,
    connection,
    guard,
    lifeline,
    loop_calls,
    pool,
    stock,
    transaction,
)

KINDS = ["async def", "def"]


@pytest.fixture
def url() -> Iterator[str]:
    with fresh_database(shared_cluster(18)) as url:
        with psycopg.connect(url, autocommit=True) as own:
            own.execute("CREATE TABLE effects (n integer)")
        yield url


@pytest.fixture
def proxy(url: str) -> Iterator[FaultProxy]:
    database = url.partition("?")[0].rpartition("/")[2]
    with FaultProxy("127.0.0.1", shared_cluster(18).port, database) as proxy:
        yield proxy


@pytest.fixture(autouse=True)
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every link must answer before it is used again, and soon."""
    monkeypatch.setattr(connection, "PROBE_AFTER", 0.0)
    for module in (lifeline, loop_calls, pool, stock):
        monkeypatch.setattr(module, "PROBE_LIMIT", 0.3)
    monkeypatch.setattr(guard, "STOP_LIMIT", 0.3)
    # A poll may be under way when the network falls silent.
    monkeypatch.setattr(loop_calls, "CALL_LIMIT", 2.0)
    defaults = address.ServerAddress.connect.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "limit", 2.0)


def ask(url: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    # The database may limit how long a session lies idle.
    with psycopg.connect(url, autocommit=True, options="-c idle_session_timeout=0") as own:
        cursor = own.execute(statement.encode(), values or None)
        return cursor.fetchall() if cursor.description else []


def effects(url: str) -> list[int]:
    return [n for [n] in ask(url, "SELECT n FROM effects ORDER BY n")]


def make_app(url: str, **settings: Any) -> App:
    settings = {
        "poll_interval": 0.2,
        "lease": 6.0,
        "keep": 60,
        "retry": Retry.fixed(0, jitter=0),
        **settings,
    }
    return App(url, **settings)


def run(app: App, body: Callable[[], Awaitable[Any]]) -> Any:
    async def whole() -> Any:
        async with asyncio.timeout(PATIENCE), app:
            return await body()

    return asyncio.run(whole())


async def worked(app: App, task: Any, **payload: Any) -> Job:
    job = await task.aenqueue(**payload)
    async with asyncio.timeout(PATIENCE):
        await app.run_once()
    found = await app.client.get_job(job.id)
    assert found is not None
    return found


def living(url: str, links: set[int]) -> int:
    return len(ask(url, "SELECT pid FROM pg_stat_activity WHERE pid = ANY (%s)", list(links)))


async def eventually(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await asyncio.to_thread(condition):
            await asyncio.sleep(0.01)


# ── links that lay idle ──


@pytest.mark.rig
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verb", ["transaction", "connection"])
def test_a_handlers_link_that_went_silent_while_idle(
    url: str, proxy: FaultProxy, kind: str, verb: str
) -> None:
    """The next handler has another one, and its attempt is not lost."""
    app = make_app(proxy.url())

    @app.task(name="async def", max_attempts=1)
    async def on_loop(ctx: Context, n: int) -> None:
        async with getattr(ctx, verb)() as db:
            await db.execute("INSERT INTO effects VALUES (%s)", [n])

    @app.task(name="def", max_attempts=1)
    def in_thread(ctx: SyncContext, n: int) -> None:
        with getattr(ctx, verb)() as db:
            db.execute("INSERT INTO effects VALUES (%s)", [n])

    task = on_loop if kind == "async def" else in_thread

    async def body() -> list[Job]:
        first = await worked(app, task, n=1)
        proxy.silence()
        return [first, await worked(app, task, n=2)]

    assert [job.last_error for job in run(app, body)] == [None, None]
    assert effects(url) == [1, 2]


def test_one_silent_link_of_the_store_tells_of_all_others(
    url: str, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is waited for once, not once for each link, and calls go on over new ones."""
    probed: list[bool] = []
    answers, answer = loop_calls.answers, connection.answers

    async def counted_on_loop(*args: Any) -> bool:
        probed.append(await answers(*args))
        return probed[-1]

    def counted_in_thread(*args: Any) -> bool:
        probed.append(answer(*args))
        return probed[-1]

    monkeypatch.setattr(loop_calls, "answers", counted_on_loop)
    monkeypatch.setattr(stock, "answers", counted_in_thread)

    async def scenario() -> None:
        store = PostgresStore(proxy.url(), listen=False)
        await store.open()
        holder = psycopg.connect(url)
        holder.execute("LOCK TABLE windlass._jobs IN EXCLUSIVE MODE")
        calls = [
            asyncio.ensure_future(store.claim(ClaimRequest(f"w{n}", ("t",), 1))) for n in range(3)
        ]
        waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        await eventually(lambda: len(ask(url, waiting)) >= 3)
        holder.close()
        await asyncio.gather(*calls)
        await store.enqueue([NewJob("other", key="k")])
        probed.clear()
        proxy.silence()
        async with asyncio.timeout(PATIENCE):
            await store.enqueue([NewJob("t")])
        assert probed.count(False) == 1
        async with asyncio.timeout(PATIENCE):
            [lease] = await store.claim(ClaimRequest("w", ("t",), 1))
        assert lease.task == "t"
        await store.close()

    asyncio.run(scenario())


def test_the_stores_threads_leave_silent_links(url: str, proxy: FaultProxy) -> None:
    async def scenario() -> None:
        store = PostgresStore(proxy.url(), listen=False)
        await store.open()
        await asyncio.gather(*(store.enqueue([NewJob("t", key=f"k{n}")]) for n in range(4)))
        proxy.silence()
        async with asyncio.timeout(PATIENCE):
            await store.enqueue([NewJob("t", key="after")])
            assert len(await store.enqueue([NewJob("t", key="more")])) == 1
        await store.close()

    asyncio.run(scenario())


# ── links that fall silent under a statement ──


@pytest.mark.rig
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verb", ["transaction", "connection"])
def test_a_handler_that_is_told_to_stop_gets_its_thread_back(
    url: str, proxy: FaultProxy, kind: str, verb: str
) -> None:
    """Its statement will never be answered, and nothing but the end of its time tells so."""
    app = make_app(proxy.url())
    ended: list[BaseException] = []

    @app.task(name="async def", max_attempts=1, timeout=0.5)
    async def on_loop(ctx: Context) -> None:
        try:
            async with getattr(ctx, verb)() as db:
                proxy.silence()
                await db.execute("INSERT INTO effects VALUES (1)")
        except BaseException as error:
            ended.append(error)
            raise

    @app.task(name="def", max_attempts=1, timeout=0.5)
    def in_thread(ctx: SyncContext) -> None:
        try:
            with getattr(ctx, verb)() as db:
                proxy.silence()
                db.execute("INSERT INTO effects VALUES (1)")
        except BaseException as error:
            ended.append(error)
            raise

    async def body() -> Job:
        job = await worked(app, on_loop if kind == "async def" else in_thread)
        await eventually(lambda: ended)
        return job

    job = run(app, body)
    assert job.state is JobState.FAILED
    assert "timeout" in (job.last_error or "")
    expected = asyncio.CancelledError if kind == "async def" else psycopg.OperationalError
    assert isinstance(ended[0], expected)
    assert effects(url) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_long_statement_of_a_live_link_is_left_alone(
    url: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No limit of ours is a limit of the handler's own statements."""
    monkeypatch.setattr(guard, "CALL_LIMIT", 0.2)
    app = make_app(url)
    slow = "SELECT pg_sleep(0.6)"

    @app.task(name="async def", max_attempts=1)
    async def on_loop(ctx: Context) -> None:
        async with ctx.connection() as db:
            await db.execute(slow)
        async with ctx.transaction() as tx:
            await tx.execute(slow)
            await tx.complete()

    @app.task(name="def", max_attempts=1)
    def in_thread(ctx: SyncContext) -> None:
        with ctx.connection() as db:
            db.execute(slow)
        with ctx.transaction() as tx:
            tx.execute(slow)
            tx.complete()

    job = run(app, lambda: worked(app, on_loop if kind == "async def" else in_thread))
    assert (job.state, job.last_error) == (JobState.COMPLETED, None)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_told_to_stop_is_ended_on_the_server(url: str, kind: str) -> None:
    app = make_app(url)
    asleep = (
        "SELECT pid FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'"
    )

    @app.task(name="async def", max_attempts=1)
    async def on_loop(ctx: Context) -> None:
        async with ctx.connection() as db:
            await db.execute("SELECT pg_sleep(600)")

    @app.task(name="def", max_attempts=1)
    def in_thread(ctx: SyncContext) -> None:
        with ctx.connection() as db:
            db.execute("SELECT pg_sleep(600)")

    async def body() -> Job | None:
        job = await (on_loop if kind == "async def" else in_thread).aenqueue()
        runner = await app.run(handle_signals=False)
        await eventually(lambda: ask(url, asleep))
        await app.client.cancel_jobs([job.id])
        await eventually(lambda: not ask(url, asleep))
        async with asyncio.timeout(PATIENCE):
            await runner.stop()
        return await app.client.get_job(job.id)

    job = run(app, body)
    assert job.state is JobState.CANCELLED


def test_a_handler_may_tidy_up_after_it_was_told_to_stop(url: str) -> None:
    """It has little time for each statement, but it has a connection."""
    app = make_app(url)

    @app.task(max_attempts=1, timeout=0.2)
    def tidy(ctx: SyncContext) -> None:
        assert ctx.abort.wait(PATIENCE)
        with ctx.connection() as db:
            db.execute("INSERT INTO effects VALUES (1)")
        ctx.query("INSERT INTO effects VALUES (2)")

    async def body() -> None:
        await worked(app, tidy)
        await eventually(lambda: effects(url) == [1, 2])

    run(app, body)


@pytest.mark.parametrize("kind", KINDS)
def test_a_commit_into_silence_is_undone_and_the_job_retried(
    url: str, proxy: FaultProxy, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server still holds the transaction open, with a lock on the job: it is told to end it."""
    monkeypatch.setattr(guard, "CALL_LIMIT", 0.5)
    app = make_app(proxy.url())

    @app.task(name="async def")
    async def on_loop(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            await tx.execute("INSERT INTO effects VALUES (%s)", [ctx.job.attempts])
            await tx.complete()
            if ctx.job.attempts == 1:
                proxy.silence()

    @app.task(name="def")
    def in_thread(ctx: SyncContext) -> None:
        with ctx.transaction() as tx:
            tx.execute("INSERT INTO effects VALUES (%s)", [ctx.job.attempts])
            tx.complete()
            if ctx.job.attempts == 1:
                proxy.silence()

    job = run(app, lambda: worked(app, on_loop if kind == "async def" else in_thread))
    assert (job.state, job.attempts) == (JobState.COMPLETED, 2)
    assert effects(url) == [2]


# ── links that the server has closed ──


def hold(store: PostgresStore, count: int) -> set[int]:
    """Borrow so many connections at once, and give them back: the server's processes for them."""
    together = threading.Barrier(count, timeout=PATIENCE)

    def borrow() -> int:
        with store.connection() as db:
            db.execute("SELECT 1")
            together.wait()
            return db.info.backend_pid

    with ThreadPoolExecutor(count) as threads:
        return {ended.result() for ended in [threads.submit(borrow) for _ in range(count)]}


async def ahold(store: PostgresStore, count: int) -> set[int]:
    together = asyncio.Barrier(count)
    async with asyncio.timeout(PATIENCE):
        return set(await asyncio.gather(*(aborrow(store, together) for _ in range(count))))


async def aborrow(store: PostgresStore, together: asyncio.Barrier) -> int:
    async with store.connection() as db:
        await db.execute("SELECT 1")
        await together.wait()
        return db.info.backend_pid


@pytest.mark.parametrize("kind", KINDS)
def test_links_that_the_server_closed_cost_nothing(url: str, proxy: FaultProxy, kind: str) -> None:
    """As after a restart, or an idle_session_timeout: one borrower makes one new connection."""

    async def scenario() -> None:
        store = PostgresStore(proxy.url(), listen=False)
        await store.open()
        if kind == "def":
            await asyncio.to_thread(hold, store, 5)
        else:
            await ahold(store, 5)
        mine = "pid <> pg_backend_pid() AND datname = current_database()"
        ask(url, f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE {mine}")
        await eventually(lambda: proxy.open_connections == 0)
        made = proxy.connections
        if kind == "def":
            await asyncio.to_thread(hold, store, 1)
        else:
            await ahold(store, 1)
        assert proxy.connections == made + 1
        await store.close()

    asyncio.run(scenario())


def test_a_session_that_may_not_lie_idle(url: str) -> None:
    database = url.partition("?")[0].rpartition("/")[2]
    # A borrower that has just been given a link must use it before the server ends the session.
    ask(url, f"ALTER DATABASE {database} SET idle_session_timeout = '1s'")
    links = (
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid() AND application_name = 'windlass'"
    )

    async def scenario() -> None:
        store = PostgresStore(url, listen=False)
        await store.open()
        for _ in range(2):
            await asyncio.to_thread(hold, store, 2)
            await ahold(store, 2)
            await store.enqueue([NewJob("t")])
            await eventually(lambda: not ask(url, links))
        await store.close()

    asyncio.run(scenario())


def test_a_server_that_is_being_restarted_fails_no_borrower() -> None:
    with Cluster.create(18) as cluster:

        async def scenario() -> None:
            store = PostgresStore(cluster.url(), listen=False)
            await store.open()
            await asyncio.to_thread(hold, store, 3)
            await ahold(store, 3)
            cluster.stop("fast")
            borrowers = [
                asyncio.ensure_future(asyncio.to_thread(hold, store, 1)),
                asyncio.ensure_future(ahold(store, 1)),
            ]
            cluster.start()
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(*borrowers)
            await store.close()

        asyncio.run(scenario())


# ── turns ──


def test_both_kinds_share_one_limit(url: str) -> None:
    """The server's connections are what is limited; a link of one kind makes way for another."""

    async def none_lives(links: set[int]) -> None:
        await eventually(lambda: living(url, links) == 0)

    async def scenario() -> None:
        store = PostgresStore(url, listen=False, max_pool_size=2)
        await store.open()
        blocking = await asyncio.to_thread(hold, store, 2)
        assert living(url, blocking) == 2
        for _ in range(2):
            awaited = await ahold(store, 2)
            assert living(url, awaited) == 2
            await none_lives(blocking)
            blocking = await asyncio.to_thread(hold, store, 2)
            assert living(url, blocking) == 2
            await none_lives(awaited)
        async with store.connection():
            threads = [asyncio.ensure_future(asyncio.to_thread(hold, store, 1)) for _ in range(3)]
            await asyncio.gather(*threads)
        await store.close()

    asyncio.run(scenario())


def test_a_borrower_that_gives_up_leaves_its_turn(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        store = PostgresStore(url, listen=False, max_pool_size=1)
        await store.open()
        async with store.connection():
            alone = asyncio.Barrier(1)
            cancelled = [asyncio.ensure_future(aborrow(store, alone)) for _ in range(2)]
            await asyncio.sleep(0)  # both ask for their turn
            cancelled[0].cancel()
            with monkeypatch.context() as patch:
                patch.setattr(pool, "WAIT_LIMIT", 0.05)
                with pytest.raises(StoreUnavailableError, match="max_pool_size"):
                    await asyncio.to_thread(hold, store, 1)
                with pytest.raises(StoreUnavailableError, match="max_pool_size"):
                    await ahold(store, 1)
        await cancelled[1]
        await ahold(store, 1)
        await asyncio.to_thread(hold, store, 1)
        async with store.connection():
            waits = asyncio.ensure_future(aborrow(store, alone))
            await asyncio.sleep(0)  # it asks for its turn
            await store.close()
            with pytest.raises(StoreClosedError):
                await waits

    asyncio.run(scenario())


def test_what_a_borrower_set_is_not_the_next_ones(url: str) -> None:
    async def scenario() -> None:
        store = PostgresStore(url, listen=False, max_pool_size=1)
        await store.open()

        def change() -> None:
            with store.connection() as db:
                db.autocommit = True

        await asyncio.to_thread(change)
        async with store.connection() as db:
            await db.set_read_only(True)
        async with store.connection() as db:
            await db.execute("INSERT INTO effects VALUES (1)")
        with pytest.raises(LookupError):
            with store.connection() as blocking:
                blocking.execute("INSERT INTO effects VALUES (2)")
                raise LookupError
        await store.close()

    asyncio.run(scenario())
    assert effects(url) == [1]


def test_links_that_nobody_borrows_are_closed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "MAX_IDLE", 0.05)

    async def scenario() -> None:
        store = PostgresStore(url, listen=False)
        await store.open()
        borrowed = await ahold(store, 3) | await asyncio.to_thread(hold, store, 3)
        assert len(borrowed) >= 3
        await eventually(lambda: living(url, borrowed) == 0)
        await store.close()

    asyncio.run(scenario())


def test_transaction_asks_briefly() -> None:
    """Finding out what became of a COMMIT is a call of ours as well."""
    assert transaction._ANSWER_LIMIT < connection.CALL_LIMIT
