"""The scenarios of a drain that is not a clean one: beside other jobs, through serial queues, of
many tenants.

Each round drains a clean queue as well, and what remains of its rate is the figure to look at.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

from windlass import App
from windlass.cli.bench.child import Orders, make_app
from windlass.cli.bench.run import (
    Measured,
    Run,
    bare_drain,
    check,
    drain,
    load,
    result,
    rounds,
    timed,
    total,
)
from windlass.cli.bench.site import Address
from windlass.clock import SYSTEM, to_datetime

_ALL = "all"
_PER_QUEUE = (50, 1)
_PER_TENANT = 100
_MOST_IN_QUEUES = 50_000
_FAIL = 1_000
"""Ids per call where jobs are failed."""


async def backlog(run: Run) -> list[dict[str, Any]]:
    """A drain beside jobs that no worker may run, and beside names of queues that are empty again:
    all kinds at once, or each of the chosen ones in a place of its own."""
    lowest: list[Measured] = []
    clean: list[Measured] = []
    beside: dict[str, list[Measured]] = {name: [] for name in run.kinds or (_ALL,)}
    async with AsyncExitStack() as stack:
        places = {name: await stack.enter_async_context(_heap(run, name)) for name in beside}
        for _ in rounds(run, "backlog"):
            lowest.append(await bare_drain(run))
            clean.append(await drain(run, run.site.fresh("own")))
            for name, address in places.items():
                run.tell(f"backlog: a drain beside it ({name})")
                beside[name].append(await drain(run, address))
    return [
        beside_clean("backlog", lowest, clean, found, kind=name, backlog=run.backlog)
        for name, found in beside.items()
    ]


async def serial(run: Run) -> list[dict[str, Any]]:
    """A drain of jobs in serial queues: 50 in each, and one in each."""
    small = replace(run, jobs=min(run.jobs, _MOST_IN_QUEUES))
    lowest: list[Measured] = []
    clean: list[Measured] = []
    shapes: dict[int, list[Measured]] = {each: [] for each in _PER_QUEUE}
    for _ in rounds(run, "serial"):
        lowest.append(await bare_drain(run))
        clean.append(await drain(run, run.site.fresh("own")))
        for each, found in shapes.items():
            name = _queue_of(_queues(small, each))
            found.append(await drain(small, run.site.fresh("own"), name))
    return [
        beside_clean(
            *("serial", lowest, clean, found), queues=_queues(small, each), jobs_per_queue=each
        )
        for each, found in shapes.items()
    ]


async def tenants(run: Run) -> dict[str, Any]:
    """A drain of jobs of many tenants, 100 of each, by a worker of all of them."""
    count = max(1, run.jobs // _PER_TENANT)
    even = replace(run, jobs=count * (run.jobs // count))
    names = [f"tenant-{number}" for number in range(count)]
    lowest: list[Measured] = []
    clean: list[Measured] = []
    found: list[Measured] = []
    for _ in rounds(run, "tenants"):
        lowest.append(await bare_drain(even))
        clean.append(await drain(even, run.site.fresh("own")))
        found.append(await drain(even, run.site.fresh("own"), tenants=names))
    return beside_clean("tenants", lowest, clean, found, tenants=count)


async def metrics(run: Run) -> dict[str, Any]:
    """A drain by workers that count their metrics, beside one by workers that do not."""
    lowest: list[Measured] = []
    clean: list[Measured] = []
    found: list[Measured] = []
    for _ in rounds(run, "metrics"):
        lowest.append(await bare_drain(run))
        clean.append(await drain(run, run.site.fresh("own")))
        found.append(await drain(run, run.site.fresh("own"), counts=True))
    cpu = result("", list(zip(clean, clean, strict=True)))["cpu_us_per_job"]
    return beside_clean("metrics", lowest, clean, found, clean_cpu_us_per_job=cpu)


def _queues(run: Run, jobs_per_queue: int) -> int:
    return max(1, run.jobs // jobs_per_queue)


def _queue_of(queues: int) -> Callable[[int], str]:
    """Jobs go to the queues in turn."""
    return lambda number: f"queue-{number % queues}"


def beside_clean(
    name: str,
    lowest: list[Measured],
    clean: list[Measured],
    found: list[Measured],
    **more: Any,
) -> dict[str, Any]:
    """A scenario of rounds that each have a limit and a clean run beside them."""
    beside = result("", list(zip(clean, found, strict=True)))
    entry = result(
        name,
        list(zip(lowest, found, strict=True)),
        clean_per_s=beside["limit_per_s"],
        clean_ratio=beside["ratio"],
        **more,
    )
    for each, other in zip(entry["rounds"], beside["rounds"], strict=True):
        each["clean_per_s"] = other["limit_per_s"]
        each["clean_ratio"] = other["ratio"]
    return entry


# ── what lies about ──


@asynccontextmanager
async def _heap(run: Run, name: str) -> AsyncIterator[Address]:
    """A place with what is called `name` lying about in it."""
    address = run.site.fresh(f"backlog_{name}")
    async with make_app(address) as app, AsyncExitStack() as stack:
        for kind in KINDS if name == _ALL else (name,):
            run.tell(f"backlog: making {run.backlog:,} ({kind})")
            await stack.enter_async_context(KINDS[kind](run, app, address))
        yield address


@asynccontextmanager
async def _future(run: Run, app: App, address: Address) -> AsyncIterator[None]:
    await load(app, run.backlog, run_at=to_datetime(SYSTEM.now()) + timedelta(days=1))
    yield


@asynccontextmanager
async def _foreign(run: Run, app: App, address: Address) -> AsyncIterator[None]:
    await load(app, run.backlog, task="foreign")
    yield


@asynccontextmanager
async def _dead(run: Run, app: App, address: Address) -> AsyncIterator[None]:
    ids = await load(app, run.backlog)
    for first in range(0, len(ids), _FAIL):
        await app.client.permanently_fail_jobs(ids[first : first + _FAIL])
    yield


@asynccontextmanager
async def _stuck(run: Run, app: App, address: Address) -> AsyncIterator[None]:
    """The queue is stuck because its first job runs, here, for as long as the block lasts."""
    holding, release = asyncio.Event(), asyncio.Event()

    @app.task(queue="stuck")
    async def hold() -> None:
        holding.set()
        await release.wait()

    await hold.aenqueue()
    runner = await app.run(only=["hold"], handle_signals=False)
    try:
        await asyncio.wait_for(holding.wait(), 30)
        await load(app, run.backlog, lambda _: "stuck")
        yield
    finally:
        release.set()
        await runner.stop()


@asynccontextmanager
async def _queue_names(run: Run, app: App, address: Address) -> AsyncIterator[None]:
    """Every queue had one job, which is done, and a worker has seen that nothing follows it."""
    before = await total(app)
    await load(app, run.backlog, lambda number: f"once-{number}")
    run.site.tidy(address)
    await timed(replace(run, jobs=run.backlog), "work", Orders(address))
    await check(app, before)
    await app.run_once()
    yield


Heap = Callable[[Run, App, Address], AbstractAsyncContextManager[None]]

KINDS: dict[str, Heap] = {
    # First, because it needs workers, which are not to find the others' jobs.
    "queues": _queue_names,
    "future": _future,
    "foreign": _foreign,
    "dead": _dead,
    "stuck": _stuck,
}
