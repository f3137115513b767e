"""When jobs start: at their time, not at the next poll."""

from __future__ import annotations

import asyncio

from tests.engine.engine_kit import Bench, virtual
from windlass.clock import to_datetime


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

    bench.ledger._hints = _Deaf()
    await bench.start(poll_interval=2, concurrency=1)
    await asyncio.sleep(0.5)
    await t.using(delay=4).aenqueue()
    for _ in range(3):
        await t.aenqueue()
    await asyncio.sleep(10)
    assert bench.seen[:3] == [2.0, 2.0, 2.0]
    assert 4.5 <= bench.seen[3] <= 6.5, "due at 4.5, found by the next poll"


class _Deaf(list):  # type: ignore[type-arg]
    """Hints may be lost: these all are."""

    def append(self, item: object) -> None:
        pass


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
