"""Handlers whose writes and whose record's completion are one transaction."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Generator
from typing import Any

import psycopg
import psycopg_pool
import pytest

from tests.postgres.table.desk import Desk, observed, using, work, worker
from windlass import Abandon, Completed, Failed, Nack, Poison, RetryAfter
from windlass.engine.object_handler import BoundStore
from windlass.errors import LeaseLostError
from windlass.table import TableStore

Steps = Generator[Any, Any, Any]
KINDS = ["async def", "def"]
INSERT = "INSERT INTO effects VALUES (%s)"


@pytest.fixture
def desk(desk18: Desk) -> Desk:
    desk18.make()
    desk18.ask("CREATE TABLE effects (n integer)")
    return desk18


def effects(desk: Desk) -> list[int]:
    return [n for [n] in desk.ask("SELECT n FROM effects ORDER BY n")]


def handler(
    kind: str, body: Callable[[Any, Any, Any], Steps], *, transactional: bool = True
) -> Any:
    """One of either kind that does what `body(ctx, store, record)` says, step by step.

    In an `async def` what it yields is awaited; in a plain function it is the answer already.
    """

    class OnLoop:
        async def handle(self, ctx: Any, store: Any, record: Any) -> Any:
            steps, answer = body(ctx, store, record), None
            while True:
                try:
                    step = steps.send(answer)
                except StopIteration as end:
                    return end.value
                answer = await step if inspect.isawaitable(step) else step

    class InThread:
        def handle(self, ctx: Any, store: Any, record: Any) -> Any:
            steps, answer = body(ctx, store, record), None
            while True:
                try:
                    answer = steps.send(answer)
                except StopIteration as end:
                    return end.value

    made: Any = OnLoop() if kind == "async def" else InThread()
    made.transactional = transactional
    return made


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("answer", [None, Completed(5), {"any": "thing"}])
def test_writes_and_completion_commit_together(desk: Desk, kind: str, answer: Any) -> None:
    id_ = desk.add()
    seen: list[Any] = []

    def body(ctx: Any, store: Any, record: Any) -> Steps:
        yield store.execute(INSERT, [1])
        seen.append((yield store.execute("SELECT n FROM effects")))
        store.connection.execute(INSERT, [2])
        seen.append((effects(desk), desk.states()))
        return answer

    work(desk.store(), handler(kind, body))
    assert seen == [[(1,)], ([], ["processing"])]
    assert effects(desk) == [1, 2]
    row = desk.row(id_)
    assert (row["state"], row["num_failures"]) == ("completed", 0)
    transactions = "SELECT xmin::text FROM jobs UNION SELECT xmin::text FROM effects"
    assert len(desk.ask(transactions)) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("end", "state", "failures", "message"),
    [
        (ValueError("no"), "errored", 1, "ValueError: no"),
        (Poison("never"), "failed", 1, "Poison: never"),
        (RetryAfter(5), "errored", 1, "RetryAfter"),
        (Failed("in short"), "errored", 1, "in short"),
        (Nack(5, "not now"), "errored", 1, "not now"),
        (Abandon(), "queued", 0, None),
    ],
)
def test_writes_of_a_failure_are_rolled_back_and_the_failure_is_recorded(
    desk: Desk, kind: str, end: Any, state: str, failures: int, message: str | None
) -> None:
    id_ = desk.add()

    def body(ctx: Any, store: Any, record: Any) -> Steps:
        yield store.execute(INSERT, [1])
        ctx.log("it began")
        if isinstance(end, Exception):
            raise end
        return end

    work(desk.store(max_num_retries=1, retry_after=60), handler(kind, body))
    row = desk.row(id_)
    assert (row["state"], row["num_failures"]) == (state, failures)
    assert (row["failure_message"] or "").startswith(message or "")
    assert (row["failure_message"] is None) == (message is None)
    assert effects(desk) == []
    if message is not None:
        assert row["execution_logs"] == ["it began"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_try_that_works_is_the_one_that_counts(desk: Desk, kind: str) -> None:
    id_ = desk.add()

    def body(ctx: Any, store: Any, record: Any) -> Steps:
        yield store.execute(INSERT, [ctx.job.attempts])
        if ctx.job.attempts < 3:
            raise ValueError

    work(desk.store(max_num_retries=2, retry_after=0.01), handler(kind, body), 3)
    assert effects(desk) == [3]
    assert (desk.row(id_)["state"], desk.row(id_)["num_failures"]) == ("completed", 2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_record_is_rolled_back(desk: Desk, kind: str) -> None:
    id_ = desk.add()
    told: list[BaseException] = []

    def body(ctx: Any, store: Any, record: Any) -> Steps:
        yield store.execute(INSERT, [1])
        desk.ask("UPDATE jobs SET state = 'queued', num_resets = 1, process_after = now() + '1 h'")

    class Handler:
        transactional = True
        inner = handler(kind, body)
        handle = inner.handle

        def post_handle(self, ctx: Any, record: Any) -> None:
            told.append(ctx._delivery.error)

    work(desk.store(), Handler())
    assert [type(error) for error in told] == [LeaseLostError]
    assert effects(desk) == []
    row = desk.row(id_)
    assert (row["state"], row["num_resets"], row["num_failures"]) == ("queued", 1, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_canceled_record_is_rolled_back(desk: Desk, kind: str) -> None:
    id_ = desk.add()
    began: list[int] = []

    def body(ctx: Any, store: Any, record: Any) -> Steps:
        yield store.execute(INSERT, [1])
        began.append(1)
        while not ctx.abort.is_set():
            yield store.execute("SELECT pg_sleep(0.01)")
        raise RuntimeError("stopped")

    async def whole(store: TableStore[Any]) -> None:
        async with worker(store, handler(kind, body)):
            await observed(lambda: began, "it to begin")
            assert await store.cancel([id_]) == [id_]
            await observed(lambda: desk.states() == ["canceled"], "it to be canceled")

    using(desk.store(heartbeat_interval=0.1), whole)
    assert effects(desk) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_connection_that_is_cut_between(desk: Desk, kind: str) -> None:
    """After its writes the connection dies: the writes are gone, and the next try does them."""
    id_ = desk.add()

    def body(ctx: Any, store: Any, record: Any) -> Steps:
        yield store.execute(INSERT, [ctx.job.attempts])
        if ctx.job.attempts == 1:
            pid = store.connection.info.backend_pid
            desk.ask("SELECT pg_terminate_backend(%s, 5000)", pid)

    work(desk.store(max_num_retries=1, retry_after=0.01), handler(kind, body), 2)
    assert effects(desk) == [2]
    row = desk.row(id_)
    assert (row["state"], row["num_failures"]) == ("completed", 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_statement_that_failed_is_not_overlooked(desk: Desk, kind: str) -> None:
    """The handler swallows the error; what it wrote cannot be committed, so it has failed."""
    id_ = desk.add()

    def body(ctx: Any, store: Any, record: Any) -> Steps:
        yield store.execute(INSERT, [1])
        try:
            store.connection.execute("SELECT 1 / 0")
        except psycopg.Error:
            pass

    work(desk.store(), handler(kind, body))
    row = desk.row(id_)
    assert (row["state"], row["num_failures"], effects(desk)) == ("failed", 1, [])


@pytest.mark.parametrize("kind", KINDS)
def test_a_savepoint_of_its_own(desk: Desk, kind: str) -> None:
    desk.add()

    def body(ctx: Any, store: Any, record: Any) -> Steps:
        yield store.execute(INSERT, [1])
        try:
            with store.connection.transaction():
                store.connection.execute(INSERT, [2])
                store.connection.execute("SELECT 1 / 0")
        except psycopg.Error:
            pass

    work(desk.store(), handler(kind, body))
    assert (desk.states(), effects(desk)) == (["completed"], [1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_handler_may_write_its_own_row(desk: Desk, kind: str) -> None:
    """Its transaction then holds the row: heartbeats pass it over, and resetters too."""
    id_ = desk.add()
    went_on: list[Any] = []

    def body(ctx: Any, store: Any, record: Any) -> Steps:
        yield store.execute("UPDATE jobs SET title = 'mine' WHERE id = %s", [record["id"]])
        while not went_on:
            yield store.execute("SELECT pg_sleep(0.01)")

    async def whole(store: TableStore[Any]) -> None:
        async with worker(store, handler(kind, body)):
            locks = (
                "SELECT 1 FROM jobs WHERE id NOT IN (SELECT id FROM jobs FOR UPDATE SKIP LOCKED)"
            )
            await observed(lambda: desk.ask(locks), "its transaction to hold the row")
            stalled = desk.store(stalled_max_age=1)
            async with stalled:
                assert (await stalled.reap(10, 5)).requeued == ()
            went_on.append(1)
            await observed(lambda: desk.states() == ["completed"], "its end")

    using(desk.store(heartbeat_interval=0.05), whole)
    assert desk.row(id_)["title"] == "mine"


@pytest.mark.parametrize("kind", KINDS)
def test_completion_waits_for_whoever_holds_the_row(desk: Desk, kind: str) -> None:
    desk.add()

    def body(ctx: Any, store: Any, record: Any) -> Steps:
        yield store.execute(INSERT, [1])

    asked = (
        "SELECT 1 FROM pg_stat_activity WHERE state = 'idle in transaction'"
        " AND pid <> pg_backend_pid() AND query LIKE '%pg_current_xact_id%'"
    )

    async def whole(store: TableStore[Any]) -> None:
        with desk.connect(autocommit=False) as other:

            class Handler:
                transactional = True
                handle = handler(kind, body).handle

                def pre_handle(self, ctx: Any, record: Any) -> None:
                    other.execute("SELECT FROM jobs FOR UPDATE")

            async with worker(store, Handler()):
                await observed(lambda: desk.ask(asked), "it to ask for its completion")
                assert (desk.states(), effects(desk)) == (["processing"], [])
                other.rollback()
                await observed(lambda: desk.states() == ["completed"], "its completion")

    using(desk.store(), whole)
    assert effects(desk) == [1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("transactional", [True, False])
def test_the_store_a_handler_is_given(desk: Desk, kind: str, transactional: bool) -> None:
    desk.add()
    given: list[Any] = []

    def body(ctx: Any, store: Any, record: Any) -> Steps:
        given.append(store)
        if transactional:
            assert isinstance(store.connection, psycopg.Connection)
            [[number]] = yield store.execute("SELECT pg_backend_pid()")
            assert number == store.connection.info.backend_pid
        else:
            with store.connection() as connection:
                connection.execute(INSERT, [1])
            yield None
            raise Poison("but what it wrote stays")

    store = desk.store()
    work(store, handler(kind, body, transactional=transactional))
    [found] = given
    if transactional:
        assert isinstance(found, BoundStore) and found.unbound is store
        assert desk.states() == ["completed"]
    else:
        assert found is store
        assert (desk.states(), effects(desk)) == (["failed"], [1])


def test_transactions_side_by_side(desk: Desk) -> None:
    """Both are in the middle of theirs when the first may go on."""
    desk.add()
    desk.add()
    inside: list[int] = []

    class Handler:
        transactional = True

        async def handle(self, ctx: Any, store: Any, record: Any) -> None:
            await store.execute(INSERT, [record["id"]])
            inside.append(record["id"])
            while len(inside) < 2:
                await asyncio.sleep(0.005)
            assert effects(desk) in ([], [1], [2])

    work(desk.store(), Handler(), 2, num_handlers=2)
    assert (effects(desk), desk.states()) == ([1, 2], ["completed", "completed"])


def test_a_runtime_that_is_too_long_ends_the_statement_too(desk: Desk) -> None:
    id_ = desk.add()

    class Handler:
        transactional = True

        async def handle(self, ctx: Any, store: Any, record: Any) -> None:
            await store.execute(INSERT, [1])
            await store.execute("SELECT pg_sleep(50)")

    work(desk.store(), Handler(), maximum_runtime_per_job=0.2)
    row = desk.row(id_)
    assert (row["state"], effects(desk)) == ("failed", [])
    assert "timeout" in row["failure_message"]


def test_a_transactional_handler_is_read_committed(desk: Desk) -> None:
    """A heartbeat in the middle is no conflict, whatever the default isolation is."""
    desk.add()
    isolation: list[Any] = []

    class Handler:
        transactional = True

        async def handle(self, ctx: Any, store: Any, record: Any) -> None:
            isolation.extend(await store.execute("SHOW transaction_isolation"))
            before = desk.row(1)["last_heartbeat_at"]
            await observed(lambda: desk.row(1)["last_heartbeat_at"] > before, "a heartbeat")

    url = desk.url + "%20-cdefault_transaction_isolation%3Dserializable"
    work(desk.store(url, stalled_max_age=3, heartbeat_interval=0.1), Handler())
    assert isolation == [("read committed",)]
    assert desk.states() == ["completed"]


def test_the_isolation_of_a_given_pool_is_its_own_again(desk: Desk) -> None:
    desk.add()
    level = psycopg.IsolationLevel.SERIALIZABLE

    class Handler:
        transactional = True

        async def handle(self, ctx: Any, store: Any, record: Any) -> None:
            [[isolation]] = await store.execute("SHOW transaction_isolation")
            assert isolation == "read committed"

    def configure(connection: psycopg.Connection[Any]) -> None:
        connection.isolation_level = level

    with psycopg_pool.ConnectionPool(desk.url, min_size=1, max_size=1, configure=configure) as pool:
        work(desk.store(pool), Handler())
        with pool.connection() as connection:
            assert connection.isolation_level is level
    assert desk.states() == ["completed"]
