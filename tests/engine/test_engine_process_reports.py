"""What comes back from a task in another process: its errors, its logs, the jobs it adds.

The tasks are at the top of this module, where a child finds them.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.patience import PATIENCE
from windlass import App, Context, Job, JobState, RetryAfter


class RateLimited(RetryAfter):
    def __init__(self, what: str) -> None:
        super().__init__(3_600, what)


class NeedsTwo(Exception):
    def __new__(cls, first: str, second: str) -> NeedsTwo:
        return super().__new__(cls, first, second)

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first)


def raises(kind: str) -> None:
    match kind:
        case "rate":
            raise RateLimited("limit")
        case "group":
            raise ExceptionGroup("several", [ValueError("the real reason")])
        case "two":
            raise NeedsTwo("the real reason", "x")
        case "surrogate":
            raise ValueError("bad name \udcff")


def adds_badly(ctx: Context) -> None:
    priority: Any = "high"
    ctx.add_job("other", {}, priority=priority)  # type: ignore[unused-coroutine]


_next_job_runs = threading.Event()
_said = threading.Event()


def speaks_late(ctx: Context) -> None:
    def later() -> None:
        _next_job_runs.wait(PATIENCE)
        try:
            ctx.log("said by the first job")
        finally:
            _said.set()

    threading.Thread(target=later, daemon=True).start()


def listens(ctx: Context) -> bool:
    _next_job_runs.set()
    said = _said.wait(PATIENCE)
    ctx.log("said by the second job")
    return said


def logs_from_threads(ctx: Context) -> None:
    with ThreadPoolExecutor(8) as threads:
        # 10 KB of JSON each, which its quotes make 20 KB on the way: multiprocessing writes more
        # than 16 KB in two pieces.
        list(threads.map(lambda _: ctx.log('"' * 5_000), range(160)))


def with_processes(body: Callable[[App, Any], Awaitable[Any]], concurrency: int = 1) -> Any:
    async def main() -> Any:
        app = App("memory://", keep=600, grace=0.0)
        app.task(executor="process", max_attempts=2)(raises)
        for function in (adds_badly, speaks_late, listens, logs_from_threads):
            app.task(executor="process", max_attempts=1)(function)
        runner = await app.run(handle_signals=False, concurrency=concurrency)
        try:
            return await asyncio.wait_for(body(app, runner), PATIENCE)
        finally:
            await runner.stop()
            await app.close()

    return asyncio.run(main())


async def ended(app: App, job: Job) -> Job:
    """The job once its first attempt is over."""
    while True:
        found = await app.client.get_job(job.id)
        assert found is not None
        if found.state not in (JobState.READY, JobState.RUNNING):
            return found
        await asyncio.sleep(0.01)


@pytest.fixture(scope="module")
def raised() -> dict[str, Job]:
    """The job of each kind of error after its first attempt."""

    async def body(app: App, runner: Any) -> dict[str, Job]:
        return {
            kind: await ended(app, await app.client.add_job("raises", {"kind": kind}))
            for kind in ("surrogate", "group", "two", "rate")
        }

    jobs: dict[str, Job] = with_processes(body)
    return jobs


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("group", "ExceptionGroup: several"),
        ("two", "NeedsTwo: the real reason"),
        ("surrogate", "ValueError: bad name "),
        ("rate", "RateLimited: limit"),
    ],
)
def test_an_error_in_a_process_keeps_its_text(raised: dict[str, Job], kind: str, text: str) -> None:
    job = raised[kind]
    assert job.attempts == 1
    assert (job.last_error or "").startswith(text)


def test_a_retry_after_of_the_users_own_keeps_its_seconds(raised: dict[str, Job]) -> None:
    assert raised["rate"].state is JobState.SCHEDULED
    assert raised["rate"].run_at > datetime.now(UTC) + timedelta(seconds=3_000)


def test_a_job_added_badly_in_a_process_costs_no_extra_children() -> None:
    async def body(app: App, runner: Any) -> list[Job]:
        jobs = [await app.client.add_job("adds_badly", {}) for _ in range(6)]
        found = [await ended(app, job) for job in jobs]
        assert len(runner._handler._processes._all) <= 2
        assert len(multiprocessing.active_children()) <= 2
        assert await app.client.list_jobs(task="other") == []
        return found

    for job in with_processes(body, concurrency=2):
        assert (job.state, job.attempts) == (JobState.FAILED, 1)
        assert "priority" in (job.last_error or "")


def test_what_a_thread_of_an_ended_job_logs_is_not_in_the_next_jobs_log() -> None:
    async def body(app: App, runner: Any) -> Job:
        await ended(app, await app.client.add_job("speaks_late", {}))
        return await ended(app, await app.client.add_job("listens", {}))

    job = with_processes(body)
    assert job.output is True, "the late thread spoke while the second job ran"
    assert job.log == ("said by the second job",)


def test_threads_of_a_process_task_may_log_at_once() -> None:
    async def body(app: App, runner: Any) -> Job:
        return await ended(app, await app.client.add_job("logs_from_threads", {}))

    job = with_processes(body)
    assert job.state is JobState.COMPLETED, job.last_error
    assert len(job.log) == 160
