"""The scenarios with next to nothing to do: latency, idleness, start and stop."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

from windlass import App
from windlass.cli.bench import crew
from windlass.cli.bench.child import Orders, make_app
from windlass.cli.bench.limit import open_limit, payloads
from windlass.cli.bench.run import Run, percentiles
from windlass.cli.bench.site import Address

_EVERY = 0.02


async def latency(run: Run) -> dict[str, Any]:
    """A job every 20 ms for an idle worker: from the call of enqueue to the handler's first line.

    Beside each job one bare INSERT is timed: the least that a durable job costs on this disk.
    """
    run.tell(f"latency: {run.samples} jobs for a worker process")
    address = run.site.fresh("own")
    commits: list[float] = []
    there = await _pickup_there(run, address, commits)
    run.tell(f"latency: {run.samples} jobs for a worker in the same process")
    here = await _pickup_here(run, run.site.fresh("own"))
    return {
        "scenario": "latency",
        "samples": len(there),
        "ms": percentiles(there),
        "same_process_ms": percentiles(here),
        "bare_insert_ms": percentiles(commits),
    }


async def _pickup_there(run: Run, address: Address, commits: list[float]) -> list[float]:
    limit = open_limit(run.site.fresh("bare"))
    limit.create()

    def insert(number: int) -> None:
        began = time.perf_counter()
        limit.add_one(payloads(number, 1)[0])
        commits.append(time.perf_counter() - began)

    try:
        return await pickup(run, address, insert)
    finally:
        limit.close()


async def pickup(
    run: Run, address: Address, after: Callable[[int], None] = lambda number: None
) -> list[float]:
    """Seconds until each of the samples was picked up by a worker process; `after` is called when
    it was."""
    taken: list[float] = []
    async with make_app(address) as app, crew.hired("work", Orders(address)) as children:
        child = children[0]
        await crew.all_ready(children)
        crew.begin(children)
        await child.hear_of("working")
        for number in range(run.samples):
            called = time.monotonic_ns()
            await app.client.add_job("mark", {"id": number})
            taken.append(((await child.hear_of("started"))["started"] - called) / 1e9)
            after(number)
            await _pause()
        child.finish()
        await child.wait()
    return taken


async def _pickup_here(run: Run, address: Address) -> list[float]:
    app = App(address.url, schema=address.schema, synchronous=address.synchronous)
    started: asyncio.Future[float]

    @app.task
    async def mark(id: int) -> None:
        started.set_result(time.perf_counter())

    taken: list[float] = []
    async with app:
        runner = await app.run(handle_signals=False)
        for number in range(run.samples):
            started = asyncio.get_running_loop().create_future()
            called = time.perf_counter()
            await mark.aenqueue(id=number)
            taken.append(await started - called)
            await _pause()
        await runner.stop()
    return taken


async def _pause() -> None:
    """About as long each time, so that jobs do not come in step with a worker's polling."""
    await asyncio.sleep(_EVERY * random.uniform(0.75, 1.25))  # noqa: S311


async def idle(run: Run) -> dict[str, Any]:
    """What a worker costs that has nothing to do: CPU, queries, memory."""
    run.tell(f"idle: watching a worker for {run.idle:g} s")
    orders = Orders(run.site.fresh("own"), seconds=run.idle)
    async with crew.hired("idle", orders) as (child,):
        found = await child.hear(60 + 2 * run.idle)
        await child.wait()
    return {
        "scenario": "idle",
        "seconds": run.idle,
        "cpu_percent": round(found["cpu"] * 100, 3),
        "queries_per_s": round(found["queries"], 2),
        "resident_mb": round(found["resident"] / 1e6, 1),
    }


async def startup(run: Run) -> dict[str, Any]:
    """Start and stop with nothing to do: `windlass run --once`; a process of an app's own, and its
    share between open and close. The limit is Python with asyncio and the driver, imported."""
    times = min(10, max(1, run.samples // 10))
    run.tell(f"startup: {times} times")
    address = run.site.fresh("own")
    async with make_app(address) as app:
        await app.migrate()
    limit, program, whole, inside = [], [], [], []
    for _ in range(times):
        began = time.perf_counter()
        await crew.import_driver(Orders(address))
        limit.append(time.perf_counter() - began)
        began = time.perf_counter()
        await crew.run_once(Orders(address))
        program.append(time.perf_counter() - began)
        began = time.perf_counter()
        async with crew.hired("startup", Orders(address)) as (child,):
            inside.append((await child.hear())["seconds"])
            await child.wait()
        whole.append(time.perf_counter() - began)
    return {
        "scenario": "startup",
        "times": times,
        "limit_ms": round(statistics.median(limit) * 1e3, 1),
        "program_ms": round(statistics.median(program) * 1e3, 1),
        "process_ms": round(statistics.median(whole) * 1e3, 1),
        "inside_ms": round(statistics.median(inside) * 1e3, 1),
    }
