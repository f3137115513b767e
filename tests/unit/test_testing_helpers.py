"""windlass.testing itself: virtual time, draining, assertions, the fixture, faults."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from windlass import App, Context, Retry, SyncContext
from windlass.errors import StoreBusyError, StoreError, StoreUnavailableError
from windlass.store.records import ClaimRequest, JobFilter, NewJob, Verdict
from windlass.store.server import ClaimScope, Request
from windlass.stores.memory import MemoryStore
from windlass.testing import (
    DeadlockError,
    FakeClock,
    FaultyStore,
    VirtualClock,
    VirtualTimeoutError,
    assert_continued_with,
    assert_enqueued,
    assert_not_enqueued,
    drain,
    drain_sync,
    run_virtual,
)


def test_time_jumps_to_the_next_timer() -> None:
    async def body(clock: VirtualClock) -> str:
        wall, ticks = clock.now(), clock.monotonic()
        await asyncio.gather(asyncio.sleep(3600), asyncio.sleep(7.25))
        assert clock.elapsed == 3600
        assert clock.now() - wall == 3_600_000_000
        assert clock.monotonic() - ticks == 3600
        clock.jump(-60)
        assert clock.now() - wall == 3_540_000_000
        assert clock.elapsed == 3600
        return "answer"

    assert run_virtual(body) == "answer"


def test_a_body_without_the_clock() -> None:
    async def body() -> float:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.Event().wait()
        return loop.time() - begin

    assert run_virtual(body) == 30


def test_time_stands_still_while_a_thread_works() -> None:
    async def body(clock: VirtualClock) -> None:
        gate = threading.Event()
        asyncio.get_running_loop().call_later(5, gate.set)
        ticking = asyncio.create_task(asyncio.sleep(1))
        await asyncio.to_thread(threading.Event().wait, 0.02)
        assert clock.elapsed == 0
        assert not ticking.done()

        def waits() -> None:
            with clock.waiting():
                gate.wait(20)

        await asyncio.to_thread(waits)
        assert clock.elapsed >= 5
        await ticking

    run_virtual(body)


def test_a_deadlock_is_told() -> None:
    async def body() -> None:
        await asyncio.Event().wait()

    with pytest.raises(DeadlockError, match=r"(?s)nothing is ready.*body waits at .*test_testing"):
        run_virtual(body)


def test_a_body_that_never_ends_is_told() -> None:
    async def body() -> None:
        while True:
            await asyncio.sleep(1)

    with pytest.raises(VirtualTimeoutError, match="not done after 50 virtual seconds"):
        run_virtual(body, timeout=50)


def test_a_thread_that_never_ends_is_told() -> None:
    release = threading.Event()

    async def body() -> None:
        try:
            await asyncio.to_thread(release.wait, 20)
        finally:
            release.set()

    with pytest.raises(DeadlockError, match="a thread has been at work"):
        run_virtual(body, patience=0.1)


def test_connections_are_waited_for_in_real_time() -> None:
    async def body(clock: VirtualClock) -> None:
        process = await asyncio.create_subprocess_exec(
            "cat", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await process.communicate(b"hello")
        assert out == b"hello"

    run_virtual(body)


def test_what_the_body_leaves_is_cancelled() -> None:
    ended: list[str] = []

    async def forever() -> None:
        try:
            await asyncio.sleep(10_000)
        finally:
            ended.append("cancelled")

    async def body() -> None:
        task = asyncio.create_task(forever())
        await asyncio.sleep(1)
        assert not task.done()

    run_virtual(body)
    assert ended == ["cancelled"]


def test_a_tiny_pause_still_takes_time() -> None:
    async def body(clock: VirtualClock) -> None:
        for _ in range(10):
            await asyncio.sleep(1e-13)
        assert clock.elapsed >= 1e-5

    run_virtual(body)


# ── for users ──


def make_app() -> App:
    app = App("memory://")

    @app.task(retry=Retry.fixed(60), max_attempts=3)
    def flaky(n: int) -> None:
        if n < 0:
            raise ValueError(f"{n} is negative")

    @app.task
    async def chain(left: int) -> None:
        if left:
            await chain.aenqueue(left=left - 1)

    return app


def test_drain_runs_what_is_ready_and_what_that_makes_ready() -> None:
    app = make_app()
    app.sync.add_job("chain", {"left": 2})
    app.sync.add_job("flaky", {"n": -1})
    app.sync.add_job("chain", {"left": 0}, delay=60)
    drained = drain_sync(app)
    assert [job.payload for job in drained.completed] == [{"left": 2}, {"left": 1}, {"left": 0}]
    [(_, error)] = drained.errors
    assert str(error) == "-1 is negative"
    assert (len(drained), drained.failed) == (4, [])
    assert drained
    assert_enqueued(app, state="scheduled", count=2)
    asyncio.run(app.close())


def test_drain_may_include_what_is_due_later() -> None:
    app = make_app()
    app.sync.add_job("flaky", {"n": -1})
    app.sync.add_job("chain", {"left": 1}, delay=3600)
    app.sync.add_job("unknown here", delay=3600)
    drained = drain_sync(app, include_scheduled=True)
    assert (len(drained.completed), len(drained.errors), len(drained.failed)) == (2, 3, 1)
    assert_enqueued(app, count=1, task="unknown here")
    asyncio.run(app.close())


def test_drain_may_raise_and_has_a_limit() -> None:
    app = make_app()

    @app.task
    async def again() -> None:
        await again.aenqueue()

    app.sync.add_job("flaky", {"n": -7})
    with pytest.raises(ValueError, match="-7 is negative"):
        drain_sync(app, raise_errors=True)
    again.enqueue()
    with pytest.raises(AssertionError, match="20 jobs have run and there are still more"):
        drain_sync(app, limit=20)
    asyncio.run(app.close())


def test_drain_in_async_code_hears_only_its_own_worker() -> None:
    async def body() -> None:
        app = make_app()
        runner = await app.run(handle_signals=False, only=["chain"])
        await app.client.add_job("chain", {"left": 3})
        await app.client.add_job("flaky", {"n": 1})
        drained = await drain(app, only=["flaky"], concurrency=2)
        assert [job.task for job in drained.completed] == ["flaky"]
        await runner.stop()
        await app.close()

    asyncio.run(body())


def test_assertions_match_and_tell() -> None:
    app = make_app()
    chain = app.registry.get("chain")
    app.sync.add_job("chain", {"left": 1, "deep": {"a": 1, "b": 2}}, queue="q", key="k")
    app.sync.add_job("flaky", {"n": 1}, priority=5)
    [job] = assert_enqueued(app, task=chain, payload={"deep": {"a": 1}}, queue="q", key="k")
    assert job.task == "chain"
    assert_enqueued(app, priority=5, state="ready")
    assert_enqueued(app, count=2)
    assert_not_enqueued(app, task="other")
    assert_not_enqueued(app, payload={"left": 2})
    with pytest.raises(AssertionError) as caught:
        assert_enqueued(app, task="chain", payload={"left": 2})
    assert "expected at least one job with task=chain, payload={'left': 2}, found 0" in str(
        caught.value
    )
    assert '1 chain {"left":1,"deep":{"a":1,"b":2}} ready queue=q key=k' in str(caught.value)
    assert "2 flaky" in str(caught.value)
    assert "priority=5" in str(caught.value)
    with pytest.raises(AssertionError, match="expected exactly 3 jobs with any values, found 2"):
        assert_enqueued(app, count=3)
    with pytest.raises(AssertionError, match="expected no job with task=chain, found 1"):
        assert_not_enqueued(app, task="chain")
    app.sync.cancel_jobs([1, 2])
    with pytest.raises(AssertionError, match="nothing is enqueued"):
        assert_enqueued(app)
    app.sync.add_jobs([windlass_spec() for _ in range(1100)])
    with pytest.raises(AssertionError, match="… and 1080 more"):
        assert_not_enqueued(app)
    asyncio.run(app.close())


# ── chains ──


def make_shop() -> App:
    app = App("memory://")

    @app.task
    async def charge(ctx: Context, order: int) -> object:
        return ctx.continue_with("ship", {"order": order, "by": "post"}, delay=60, queue="q")

    @app.task
    def ship(ctx: SyncContext, order: int, by: str) -> object:
        return ctx.continue_with("thank", {"order": order})

    @app.task(max_attempts=1)
    async def thank(order: int) -> int:
        if order < 0:
            raise ValueError(f"there is no order {order}")
        return order

    @app.task
    async def split(ctx: Context, orders: list[int]) -> object:
        parts = [ctx.start(thank, order=order) for order in orders]
        return ctx.continue_with(merge.using(blockers=parts))

    @app.task
    async def merge(ctx: Context) -> int:
        return sum(chain.output for chain in ctx.blockers)

    return app


def test_drain_runs_chains_to_their_end() -> None:
    app = make_shop()
    chain = app.sync.start_chain("split", {"orders": [1, 2, 3]})
    waiting = app.sync.add_job("thank", {"order": 9}, blockers=[chain])
    drained = drain_sync(app)
    tasks = [job.task for job in drained.completed]
    assert tasks == ["split", "thank", "thank", "thank", "merge", "thank"]
    assert drained.completed[-1].id == waiting.id
    ended = app.sync.get_chain(chain.id)
    assert ended is not None and (ended.state, ended.output) == ("completed", 6)
    assert_not_enqueued(app)
    asyncio.run(app.close())


def test_drain_goes_on_with_what_is_due_later_if_it_is_included() -> None:
    app = make_shop()
    chain = app.sync.start_chain("charge", {"order": 7})
    blocked = app.sync.start_chain("merge", blockers=[chain])
    assert len(drain_sync(app)) == 1
    assert_enqueued(app, task="ship", state="scheduled")
    assert_enqueued(app, task="merge", state="blocked")
    assert len(drain_sync(app, include_scheduled=True)) == 3
    ended = app.sync.get_chain(blocked.id)
    assert ended is not None and ended.output == 7
    asyncio.run(app.close())


def test_what_a_chain_went_on_with_can_be_asserted() -> None:
    app = make_shop()
    ship = app.registry.get("ship")
    first, second = (app.sync.start_chain("charge", {"order": n}) for n in (7, 8))
    with pytest.raises(AssertionError, match="found 0; no chain has gone on"):
        assert_continued_with(app)
    drain_sync(app)
    [job] = assert_continued_with(app, chain=first, task=ship, payload={"order": 7}, queue="q")
    assert (job.chain, job.step, job.state) == (first.id, 1, "scheduled")
    assert_continued_with(app, task="ship", state="scheduled", count=2)
    assert_continued_with(app, chain=second.id, payload={"by": "post"}, priority=0)
    with pytest.raises(AssertionError) as caught:
        assert_continued_with(app, chain=first, task=ship, payload={"order": 8})
    wanted = f"task=ship, payload={{'order': 8}}, chain={first.id}"
    assert f"expected at least one continuation with {wanted}" in str(caught.value)
    assert "2 continuations:" in str(caught.value)
    assert f"scheduled chain={second.id} step=1 queue=q" in str(caught.value)
    with pytest.raises(AssertionError, match=r"expected exactly 1 continuations with .*, found 2"):
        assert_continued_with(app, task=ship, count=1)
    asyncio.run(app.close())


def test_continuations_that_are_gone_are_known_by_what_was_drained() -> None:
    app = make_shop()
    chain = app.sync.start_chain("charge", {"order": 7})
    kept = app.sync.start_chain("charge", {"order": -7}, keep=600)
    drained = drain_sync(app, include_scheduled=True)
    with pytest.raises(AssertionError, match="found 0"):
        assert_continued_with(app, chain=chain)
    assert_continued_with(app, chain=chain, task="ship", drained=drained)
    assert_continued_with(app, chain=chain, count=2, drained=drained)
    assert_continued_with(app, chain=kept, task="ship", state="completed")
    assert_continued_with(app, chain=kept, task="thank", state="failed", drained=drained)
    assert_continued_with(app, chain=kept, count=2)
    asyncio.run(app.close())


def windlass_spec() -> Any:
    from windlass import JobSpec

    return JobSpec("chain", {"left": 0})


REAL = make_app()


def test_the_fixture_puts_an_app_on_a_store_of_its_own(windlass_testing: Any) -> None:
    before = REAL.store, REAL.settings.url
    assert windlass_testing(REAL) is REAL
    assert REAL.store is not before[0]
    REAL.sync.add_job("chain", {"left": 0})
    assert len(drain_sync(REAL)) == 1


def test_the_fixture_has_put_it_back(windlass_testing: Any, windlass_clock: FakeClock) -> None:
    own = REAL.store
    assert_not_enqueued(REAL)
    windlass_testing(REAL, clock=windlass_clock)
    REAL.sync.add_job("chain", {"left": 0}, delay=60)
    assert len(drain_sync(REAL)) == 0
    windlass_clock.advance(60)
    assert len(drain_sync(REAL)) == 1
    assert REAL.store is not own


def test_override_restores_even_after_an_error(tmp_path: Any) -> None:
    app = make_app()
    own = app.store
    with pytest.raises(RuntimeError):
        with app.override(f"sqlite:///{tmp_path}/jobs.db"):
            assert app.settings.url.startswith("sqlite")
            app.sync.add_job("chain", {"left": 0})
            raise RuntimeError
    assert app.store is own
    assert app.settings.url == "memory://"


# ── faults ──


def test_faults_are_planned_and_told() -> None:
    async def body() -> None:
        store = FaultyStore(MemoryStore(), seed=5)
        await store.open()
        store.fail_next("enqueue", "before")
        store.fail_next("enqueue", "after")
        store.fail_next("enqueue", "busy")
        for error in (StoreUnavailableError, StoreUnavailableError, StoreBusyError):
            with pytest.raises(error):
                await store.enqueue([NewJob("t")])
        assert len(await store.find(JobFilter())) == 1, "one was carried out"
        assert store.faults == ["enqueue#1 before", "enqueue#2 after", "enqueue#3 busy"]
        store.is_down = True
        with pytest.raises(StoreError):
            await store.counts()
        store.is_down = False
        with pytest.raises(ValueError, match="no fault is called"):
            store.fail_next("claim", "sideways")  # type: ignore[arg-type]
        assert "seed=5" in repr(store)
        line = store.lifeline()
        store.fail_next("renew", "after")
        with pytest.raises(StoreError):
            line.renew("w", 30, [])
        assert [w.id for w in await store.workers()] == ["w"]
        store.fail_next("check")
        with pytest.raises(StoreError):
            line.check("w", [])
        line.close()
        await store.close()

    asyncio.run(body())


def test_a_seed_repeats_its_faults() -> None:
    async def run(seed: int) -> list[str]:
        store = FaultyStore(MemoryStore(), seed=seed, rate=0.3)
        for _ in range(60):
            for verb in (store.promote(1), store.reap(1, 5), store.prune(1)):
                try:
                    await verb
                except StoreError:
                    pass
        return store.faults

    once, twice, other = (asyncio.run(run(seed)) for seed in (1, 1, 2))
    assert once == twice
    assert once != other
    assert {fault.split()[1] for fault in once} == {"before", "after"}


def test_every_verb_passes_through() -> None:
    async def body() -> None:
        store = FaultyStore(MemoryStore())
        await store.open()
        assert not store.capabilities.shared
        [job] = await store.enqueue([NewJob("t", key="k")])
        assert await store.now() > 0
        assert await store.get(job.id) == await store.get_by_key("k")
        assert await store.next_due() is None
        await store.reschedule([job.id], priority=3)
        await store.fail([job.id], "x")
        await store.retry([job.id])
        await store.cancel([job.id])
        await store.complete([job.id])
        assert await store.remove("none") is None
        assert await store.unlock(["w"], 5) == []
        await store.pause(task="t")
        assert (await store.paused()).tasks == ("t",)
        await store.resume(task="t")
        await store.retire("w")
        assert await store.delete_failed(5) == 0
        assert [gone.id for gone in await store.delete([job.id])] == [job.id]
        assert await store.tokens() == []
        assert await store.secret("name", "fresh") == "fresh"
        [added] = await store.enqueue_once([Request("k", "d", (NewJob("t"),))])
        assert added.is_new
        assert await store.claimable([ClaimScope(("t",))]) == [True]
        [lease] = await store.claim(ClaimRequest("w", ("t",), 1))
        assert await store.move(lease, "v", 10.0) is Verdict.APPLIED
        store.subscribe(lambda: None)()
        for verb in (lambda: store.joined(None), store.connection):
            with pytest.raises(ValueError):
                verb()

    asyncio.run(body())
