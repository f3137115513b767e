"""Workers report what they did: every ten seconds, outside settlements, and when they stop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.engine.engine_kit import Bench, virtual
from windlass import Abandon, Context, Poison
from windlass.engine.rate_reporter import RateReporter
from windlass.model.job import JobState
from windlass.store.figures import BOUNDS, MOST_TASKS, OTHER, Figures, RateFilter
from windlass.store.records import ClaimRequest, NewJob, Settled, Verdict
from windlass.stores.memory import MemoryStore
from windlass.testing import FakeClock

DONE = Settled(Verdict.APPLIED, JobState.COMPLETED)


async def reported(bench: Bench, task: str | None = None, tenant: str | None = None) -> Figures:
    found = Figures()
    wanted = RateFilter(3600.0, task=task, tenant=tenant)
    for rate in await bench.ledger.rates(wanted):
        found.add(rate.figures)
    return found


@virtual
async def test_a_worker_reports_every_ten_seconds(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None: ...

    await bench.start()
    await t.aenqueue_many([{}] * 30)
    await asyncio.sleep(9)
    assert (await reported(bench)).ok == 0
    await asyncio.sleep(2)
    assert (await reported(bench)).ok == 30
    await t.aenqueue()
    await asyncio.sleep(10)
    assert bench.store.calls["note_rates"] == 2
    await asyncio.sleep(100)
    assert bench.store.calls["note_rates"] == 2, "nothing to report is not reported"
    assert (await reported(bench)).ok == 31


@virtual
async def test_a_drain_is_reported_at_its_end_in_one_call(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None: ...

    @bench.app.task
    async def u() -> None: ...

    for options in ({}, {"instruments": True}):
        bench.store.calls.clear()
        await t.aenqueue_many([{}] * 1_500)
        await u.aenqueue_many([{}] * 500)
        runner = await bench.start(once=True)
        await runner.wait()
        assert bench.store.calls["note_rates"] == 1, options
    assert (await reported(bench, "t")).ok == 3_000
    assert (await reported(bench, "u")).ok == 1_000
    assert (await reported(bench)).ok == 4_000


@virtual
async def test_how_deliveries_end_wait_and_run(bench: Bench) -> None:
    @bench.app.task(max_attempts=2)
    async def t(ctx: Context, how: str) -> Any:
        await asyncio.sleep(2)
        match how:
            case "fail":
                raise RuntimeError("no")
            case "poison":
                raise Poison("never")
            case "cancel":
                await asyncio.sleep(1000)
            case "abandon" if ctx.job.deliveries == 1:
                return Abandon()
        return None

    runner = await bench.start()
    jobs = await t.aenqueue_many(
        [{"how": how} for how in ("ok", "fail", "poison", "cancel", "abandon")]
    )
    await asyncio.sleep(4)
    await bench.app.client.cancel_jobs([jobs[3].id])
    await asyncio.sleep(60)
    await runner.stop()
    found = await reported(bench, "t")
    endings = {"ok": 2, "retry": 1, "failed": 1, "poison": 1, "cancelled": 1, "abandoned": 1}
    assert {name: getattr(found, name) for name in endings} == endings
    assert found.processed == sum(endings.values()) == sum(found.runs) == sum(found.waits)
    two_seconds = next(n for n, bound in enumerate(BOUNDS) if bound >= 2.01)
    assert found.runs[two_seconds] >= 6
    assert found.ran >= 12_000_000


@virtual
async def test_tenants_are_told_apart(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None: ...

    await bench.app.client.for_tenant("acme").add_job("t", {})
    await t.aenqueue_many([{}] * 2)
    await (await bench.start(once=True)).wait()
    counts = [(await reported(bench, "t", tenant)).ok for tenant in (None, "", "acme")]
    assert counts == [3, 2, 1]


@virtual
async def test_what_could_not_be_written_is_written_later(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None: ...

    bench.store.fail_next("note_rates", times=3)
    await bench.start()
    await t.aenqueue_many([{}] * 7)
    await asyncio.sleep(60)
    assert (await reported(bench)).ok == 7


@virtual
async def test_what_may_have_been_written_is_not_written_again(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None: ...

    bench.store.fail_next("note_rates", "after")
    await bench.start()
    await t.aenqueue_many([{}] * 7)
    await asyncio.sleep(60)
    assert (await reported(bench)).ok == 7
    assert bench.store.calls["note_rates"] == 1


@virtual
async def test_a_worker_ends_though_its_last_report_fails(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None: ...

    bench.store.fail_next("note_rates", times=9)
    await t.aenqueue()
    await (await bench.start(once=True)).wait()
    assert (await reported(bench)).ok == 0
    assert (await bench.ledger.workers()) == []


@pytest.mark.parametrize("how", ["setting", "store"])
def test_a_worker_that_is_not_to_report_does_not(how: str) -> None:
    @virtual
    async def run(bench: Bench) -> None:
        app = bench.new_app(rates=False) if how == "setting" else bench.app
        if how == "store":
            known = MemoryStore.capabilities
            bench.ledger.capabilities = type(known)(
                shared=False, durable=False, transactions=True, sql=False
            )

        @app.task
        async def t() -> None: ...

        await app.client.add_job("t", {})
        runner = await bench.start(app, once=True)
        assert runner.worker._rates is None
        await runner.wait()
        assert bench.store.calls["note_rates"] == 0
        await app.close()

    run()


def test_tasks_beyond_a_limit_are_reported_together() -> None:
    async def go() -> None:
        clock = FakeClock()
        store = MemoryStore(clock)
        tasks = [f"t{n}" for n in range(MOST_TASKS + 5)]
        await store.enqueue([NewJob(task) for task in tasks])
        leases = await store.claim(ClaimRequest("w", tuple(tasks), len(tasks)))
        reporter = RateReporter(store, clock)
        batch: Any = [_Ended(lease, 1.0, 1.5) for lease in leases]
        reporter.settled(batch, [DONE] * len(batch), 2.0, all_done=True)
        lost: Any = next(one for one in batch if ("", one.lease.task) not in reporter._sums)
        reporter.settled([lost], [Settled(Verdict.LOST)], 2.0, all_done=False)
        await reporter.step()
        found = await store.rates(RateFilter(60.0, by_task=True))
        assert len(found) == MOST_TASKS + 1
        [other] = [rate.figures for rate in found if rate.task == OTHER]
        assert (other.ok, other.lost) == (5, 1)

    asyncio.run(go())


class _Ended:
    """A delivery that is over."""

    def __init__(self, lease: Any, started_at: float, ended_at: float) -> None:
        self.lease = lease
        self.started_at = started_at
        self.ended_at = ended_at
        self.settled_inside = False
        self.outcome = None


def test_what_never_began_is_not_reported_and_odd_clocks_do_no_harm() -> None:
    async def go() -> None:
        clock = FakeClock()
        store = MemoryStore(clock)
        await store.enqueue([NewJob("t"), NewJob("t")])
        leases = await store.claim(ClaimRequest("w", ("t",), 2))
        reporter = RateReporter(store, clock)
        never: Any = [_Ended(leases[0], 0.0, 0.0)]
        reporter.settled(never, [Settled(Verdict.APPLIED, JobState.READY)], 9.0, all_done=False)
        assert await reporter.step() == 10.0
        assert await store.rates(RateFilter(60.0)) == []
        # It began before it was due, by this machine's clock.
        early: Any = [_Ended(leases[0], 1.0, 1.2), _Ended(leases[1], 8.0, 88.0)]
        reporter.settled(early, [DONE] * 2, 9.0, all_done=True)
        await reporter.step()
        [rate] = await store.rates(RateFilter(60.0))
        assert (rate.figures.waited, sum(rate.figures.waits)) == (0, 2)
        assert [n for n in rate.figures.runs if n] == [1, 1]

    asyncio.run(go())


def test_some_of_a_large_batch_stand_for_the_others() -> None:
    async def go() -> None:
        clock = FakeClock()
        store = MemoryStore(clock)
        await store.enqueue([NewJob("t")] * 1_000)
        leases = await store.claim(ClaimRequest("w", ("t",), 1_000))
        reporter = RateReporter(store, clock)
        batch: Any = [
            _Ended(lease, 5.0, 5.5 if n < 500 else 25.0) for n, lease in enumerate(leases)
        ]
        reporter.settled(batch[:999], [DONE] * 999, 5.0, all_done=True)
        await reporter.step()
        [rate] = await store.rates(RateFilter(60.0))
        figures = rate.figures
        assert (figures.ok, sum(figures.runs), sum(figures.waits)) == (999, 999, 999)
        assert figures.waits[0] == 999
        assert abs(figures.ran - (500 * 500_000 + 499 * 20_000_000)) < 31 * 20_000_000

    asyncio.run(go())
