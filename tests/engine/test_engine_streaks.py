"""Jobs that never wait: run one after the other in a slot, claimed and settled by the thousand."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.engine.engine_kit import Bench, virtual, wait_until
from windlass import App, Context, JobState
from windlass.engine import slots
from windlass.engine.delivery import Delivery
from windlass.observe.events import Events
from windlass.store.records import ClaimRequest, Lease, NewJob, Settled
from windlass.tasks.abort import AbortReason

variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


@virtual
async def test_context_variables_of_quick_jobs_end_with_them(bench: Bench) -> None:
    @bench.app.task
    async def t(n: int) -> None:
        bench.seen.append(variable.get())
        variable.set(f"by {n}")
        if n % 3 == 0:
            await asyncio.sleep(0)
            assert variable.get() == f"by {n}"

    await t.aenqueue_many([{"n": n} for n in range(40)])
    await bench.start(concurrency=2)
    await bench.idle()
    assert bench.seen == ["unset"] * 40


@virtual
async def test_a_quick_handler_runs_in_a_task_and_may_use_its_tools(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None:
        assert asyncio.current_task() is not None
        async with asyncio.timeout(5):
            bench.seen.append("inside")

    await t.aenqueue_many([{}] * 20)
    await bench.start(concurrency=1)
    await bench.idle()
    assert bench.seen == ["inside"] * 20


@virtual
async def test_a_coroutine_in_disguise_runs_too(bench: Bench) -> None:
    """A decorated `async def` is a plain function, whose own lines belong to the job."""

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            bench.seen.append(variable.get())
            variable.set("by the decorator")
            return function(*args, **kwargs)

        return call

    @bench.app.task
    @decorated
    async def t(n: int, ctx: Context) -> None:
        bench.seen.append((n, ctx.job.payload, variable.get()))

    await t.aenqueue_many([{"n": n} for n in range(2)])
    await bench.start(concurrency=1)
    await bench.idle()
    assert bench.seen == [
        "unset",
        (0, {"n": 0}, "by the decorator"),
        "unset",
        (1, {"n": 1}, "by the decorator"),
    ]


@virtual
async def test_a_listener_hears_of_jobs_whose_handler_takes_no_context(bench: Bench) -> None:
    events = Events()
    events.on("job:start", lambda worker, job: bench.seen.append(job.payload))
    app = bench.new_app(events=events)

    @app.task
    async def t(n: int) -> None: ...

    await t.aenqueue_many([{"n": n} for n in range(3)])
    await bench.start(app, concurrency=1)
    await bench.idle()
    assert bench.seen == [{"n": n} for n in range(3)]


@virtual
async def test_a_slot_between_streaks_survives_a_late_cancel(bench: Bench) -> None:
    @bench.app.task
    async def spiteful() -> None:
        task = asyncio.current_task()
        assert task is not None
        bench.seen.append(1)
        asyncio.get_running_loop().call_soon(task.cancel)

    await spiteful.aenqueue_many([{}] * (3 * slots.STREAK))
    await bench.start(concurrency=1)
    await wait_until(lambda: len(bench.seen) == 3 * slots.STREAK)
    await bench.idle()


def test_the_event_loop_has_a_turn_between_jobs_that_compute() -> None:
    turns_before: list[int] = []

    async def body() -> None:
        turns = 0
        loop = asyncio.get_running_loop()

        def turn() -> None:
            nonlocal turns
            turns += 1
            loop.call_soon(turn)

        app = App("memory://")

        @app.task
        async def compute() -> None:
            turns_before.append(turns)
            time.sleep(2 * slots.TURN)

        await compute.aenqueue_many([{}] * 10)
        turn()
        await app.run_once(concurrency=1, handle_signals=False)
        await app.close()

    asyncio.run(body())
    assert len(turns_before) == 10
    assert len(set(turns_before)) == 10, turns_before


@virtual
async def test_claims_and_settlements_are_even_and_always_under_way(bench: Bench) -> None:
    """However quick the jobs are: neither many small transactions nor a slot that waits in vain."""
    ledger = bench.ledger
    claim, settle = ledger.claim, ledger.settle
    claiming: list[tuple[float, float]] = []

    async def slow_claim(request: ClaimRequest) -> list[Lease]:
        began = bench.clock.elapsed
        await asyncio.sleep(0.010)
        leases = await claim(request)
        claiming.append((began, bench.clock.elapsed))
        return leases

    async def slow_settle(settlements: Any) -> list[Settled]:
        await asyncio.sleep(0.005)
        return await settle(settlements)

    ledger.claim = slow_claim  # type: ignore[method-assign]
    ledger.settle = slow_settle  # type: ignore[method-assign]

    @bench.app.task
    async def t() -> None: ...

    await ledger.enqueue([NewJob(task="t")] * 10_010)
    await bench.start(concurrency=10)
    await wait_until(lambda: len(ledger.settled) == 10_010)
    assert [count for _, _, count in ledger.claims][:11] == [10] + [1_000] * 10
    assert ledger.batches == [10] + [1_000] * 10
    ends = [end for _, end in claiming[1:10]]
    assert ends == pytest.approx([began for began, _ in claiming[2:11]])


@virtual
async def test_the_next_claim_is_sent_before_the_jobs_of_the_last_one_run(bench: Bench) -> None:
    """Also where the store sends it from a task of its own: the database has work meanwhile."""
    claim = bench.ledger.claim

    async def claim_in_a_task(request: ClaimRequest) -> list[Lease]:
        async def send() -> list[Lease]:
            bench.seen.append("sent")
            await asyncio.sleep(0.010)
            return await claim(request)

        leases = await asyncio.create_task(send())
        bench.seen.append("answered")
        return leases

    bench.ledger.claim = claim_in_a_task  # type: ignore[method-assign]

    @bench.app.task
    async def t() -> None:
        if bench.seen[-1] != "job":
            bench.seen.append("job")

    await bench.ledger.enqueue([NewJob(task="t")] * 2_010)
    await bench.start(concurrency=10)
    await wait_until(lambda: len(bench.ledger.settled) == 2_010)
    # The first claim is of ten, because nobody knows yet how quick the jobs are.
    assert bench.seen[:7] == ["sent", "answered", "job", "sent", "answered", "sent", "job"]


@virtual
async def test_outcomes_wait_for_no_others_while_handlers_wait(bench: Bench) -> None:
    ended: dict[int, float] = {}
    settled: dict[int, float] = {}
    settle = bench.ledger.settle

    async def watched(settlements: Any) -> list[Settled]:
        settled.update((lease.job_id, bench.clock.elapsed) for lease, _ in settlements)
        return await settle(settlements)

    bench.ledger.settle = watched  # type: ignore[method-assign]

    @bench.app.task
    async def t(ctx: Context) -> None:
        await asyncio.sleep(0.05 + ctx.job.id / 1000)
        ended[ctx.job.id] = bench.clock.elapsed

    await t.aenqueue_many([{}] * 60)
    await bench.start(concurrency=5)
    await bench.idle()
    assert max(request.limit for _, request, _ in bench.ledger.claims) > 5, "some lay ready"
    assert settled == ended


@virtual
async def test_a_job_stopped_before_anybody_looked_says_why(bench: Bench) -> None:
    await bench.ledger.enqueue([NewJob(task="t")])
    request = ClaimRequest(worker="w", tasks=("t",), limit=1)
    (lease,) = await bench.ledger.claim(request)
    delivery = Delivery(lease, asyncio.get_running_loop(), 0.0)
    stopping = threading.Thread(target=delivery.stop, args=[AbortReason.CANCELLED])
    stopping.start()
    stopping.join()
    delivery.stop(AbortReason.TIMEOUT)
    assert delivery.stopped is delivery.abort.reason is AbortReason.CANCELLED
    assert delivery.abort is delivery.abort
    assert await delivery.abort is AbortReason.CANCELLED


@virtual
async def test_a_timeout_counts_from_the_start_of_a_handler_that_waits_late(bench: Bench) -> None:
    @bench.app.task(timeout=1, max_attempts=1)
    async def t(first: float) -> None:
        for seconds in (first, 10.0):
            try:
                await asyncio.sleep(seconds)
            finally:
                bench.seen.append(bench.clock.elapsed)

    job = await t.aenqueue(first=0.4)
    began = bench.clock.elapsed
    await bench.start()
    await bench.idle()
    assert bench.seen == pytest.approx([began + 0.4, began + 1.0])
    assert (await bench.get(job)).state is JobState.FAILED
