"""The scenarios of throughput: each round measures the limit first, then Windlass."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from windlass import App
from windlass.cli.bench.child import Orders, make_app
from windlass.cli.bench.limit import Limit, open_limit, payloads
from windlass.cli.bench.run import (
    Measured,
    Meter,
    Run,
    bare_drain,
    check,
    drain,
    percentiles,
    result,
    rounds,
    timed,
)
from windlass.cli.bench.site import Address

_CALLERS = 16
_TICK = 0.005


async def enqueue_one(run: Run) -> dict[str, Any]:
    """Jobs added one by one by one caller, each durable before the next; then by 16 at once."""
    jobs = max(10, min(2_000, run.jobs // 20))
    pairs, together = [], []
    for number in rounds(run, "enqueue-one"):
        _, limit = _open_bare(run)
        meter = Meter(run.site)
        for payload in payloads(0, jobs):
            limit.add_one(payload)
        lowest = meter.stop(jobs)
        limit.close()
        async with make_app(run.site.fresh("own")) as app:
            meter = Meter(run.site)
            await _add_one_by_one(app, jobs)
            pairs.append((lowest, meter.stop(jobs)))
            meter = Meter(run.site)
            await asyncio.gather(*(_add_one_by_one(app, jobs) for _ in range(_CALLERS)))
            together.append((pairs[number][1], meter.stop(jobs * _CALLERS)))
            await check(app, jobs * (_CALLERS + 1))
    at_once = result("", together)
    return result(
        "enqueue-one",
        pairs,
        callers=_CALLERS,
        callers_per_s=at_once["per_s"],
        callers_ratio=at_once["ratio"],
    )


async def _add_one_by_one(app: App, jobs: int) -> None:
    for number in range(jobs):
        await app.client.add_job("noop", {"id": number})


async def enqueue_bulk(run: Run) -> dict[str, Any]:
    """Jobs added in batches, each durable before the next."""
    pairs = []
    for _ in rounds(run, "enqueue-bulk"):
        _, limit = _open_bare(run)
        meter = Meter(run.site)
        for first, count in batches(run):
            limit.add(payloads(first, count))
        lowest = meter.stop(run.jobs)
        limit.close()
        async with make_app(run.site.fresh("own")) as app:
            meter = Meter(run.site)
            await add_in_batches(run, app)
            pairs.append((lowest, meter.stop(run.jobs)))
            await check(app, run.jobs)
    return result("enqueue-bulk", pairs)


async def add_in_batches(run: Run, app: App) -> None:
    """No-op jobs, each batch durable before the next."""
    task = app.registry.get("noop")
    for first, count in batches(run):
        await task.aenqueue_many({"id": n} for n in range(first, first + count))


async def drain_all(run: Run) -> dict[str, Any]:
    """A full queue, emptied."""
    pairs = []
    for _ in rounds(run, "drain"):
        lowest = await bare_drain(run)
        pairs.append((lowest, await drain(run, run.site.fresh("own"))))
    return result("drain", pairs)


async def cycle(run: Run) -> dict[str, Any]:
    """One producer adds batches while the workers run what it added."""
    pairs = []
    for _ in rounds(run, "cycle"):
        lowest = await _bare_cycle(run)
        pairs.append((lowest, await own_cycle(run)))
    return result("cycle", pairs)


async def own_cycle(run: Run) -> Measured:
    """One round of it, without the limit."""
    address = run.site.fresh("own")
    async with make_app(address) as app:
        measured, _ = await timed(run, "work", Orders(address), add_in_batches(run, app))
        await check(app, 0)
    return measured


async def _bare_cycle(run: Run) -> Measured:
    address, limit = _open_bare(run)

    def add() -> None:
        for first, count in batches(run):
            limit.add(payloads(first, count))
            if limit.takes_turns:
                limit.work(run.batch)

    try:
        if limit.takes_turns:
            meter = Meter(run.site)
            await asyncio.to_thread(add)
            return meter.stop(run.jobs)
        adding = asyncio.to_thread(add)
        measured, _ = await timed(run, "bare", Orders(address, run.batch), adding)
        return measured
    finally:
        limit.close()


async def held_snapshot(run: Run) -> dict[str, Any]:
    """Jobs at a steady rate while another transaction keeps every dead row from being removed.

    One round: it is about what becomes of the claims with time.
    """
    address = run.site.fresh("own")
    run.tell(f"held-snapshot: {run.jobs / run.rate:.0f} s at {run.rate:,} jobs/s")
    orders = Orders(address, times_claims=True)
    async with make_app(address) as app:
        with run.site.hold():
            measured, words = await timed(run, "work", orders, _add_steadily(run, app))
        await check(app, 0)
    first = [seconds for each in words for seconds in each["first_claims"]]
    last = [seconds for each in words for seconds in each["last_claims"]]
    asked = Measured(run.jobs, run.jobs / run.rate)
    found = result("held-snapshot", [(asked, measured)])
    del found["rounds"]
    found["asked_per_s"] = found.pop("limit_per_s")
    if first and last:
        found["claims"] = len(first)
        found["claim_ms_start"] = percentiles(first)
        found["claim_ms_end"] = percentiles(last)
    return found


async def _add_steadily(run: Run, app: App) -> None:
    began, added = time.perf_counter(), 0
    while added < run.jobs:
        due = min(run.jobs, int((time.perf_counter() - began + _TICK) * run.rate))
        if due > added:
            task = app.registry.get("noop")
            await task.aenqueue_many({"id": n} for n in range(added, due))
            added = due
        await asyncio.sleep(_TICK)


def batches(run: Run) -> list[tuple[int, int]]:
    return [(n, min(run.batch, run.jobs - n)) for n in range(0, run.jobs, run.batch)]


def _open_bare(run: Run) -> tuple[Address, Limit]:
    address = run.site.fresh("bare")
    limit = open_limit(address)
    limit.create()
    return address, limit
