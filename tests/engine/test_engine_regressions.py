"""Rules of the engine that were once broken."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import subprocess
import sys
import textwrap
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.engine.engine_kit import Bench, virtual, wait_until
from tests.patience import PATIENCE
from windlass import App, Context, Job, JobState, RetryAfter
from windlass.store.records import ClaimRequest, Lease, NewJob, Settled

"""Real seconds after which something that must happen is given up."""


# ── slots ──


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
async def test_stop_returns_although_a_coroutine_swallows_every_cancel(bench: Bench) -> None:
    enough = False

    @bench.app.task
    async def stubborn() -> None:
        bench.seen.append("started")
        while not enough:
            try:
                await asyncio.sleep(0.5)
            except asyncio.CancelledError:
                bench.seen.append("swallowed")

    await stubborn.aenqueue()
    runner = await bench.start(grace=0.5)
    await wait_until(lambda: bool(bench.seen))
    try:
        await asyncio.wait_for(runner.stop(), 30)
    finally:
        enough = True
    assert "swallowed" in bench.seen


# ── claiming and settling ──


@virtual
async def test_a_suspect_starts_soon_beside_an_endless_backlog(bench: Bench) -> None:
    started_after: list[int] = []
    quick_jobs = 0
    suspect_since: int | None = None

    @bench.app.task
    async def victim() -> None:
        # It may start before the loop below has seen it ready: that is soon enough.
        started_after.append(0 if suspect_since is None else quick_jobs - suspect_since)

    @bench.app.task
    async def quick() -> None:
        nonlocal quick_jobs
        quick_jobs += 1
        await asyncio.sleep(0.001)

    await bench.ledger.enqueue([NewJob("victim", priority=-10)])
    [lease] = await bench.ledger.claim(ClaimRequest("dead", ("victim",), 1, lease=1))
    await quick.aenqueue_many([{}] * 3_000)
    await bench.start(concurrency=10, reap_interval=0.5)
    while not started_after and quick_jobs < 40_000:
        counts = await bench.ledger.counts()
        if counts[JobState.READY] < 3_000:
            await quick.aenqueue_many([{}] * 1_000)
        job = await bench.ledger.get(lease.job_id)
        if suspect_since is None and job is not None and job.state is JobState.READY:
            suspect_since = quick_jobs
        await asyncio.sleep(0.005)
    assert started_after, f"{quick_jobs} quick jobs ran before the suspect"
    assert started_after[0] <= 5_000, "ten slots run 10,000 in a second"


@virtual
async def test_after_a_failed_claim_fewer_are_asked_for_and_later_more_again(bench: Bench) -> None:
    tight = True
    claim = bench.ledger.claim

    async def claim_few(request: ClaimRequest) -> list[Lease]:
        if tight and request.limit > 10:
            raise MemoryError
        return await claim(request)

    bench.ledger.claim = claim_few  # type: ignore[method-assign]

    @bench.app.task
    async def t() -> None:
        bench.seen.append(1)
        await asyncio.sleep(0.01)

    await t.aenqueue_many([{}] * 100)
    await bench.start(concurrency=50)
    await asyncio.wait_for(wait_until(lambda: len(bench.seen) == 100), 600)
    await bench.idle()
    tight = False
    bench.ledger.claims.clear()
    await t.aenqueue_many([{}] * 2_000)
    await asyncio.wait_for(bench.idle(), 600)
    assert len(bench.seen) == 2_100
    assert max(request.limit for _, request, _ in bench.ledger.claims) >= 50


@virtual
async def test_a_store_that_cannot_settle_many_at_once_gets_fewer(bench: Bench) -> None:
    settle = bench.ledger.settle

    async def settle_few(settlements: Sequence[Any]) -> list[Settled]:
        if len(settlements) > 10:
            raise MemoryError
        return await settle(settlements)

    bench.ledger.settle = settle_few  # type: ignore[method-assign]

    @bench.app.task
    async def t() -> None:
        await asyncio.sleep(1)

    await t.aenqueue_many([{}] * 200)
    await bench.start(concurrency=200)
    await asyncio.wait_for(bench.idle(), 600)
    assert len(bench.ledger.settled) == 200
    assert all(answer.verdict == "applied" for _, _, answer in bench.ledger.settled)


@virtual
async def test_jobs_behind_foreign_heads_are_looked_for_in_steady_traffic_too(bench: Bench) -> None:
    @bench.app.task
    async def mine(name: str = "") -> None:
        bench.seen.append(name)

    await bench.start(poll_interval=1)
    await asyncio.sleep(1.5)
    bench.ledger.claims.clear()
    await bench.add("foreign", queue="q")
    await mine.using(queue="q").aenqueue(name="behind")
    for _ in range(50):
        await mine.aenqueue()
        await asyncio.sleep(0.2)
    assert "behind" in bench.seen
    assert sum(request.past_heads for _, request, _ in bench.ledger.claims) >= 8


@virtual
async def test_max_jobs_leaves_the_hand_back_of_stale_prefetch_alone(bench: Bench) -> None:
    @bench.app.task
    async def t(slow: bool) -> None:
        await asyncio.sleep(100 if slow else 0.001)

    await t.aenqueue_many([{"slow": False}] * 50)
    await t.aenqueue_many([{"slow": True}] * 50)
    await bench.start(concurrency=2, max_jobs=100)
    await asyncio.sleep(1.5)
    assert (await bench.ledger.counts())[JobState.RUNNING] == 50, "two run, the rest are held"
    await asyncio.sleep(2)
    counts = await bench.ledger.counts()
    assert (counts[JobState.RUNNING], counts[JobState.READY]) == (2, 48)


@virtual
async def test_a_cancelled_run_once_leaves_no_worker_behind(bench: Bench) -> None:
    @bench.app.task
    async def long() -> None:
        await asyncio.sleep(1_000)

    @bench.app.task
    async def later() -> None:
        bench.seen.append("ran")

    await long.aenqueue()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(bench.app.run_once(grace=1), 5)
    await asyncio.sleep(5)
    job = await later.aenqueue()
    await asyncio.sleep(60)
    assert (await bench.get(job)).state is JobState.READY
    assert bench.seen == []


# ── life and signals ──


def test_the_keeper_ends_with_its_event_loop() -> None:
    before = set(threading.enumerate())
    keepers: list[threading.Thread] = []

    async def main() -> None:
        app = App("memory://", lease=1.0)

        @app.task
        async def t() -> None: ...

        await app.run(handle_signals=False)
        keepers.extend(
            thread
            for thread in set(threading.enumerate()) - before
            if thread.name.startswith("windlass-keeper")
        )
        raise ValueError("the request failed")

    with pytest.raises(ValueError, match="the request failed"):
        asyncio.run(main())
    [keeper] = keepers
    keeper.join(10)
    assert not keeper.is_alive()


def test_one_sigterm_stops_both_runners_of_a_loop() -> None:
    text = """
        import asyncio, json, os, signal
        from windlass import App

        app = App("memory://")

        @app.task
        async def a() -> None: ...

        @app.task
        async def b() -> None: ...

        async def main():
            runners = [await app.run(only=["a"]), await app.run(only=["b"])]
            waits = [asyncio.create_task(runner.wait()) for runner in runners]
            os.kill(os.getpid(), signal.SIGTERM)
            done, _ = await asyncio.wait(waits)
            print(json.dumps(len(done)), flush=True)
            os._exit(0)

        asyncio.run(main())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == 2


# ── processes: the functions are at the top of this module, where a child finds them ──


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
