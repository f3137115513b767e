"""The figures that Windlass is to reach, and whether it did."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.plan import FULL, BenchmarkPlan
from benchmarks.results import Pick, Result, Series, median, ratio
from benchmarks.systems import (
    BARE,
    GRAPHILE,
    GRAPHILE_DEFAULT,
    HUEY,
    HUEY_UNSAFE,
    PGQUEUER_100,
    PGQUEUER_500,
    PROCRASTINATE,
    WINDLASS,
)
from benchmarks.systems.base import System

Shown = Callable[[float], str]


@dataclass(frozen=True)
class Target:
    """One figure over another is to be at least, or at most, `bound`.

    Without a `below`, the figure itself is.
    """

    what: str
    above: Pick
    bound: float | None
    """None where there is no target, and the figure is told all the same."""
    shown: Shown
    below: Pick | None = None
    at_least: bool = True
    against: str = ""
    """What the other figure is."""


@dataclass(frozen=True)
class Line:
    """A target with what became of it, as words."""

    what: str
    target: str
    measured: str
    ratio: str
    met: bool | None
    """None when it was not measured, or there is no target."""


def lines(result: Result) -> list[Line]:
    return [_line(result, target) for target in targets(result)]


def _line(result: Result, target: Target) -> Line:
    above = target.above(result)
    value = median(above)
    if value is None:
        return Line(target.what, _told(target), "not measured", "–", None)
    if target.below is None:
        assert target.bound is not None
        part = value / target.bound
        met = part >= 1 if target.at_least else part <= 1
        return Line(target.what, _told(target), target.shown(value), _times(part), met)
    below = target.below(result)
    other, found = median(below), ratio(above, below)
    if other is None or found is None:
        return Line(target.what, _told(target), target.shown(value), "–", None)
    text = f"{target.shown(value)} against {target.shown(other)}"
    return Line(target.what, _told(target), text, _times(found), _is_met(target, found))


def _is_met(target: Target, found: float) -> bool | None:
    if target.bound is None:
        return None
    return found >= target.bound if target.at_least else found <= target.bound


def _told(target: Target) -> str:
    if target.bound is None:
        return f"none; {target.against}"
    sign = "≥" if target.at_least else "≤"
    if target.below is None:
        return f"{sign} {target.shown(target.bound)}"
    return f"{sign} {target.bound:g} × {target.against}"


def _times(value: float) -> str:
    return (
        f"{value:,.0f} ×" if value >= 100 else f"{value:.2f} ×" if value < 10 else f"{value:.1f} ×"
    )


# ── where figures are found ──


def of(system: System, figure: str) -> Pick:
    return lambda result: result.series(system.name, figure)


def best_of(*picks: Pick) -> Pick:
    """The series with the highest median."""
    return lambda result: max((pick(result) for pick in picks), key=lambda it: median(it) or 0.0)


def least_of(*picks: Pick) -> Pick:
    """The series with the lowest median, of those that were measured."""

    def pick(result: Result) -> Series:
        there = [series for each in picks if (series := each(result))]
        return min(there, key=lambda it: statistics.median(it.values()), default={})

    return pick


def sum_of(one: Pick, other: Pick) -> Pick:
    def pick(result: Result) -> Series:
        first, second = one(result), other(result)
        return {number: first[number] + second[number] for number in first.keys() & second.keys()}

    return pick


def own(figure: str) -> Pick:
    return of(WINDLASS, figure)


def cpu(system: System, processes: int = 1) -> Pick:
    """Of the workers and the server, for a job."""
    return sum_of(of(system, f"worker_cpu{processes}"), of(system, f"server_cpu{processes}"))


# ── the targets ──


def _rate(value: float) -> str:
    return f"{value:,.0f}/s"


def _ms(value: float) -> str:
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.3g} ms"


def _us(value: float) -> str:
    return f"{value:,.1f} µs"


def _bytes(value: float) -> str:
    return f"{value:,.0f} bytes"


def _mb(value: float) -> str:
    return f"{value:,.0f} MB"


def targets(result: Result) -> Iterator[Target]:
    plan = result.plan
    yield from _drains()
    yield from _starts()
    yield from _enqueues()
    yield from _sql_calls(plan)
    yield Target(
        *("cycle, producer and worker at once", own("cycle"), 2, _rate),
        below=of(GRAPHILE, "cycle"),
        against=GRAPHILE.name,
    )
    for percent, bound in ((50, 0.7), (95, 1)):
        yield Target(
            *(f"pickup latency of an idle worker, p{percent}", own(f"pickup{percent}"), bound, _ms),
            below=least_of(
                of(GRAPHILE, f"pickup{percent}"), of(GRAPHILE_DEFAULT, f"pickup{percent}")
            ),
            at_least=False,
            against="graphile-worker, the better of both",
        )
    yield Target(
        *("pickup latency of an idle worker, p50", own("pickup50"), None, _ms),
        below=of(BARE, "pickup50"),
        against="bare SQL: an `INSERT` that notifies, and a claim by the listener it wakes",
    )
    yield from _beside(plan)
    yield from _serial(plan)
    yield from _chains(result)
    yield from _streams()
    yield from _remotes()
    yield from _held(plan, result.median(WINDLASS.name, "held.claims"))
    yield from _costs()
    yield from _files(plan)


def _drains() -> Iterator[Target]:
    best = best_of(of(PGQUEUER_100, "drain1"), of(PGQUEUER_500, "drain1"))
    for bound, below, name in (
        (0.7, of(BARE, "drain1"), BARE.name),
        (2, of(GRAPHILE, "drain1"), GRAPHILE.name),
        (15, of(GRAPHILE_DEFAULT, "drain1"), GRAPHILE_DEFAULT.name),
        (3.5, best, "pgqueuer, the better batch size"),
        (80, of(PROCRASTINATE, "drain1"), PROCRASTINATE.name),
    ):
        yield Target(
            *("drain, one worker process", own("drain1"), bound, _rate), below=below, against=name
        )
    yield Target(
        *("drain, two worker processes", own("drain2"), 1, _rate),
        below=own("drain1"),
        against="one process",
    )
    yield Target(
        *("CPU per job, two worker processes", cpu(WINDLASS, 2), 1.15, _us),
        below=cpu(WINDLASS),
        at_least=False,
        against="one process",
    )


def _starts() -> Iterator[Target]:
    for name, what in (
        ("program", "`windlass run --once`, process start to exit"),
        ("process", "a program of its own, process start to exit"),
        ("inside", "open to close inside a process"),
    ):
        yield Target(
            f"start and stop with an empty queue: {what}",
            *(own(f"startup.{name}"), 300, _ms),
            at_least=False,
        )
    yield Target(
        "start and stop with an empty queue: `windlass run --once`",
        *(own("startup.program"), None, _ms),
        below=own("startup.limit"),
        against="Python importing `asyncio` and `psycopg`, and nothing else",
    )


def _enqueues() -> Iterator[Target]:
    bulk = "bulk enqueue through the client"
    yield Target(
        *(f"{bulk}, 500 a call", own("bulk500"), 0.6, _rate),
        below=of(BARE, "bulk500"),
        against="bare `INSERT … SELECT unnest`",
    )
    yield Target(
        *(f"{bulk}, 2,000 a call", own("bulk"), 1.8, _rate),
        below=of(GRAPHILE, "bulk"),
        against="graphile-worker's `addJobs`",
    )
    one = "one-by-one enqueue, one caller"
    yield Target(
        *(one, own("one"), 0.6, _rate), below=of(BARE, "one"), against="a bare single `INSERT`"
    )
    yield Target(
        *(one, own("one"), 2, _rate),
        below=of(GRAPHILE, "one"),
        against="graphile-worker's `addJob`",
    )
    yield Target(
        *("one-by-one enqueue, 16 callers in one process", own("one16"), 4, _rate),
        below=own("one"),
        against="one caller",
    )


def _sql_calls(plan: BenchmarkPlan) -> Iterator[Target]:
    """More than graphile-worker's own, each."""
    jobs = plan.sql_jobs
    for figure, count, what in (
        ("add", jobs, "`add_jobs`, without keys"),
        ("new_keys", jobs, "`add_jobs`, with keys that are new"),
        ("old_keys", jobs, "`add_jobs`, with keys that are there"),
        ("reschedule", jobs // 2, "`reschedule_jobs`"),
        ("fail", jobs // 2, "`permanently_fail_jobs`"),
        ("complete", jobs // 2, "`complete_jobs`"),
    ):
        yield Target(
            *(f"bulk SQL call: {what}, {count:,} jobs", own(f"sql.{figure}"), 1, _rate),
            below=of(GRAPHILE, f"sql.{figure}"),
            against="graphile-worker's function of that name",
        )


def _beside(plan: BenchmarkPlan) -> Iterator[Target]:
    for row, backlog, bound in zip(
        ("backlog", "backlog-large"), plan.beside, (0.85, 0.8), strict=True
    ):
        for kind, what in (
            ("future", "future jobs"),
            ("foreign", "jobs of a task no worker has"),
            ("stuck", "jobs behind a busy queue"),
            ("dead", "failed jobs"),
            ("queues", "idle queue names"),
        ):
            yield Target(
                *(f"drain beside {backlog:,} {what}", own(f"{row}.{kind}"), bound, _rate),
                below=own(f"{row}.clean"),
                against="the clean drain",
            )


def _serial(plan: BenchmarkPlan) -> Iterator[Target]:
    jobs = min(plan.beside_jobs, 50_000)
    for each in (50, 1):
        what = f"{jobs // each:,} serial queues, {each} {'jobs' if each > 1 else 'job'} in each"
        yield Target(
            *(f"drain through {what}", own(f"serial.each{each}"), 0.3, _rate),
            below=own("serial.clean"),
            against="the clean drain",
        )


def _chains(result: Result) -> Iterator[Target]:
    """There is no target: what a chain costs beside a job of none, and beside bare statements."""
    for row, where in (("chains", ""), ("chains-sqlite", " on SQLite")):
        parts = result.median(WINDLASS.name, f"{row}.parts") or 0
        for shape, what in (
            ("steps", "chains of 5 jobs"),
            ("fan-in", f"one job that waits for {parts:,.0f} chains"),
            ("fan-ins", "jobs that wait for 10 chains each"),
        ):
            for below, against in (
                ("clean", "the cycle of jobs of no chain"),
                (f"{shape}-bare", "the bare statements that such chains need"),
            ):
                yield Target(
                    *(f"cycle of {what}{where}", own(f"{row}.{shape}"), None, _rate),
                    below=own(f"{row}.{below}"),
                    against=against,
                )


def _streams() -> Iterator[Target]:
    for row, where in (("stream", ""), ("stream-sqlite", " on SQLite")):
        what = f"drain through a server{where}"
        yield Target(
            *(f"{what}, a message for each task", own(f"{row}.singly"), 0.6, _rate),
            below=own(f"{row}.singly-echo"),
            against="a bare echo of such messages by the same client",
        )
        yield Target(f"{what}, frames that arrive together", own(f"{row}.together"), 10_000, _rate)
        yield Target(
            *(f"{what}, frames that arrive together", own(f"{row}.together"), None, _rate),
            below=own(f"{row}.direct"),
            against="the drain by a worker that has the database",
        )


def _remotes() -> Iterator[Target]:
    for row, where in (("remote", ""), ("remote-sqlite", " on SQLite")):
        for form, what, bound in (
            ("drain", "drain by a worker of Windlass's own", 0.4),
            ("create", "bulk add by the producer's stream", 0.5),
            ("enqueue-bulk", "bulk enqueue by a client of Windlass's own", 0.5),
        ):
            yield Target(
                *(f"through a server{where}: {what}", own(f"{row}.{form}"), bound, _rate),
                below=own(f"{row}.{form}-direct"),
                against="the same with the database",
            )
        yield Target(
            f"through a server{where}: pickup latency, p50, beyond that with the database",
            *(own(f"{row}.latency-more"), 2, _ms),
            at_least=False,
        )


def _held(plan: BenchmarkPlan, claims: float | None) -> Iterator[Target]:
    what = f"steady rate for {plan.held_seconds:g} s while a transaction holds the horizon"
    yield Target(
        *(f"{what}: keeps up", own("held.rate"), 0.98, _rate),
        below=own("held.asked"),
        against="what is added",
    )
    yield Target(
        *(f"p95 of the last {claims or 0:,.0f} claims then", own("held.end95"), 3, _ms),
        below=own("held.start95"),
        at_least=False,
        against="of as many at the start",
    )


def _costs() -> Iterator[Target]:
    yield Target(
        *("WAL per job, without page images", own("wal_bytes"), 0.6, _bytes),
        below=of(GRAPHILE, "wal_bytes"),
        at_least=False,
        against=GRAPHILE.name,
    )
    yield Target(
        *("CPU per job, worker + server", cpu(WINDLASS), 0.7, _us),
        below=cpu(GRAPHILE),
        at_least=False,
        against=GRAPHILE.name,
    )
    yield Target("resident memory of the worker, at most", own("memory1"), 60, _mb, at_least=False)


def _files(plan: BenchmarkPlan) -> Iterator[Target]:
    what = f"SQLite cycle, {plan.sqlite_jobs:,} jobs"
    yield Target(
        *(what, own("sqlite"), 0.5, _rate), below=of(BARE, "sqlite"), against="bare `sqlite3`"
    )
    yield Target(*(what, own("sqlite"), 10, _rate), below=of(HUEY, "sqlite"), against=HUEY.name)
    yield Target(
        *(what, own("sqlite"), None, _rate),
        below=of(HUEY_UNSAFE, "sqlite"),
        against=f"{HUEY_UNSAFE.name}, which is not as durable",
    )


def is_full(plan: BenchmarkPlan) -> bool:
    """Whether the runs are as long and as many as the targets ask for."""
    return (
        plan.rounds >= FULL.rounds
        and plan.seconds >= FULL.seconds
        and plan.jobs >= FULL.jobs
        and plan.beside >= FULL.beside
        and plan.held_seconds >= FULL.held_seconds
    )
