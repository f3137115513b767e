"""Leases: renewed, lost, cancelled, fenced, extended; and what the reaper takes back."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from tests.engine.engine_kit import Bench, virtual, wait_until
from tests.patience import PATIENCE
from windlass import AbortReason, App, Context, JobState
from windlass.engine.keeper import Keeper, KeeperTask, KeeperThread
from windlass.engine.outage import Outage
from windlass.observe.logs import scoped
from windlass.store.records import ClaimRequest, NewJob, Verdict
from windlass.stores.memory import MemoryStore


def sleeper(bench: Bench, **options: Any) -> Any:
    """A task that sleeps long and tells how it was stopped."""

    @bench.app.task(**options)
    async def t(ctx: Context) -> str:
        bench.seen.append(("start", bench.clock.elapsed))
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            bench.seen.append((ctx.abort.reason, bench.clock.elapsed))
            raise
        return "done"

    return t


@virtual
async def test_leases_are_renewed_every_third(bench: Bench) -> None:
    t = sleeper(bench)
    await t.aenqueue()
    await bench.start(lease=30, grace=0)
    await asyncio.sleep(29.9)
    assert bench.store.calls["renew"] == 3, "at 0, 10 and 20"
    assert 24 <= bench.store.calls["check"] <= 30, "every second in between"
    await asyncio.sleep(300)
    assert (await bench.ledger.counts())[JobState.RUNNING] == 1
    assert bench.seen == [("start", 0.0)]


@virtual
async def test_a_lease_taken_by_another_worker_stops_the_handler(bench: Bench) -> None:
    t = sleeper(bench)
    job = await t.aenqueue()
    runner = await bench.start(lease=30)
    await asyncio.sleep(5)
    await bench.app.client.force_unlock_workers([runner.worker.id])
    [lease] = await bench.ledger.claim(ClaimRequest("other", ("t",), 1, suspects=1))
    await asyncio.sleep(2)
    [_, (reason, at)] = bench.seen
    assert reason is AbortReason.TAKEN_BY_ANOTHER_WORKER
    assert at <= 6.01
    [(_, _, answer)] = bench.ledger.settled
    assert answer.verdict is Verdict.LOST
    found = await bench.get(job)
    assert (found.state, found.locked_by) == (JobState.RUNNING, "other")
    await bench.ledger.retire("other")
    assert lease.deliveries == 2


@pytest.mark.parametrize("kept", [True, False])
@virtual
async def test_a_job_that_ended_elsewhere_stops_the_handler(bench: Bench, kept: bool) -> None:
    t = sleeper(bench)
    job = await t.using(keep=60 if kept else None).aenqueue()
    runner = await bench.start()
    await asyncio.sleep(5)
    await bench.app.client.force_unlock_workers([runner.worker.id])
    await bench.ledger.complete([job.id])
    await asyncio.sleep(2)
    expected = AbortReason.ALREADY_COMPLETED if kept else AbortReason.NOT_FOUND
    assert bench.seen[-1][0] is expected
    [(_, _, answer)] = bench.ledger.settled
    assert answer.verdict is (Verdict.LOST if kept else Verdict.MISSING)


@virtual
async def test_cancel_stops_a_running_coroutine_within_a_second(bench: Bench) -> None:
    t = sleeper(bench)
    await bench.start(lease=30, poll_interval=300)
    await asyncio.sleep(12)
    job = await t.aenqueue()
    await asyncio.sleep(0.1)
    await bench.app.client.cancel_jobs([job.id])
    await asyncio.sleep(1)
    assert [reason for reason, _ in bench.seen] == ["start", AbortReason.CANCELLED]
    found = await bench.get(job)
    assert (found.state, found.attempts) == (JobState.CANCELLED, 1)


@virtual
async def test_cancel_tells_a_thread(bench: Bench) -> None:
    @bench.app.task
    def t(ctx: Context) -> None:
        with bench.clock.waiting():
            ctx.abort.wait()
        bench.seen.append(ctx.abort.reason)

    job = await t.aenqueue()
    await bench.start()
    await asyncio.sleep(1)
    await bench.app.client.cancel_jobs([job.id])
    await wait_until(lambda: bool(bench.ledger.settled))
    assert (await bench.get(job)).state is JobState.CANCELLED
    await asyncio.to_thread(_wait, lambda: bool(bench.seen))
    assert bench.seen == [AbortReason.CANCELLED]


def _wait(condition: Any) -> None:
    """In a thread, in real time: the other thread's answer comes within moments."""
    end = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < end:
        threading.Event().wait(0.001)


