"""What pages of a dashboard ask for, beside many jobs and while a drain runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, cast

from windlass import App
from windlass.cli.bench.child import Orders, make_app
from windlass.cli.bench.heaps import beside_clean
from windlass.cli.bench.run import (
    Measured,
    Run,
    bare_drain,
    drain,
    load,
    percentiles,
    rounds,
    timed,
)
from windlass.cli.bench.site import Address
from windlass.model.job import JobState
from windlass.store.figures import FigureStore, RateFilter

_EVERY = 0.1
"""Seconds from the end of a look to the next one: that of a few people."""
_FAIL = 1_000
"""Ids per call where jobs are failed."""
_KEEP = 24 * 3600.0

Look = Callable[[App], Awaitable[object]]


async def looks(run: Run) -> dict[str, Any]:
    """A drain while pages are looked at, and one while they are not, both beside as many failed,
    kept and ready jobs; and how long each look took."""
    address = run.site.fresh("looks")
    await _fill(run, address)
    lowest: list[Measured] = []
    clean: list[Measured] = []
    found: list[Measured] = []
    times: dict[str, list[float]] = {name: [] for name in LOOKS}
    for _ in rounds(run, "looks"):
        lowest.append(await bare_drain(run))
        clean.append(await drain(run, address))
        is_over = asyncio.Event()
        looking = asyncio.ensure_future(_look(address, times, is_over))
        try:
            found.append(await drain(run, address))
            is_over.set()
            await looking
        finally:
            looking.cancel()
    return beside_clean(
        "looks",
        *(lowest, clean, found),
        backlog=run.backlog,
        looks={name: percentiles(seconds) for name, seconds in times.items() if seconds},
    )


async def _fill(run: Run, address: Address) -> None:
    async with make_app(address) as app:
        run.tell(f"looks: making {run.backlog:,} failed jobs, kept ones and ready ones")
        await load(app, run.backlog, keep=_KEEP)
        run.site.tidy(address)
        await timed(replace(run, jobs=run.backlog), "work", Orders(address))
        ids = await load(app, run.backlog)
        for first in range(0, len(ids), _FAIL):
            some = ids[first : first + _FAIL]
            reason = f"reason {chr(ord('a') + first // _FAIL % 20)}"
            await app.client.permanently_fail_jobs(some, reason)
        await load(app, run.backlog, task="foreign")
    run.site.tidy(address)


async def _look(address: Address, times: dict[str, list[float]], is_over: asyncio.Event) -> None:
    """One look after the other until the drain is over, each of them at least once."""
    async with make_app(address) as app:
        await app.store.open()
        while not is_over.is_set():
            for name, look in LOOKS.items():
                if is_over.is_set() and times[name]:
                    continue
                began = time.perf_counter()
                await look(app)
                times[name].append(time.perf_counter() - began)
                await asyncio.sleep(_EVERY)


def _figures(app: App) -> FigureStore:
    return cast(FigureStore, app.store)


async def _group(app: App) -> None:
    for group in (await _figures(app).error_groups(limit=1)).groups:
        await app.client.list_jobs(fingerprint=group.fingerprint)


async def _jobs(state: JobState, app: App) -> None:
    await app.client.list_jobs(state=state)


LOOKS: dict[str, Look] = {
    "depths": lambda app: _figures(app).depths(),
    "depths of a task": lambda app: _figures(app).depths(task="noop"),
    "rates": lambda app: _figures(app).rates(RateFilter(6 * 3600.0, step=180.0)),
    "rates by task": lambda app: _figures(app).rates(RateFilter(3600.0, 3600.0, by_task=True)),
    "groups of errors": lambda app: _figures(app).error_groups(),
    "jobs of a group": _group,
    "jobs": lambda app: app.client.list_jobs(),
    **{f"jobs: {state}": partial(_jobs, state) for state in JobState},
    "jobs by key": lambda app: app.client.list_jobs(key="unknown"),
    "workers": lambda app: app.store.workers(),
}
"""What is looked at, in turn."""
