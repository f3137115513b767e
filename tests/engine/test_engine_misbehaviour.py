"""Handlers that do everything wrong: the job is settled and the worker goes on."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import pytest

from tests.engine.engine_kit import Bench, virtual, wait_until
from windlass import Context, JobState, RetryAfter
from windlass.model.retry import Retry


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


class OwnBase(BaseException):
    pass


class Bare(RetryAfter):
    """It never called its base."""

    def __init__(self) -> None:
        pass


class Delegating(Exception):
    def __getattr__(self, name: str) -> Any:
        return getattr(self.response, name)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


BAD = [
    Exception("x"),
    OwnBase("x"),
    SystemExit(3),
    KeyboardInterrupt(),
    asyncio.CancelledError(),
    StopIteration(1),
    StopAsyncIteration(),
    GeneratorExit(),
    Unprintable(),
    RecursionError(),
    MemoryError(),
    TimeoutError("own"),
    ExceptionGroup("many", [ValueError(1), KeyError(2)]),
]


@pytest.mark.parametrize("executor", ["async", "thread"])
@pytest.mark.parametrize("error", BAD, ids=lambda error: type(error).__name__)
@virtual
async def test_whatever_is_raised_fails_the_attempt(
    bench: Bench, error: BaseException, executor: Any
) -> None:
    if executor == "async":

        @bench.app.task(name="bad", max_attempts=1)
        async def bad() -> None:
            raise error

    else:

        @bench.app.task(name="bad", max_attempts=1)
        def bad_thread() -> None:
            raise error

    @bench.app.task
    async def good() -> None:
        bench.seen.append("good")

    job = await bench.add("bad")
    await bench.start(concurrency=1)
    await bench.idle()
    failed = await bench.get(job)
    assert (failed.state, failed.attempts) == (JobState.FAILED, 1)
    assert failed.last_error
    await good.aenqueue()
    await bench.idle()
    assert bench.seen == ["good"], "the slot lives on"


@virtual
async def test_a_handler_that_cancels_its_own_task_fails_and_the_slot_lives(bench: Bench) -> None:
    @bench.app.task(max_attempts=1)
    async def waits() -> None:
        asyncio.current_task().cancel()  # type: ignore[union-attr]
        await asyncio.sleep(1)

    @bench.app.task
    async def returns() -> None:
        asyncio.current_task().cancel()  # type: ignore[union-attr]

    @bench.app.task
    async def good() -> None:
        await asyncio.sleep(1)
        bench.seen.append("good")

    job = await waits.aenqueue()
    other = await returns.aenqueue()
    await good.aenqueue()
    await bench.start(concurrency=1)
    await bench.idle()
    assert (await bench.get(job)).state is JobState.FAILED
    assert await bench.gone(other)
    assert bench.seen == ["good"]


@virtual
async def _a_job_fails_and_the_next_one_runs(bench: Bench, error: Exception) -> None:
    @bench.app.task(max_attempts=1)
    async def bad() -> None:
        raise error

    @bench.app.task
    async def good() -> None:
        bench.seen.append("ran")

    first = await bad.aenqueue()
    await bench.start(concurrency=1)
    await asyncio.sleep(60)
    found = await bench.get(first)
    assert (found.state, found.attempts) == (JobState.FAILED, 1)
    await good.aenqueue()
    await asyncio.sleep(60)
    assert bench.seen == ["ran"]


@pytest.mark.parametrize("kind", [Bare, Delegating, Unspeakable])
def test_a_slot_survives_an_error_that_cannot_be_described(kind: type[Exception]) -> None:
    try:
        _a_job_fails_and_the_next_one_runs(error=kind())
    except KeyboardInterrupt:  # it would end pytest
        pytest.fail("it left the slot")


@virtual
async def test_an_idle_slot_survives_a_late_cancel_of_its_task(bench: Bench) -> None:
    @bench.app.task
    async def spiteful() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_later(0.3, task.cancel)

    @bench.app.task
    async def good() -> None:
        bench.seen.append("ran")

    await spiteful.aenqueue()
    await bench.start(concurrency=1)
    await asyncio.sleep(5)
    await good.aenqueue()
    await asyncio.sleep(60)
    assert bench.seen == ["ran"]


@virtual
async def test_a_timeout_fails_the_attempt_on_time(bench: Bench) -> None:
    @bench.app.task(timeout=5, retry=Retry.fixed(10), max_attempts=2)
    async def t() -> None:
        bench.seen.append(bench.clock.elapsed)
        try:
            await asyncio.sleep(100)
        finally:
            bench.seen.append(bench.clock.elapsed)

    job = await t.aenqueue()
    await bench.start()
    await asyncio.sleep(60)
    assert bench.seen == [0.0, 5.0, 15.0, 20.0]
    failed = await bench.get(job)
    assert failed.state is JobState.FAILED
    assert (failed.last_error or "").startswith("TimeoutError: ran longer than its timeout of 5 s")


@virtual
async def test_the_app_s_timeout_applies_where_the_task_says_nothing(bench: Bench) -> None:
    app = bench.new_app(timeout=3)

    @app.task(max_attempts=1)
    async def t() -> None:
        await asyncio.sleep(100)

    job = await t.aenqueue()
    await bench.start(app)
    await bench.idle()
    assert (await bench.get(job)).state is JobState.FAILED
    assert bench.clock.elapsed == pytest.approx(3, abs=0.011)


@virtual
async def test_swallowing_a_cancellation_is_the_handler_s_answer(bench: Bench) -> None:
    @bench.app.task(timeout=5, keep=60)
    async def t() -> str:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            await asyncio.sleep(3)
        return "I finish what I begin"

    job = await t.aenqueue()
    other = await t.aenqueue()
    await bench.start(concurrency=1)
    done = await bench.app.client.wait_for(job.id)
    assert done.output == "I finish what I begin"
    done = await bench.app.client.wait_for(other.id)
    assert done.state is JobState.COMPLETED


@virtual
async def test_asyncio_timeout_and_task_groups_work_inside(bench: Bench) -> None:
    @bench.app.task(keep=60)
    async def t() -> list[str]:
        said = []
        try:
            async with asyncio.timeout(2):
                await asyncio.sleep(100)
        except TimeoutError:
            said.append("timeout")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.sleep(50))
                group.create_task(_raise())
        except* ValueError:
            said.append("group")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.sleep(9), 1)
        return said

    job = await t.aenqueue()
    await bench.start()
    assert (await bench.app.client.wait_for(job.id)).output == ["timeout", "group"]
    assert bench.clock.elapsed < 4


async def _raise() -> None:
    raise ValueError


variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


@virtual
async def test_context_variables_do_not_leak_between_jobs(bench: Bench) -> None:
    async def layer(ctx: Context, call_next: Any) -> Any:
        bench.seen.append(variable.get())
        variable.set("by middleware")
        return await call_next(ctx)

    app = bench.new_app(middleware=[layer])

    @app.task
    async def on_loop() -> None:
        bench.seen.append(variable.get())
        variable.set("by handler")
        await asyncio.sleep(1)
        assert variable.get() == "by handler"

    @app.task
    def in_thread() -> None:
        bench.seen.append(variable.get())
        variable.set("by thread")

    for _ in range(2):
        await on_loop.aenqueue()
        await in_thread.aenqueue()
    await bench.start(app, concurrency=1)
    await bench.idle()
    assert bench.seen == ["unset", "by middleware"] * 4


@virtual
async def test_a_thread_that_ignores_its_abort_keeps_its_slot_but_not_the_worker(
    bench: Bench,
) -> None:
    import threading

    release = threading.Event()

    @bench.app.task(timeout=5, max_attempts=1)
    def stubborn() -> None:
        with bench.clock.waiting():
            release.wait(20)

    @bench.app.task
    async def good() -> None:
        bench.seen.append(bench.clock.elapsed)

    job = await stubborn.aenqueue()
    runner = await bench.start(concurrency=2)
    await asyncio.sleep(10)
    assert (await bench.get(job)).state is JobState.RUNNING
    assert runner.worker._slots.running == 1, "the thread is still there"
    await good.aenqueue()
    await asyncio.sleep(1)
    assert bench.seen == [10.0]
    release.set()
    await wait_until(lambda: runner.worker._slots.running == 0)
    await bench.idle()
    assert (await bench.get(job)).state is JobState.FAILED


@virtual
async def test_a_stubborn_thread_does_not_hold_up_the_end(bench: Bench) -> None:
    import threading

    release = threading.Event()

    @bench.app.task
    def stubborn() -> None:
        with bench.clock.waiting():
            release.wait(20)

    job = await stubborn.aenqueue()
    runner = await bench.start(grace=1)
    await asyncio.sleep(5)
    await runner.stop()
    assert runner.handlers_left
    assert bench.clock.elapsed <= 10
    found = await bench.get(job)
    assert (found.state, found.attempts) == (JobState.READY, 0)
    release.set()


@virtual
async def test_an_async_task_may_run_in_a_thread_of_its_own(bench: Bench) -> None:
    @bench.app.task(executor="thread", keep=60)
    async def t(ctx: Context) -> str:
        import threading

        await ctx.add_job("other")
        return threading.current_thread().name

    job = await t.aenqueue()
    await bench.start()
    done = await bench.app.client.wait_for(job.id)
    assert done.output.startswith("windlass-thread")
    assert len(await bench.app.client.list_jobs(task="other")) == 1


@virtual
async def test_a_plain_function_adds_jobs_by_blocking(bench: Bench) -> None:
    @bench.app.task(keep=60)
    def t(ctx: Context) -> list[int]:
        from windlass import JobSpec

        one: Any = ctx.add_job("other", {"n": 1}, priority=3)
        more: Any = ctx.add_jobs([JobSpec("other"), JobSpec("other")])
        return [one.priority, len(more)]

    job = await t.aenqueue()
    await bench.start()
    assert (await bench.app.client.wait_for(job.id)).output == [3, 2]


@virtual
async def test_a_plain_function_may_run_on_the_loop(bench: Bench) -> None:
    @bench.app.task(executor="async", keep=60)
    def t(ctx: Context) -> Any:
        return asyncio.get_running_loop().create_task(_value())

    job = await t.aenqueue()
    await bench.start()
    assert (await bench.app.client.wait_for(job.id)).output == "awaited"


async def _value() -> str:
    return "awaited"


@virtual
async def test_memory_has_no_sql(bench: Bench) -> None:
    @bench.app.task(max_attempts=1)
    async def t(ctx: Context) -> None:
        await ctx.query("select 1")

    job = await t.aenqueue()
    await bench.start()
    await bench.idle()
    assert "memory:// has no SQL" in ((await bench.get(job)).last_error or "")
