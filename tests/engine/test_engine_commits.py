"""A handler that completed its job in a transaction goes on behind the block, whatever arrives
while it commits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from tests.engine.engine_kit import Bench, Ledger, virtual, wait_until
from windlass import AbortReason, App, Context, JobState
from windlass.errors import OutcomeUnknownError, StoreError
from windlass.store.records import Lease, Outcome
from windlass.tasks.context import SyncContext
from windlass.testing import FaultyStore


class _Transaction:
    connection = None
    outcome: Outcome | None = None

    def execute(self, sql: str, values: Any = ()) -> list[Any]:
        return []

    def complete(self, outcome: Outcome) -> None:
        self.outcome = outcome

    def interrupt(self) -> None: ...


class Committing(Ledger):
    """A commit lands at once, or fails; its answer comes when the test says so."""

    def __init__(self, clock: Any, fails: Exception | None = None) -> None:
        super().__init__(clock)
        self.fails = fails
        self.is_committing = False
        self.answer = threading.Event()

    def transaction(self, lease: Lease) -> AbstractContextManager[Any]:
        return self._transaction(lease)

    @contextmanager
    def _transaction(self, lease: Lease) -> Iterator[_Transaction]:
        transaction = _Transaction()
        yield transaction
        if transaction.outcome is None:
            return
        if self.fails is None:
            with self._lock:
                self._settle(lease, transaction.outcome, self._start())
        self.is_committing = True
        with self.clock.waiting():
            assert self.answer.wait(20)
        if self.fails is not None:
            raise self.fails


def put(bench: Bench, fails: Exception | None = None) -> Committing:
    """The bench on such a store."""
    store = bench.ledger = Committing(bench.clock, fails)
    bench.store = FaultyStore(store)
    bench.app = bench.new_app()
    return store


def declare(bench: Bench, app: App, is_async: bool, **options: Any) -> Any:
    """A task that completes its job in its transaction, and has work to do after it."""
    if is_async:

        @app.task(name="t", **options)
        async def t(ctx: Context) -> None:
            async with ctx.transaction() as tx:
                await tx.complete()
            bench.seen.append(("after", ctx.abort.reason))
            await asyncio.sleep(0.5)
            bench.seen.append("end")

        return t

    @app.task(name="t", **options)
    def plain(ctx: SyncContext) -> None:
        with ctx.transaction() as tx:
            tx.complete()
        bench.seen.append(("after", ctx.abort.reason))
        bench.seen.append("end")

    return plain


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "plain"])
@pytest.mark.parametrize("how", ["check", "timeout", "cancel", "fence", "shutdown"])
@virtual
async def test_the_code_after_a_commit_runs(bench: Bench, how: str, is_async: bool) -> None:
    store = put(bench)
    t = declare(bench, bench.app, is_async, timeout=5 if how == "timeout" else None)
    succeeded: list[Any] = []
    bench.app.events.on("job:success", lambda **said: succeeded.append(said["job"].id))
    job = await t.aenqueue()
    runner = await bench.start(grace=1)
    await wait_until(lambda: store.is_committing)
    stopping = None
    reason: AbortReason | None = None
    match how:
        case "cancel":
            reason = AbortReason.CANCELLED
            [delivery] = list(runner.worker._in_hand.values())
            delivery.stop(reason)
        case "fence":
            reason = AbortReason.ERROR
            bench.store.is_down = True
            await asyncio.sleep(60)
            bench.store.is_down = False
        case "timeout":
            reason = AbortReason.TIMEOUT
        case "shutdown":
            reason = AbortReason.SHUTDOWN
            stopping = asyncio.ensure_future(runner.stop())
            await asyncio.sleep(1.5)
    if how != "shutdown":
        await asyncio.sleep(10)
    assert bench.seen == []
    store.answer.set()
    await wait_until(lambda: "end" in bench.seen or not runner.worker._in_hand)
    assert bench.seen == [("after", reason), "end"]
    if stopping is not None:
        await stopping
    await runner.stop()
    assert await bench.gone(job)
    assert succeeded == [job.id]
    assert runner.worker.completed == 1


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "plain"])
@pytest.mark.parametrize(
    "fails",
    [StoreError("rolled back"), OutcomeUnknownError("the answer was lost")],
    ids=["rolled back", "unknown"],
)
@pytest.mark.parametrize("how", [None, "timeout"])
@virtual
async def test_a_commit_that_failed_protects_nothing(
    bench: Bench, how: str | None, fails: Exception, is_async: bool
) -> None:
    store = put(bench, fails)
    t = declare(bench, bench.app, is_async, timeout=5 if how else None, max_attempts=1)
    job = await t.aenqueue()
    await bench.start()
    await wait_until(lambda: store.is_committing)
    await asyncio.sleep(10)
    store.answer.set()
    await bench.idle()
    failed = await bench.get(job)
    assert failed.state is JobState.FAILED
    expected = "TimeoutError" if how else type(fails).__name__
    assert expected in (failed.last_error or "")
    assert bench.seen == []


@virtual
async def test_a_handler_that_outlives_a_failed_commit_is_stopped_as_it_was_told(
    bench: Bench,
) -> None:
    store = put(bench, StoreError("rolled back"))

    @bench.app.task(timeout=5, max_attempts=1)
    async def t(ctx: Context) -> None:
        try:
            async with ctx.transaction() as tx:
                await tx.complete()
        except StoreError:
            bench.seen.append("failed")
        await asyncio.sleep(100)
        bench.seen.append("not stopped")

    job = await t.aenqueue()
    await bench.start()
    await wait_until(lambda: store.is_committing)
    await asyncio.sleep(10)
    store.answer.set()
    await bench.idle()
    assert bench.seen == ["failed"]
    assert "TimeoutError" in ((await bench.get(job)).last_error or "")


@virtual
async def test_what_cancels_a_commit_by_itself_comes_after_it(bench: Bench) -> None:
    """A timeout of the handler's own: it is raised, when it is known what was written."""
    store = put(bench)

    @bench.app.task
    async def t(ctx: Context) -> None:
        try:
            async with asyncio.timeout(3):
                async with ctx.transaction() as tx:
                    await tx.complete()
        except TimeoutError:
            bench.seen.append((bench.clock.elapsed, await bench.gone(job)))

    job = await t.aenqueue()
    await bench.start()
    await wait_until(lambda: store.is_committing)
    await asyncio.sleep(10)
    assert bench.seen == []
    store.answer.set()
    await wait_until(lambda: bool(bench.seen))
    [(at, gone)] = bench.seen
    assert at >= 10
    assert gone


