"""Tenants in a running worker: whose jobs it runs, whose schedules it fires, what handlers add."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from tests.engine.engine_kit import Bench, virtual, wait_until
from tests.engine.schedule_kit import ScheduleBench, over_days
from windlass import App, Context

A, B = "acme", "bond"
HOURLY = "0 * * * * t"


# ── whose jobs ──


def _noting(bench: Bench) -> App:
    @bench.app.task
    async def note(ctx: Context) -> None:
        bench.seen.append(ctx.job.tenant)

    return bench.app


async def _one_of_each(app: App) -> None:
    for tenant in ("", A, B):
        await app.client.for_tenant(tenant).add_job("note")


@virtual
async def test_a_worker_runs_the_jobs_of_all_tenants(bench: Bench) -> None:
    app = _noting(bench)
    await _one_of_each(app)
    await bench.start()
    await bench.idle()
    assert bench.seen == [None, A, B]
    assert {request.tenants for _, request, _ in bench.ledger.claims} == {None}


@virtual
async def test_a_worker_of_some_tenants_leaves_the_others_jobs(bench: Bench) -> None:
    app = _noting(bench)
    await _one_of_each(app)
    await bench.start(tenants=[A, ""])
    await wait_until(lambda: len(bench.seen) == 2)
    await _one_of_each(app)
    await wait_until(lambda: len(bench.seen) == 4)
    await asyncio.sleep(60)
    assert bench.seen == [None, A, None, A]
    assert [job.tenant for job in await app.client.list_jobs()] == [B, B]
    assert {request.tenants for _, request, _ in bench.ledger.claims} == {(A, "")}
    assert await app.client.for_tenant(B).workers() == []
    [worker] = await app.client.for_tenant(A).workers()
    assert worker == (await app.client.workers())[0]


@virtual
async def test_two_workers_share_the_tenants_between_them(bench: Bench) -> None:
    app = _noting(bench)
    await bench.start(tenants=[A])
    await bench.start(tenants=["", B])
    await _one_of_each(app)
    await bench.idle()
    assert sorted(bench.seen, key=str) == [None, A, B]


@virtual
async def test_the_worker_of_an_app_of_one_tenant_serves_it(bench: Bench) -> None:
    bench.app = bench.new_app(tenant=B)
    app = _noting(bench)
    await _one_of_each(app)
    await bench.start()
    await bench.idle()
    assert bench.seen == [B]
    assert len(await app.client.for_tenant(None).list_jobs()) == 2


@virtual
async def test_a_tenants_pause_reaches_a_worker_of_all(bench: Bench) -> None:
    app = _noting(bench)
    await app.client.for_tenant(A).pause(task="note")
    await bench.start()
    await _one_of_each(app)
    await wait_until(lambda: len(bench.seen) == 2)
    await asyncio.sleep(60)
    assert bench.seen == [None, B]
    await app.client.for_tenant(A).resume(task="note")
    await wait_until(lambda: len(bench.seen) == 3)
    assert bench.seen[-1] == A


# ── what a handler adds ──


@virtual
async def test_a_handler_that_waits_adds_to_its_jobs_tenant(bench: Bench) -> None:
    """Several run at once in one event loop, and each has the tenant of its own job."""
    app = bench.app

    @app.task
    async def parent(n: int) -> None:
        for _ in range(3):
            await asyncio.sleep(n + 1)
            await app.client.add_job("child", {"n": n})

    for n, tenant in enumerate(("", A, B, "", A)):
        await app.client.for_tenant(tenant).add_job("parent", {"n": n})
    await bench.start()
    await asyncio.sleep(60)
    found = [(job.payload["n"], job.tenant) for job in await app.client.list_jobs(task="child")]
    assert sorted(found, key=str) == sorted(
        [(n, tenant) for n, tenant in enumerate((None, A, B, None, A)) for _ in range(3)], key=str
    )


@virtual
async def test_the_items_of_a_batch_add_to_their_jobs_tenant(bench: Bench) -> None:
    app = bench.app

    async def item(n: int) -> None:
        await asyncio.sleep(1)
        await app.client.add_job("child", {"n": n})

    @app.task
    async def batch(numbers: list[int]) -> list[Any]:
        return [item(n) for n in numbers]

    await app.client.for_tenant(A).add_job("batch", [1, 2])
    await bench.start()
    await asyncio.sleep(10)
    assert [job.tenant for job in await app.client.list_jobs(task="child")] == [A, A]


# ── schedules ──


@over_days
async def test_a_schedule_fires_once_for_each_tenant_of_a_worker(bench: ScheduleBench) -> None:
    await bench.work(HOURLY, tenants=[A, B])
    await bench.until("2026-01-01T03:30")
    fired = [(firing.at[-5:], firing.job.tenant) for firing in bench.ledger.fired]
    assert sorted(fired) == [(f"0{hour}:00", tenant) for hour in (1, 2, 3) for tenant in (A, B)]
    assert len(bench.runs) == 6
    known = await bench.app.client.list_schedules()
    assert [(info.id, info.tenant) for info in known] == [("t", A), ("t", B)]


@over_days
async def test_workers_that_share_tenants_fire_once_for_each(bench: ScheduleBench) -> None:
    for tenants in ([A, B], [B, A], ["", B]):
        await bench.work(HOURLY, tenants=tenants)
    await bench.until("2026-01-01T02:30")
    fired = [(firing.at[-5:], firing.job.tenant) for firing in bench.ledger.fired]
    assert sorted(fired) == [(f"0{hour}:00", tenant) for hour in (1, 2) for tenant in ("", A, B)]


@over_days
async def test_schedules_of_a_worker_of_all_tenants_are_the_default_ones(
    bench: ScheduleBench,
) -> None:
    await bench.work(HOURLY)
    await bench.until("2026-01-01T02:30")
    assert [firing.job.tenant for firing in bench.ledger.fired] == ["", ""]
    assert [info.tenant for info in await bench.app.client.list_schedules()] == [None]


@over_days
async def test_one_tenants_schedule_can_be_paused_and_removed(
    bench: ScheduleBench, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "windlass"):
        await bench.work(HOURLY, tenants=["", A, B])
        await bench.until("2026-01-01T00:30")
        await bench.app.client.for_tenant(A).pause_schedule("t")
        await bench.app.client.for_tenant(B).remove_schedule("t")
        await bench.until("2026-01-01T02:30")
    assert [firing.job.tenant for firing in bench.ledger.fired] == ["", ""]
    said = [record.getMessage() for record in caplog.records]
    assert "schedules: t, t of tenant acme, t of tenant bond" in said
    assert "schedule t of tenant bond was removed: this worker fires it no more" in said
    job = await bench.app.client.for_tenant(A).trigger_schedule("t")
    assert job.tenant == A
    caplog.clear()
    with caplog.at_level(logging.INFO, "windlass"):
        await bench.work(HOURLY, tenants=[A])
        await bench.until("2026-01-01T02:40")
    [told] = [
        text for text in map(logging.LogRecord.getMessage, caplog.records) if "paused" in text
    ]
    assert told.endswith("(windlass cron resume t --tenant acme)")


@over_days
async def test_missed_instants_are_made_up_for_in_each_tenant(bench: ScheduleBench) -> None:
    runner = await bench.work(HOURLY + " ?fill=1d", tenants=[A])
    await bench.downtime(runner, "2026-01-01T00:30", "2026-01-01T03:30")
    await bench.work(HOURLY + " ?fill=1d", tenants=[A, B])
    await bench.until("2026-01-01T04:30")
    fired = [(firing.at[-5:], firing.job.tenant) for firing in bench.ledger.fired]
    assert sorted(fired) == [("01:00", A), ("02:00", A), ("03:00", A), ("04:00", A), ("04:00", B)]


# ── who runs what ──


@virtual
async def test_jobs_of_a_tenant_that_no_worker_serves_are_told(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    app = _noting(bench)
    await app.client.for_tenant(B).add_job("note")
    with caplog.at_level(logging.WARNING, "windlass"):
        await bench.start(tenants=[A])
        await asyncio.sleep(30)
    [told] = [record.getMessage() for record in caplog.records]
    assert told.startswith("jobs of task 'note' are ready, and no live worker runs it")


@virtual
async def test_jobs_of_a_tenant_that_another_worker_serves_are_not(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    app = _noting(bench)
    await app.client.for_tenant(B).pause(task="note")
    await app.client.for_tenant(B).add_job("note")
    with caplog.at_level(logging.WARNING, "windlass"):
        await bench.start(tenants=[A])
        await bench.start(tenants=[B])
        await asyncio.sleep(70)
        await app.client.for_tenant(B).resume(task="note")
        await asyncio.sleep(70)
    assert caplog.records == []
    assert bench.seen == [B]
