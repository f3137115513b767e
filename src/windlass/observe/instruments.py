"""What the loops of a worker tell for its metrics: once per batch, never once per job.

`Instruments` only adds up. It decodes no payload and asks no database, and a worker without it
pays for none of it. `look` gives the figures to whatever shows them, from any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from windlass.clock import SYSTEM, Clock
from windlass.model.job import JobState
from windlass.observe.metrics import (
    CLAIM_SECONDS,
    CLAIMED_JOBS,
    CLAIMS,
    IN_FLIGHT,
    JOB_DURATION,
    JOB_WAIT,
    JOBS_PROCESSED,
    LEASE_LOST,
    MOST_TASKS,
    OTHER,
    REAPED,
    SCHEDULE_LAG,
    SETTLE_SECONDS,
    SLOTS,
    Ending,
    Metric,
)
from windlass.observe.snapshot import Bins, Labels, Snapshot
from windlass.store.records import Cancel, Complete, Fail, Lease, Outcome, Settled, Verdict


class Ended(Protocol):
    """A delivery whose outcome is written. Both instants are on the event loop's clock."""

    @property
    def lease(self) -> Lease: ...

    @property
    def outcome(self) -> Outcome: ...

    @property
    def settled_inside(self) -> bool: ...

    @property
    def started_at(self) -> float:
        """0 for one that was handed back before it began."""

    @property
    def ended_at(self) -> float: ...


class Load(Protocol):
    """What a worker is doing at this moment; asked from any thread."""

    def busy_slots(self) -> int: ...

    def idle_slots(self) -> int: ...

    def in_flight(self) -> Mapping[str, int]:
        """How many jobs of each task run."""


class _TaskFigures:
    __slots__ = ("duration", "endings", "wait")

    def __init__(self) -> None:
        self.endings = dict.fromkeys(Ending, 0)
        self.duration = Bins.of(JOB_DURATION)
        self.wait = Bins.of(JOB_WAIT)


