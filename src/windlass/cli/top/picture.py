"""What is asked of the database for one picture, and what it answered.

It is a bounded number of calls, each of which reads a bounded number of entries, however many jobs
there are: none goes through the backlog. Where the store is a server elsewhere that tells no
figures, there are counts in place of depths and single jobs in place of groups of errors; rates are
then missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, cast

import msgspec

from windlass.app import App
from windlass.clock import to_micros
from windlass.model.job import DEFAULT_TENANT, Job, JobState
from windlass.store.figures import PERIOD, Depth, Depths, Figures, FigureStore, Rate, RateFilter
from windlass.store.records import Paused, WorkerInfo

WINDOW = 60.0
"""Seconds over which rates are averaged; the period under way is left out, since its figures are
still to come."""
HISTORY = 600.0
"""Seconds that the curve goes back."""
MOST_RUNNING = 100
MOST_FAILURES = 50
_SAMPLED = 50
"""The newest jobs, in which tasks and queues are looked for."""

Kind = Literal["task", "queue"]


class Speed(msgspec.Struct, frozen=True):
    """What was done in a second, on average. Times are seconds, None where nothing was done."""

    per_second: float = 0.0
    failing_per_second: float = 0.0
    """Attempts that failed, those that are tried again, too."""
    wait: float | None = None
    run: float | None = None

    @property
    def failing(self) -> float:
        """The part of all attempts that failed."""
        return self.failing_per_second / self.per_second if self.per_second else 0.0


class TaskLine(msgspec.Struct, frozen=True):
    """A task. `paused` are the tenants for which it is paused, '' for the default one."""

    name: str
    speed: Speed
    running: int
    paused: tuple[str, ...] = ()


class QueueLine(msgspec.Struct, frozen=True):
    """A serial queue, and the job of it that runs."""

    name: str
    job: int | None = None
    task: str | None = None
    seconds: float | None = None
    paused: tuple[str, ...] = ()


class RunningLine(msgspec.Struct, frozen=True):
    """A job that runs. `seconds` since it began, or since it last told how far it is."""

    job: int
    task: str
    queue: str | None
    worker: str | None
    attempt: int
    max_attempts: int
    seconds: float
    progress: float | None = None
    note: str = ""


class FailureLine(msgspec.Struct, frozen=True):
    """Failed jobs with the same error, and the one of them that failed last."""

    job: int
    task: str
    count: Depth
    seconds: float
    error: str


class WorkerLine(msgspec.Struct, frozen=True):
    """A worker. Its lease ends in so many seconds; one whose lease is over is taken for dead."""

    name: str
    running: int
    lease: float

    @property
    def is_alive(self) -> bool:
        return self.lease > 0


class Detail(msgspec.Struct, frozen=True):
    """The depths of the chosen task or queue."""

    kind: Kind
    name: str
    depths: Depths


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """How work goes at the instant `depths.now`, by the database's clock."""

    depths: Depths
    speed: Speed | None
    """None where the store tells no rates."""
    history: tuple[float, ...] = ()
    """Jobs per second in each period, the oldest first."""
    tasks: tuple[TaskLine, ...] = ()
    queues: tuple[QueueLine, ...] = ()
    running: tuple[RunningLine, ...] = ()
    is_cut: bool = False
    """More jobs run than are told."""
    failures: tuple[FailureLine, ...] = ()
    workers: tuple[WorkerLine, ...] = ()
    detail: Detail | None = None


async def look(app: App, chosen: tuple[Kind, str] | None = None) -> Picture:
    """Ask for all of it. The depths of one task or queue are asked for where it is `chosen`."""
    await app.open()
    client, tenant = app.client, app.settings.tenant
    own = DEFAULT_TENANT if tenant is None else tenant
    newest = await client.list_jobs(limit=_SAMPLED)
    running = await client.list_jobs(state=JobState.RUNNING, limit=MOST_RUNNING)
    workers = await client.workers()
    paused = await client.paused()
    by_task: list[Rate] = []
    of_all: list[Rate] = []
    detail = None
    if app.store.capabilities.figures:
        store = cast(FigureStore, app.store)
        depths = await store.depths(tenant=tenant)
        by_task = await store.rates(RateFilter(seconds=WINDOW, by_task=True, tenant=tenant))
        of_all = await store.rates(RateFilter(seconds=HISTORY, tenant=tenant))
        groups = await store.error_groups(MOST_FAILURES, tenant)
        failures = [
            FailureLine(
                job=group.latest_job,
                task=group.task,
                count=group.count,
                seconds=(depths.now - group.latest_at) / 1e6,
                error=group.error,
            )
            for group in groups.groups
        ]
        if chosen is not None:
            kind, name = chosen
            task, queue = (name, None) if kind == "task" else (None, name)
            found = await store.depths(task=task, queue=queue, tenant=tenant)
            detail = Detail(kind, name, found)
    else:
        counts = await client.counts()
        now = await app.store.now()
        depths = Depths({JobState(state): Depth(count) for state, count in counts.items()}, now)
        failed = await client.list_jobs(state=JobState.FAILED, limit=MOST_FAILURES)
        failures = [_failure(job, now) for job in failed]
    return Picture(
        depths=depths,
        speed=_speed(of_all, depths.now) if app.store.capabilities.figures else None,
        history=_history(of_all, depths.now),
        tasks=_tasks(
            by_task, [*newest, *running], failures, _pauses("task", paused, own), depths.now
        ),
        queues=_queues([*newest, *running], _pauses("queue", paused, own), depths.now),
        running=tuple(_running(job, depths.now) for job in running),
        is_cut=len(running) == MOST_RUNNING,
        failures=tuple(failures),
        workers=tuple(_worker(info, depths.now) for info in workers),
        detail=detail,
    )


