"""What the scenarios share: the options, a measured round, and the drain most are made of."""

from __future__ import annotations

import asyncio
import resource
import statistics
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from windlass import App, JobSpec
from windlass.cli.bench import crew
from windlass.cli.bench.child import Orders, make_app
from windlass.cli.bench.crew import BenchFailed
from windlass.cli.bench.limit import open_limit, payloads
from windlass.cli.bench.site import Address, Reading, Site

_LOAD = 1_000
"""Jobs per call where a queue is only filled, and no time is measured."""


@dataclass(frozen=True)
class Run:
    """One call of `windlass bench`."""

    site: Site
    jobs: int
    batch: int
    rounds: int
    processes: int
    samples: int
    backlog: int
    idle: float
    rate: int
    tell: Callable[[str], None]
    kinds: tuple[str, ...] = ()
    """Of the backlog, each by itself; none means all together."""


@dataclass(frozen=True)
class Measured:
    """So many jobs in so many seconds, with what they cost where that can be had."""

    jobs: int
    seconds: float
    cpu: float | None = None
    server_cpu: float | None = None
    wal: int | None = None

    @property
    def per_s(self) -> float:
        return self.jobs / self.seconds


class Meter:
    """Reads the clock, this process's CPU and the server's own, from its making to `stop`."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._before = site.read()
        self._cpu = own_cpu()
        self._began = time.perf_counter()

    def stop(self, jobs: int, seconds: float | None = None, cpu: float | None = None) -> Measured:
        """What `jobs` took; time and CPU are this process's own unless they are given."""
        seconds = time.perf_counter() - self._began if seconds is None else seconds
        cpu = own_cpu() - self._cpu if cpu is None else cpu
        after = self._site.read()
        server = _difference(self._before, after, "cpu")
        wal = _difference(self._before, after, "wal")
        return Measured(jobs, seconds, cpu, server, None if wal is None else int(wal))


def _difference(before: Reading, after: Reading, name: str) -> float | None:
    first, second = getattr(before, name), getattr(after, name)
    return None if first is None or second is None else second - first


def own_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def result(name: str, pairs: Sequence[tuple[Measured, Measured]], **more: Any) -> dict[str, Any]:
    """A scenario of (limit, Windlass) rounds; rates and ratios are medians."""
    own, lowest = [measured for _, measured in pairs], [limit for limit, _ in pairs]
    ratios = [each.per_s / limit.per_s for limit, each in pairs]
    found: dict[str, Any] = {
        "scenario": name,
        "jobs": own[0].jobs,
        "per_s": round(statistics.median(each.per_s for each in own)),
        "limit_per_s": round(statistics.median(each.per_s for each in lowest)),
        "ratio": round(statistics.median(ratios), 3),
        "rounds": [
            {"per_s": round(each.per_s), "limit_per_s": round(limit.per_s), "ratio": round(r, 3)}
            for (limit, each), r in zip(pairs, ratios, strict=True)
        ],
        "cpu_us_per_job": _per_job(own, "cpu", 1e6),
        "server_cpu_us_per_job": _per_job(own, "server_cpu", 1e6),
        "limit_server_cpu_us_per_job": _per_job(lowest, "server_cpu", 1e6),
        "wal_bytes_per_job": _per_job(own, "wal", 1.0),
        "limit_wal_bytes_per_job": _per_job(lowest, "wal", 1.0),
        **more,
    }
    return {key: value for key, value in found.items() if value is not None}


def _per_job(measured: Sequence[Measured], name: str, factor: float) -> float | None:
    values = [(getattr(each, name), each.jobs) for each in measured]
    known = [value * factor / jobs for value, jobs in values if value is not None]
    return round(statistics.median(known), 2) if known else None


def rounds(run: Run, name: str) -> Iterator[int]:
    for number in range(run.rounds):
        run.tell(f"{name}: round {number + 1} of {run.rounds}, {run.jobs:,} jobs")
        yield number


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """In milliseconds."""
    ordered = sorted(seconds)
    last = len(ordered) - 1
    return {
        f"p{percent}": round(ordered[min(last, len(ordered) * percent // 100)] * 1e3, 3)
        for percent in (50, 95, 99)
    }


# ── filling and emptying ──


async def load(
    app: App,
    jobs: int,
    queue: Callable[[int], str] | None = None,
    tenant: str | None = None,
    **options: Any,
) -> list[int]:
    """Add jobs as fast as it goes, no-op ones unless `options` name another task; their ids.

    `queue` names the serial queue of each, by its number.
    """
    client = app.client.for_tenant(tenant)
    ids: list[int] = []
    preset = {"task": "noop", **options}
    for first in range(0, jobs, _LOAD):
        numbers = range(first, min(first + _LOAD, jobs))
        specs = [
            JobSpec(payload={"id": n}, queue=None if queue is None else queue(n), **preset)
            for n in numbers
        ]
        ids += [job.id for job in await client.add_jobs(specs)]
    return ids


async def total(app: App) -> int:
    """All jobs there are, counted by the database."""
    return sum((await app.client.counts()).values())


async def bare_drain(run: Run) -> Measured:
    """The limit of a drain: bare statements in as many processes as there are workers."""
    address = run.site.fresh("bare")
    limit = open_limit(address)
    try:
        limit.create()
        for first in range(0, run.jobs, _LOAD):
            limit.add(payloads(first, min(_LOAD, run.jobs - first)))
    finally:
        limit.close()
    run.site.tidy(address)
    measured, _ = await timed(run, "bare", Orders(address, run.batch))
    return measured


async def drain(
    run: Run,
    address: Address,
    queue: Callable[[int], str] | None = None,
    tenants: Sequence[str | None] = (None,),
    *,
    counts: bool = False,
) -> Measured:
    """Add as many jobs for each tenant, then let worker processes run them, which count metrics or
    not. What else is there must stay."""
    async with make_app(address) as app:
        before = await total(app)
        for tenant in tenants:
            await load(app, run.jobs // len(tenants), queue, tenant)
        run.site.tidy(address)
        measured, _ = await timed(run, "work", Orders(address, counts_metrics=counts))
        await check(app, before)
    return measured


async def timed(
    run: Run, mode: str, orders: Orders, adding: Coroutine[Any, Any, None] | None = None
) -> tuple[Measured, list[dict[str, Any]]]:
    """Let processes settle all jobs, those of `adding` too; what it took, and their last words."""
    farewells = []
    async with crew.hired(mode, orders, run.processes) as children:
        await crew.all_ready(children)
        meter = Meter(run.site)
        began = crew.begin(children)
        ended = await _both(crew.all_settled(children, run.jobs), adding)
        cpu = sum((child.cpu for child in children), 0.0)
        measured = meter.stop(run.jobs, (ended - began) / 1e9, cpu)
        for child in children:
            child.finish()
            if mode == "work":
                farewells.append(await child.hear_of("first_claims"))
            await child.wait()
    return measured, farewells


async def _both(
    settling: Coroutine[Any, Any, int], adding: Coroutine[Any, Any, None] | None
) -> int:
    """If one goes wrong, the other does not wait for it."""
    if adding is None:
        return await settling
    both = [asyncio.ensure_future(settling), asyncio.ensure_future(adding)]
    try:
        ended, _ = await asyncio.gather(*both)
    finally:
        for each in both:
            each.cancel()
    assert isinstance(ended, int)
    return ended


async def check(app: App, jobs: int) -> None:
    """The database has the last word about how many jobs were done."""
    there = await total(app)
    if there != jobs:
        raise BenchFailed(f"{jobs} jobs should be in the database, {there} are")