@virtual
async def test_a_cancel_before_the_commit_rolls_back(bench: Bench) -> None:
    store = put(bench)

    @bench.app.task
    async def t(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            await tx.complete()
            await asyncio.sleep(100)

    job = await t.aenqueue()
    runner = await bench.start()
    await asyncio.sleep(1)
    await bench.app.client.cancel_jobs([job.id])
    await bench.idle()
    assert not store.is_committing
    assert (await bench.get(job)).state is JobState.CANCELLED
    await runner.stop()


@virtual
async def test_virtual_time_stands_still_while_a_transactions_thread_works(bench: Bench) -> None:
    """However slow the machine is, a timeout of virtual seconds is none of its real time."""
    store = put(bench)
    store.answer.set()
    begun = threading.Event()

    @bench.app.task
    async def t(ctx: Context) -> None:
        async with asyncio.timeout(3):
            async with ctx.transaction() as tx:
                await tx.complete()
        bench.seen.append(bench.clock.elapsed)

    enter = store.transaction

    def slow(lease: Lease) -> AbstractContextManager[Any]:
        @contextmanager
        def opened() -> Iterator[Any]:
            begun.wait(0.3)  # never set: the thread takes its time
            with enter(lease) as inner:
                yield inner

        return opened()

    store.transaction = slow  # type: ignore[method-assign]
    await t.aenqueue()
    runner = await bench.start()
    await bench.idle()
    assert len(bench.seen) == 1 and bench.seen[0] < 3
    await runner.stop()