class Instruments:
    """The figures of one process: of one worker, or of several beside each other."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._tasks: dict[str, _TaskFigures] = {}
        self._counters: dict[Metric, dict[Labels, float]] = {
            metric: {(): 0.0} for metric in (CLAIMS, CLAIMED_JOBS, LEASE_LOST, REAPED)
        }
        self._bins: dict[Metric, dict[Labels, Bins]] = {
            metric: {(): Bins.of(metric)}
            for metric in (CLAIM_SECONDS, SETTLE_SECONDS, SCHEDULE_LAG)
        }
        self._loads: list[Load] = []
        self._gauges: dict[Metric, Callable[[], Mapping[str, float]]] = {}

    # ── what is told, once per batch ──

    def watch(self, tasks: Iterable[str], load: Load) -> Callable[[], None]:
        """A worker begins; call the answer when it ends. What its tasks' metrics count is there
        from now on, as zeros: a rate needs the value from before the first job."""
        with self._lock:
            for task in tasks:
                self._of(task)
            self._loads.append(load)
        return lambda: self._loads.remove(load)

    def claimed(self, jobs: int, seconds: float) -> None:
        """One claim brought so many jobs."""
        with self._lock:
            self._counters[CLAIMS][()] += 1
            self._counters[CLAIMED_JOBS][()] += jobs
            self._bins[CLAIM_SECONDS][()].add(seconds, CLAIM_SECONDS.bounds)

    def settling(self, seconds: float) -> None:
        """One write of outcomes was answered."""
        with self._lock:
            self._bins[SETTLE_SECONDS][()].add(seconds, SETTLE_SECONDS.bounds)

    def settled(
        self, batch: Sequence[Ended], answers: Sequence[Settled], now: float, *, all_done: bool
    ) -> None:
        """These deliveries are over; `now` is the event loop's time, and `all_done` says that each
        answer is the usual one: it has completed."""
        with self._lock:
            if all_done:
                leases = [one.lease for one in batch]
                names = {lease.task for lease in leases}
                if len(names) == 1:
                    self._count(names.pop(), batch, leases, now)
                    return
                for name in names:
                    some = [one for one in batch if one.lease.task == name]
                    self._count(name, some, [one.lease for one in some], now)
                return
            begun: dict[str, list[Ended]] = {}
            for one, answer in zip(batch, answers, strict=True):
                if one.started_at:
                    task = one.lease.task
                    self._of(task).endings[ending_of(one, answer)] += 1
                    begun.setdefault(task, []).append(one)
            for task, ended in begun.items():
                self._measure(self._of(task), ended, [one.lease for one in ended], now)

    def settled_elsewhere(
        self, settlements: Sequence[tuple[Lease, Outcome]], answers: Sequence[Settled]
    ) -> None:
        """Programs that this process serves have ended these deliveries; how long they took is
        known to them alone. What is asked for again later is no end."""
        with self._lock:
            for (lease, outcome), answer in zip(settlements, answers, strict=True):
                if answer.verdict not in (Verdict.BUSY, Verdict.REFUSED):
                    self._of(lease.task).endings[_ending(outcome, answer)] += 1

    def lost(self, leases: int) -> None:
        with self._lock:
            self._counters[LEASE_LOST][()] += leases

    def reaped(self, jobs: int) -> None:
        with self._lock:
            self._counters[REAPED][()] += jobs

    def fired(self, lags: Iterable[float]) -> None:
        """A schedule fired for as many instants, each so many seconds ago."""
        with self._lock:
            for lag in lags:
                self._bins[SCHEDULE_LAG][()].add(max(0.0, lag), SCHEDULE_LAG.bounds)

    def show(self, metric: Metric, read: Callable[[], Mapping[str, float]]) -> None:
        """A gauge with one label, whose values are read when they are looked at."""
        self._gauges[metric] = read

    def count(self, metric: Metric, *labels: str) -> None:
        """One more of a counter with labels."""
        with self._lock:
            values = self._counters.setdefault(metric, {})
            values[labels] = values.get(labels, 0.0) + 1.0

    def observe(self, metric: Metric, seconds: float, *labels: str) -> None:
        """One value of a histogram with labels."""
        with self._lock:
            bins = self._bins.setdefault(metric, {})
            if labels not in bins:
                bins[labels] = Bins.of(metric)
            bins[labels].add(seconds, metric.bounds)

    # ── what is shown ──

    def look(self) -> Snapshot:
        """All figures now."""
        found = Snapshot()
        with self._lock:
            for task, figures in self._tasks.items():
                for ending, count in figures.endings.items():
                    found.add(JOBS_PROCESSED, (task, ending.value), count)
                for metric, bins in ((JOB_DURATION, figures.duration), (JOB_WAIT, figures.wait)):
                    found.put_bins(metric, (task,), bins)
            for metric, values in self._counters.items():
                found.counters[metric.name] = dict(values)
            for metric, by_labels in self._bins.items():
                for labels, bins in by_labels.items():
                    found.put_bins(metric, labels, bins)
            known, loads = frozenset(self._tasks), tuple(self._loads)
        for metric, read in tuple(self._gauges.items()):
            for label, value in read().items():
                found.add(metric, (label,), value)
        for load in loads:
            found.add(SLOTS, ("busy",), load.busy_slots())
            found.add(SLOTS, ("idle",), load.idle_slots())
            for task, count in load.in_flight().items():
                found.add(IN_FLIGHT, (task if task in known else OTHER,), count)
        return found

    def _of(self, task: str) -> _TaskFigures:
        figures = self._tasks.get(task)
        if figures is None:
            if len(self._tasks) >= MOST_TASKS and task != OTHER:
                return self._of(OTHER)
            figures = self._tasks[task] = _TaskFigures()
        return figures

    def _count(
        self, task: str, batch: Sequence[Ended], leases: Sequence[Lease], now: float
    ) -> None:
        figures = self._of(task)
        figures.endings[Ending.OK] += len(batch)
        self._measure(figures, batch, leases, now)

    def _measure(
        self, figures: _TaskFigures, batch: Sequence[Ended], leases: Sequence[Lease], now: float
    ) -> None:
        started = [one.started_at for one in batch]
        took = [one.ended_at - one.started_at for one in batch]
        figures.duration.add_many(took, JOB_DURATION.bounds)
        # The same for how long they waited, but most batches need not work out each: jobs that
        # were due at about the same time, and begin so, fall into one bucket.
        due = [lease.run_at for lease in leases]
        wall = self._clock.now() / 1e6 - now
        least = wall + min(started) - max(due) / 1e6
        most = wall + max(started) - min(due) / 1e6
        size = len(batch)
        total = size * wall + sum(started) - sum(due) / 1e6
        bounds = JOB_WAIT.bounds
        if least < 0 or not figures.wait.add_alike(least, most, size, total, bounds):
            # A database's clock may be ahead of this machine's.
            waits = [max(0.0, wall + a - b / 1e6) for a, b in zip(started, due, strict=True)]
            figures.wait.add_many(waits, bounds)


def ending_of(one: Ended, answer: Settled) -> Ending:
    """What a delivery that was begun ended in."""
    return Ending.OK if one.settled_inside else _ending(one.outcome, answer)


def _ending(outcome: Outcome, answer: Settled) -> Ending:
    """The order is that of what counts most."""
    if answer.verdict is not Verdict.APPLIED:
        return Ending.LOST
    if isinstance(outcome, Complete):
        return Ending.OK
    if isinstance(outcome, Cancel) or answer.state is JobState.CANCELLED:
        return Ending.CANCELLED
    if not isinstance(outcome, Fail):
        return Ending.ABANDONED
    if answer.state is not JobState.FAILED:
        return Ending.RETRY
    return Ending.POISON if outcome.final else Ending.FAILED
