"""Instruments: told once per batch, by every loop, and never asking the database for anything."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from tests.engine.engine_kit import Bench, virtual, wait_until
from tests.engine.schedule_kit import ScheduleBench, over_days
from windlass import Abandon, Context, Poison
from windlass.observe import metrics
from windlass.observe.instruments import Instruments
from windlass.observe.metrics import MOST_TASKS, OTHER
from windlass.observe.snapshot import Snapshot, added_up, decode, encode
from windlass.store.records import ClaimRequest, Lease


class Told(Instruments):
    """Instruments that remember how often they were told something."""

    def __init__(self, clock: Any) -> None:
        super().__init__(clock)
        self.calls: list[str] = []
        self.batches: list[int] = []

    def claimed(self, jobs: int, seconds: float) -> None:
        self.calls.append("claimed")
        super().claimed(jobs, seconds)

    def settling(self, seconds: float) -> None:
        self.calls.append("settling")
        super().settling(seconds)

    def settled(self, batch: Sequence[Any], *rest: Any, **options: Any) -> None:
        self.calls.append("settled")
        self.batches.append(len(batch))
        super().settled(batch, *rest, **options)

    def lost(self, leases: int) -> None:
        self.calls.append("lost")
        super().lost(leases)

    def reaped(self, jobs: int) -> None:
        self.calls.append("reaped")
        super().reaped(jobs)

    def fired(self, lags: Any) -> None:
        self.calls.append("fired")
        super().fired(lags)


def equip(bench: Bench) -> Told:
    told = bench.app.instruments = Told(bench.clock)
    return told


def processed(found: Snapshot, task: str = "t") -> dict[str, int]:
    """What became of the jobs of a task, zeros left out."""
    values = found.counters[metrics.JOBS_PROCESSED.name]
    return {ending: int(n) for (name, ending), n in values.items() if name == task and n}


def count_of(found: Snapshot, metric: metrics.Metric, *labels: str) -> int:
    return found.histograms[metric.name][labels].total


# ── once per batch ──


@virtual
async def test_a_drain_tells_once_per_batch_and_asks_the_database_nothing_more(
    bench: Bench,
) -> None:
    @bench.app.task
    async def t() -> None: ...

    calls = []
    for told in (None, Told(bench.clock)):
        bench.app.instruments = told
        await t.aenqueue_many([{}] * 3_000)
        bench.store.calls.clear()
        bench.ledger.batches.clear()
        bench.ledger.claims.clear()
        runner = await bench.start(once=True)
        await runner.wait()
        calls.append(dict(bench.store.calls))
    assert calls[0] == calls[1], "the same calls of the database, with metrics and without"
    assert told is not None
    settles, claims = len(bench.ledger.batches), len(bench.ledger.claims)
    assert told.calls.count("settled") == told.calls.count("settling") == settles < 300
    assert told.calls.count("claimed") == claims < 30
    assert set(told.calls) == {"claimed", "settling", "settled"}
    assert sum(told.batches) == 3_000
    found = told.look()
    assert processed(found) == {"ok": 3_000}
    assert found.counters[metrics.CLAIMED_JOBS.name][()] == 3_000
    assert count_of(found, metrics.JOB_DURATION, "t") == 3_000
    assert count_of(found, metrics.JOB_WAIT, "t") == 3_000
    assert count_of(found, metrics.CLAIM_SECONDS) == claims
    assert count_of(found, metrics.SETTLE_SECONDS) == settles


@virtual
async def test_no_payload_is_decoded_for_them(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    told = equip(bench)

    @bench.app.task
    async def t() -> None: ...

    monkeypatch.setattr(Lease, "job", property(lambda lease: pytest.fail("the job was built")))
    await t.aenqueue_many([{}] * 5)
    await bench.start()
    await bench.idle()
    assert processed(told.look()) == {"ok": 5}


# ── what is counted ──


@virtual
async def test_every_way_in_which_a_delivery_can_end(bench: Bench) -> None:
    told = equip(bench)

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

    for how in ("ok", "fail", "poison", "abandon"):
        await t.aenqueue(how=how)
    cancelled = await t.aenqueue(how="cancel")
    await bench.start()
    await asyncio.sleep(10)
    await bench.app.client.cancel_jobs([cancelled.id])
    await asyncio.sleep(300)
    found = told.look()
    assert processed(found) == {
        "ok": 2,
        "retry": 1,
        "failed": 1,
        "poison": 1,
        "abandoned": 1,
        "cancelled": 1,
    }
    duration = found.histograms[metrics.JOB_DURATION.name][("t",)]
    assert duration.total == 7
    under = dict(zip(metrics.JOB_DURATION.bounds, duration.counts, strict=True))
    assert (under[1.0], under[2.5], under[30.0]) == (0, 6, 7)


@virtual
async def test_a_job_waits_from_when_it_is_due(bench: Bench) -> None:
    told = equip(bench)

    @bench.app.task
    async def t() -> None:
        await asyncio.sleep(3)

    await t.using(delay=100).aenqueue()
    await bench.start()
    for _ in range(2):
        await t.aenqueue()
    await asyncio.sleep(200)
    waits = told.look().histograms[metrics.JOB_WAIT.name][("t",)]
    assert waits.total == 3
    assert waits.counts[metrics.JOB_WAIT.bounds.index(2.5)] == 3, "none waited for 100 s"
    assert waits.sum < 3


@virtual
async def test_one_slot_makes_the_second_job_wait(bench: Bench) -> None:
    told = equip(bench)

    @bench.app.task
    async def t() -> None:
        await asyncio.sleep(40)

    await t.aenqueue_many([{}] * 2)
    await bench.start(concurrency=1)
    await bench.idle()
    waits = told.look().histograms[metrics.JOB_WAIT.name][("t",)]
    assert waits.counts[metrics.JOB_WAIT.bounds.index(30.0)] == 1
    assert 40 <= waits.sum < 41


@virtual
async def test_what_runs_is_shown_as_long_as_it_runs(bench: Bench) -> None:
    told = equip(bench)

    @bench.app.task
    async def t() -> None:
        await asyncio.sleep(10)

    await t.aenqueue_many([{}] * 3)
    runner = await bench.start(concurrency=2)
    await asyncio.sleep(1)
    assert told.look().gauges == {
        metrics.SLOTS.name: {("busy",): 2, ("idle",): 0},
        metrics.IN_FLIGHT.name: {("t",): 2},
    }
    await bench.idle()
    assert told.look().gauges == {metrics.SLOTS.name: {("busy",): 0, ("idle",): 2}}
    await runner.stop()
    assert told.look().gauges == {}, "a worker that has ended has no slots"


@virtual
async def test_a_lost_lease_counts_once_with_its_delivery(bench: Bench) -> None:
    told = equip(bench)

    @bench.app.task
    async def t() -> None:
        await asyncio.sleep(1000)

    await t.aenqueue_many([{}] * 2)
    runner = await bench.start(lease=30)
    await asyncio.sleep(5)
    await bench.app.client.pause(task="t")
    await bench.app.client.force_unlock_workers([runner.worker.id])
    await wait_until(lambda: "lost" in told.calls)
    await asyncio.sleep(5)
    assert told.calls.count("lost") == 1, "both by one renewal"
    found = told.look()
    assert found.counters[metrics.LEASE_LOST.name][()] == 2
    assert processed(found) == {"lost": 2}


@virtual
async def test_leases_that_cannot_be_renewed_in_time_are_lost_too(bench: Bench) -> None:
    told = equip(bench)

    @bench.app.task
    async def t() -> None:
        await asyncio.sleep(1000)

    await t.aenqueue()
    await bench.start(lease=30)
    await asyncio.sleep(5)
    bench.store.is_down = True
    await wait_until(lambda: "lost" in told.calls)
    bench.store.is_down = False
    assert told.look().counters[metrics.LEASE_LOST.name][()] == 1


@virtual
async def test_jobs_of_dead_workers_are_counted_as_they_are_taken_back(bench: Bench) -> None:
    told = equip(bench)

    @bench.app.task
    async def t() -> None: ...

    await t.aenqueue_many([{}] * 4)
    assert len(await bench.ledger.claim(ClaimRequest("dead", ("t",), 4, lease=10.0))) == 4
    await bench.start()
    await wait_until(lambda: "reaped" in told.calls)
    await bench.idle()
    found = told.look()
    assert found.counters[metrics.REAPED.name][()] == 4
    assert processed(found) == {"ok": 4}


@over_days
async def test_schedules_tell_how_late_they_fire(bench: ScheduleBench) -> None:
    told = bench.app.instruments = Told(bench.clock)
    await bench.work("0 * * * * t ?fill=1d {}")
    await bench.until("2026-01-01T05:30")
    lags = told.look().histograms[metrics.SCHEDULE_LAG.name][()]
    assert lags.total == told.calls.count("fired") == 5, "what is made up for is not late"
    assert lags.counts[metrics.SCHEDULE_LAG.bounds.index(1.0)] == 5


@virtual
async def test_a_batch_of_several_tasks_is_counted_by_task(bench: Bench) -> None:
    told = equip(bench)
    seconds = {"a": 2, "b": 20}

    def make(name: str) -> None:
        async def handler() -> None:
            await asyncio.sleep(seconds[name])

        bench.app.task(name=name)(handler)

    for name in seconds:
        make(name)
        await bench.app.registry.get(name).aenqueue_many([{}] * 4)
    await bench.start()
    await bench.idle()
    found = told.look()
    for name, took in seconds.items():
        assert processed(found, name) == {"ok": 4}
        bins = found.histograms[metrics.JOB_DURATION.name][(name,)]
        assert bins.total == 4 and bins.sum == pytest.approx(4 * took)


# ── names and sums ──


def test_what_will_be_counted_is_there_as_zero_before() -> None:
    told = Instruments()
    told.watch(["a"], _Load())()
    found = told.look()
    counted = found.counters[metrics.JOBS_PROCESSED.name]
    assert counted == {("a", ending.value): 0 for ending in metrics.Ending}
    assert found.counters[metrics.CLAIMS.name] == {(): 0}
    assert found.gauges == {}


def test_tasks_beyond_the_bound_share_one_name() -> None:
    told = Instruments()
    names = [f"task-{number}" for number in range(MOST_TASKS + 5)]
    told.watch(names, _Load(in_flight={names[-1]: 2, names[-2]: 1, names[0]: 4}))
    found = told.look()
    shown = {task for task, _ in found.counters[metrics.JOBS_PROCESSED.name]}
    assert shown == {*names[:MOST_TASKS], OTHER}
    assert found.gauges[metrics.IN_FLIGHT.name] == {(names[0],): 4, (OTHER,): 3}


def test_figures_of_processes_add_up_and_those_of_the_ended_have_no_gauges() -> None:
    parts = []
    for number in (1, 2):
        told = Instruments()
        told.watch(["a"], _Load(in_flight={"a": number}))
        told.claimed(number, 0.01 * number)
        told.observe(metrics.SERVER_REQUEST_SECONDS, number, "list_jobs")
        told.count(metrics.SERVER_REQUESTS, "list_jobs", "200")
        parts.append(decode(encode(told.look())))
    whole = added_up(parts)
    assert whole.counters[metrics.CLAIMED_JOBS.name][()] == 3
    assert whole.counters[metrics.SERVER_REQUESTS.name] == {("list_jobs", "200"): 2}
    assert whole.gauges[metrics.IN_FLIGHT.name][("a",)] == 3
    bins = whole.histograms[metrics.SERVER_REQUEST_SECONDS.name][("list_jobs",)]
    assert (bins.total, bins.sum) == (2, 3.0)
    assert bins.counts[metrics.SERVER_REQUEST_SECONDS.bounds.index(1.0)] == 1
    whole.merge(parts[0], has_ended=True)
    assert whole.counters[metrics.CLAIMED_JOBS.name][()] == 4
    assert whole.gauges[metrics.IN_FLIGHT.name][("a",)] == 3
    first = decode(encode(parts[0]))
    assert first.histograms[metrics.SERVER_REQUEST_SECONDS.name][("list_jobs",)].total == 1


class _Load:
    def __init__(self, in_flight: dict[str, int] | None = None) -> None:
        self._in_flight = in_flight or {}

    def busy_slots(self) -> int:
        return sum(self._in_flight.values())

    def idle_slots(self) -> int:
        return 0

    def in_flight(self) -> dict[str, int]:
        return self._in_flight