@virtual
async def test_a_handler_may_await_its_abort(bench: Bench) -> None:
    @bench.app.task
    async def t(ctx: Context) -> None:
        waiter = asyncio.ensure_future(_reason(ctx))
        try:
            await asyncio.sleep(100)
        finally:
            bench.seen.append(await waiter)
            bench.seen.append(await ctx.abort)

    job = await t.aenqueue()
    await bench.start()
    await asyncio.sleep(1)
    await bench.app.client.cancel_jobs([job.id])
    await asyncio.sleep(2)
    assert bench.seen == [AbortReason.CANCELLED] * 2


async def _reason(ctx: Context) -> AbortReason:
    return await ctx.abort


@virtual
async def test_a_worker_that_cannot_renew_stops_before_its_lease_ends(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    t = sleeper(bench)
    job = await t.aenqueue()
    await bench.start(lease=30)
    await asyncio.sleep(20.5)
    bench.store.is_down = True
    await asyncio.sleep(60)
    [_, (reason, at)] = bench.seen
    assert reason is AbortReason.ERROR
    assert 45 <= at < 50, "renewed at 20, so the lease ends at 50"
    assert "its lease could not be renewed" in caplog.text
    bench.store.is_down = False
    await asyncio.sleep(20)
    assert bench.seen[2][0] == "start", "it went back and was started again"
    assert (await bench.get(job)).attempts == 1


@virtual
async def test_a_short_outage_stops_nobody(bench: Bench) -> None:
    t = sleeper(bench)
    await t.aenqueue()
    await bench.start(lease=30, grace=0)
    await asyncio.sleep(20.5)
    bench.store.is_down = True
    await asyncio.sleep(15)
    bench.store.is_down = False
    await asyncio.sleep(100)
    assert bench.seen == [("start", 0.0)]


@virtual
async def test_a_busy_database_freezes_the_fence(bench: Bench) -> None:
    t = sleeper(bench)
    await t.aenqueue()
    await bench.start(lease=30, grace=0, reap_interval=3600)
    await asyncio.sleep(1)
    bench.store.fail_next("renew", "busy", times=100_000)
    bench.store.fail_next("check", "busy", times=100_000)
    await asyncio.sleep(200)
    assert bench.seen == [("start", 0.0)], "nobody can write, so nobody can take it"
    bench.store._planned.clear()


@virtual
async def test_extend_holds_a_job_through_an_outage(bench: Bench) -> None:
    @bench.app.task
    async def t(ctx: Context) -> None:
        ctx.extend(200)
        bench.seen.append("start")
        await asyncio.sleep(150)
        bench.seen.append("end")

    await t.aenqueue()
    await bench.start(lease=30)
    await asyncio.sleep(5)
    bench.store.is_down = True
    await asyncio.sleep(140)
    assert await bench.ledger.reap(10, 5) is not None
    assert (await bench.ledger.counts())[JobState.RUNNING] == 1
    bench.store.is_down = False
    await asyncio.sleep(30)
    assert bench.seen == ["start", "end"]


@virtual
async def test_an_extension_that_could_not_be_written_is_asked_for_again(bench: Bench) -> None:
    @bench.app.task
    async def t(ctx: Context) -> None:
        await asyncio.sleep(2)
        bench.store.fail_next("renew", times=2)
        ctx.extend(500)
        await asyncio.sleep(400)
        bench.seen.append("end")

    job = await t.aenqueue()
    await bench.start(lease=30)
    await asyncio.sleep(10)
    until = bench.ledger._rows[job.id].lease_until
    assert until is not None
    assert until > (bench.clock.monotonic() + 480) * 1e6
    bench.store.is_down = True
    await asyncio.sleep(395)
    bench.store.is_down = False
    await asyncio.sleep(10)
    assert bench.seen == ["end"]


@virtual
async def test_a_task_may_ask_for_a_longer_lease(bench: Bench) -> None:
    @bench.app.task(lease=120)
    async def t() -> None: ...

    await t.aenqueue()
    await bench.start(lease=30)
    await bench.idle()
    assert bench.ledger.claims[0][1].longer_leases == {"t": 120.0}


@virtual
async def test_a_longer_lease_outlasts_an_outage(bench: Bench) -> None:
    t = sleeper(bench, lease=120)
    await t.aenqueue()
    await bench.start(lease=30)
    await asyncio.sleep(20.5)
    bench.store.is_down = True
    await asyncio.sleep(130)
    [_, (reason, at)] = bench.seen
    assert reason is AbortReason.ERROR
    assert 115 <= at < 120, "not at the worker's own 50, and before its own end"
    bench.store.is_down = False


@virtual
async def test_the_job_shows_the_attempts_its_task_gives_it(bench: Bench) -> None:
    @bench.app.task(max_attempts=3)
    async def t(ctx: Context) -> None:
        bench.seen.append(ctx.job.max_attempts)

    await t.aenqueue()
    await t.using(max_attempts=7).aenqueue()
    await bench.start()
    await bench.idle()
    assert bench.seen == [3, 7]


@virtual
async def test_the_reaper_takes_back_what_a_dead_worker_held(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    @bench.app.task
    async def t(ctx: Context) -> None:
        bench.seen.append((bench.clock.elapsed, ctx.job.deliveries, ctx.job.attempts))

    await t.aenqueue()
    await bench.ledger.claim(ClaimRequest("dead", ("t",), 1, lease=30))
    await bench.start(reap_interval=5)
    await asyncio.sleep(60)
    [(at, deliveries, attempts)] = bench.seen
    assert 30 <= at <= 35
    assert (deliveries, attempts) == (2, 1)
    assert "took back 1 jobs of dead workers" in caplog.text


@virtual
async def test_a_job_that_kills_its_worker_is_parked(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    @bench.app.task
    async def t() -> None: ...

    [job] = await bench.ledger.enqueue([NewJob("killer")])
    runner = await bench.start(reap_interval=1, max_resets=3)
    for number in range(10):
        leases = await bench.ledger.claim(
            ClaimRequest(f"dead-{number}", ("killer",), 1, suspects=1, lease=1)
        )
        bench.seen += leases
        await asyncio.sleep(4)
    assert len(bench.seen) == 4, "the first death makes it a suspect, three more end it"
    found = await bench.get(job)
    assert (found.state, found.resets) == (JobState.FAILED, 3)
    assert "its worker died 3 times" in (found.last_error or "")
    assert (
        f"ended 1 jobs whose workers died (failed, or cancelled as asked): {job.id}" in caplog.text
    )
    await runner.stop()


@virtual
async def test_a_keeper_outlives_whatever_its_step_met(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    lifeline = _Broken()
    logger = scoped(None, "test")
    keeper = Keeper("w", 3.0, lifeline, {}, clock=bench.clock, outage=Outage(logger), logger=logger)
    host = KeeperTask(keeper, lifeline, logger)
    host.start()
    await asyncio.sleep(2)
    host.wake()
    await asyncio.sleep(2)
    await host.stop()
    assert lifeline.calls >= 5
    assert lifeline.closed
    assert "the keeper met an error and goes on" in caplog.text


class _Broken:
    calls = 0
    closed = False

    def renew(self, *args: Any) -> Any:
        self.calls += 1
        raise ZeroDivisionError

    def check(self, *args: Any) -> Any:
        raise ZeroDivisionError

    def close(self) -> None:
        self.closed = True


def test_a_keeper_thread_ends_when_told(caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        store = MemoryStore()
        await store.open()
        lifeline = _Broken()
        logger = scoped(None, "test")
        clock = store._clock
        keeper = Keeper("w", 30.0, lifeline, {}, clock=clock, outage=Outage(logger), logger=logger)
        host = KeeperThread(keeper, lifeline, logger)
        host.start()
        host.wake()
        await host.stop()
        assert lifeline.closed
        assert not host._thread.is_alive()

    asyncio.run(body())


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


def test_a_closed_store_lets_the_keeper_rest() -> None:
    store = MemoryStore()
    asyncio.run(store.close())
    logger = scoped(None, "test")
    keeper = Keeper(
        "w", 30.0, store.lifeline(), {}, clock=store._clock, outage=Outage(logger), logger=logger
    )
    assert keeper.step() == 30.0


def test_a_handler_that_blocks_the_loop_keeps_its_lease() -> None:
    """In real time: the keeper's own thread renews while the event loop cannot turn."""

    async def body() -> None:
        app = App("memory://", lease=1.0, reap_interval=0.1)
        taken: list[Any] = []

        @app.task(keep=60)
        async def blocks() -> str:
            time.sleep(3.0)  # three leases
            return "mine"

        def steal() -> None:
            """What another machine's reaper would do, from a thread of its own."""
            loop = asyncio.new_event_loop()
            while not stop.is_set():
                taken.append(loop.run_until_complete(app.store.reap(10, 5)).total)
                stop.wait(0.05)
            loop.close()

        stop = threading.Event()
        thread = threading.Thread(target=steal)
        job = await blocks.aenqueue()
        runner = await app.run(handle_signals=False)
        thread.start()
        done = await app.client.wait_for(job.id, timeout=PATIENCE)
        stop.set()
        thread.join()
        await runner.stop()
        await app.close()
        assert (done.output, done.deliveries) == ("mine", 1)
        assert len(taken) > 5
        assert sum(taken) == 0

    asyncio.run(body())
