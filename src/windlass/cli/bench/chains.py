"""The scenario of chains: each shape beside its bare statements, and beside as many plain jobs.

A producer starts chains in batches while the workers run them; all jobs count, those too that
others start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from windlass import App, JobSpec
from windlass.cli.bench.busy import own_cycle
from windlass.cli.bench.child import Orders, make_app
from windlass.cli.bench.crew import BenchFailed
from windlass.cli.bench.heaps import beside_clean
from windlass.cli.bench.limit_chains import ChainLimit, Shape, open_chain_limit
from windlass.cli.bench.run import Measured, Meter, Run, check, rounds, timed

_STEPS = 5
_PARTS = 10
_MOST_PARTS = 20_000


def shapes(run: Run) -> list[Shape]:
    """Of about as many jobs as asked for: chains of 5, one fan-in, and many fan-ins of 10."""
    return [
        Shape("steps", max(1, run.jobs // _STEPS), steps=_STEPS),
        Shape("fan-in", 1, parts=max(1, min(run.jobs - 2, _MOST_PARTS))),
        Shape("fan-ins", max(1, run.jobs // (_PARTS + 2)), parts=_PARTS),
    ]


async def chains(run: Run) -> list[dict[str, Any]]:
    """Chains of 5 jobs; one job that waits for many chains; many that wait for 10 each."""
    clean: list[Measured] = []
    found: dict[str, list[tuple[Measured, Measured]]] = {each.name: [] for each in shapes(run)}
    for _ in rounds(run, "chains"):
        clean.append(await own_cycle(run))
        for shape in shapes(run):
            run.tell(f"chains: {shape.name}, {shape.jobs:,} jobs")
            found[shape.name].append((await _bare(run, shape), await _own(run, shape)))
    return [
        beside_clean(
            "chains",
            [lowest for lowest, _ in found[shape.name]],
            clean,
            [own for _, own in found[shape.name]],
            shape=shape.name,
            chains=shape.chains,
            **({"parts": shape.parts} if shape.parts else {"steps": shape.steps}),
        )
        for shape in shapes(run)
    ]


async def _own(run: Run, shape: Shape) -> Measured:
    address = run.site.fresh("own")
    orders = Orders(address, chains=True)
    async with make_app(address, chains=True) as app:
        measured, _ = await timed(
            replace(run, jobs=shape.jobs), "work", orders, _add(run, app, shape)
        )
        await check(app, 0)
        if left := await app.client.list_chains(state=["open", "failed", "cancelled"]):
            raise BenchFailed(
                f"chain {left[0].id} should have completed, but it is {left[0].state}"
            )
    return measured


async def _add(run: Run, app: App, shape: Shape) -> None:
    spec = (
        JobSpec("split", {"parts": shape.parts})
        if shape.parts
        else JobSpec("link", {"left": shape.steps - 1})
    )
    for count in _batches(run, shape):
        await app.client.start_chains([spec] * count)


async def _bare(run: Run, shape: Shape) -> Measured:
    address = run.site.fresh("bare")
    limit = open_chain_limit(address)
    limit.create()
    try:
        if limit.takes_turns:
            meter = Meter(run.site)
            await asyncio.to_thread(_in_turns, run, limit, shape)
            return meter.stop(shape.jobs)
        orders = Orders(address, run.batch, chains=True)
        adding = asyncio.to_thread(_start_all, run, limit, shape)
        measured, _ = await timed(replace(run, jobs=shape.jobs), "bare", orders, adding)
        return measured
    finally:
        limit.close()


def _in_turns(run: Run, limit: ChainLimit, shape: Shape) -> None:
    done = 0
    for count in _batches(run, shape):
        limit.start(shape, count)
        done += limit.work(run.batch)
    while done < shape.jobs:
        done += limit.work(run.batch)


def _start_all(run: Run, limit: ChainLimit, shape: Shape) -> None:
    for count in _batches(run, shape):
        limit.start(shape, count)


def _batches(run: Run, shape: Shape) -> Iterator[int]:
    """How many chains each call starts."""
    for first in range(0, shape.chains, run.batch):
        yield min(run.batch, shape.chains - first)
