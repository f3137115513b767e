"""When jobs start: at their time, not at the next poll."""

from __future__ import annotations

import asyncio

import pytest

from tests.engine.engine_kit import Bench, virtual
from windlass import Worker, WorkerOptions
from windlass.clock import to_datetime
from windlass.store.hints import SOON


@virtual
async def test_a_job_due_in_three_seconds_starts_at_three(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None:
        bench.seen.append(bench.clock.elapsed)

    await t.using(delay=3).aenqueue()
    await bench.start(poll_interval=300)
    await asyncio.sleep(10)
    assert bench.seen == [3.0]


@virtual
async def test_a_job_scheduled_while_the_worker_idles_starts_at_its_time(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None:
        bench.seen.append(bench.clock.elapsed)

    await bench.start(poll_interval=300)
    await asyncio.sleep(10)
    await t.using(delay=3).aenqueue()
    await t.using(run_at=to_datetime(bench.clock.now() + 1_500_000)).aenqueue()
    await asyncio.sleep(10)
    assert bench.seen == [11.5, 13.0]


@virtual
async def test_a_ready_job_starts_at_once_by_its_hint(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None:
        bench.seen.append(bench.clock.elapsed)

    await bench.start(poll_interval=300)
    await asyncio.sleep(100)
    await t.aenqueue()
    await asyncio.sleep(1)
    assert bench.seen == [100.0]


@virtual
async def test_without_hints_the_poll_finds_jobs(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None:
        bench.seen.append(bench.clock.elapsed)

    await bench.start(poll_interval=2, concurrency=1)
    bench.ledger._hints.clear()
    await asyncio.sleep(0.5)
    await t.using(delay=4).aenqueue()
    for _ in range(3):
        await t.aenqueue()
    await asyncio.sleep(10)
    assert bench.seen[:3] == [2.0, 2.0, 2.0]
    assert 4.5 <= bench.seen[3] <= 6.5, "due at 4.5, found by the next poll"


@virtual
async def test_a_wall_clock_that_jumps_ahead_makes_jobs_due(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None:
        bench.seen.append(bench.clock.elapsed)

    await t.using(delay=3600).aenqueue()
    await bench.start(poll_interval=2)
    await asyncio.sleep(5)
    bench.clock.jump(3600)
    await asyncio.sleep(5)
    assert bench.seen == [6.0]


@virtual
async def test_an_idle_worker_asks_the_database_seldom(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None: ...

    await bench.start(poll_interval=2)
    await asyncio.sleep(10)
    before = sum(bench.store.calls.values())
    await asyncio.sleep(60)
    # claim and next_due every 2 s, reap every 4 to 5, renew every 10, prune every 30
    assert sum(bench.store.calls.values()) - before <= 85


# ── hints of jobs to come ──


def _asked(bench: Bench) -> tuple[int, int]:
    """How often workers have claimed, and asked when the next job is due."""
    return bench.store.calls["claim"], bench.store.calls["next_due"]


async def _add_elsewhere(bench: Bench, delay: float) -> None:
    """As another process would: nobody here is told."""
    subscribers, bench.ledger._hints._subscribers = bench.ledger._hints._subscribers, []
    await bench.add("t", delay=delay)
    bench.ledger._hints._subscribers = subscribers


@virtual
async def test_a_hint_that_names_no_time_has_the_store_asked(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None:
        bench.seen.append(bench.clock.elapsed)

    await bench.start(poll_interval=60)
    await asyncio.sleep(10)
    await _add_elsewhere(bench, 1.0)
    bench.ledger._hints.due(None)
    await asyncio.sleep(20)
    assert bench.seen == [11.0]


@virtual
async def test_hints_that_name_no_time_cost_one_question_a_second(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None: ...

    await bench.start(poll_interval=60)
    await asyncio.sleep(10)
    claims, asked = _asked(bench)
    for _ in range(1_000):
        bench.ledger._hints.due(None)
        await asyncio.sleep(0.01)
    assert _asked(bench)[0] == claims, "there is nothing to claim yet"
    assert 9 <= _asked(bench)[1] - asked <= 11


@virtual
async def test_a_job_whose_hint_came_too_soon_after_another_is_found_within_a_second(
    bench: Bench,
) -> None:
    @bench.app.task
    async def t() -> None:
        bench.seen.append(bench.clock.elapsed)

    await bench.start(poll_interval=60)
    await asyncio.sleep(10)
    bench.ledger._hints.due(None)
    await asyncio.sleep(0.1)
    await _add_elsewhere(bench, 0.1)
    bench.ledger._hints.due(None)
    await asyncio.sleep(20)
    assert bench.seen == [11.0]


@virtual
async def test_a_job_to_come_costs_fifty_idle_workers_one_question_each(bench: Bench) -> None:
    """At most, and no claim: none could find it."""

    @bench.app.task
    async def t() -> None:
        bench.seen.append(bench.clock.elapsed)

    for _ in range(50):
        await bench.start(poll_interval=300, reap_interval=None)
    await asyncio.sleep(10)
    before = _asked(bench)
    await _add_elsewhere(bench, 100.0)
    bench.ledger._hints.due(None)
    await asyncio.sleep(90)
    assert _asked(bench) == (before[0], before[1] + 50)
    await asyncio.sleep(20)
    assert bench.seen == [110.0]


@virtual
async def test_a_hint_that_names_the_time_costs_no_question(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None:
        bench.seen.append(bench.clock.elapsed)

    await bench.start(poll_interval=300)
    await asyncio.sleep(10)
    before = _asked(bench)
    for delay in (30, 20, 10):
        await t.using(delay=delay).aenqueue()
    await asyncio.sleep(9)
    assert _asked(bench) == before
    await asyncio.sleep(30)
    assert bench.seen == [20.0, 30.0, 40.0]


@virtual
async def test_a_job_far_off_is_on_time_without_a_hint_however_seldom_a_worker_looks(
    bench: Bench,
) -> None:
    """A generic worker's interval has no limit; what it does not hear of it must still see."""
    ran: list[float] = []

    async def handle(record: object) -> None:
        ran.append(bench.clock.elapsed)

    options = WorkerOptions(name="seldom", tasks=["t"], interval=3_600.0)
    async with Worker(bench.store, handle, options, clock=bench.clock):
        await asyncio.sleep(1)
        before = _asked(bench)
        await bench.add("t", delay=SOON + 1)
        await asyncio.sleep(200)
        assert _asked(bench) == before
        await asyncio.sleep(200)
    assert ran == [SOON + 2]


@virtual
async def test_a_timer_that_gets_no_answer_asks_again_and_tells_of_it_once(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    @bench.app.task
    async def t() -> None: ...

    await bench.start()
    await asyncio.sleep(1)
    bench.store.fail_next("next_due", times=5)
    await asyncio.sleep(30)
    assert caplog.text.count("waiting for it") == 1