def _speed(found: Iterable[Rate], now: int) -> Speed:
    """Over the whole periods of the window."""
    total = Figures()
    end = now - now % _PERIOD
    for rate in found:
        if end - WINDOW * 1e6 <= rate.at < end:
            total.add(rate.figures)
    return Speed(
        per_second=total.processed / WINDOW,
        failing_per_second=(total.retry + total.failed + total.poison) / WINDOW,
        wait=_mean(total.waited, total.waits),
        run=_mean(total.ran, total.runs),
    )


_PERIOD = int(PERIOD * 1e6)


def _mean(micros: int, counts: Sequence[int]) -> float | None:
    total = sum(counts)
    return micros / 1e6 / total if total else None


def _history(found: Iterable[Rate], now: int) -> tuple[float, ...]:
    """Each whole period has its value, those too in which nothing was done."""
    by_instant = {rate.at: rate.figures.processed / PERIOD for rate in found}
    end = now - now % _PERIOD
    begin = end - int(HISTORY * 1e6)
    return tuple(by_instant.get(at, 0.0) for at in range(begin, end, _PERIOD))


def _tasks(
    by_task: Iterable[Rate],
    jobs: Iterable[Job],
    failures: Iterable[FailureLine],
    pauses: Pauses,
    now: int,
) -> tuple[TaskLine, ...]:
    """Those that something is known of: what was done of it lately, a job, a failure, a pause."""
    rates: dict[str, list[Rate]] = {}
    for rate in by_task:
        rates.setdefault(rate.task, []).append(rate)
    running: dict[str, set[int]] = {}
    for job in jobs:
        ids = running.setdefault(job.task, set())
        if job.state is JobState.RUNNING:
            ids.add(job.id)
    names = {*rates, *running, *pauses, *(failure.task for failure in failures)}
    return tuple(
        TaskLine(
            name=name,
            speed=_speed(rates.get(name, ()), now),
            running=len(running.get(name, ())),
            paused=pauses.get(name, ()),
        )
        for name in sorted(names)
    )


def _queues(jobs: Iterable[Job], pauses: Pauses, now: int) -> tuple[QueueLine, ...]:
    active: dict[str, Job | None] = {}
    for job in jobs:
        if job.queue is not None:
            active.setdefault(job.queue, None)
            if job.state is JobState.RUNNING:
                active[job.queue] = job
    return tuple(
        QueueLine(
            name=name,
            job=None if job is None else job.id,
            task=None if job is None else job.task,
            seconds=None if job is None else _since(job, now),
            paused=pauses.get(name, ()),
        )
        for name, job in sorted({**dict.fromkeys(pauses), **active}.items())
    )


Pauses = dict[str, tuple[str, ...]]
"""The tenants for which each task, or each queue, is paused."""


def _pauses(kind: Kind, paused: Paused, own: str) -> Pauses:
    names = paused.tasks if kind == "task" else paused.queues
    found: Pauses = dict.fromkeys(names, (own,))
    for other in paused.elsewhere:
        if other.kind == kind:
            found[other.name] = (*found.get(other.name, ()), other.tenant)
    return found


def _since(job: Job, now: int) -> float:
    return max(0.0, (now - to_micros(job.updated_at)) / 1e6)


def _running(job: Job, now: int) -> RunningLine:
    return RunningLine(
        job=job.id,
        task=job.task,
        queue=job.queue,
        worker=job.locked_by,
        attempt=job.attempts,
        max_attempts=job.max_attempts,
        seconds=_since(job, now),
        progress=None if job.progress is None else job.progress.fraction,
        note="" if job.progress is None else job.progress.note,
    )


def _failure(job: Job, now: int) -> FailureLine:
    return FailureLine(
        job=job.id,
        task=job.task,
        count=Depth(1),
        seconds=(now - to_micros(job.finished_at or job.updated_at)) / 1e6,
        error=job.last_error or "",
    )


def _worker(info: WorkerInfo, now: int) -> WorkerLine:
    return WorkerLine(info.id, info.running, (info.expires_at - now) / 1e6)
