"""What a store tells of how work goes: depths, rates and groups of errors.

A store whose capability `figures` is True has these verbs. They are for dashboards and metrics:
each reads a bounded number of entries, however many jobs there are, and no verb of `WorkStore`
does anything for them but keep the fingerprint of a failed job's error.

Rates are a ring in the database: one row for each task of a tenant and each `PERIOD`, to which
workers add what they did in about the last period, and which is pruned by the same call. The
database's clock says which period it is. They outlive workers, and are as good as workers report:
one that is killed takes along what it has not reported yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from windlass.model.job import DEFAULT_TENANT, Instant, JobState, Micros

PERIOD = 10.0
"""Seconds that one row of rates stands for."""

RATES_KEPT = 6 * 3600.0
"""Seconds for which rates are kept."""

MOST_TASKS = 500
"""Tasks that a worker reports by name; what it did for others is reported as `OTHER`."""

OTHER = "other"

ALL_TASKS = ""
"""The name under which a store keeps the sum over all tasks of a tenant."""

COUNTED = 10_000
"""Jobs of a state that are counted one by one; beyond, their number is an estimate."""

COUNTED_OF_GROUP = 1_000
"""The same for an error group."""

MOST_GROUPS = 1_000
"""Error groups among which the latest are looked for."""

OUTCOMES = ("ok", "retry", "failed", "poison", "cancelled", "abandoned", "lost")
"""How deliveries end: `retry` has failed and runs again, `failed` has no attempts left."""

BOUNDS = (0.01, 0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0)
"""Upper bounds in seconds of the buckets in which waits and runs are counted; a last bucket holds
what took longer."""

BUCKETS = len(BOUNDS) + 1


class Depth(msgspec.Struct, frozen=True):
    """How many there are, or about so many where it is an estimate."""

    count: int = 0
    is_estimate: bool = False


class Depths(msgspec.Struct, frozen=True):
    """How many jobs are in each state, and since when the oldest ready one has been due.

    Both instants are the database's. Where tasks, priorities and queues of ready jobs go into the
    hundreds, `oldest_ready_at` is that of the first of them by name.
    """

    states: dict[JobState, Depth]
    now: Instant
    oldest_ready_at: Instant | None = None

    @property
    def oldest_ready(self) -> float | None:
        """Its age in seconds."""
        if self.oldest_ready_at is None:
            return None
        return max(0.0, (self.now - self.oldest_ready_at) / 1e6)


def _no_counts() -> list[int]:
    return [0] * BUCKETS


class Figures(msgspec.Struct, kw_only=True):
    """What became of deliveries: how many ended in each way, how long they waited from when they
    were due to their start, and how long they ran: in all, and counted in `BOUNDS`."""

    ok: int = 0
    retry: int = 0
    failed: int = 0
    poison: int = 0
    cancelled: int = 0
    abandoned: int = 0
    lost: int = 0
    waited: Micros = 0
    ran: Micros = 0
    waits: list[int] = msgspec.field(default_factory=_no_counts)
    runs: list[int] = msgspec.field(default_factory=_no_counts)

    def numbers(self) -> list[int]:
        """All of them, in the order of `COLUMNS`."""
        return [*(getattr(self, name) for name in _SINGLE), *self.waits, *self.runs]

    @classmethod
    def of(cls, numbers: Sequence[int]) -> Figures:
        single = dict(zip(_SINGLE, numbers, strict=False))
        counts = list(numbers[len(_SINGLE) :])
        return cls(**single, waits=counts[:BUCKETS], runs=counts[BUCKETS:])

    def add(self, more: Figures) -> None:
        for name in _SINGLE:
            setattr(self, name, getattr(self, name) + getattr(more, name))
        self.waits = [a + b for a, b in zip(self.waits, more.waits, strict=True)]
        self.runs = [a + b for a, b in zip(self.runs, more.runs, strict=True)]

    @property
    def processed(self) -> int:
        """Deliveries that ended, in whatever way."""
        return sum([getattr(self, name) for name in OUTCOMES])


_SINGLE = (*OUTCOMES, "waited", "ran")

COLUMNS = (
    *_SINGLE,
    *(f"wait_{n}" for n in range(BUCKETS)),
    *(f"run_{n}" for n in range(BUCKETS)),
)
"""Names of the numbers in the order of `Figures.numbers`, as SQL stores call them."""


class TaskFigures(msgspec.Struct):
    """What a worker did for a task of a tenant since it reported last."""

    task: str
    figures: Figures
    tenant: str = DEFAULT_TENANT


def with_totals(reported: Iterable[TaskFigures]) -> list[TaskFigures]:
    """One for each tenant and task, and one for all tasks of each tenant, in the order in which
    every call writes them."""
    found: dict[tuple[str, str], Figures] = {}
    for one in reported:
        for task in (one.task, ALL_TASKS):
            found.setdefault((task, one.tenant), Figures()).add(one.figures)
    return [TaskFigures(task, found[task, tenant], tenant) for task, tenant in sorted(found)]


class RateFilter(msgspec.Struct, frozen=True):
    """Which rates to read: since the step in which the instant `seconds` ago lies. They are summed
    over steps of `step` seconds (whole periods), which begin at multiples of it since 1970.

    All tasks together, or `task`; with `by_task` one for each task and step.
    """

    seconds: float
    step: float = PERIOD
    task: str | None = None
    by_task: bool = False
    tenant: str | None = None


class Rate(msgspec.Struct):
    """What was done in the `step` seconds that begin at `at`; `task` is '' where it is for all."""

    at: Instant
    task: str
    figures: Figures


class ErrorGroup(msgspec.Struct, frozen=True):
    """Failed jobs with the same fingerprint, which are of one task of a tenant, and the one of them
    that failed last; where more than are counted, of those that were added last.

    `fingerprint` is '' for what failed before errors had one, of whatever tasks and tenants that
    the caller sees; `task` and `tenant` are those of the latest job. `error` is the beginning of
    its error.
    """

    fingerprint: str
    tenant: str
    task: str
    error: str
    count: Depth
    latest_at: Instant
    latest_job: int


class ErrorGroups(msgspec.Struct, frozen=True):
    """The groups that a job was added to last, the one in which one failed last first. `is_cut`
    where there were more than `MOST_GROUPS` to look at, so that others may be later."""

    groups: tuple[ErrorGroup, ...] = ()
    is_cut: bool = False


class FigureStore(Protocol):
    """A store that can tell how work goes."""

    async def depths(
        self,
        *,
        task: str | None = None,
        queue: str | None = None,
        tenant: str | None = None,
        most: int = COUNTED,
    ) -> Depths:
        """How many jobs there are in each state, of a task or a queue where one is named. Counts
        up to `most` are exact, unless more than that many others must be read to count them."""

    async def note_rates(self, reported: Sequence[TaskFigures]) -> None:
        """Add what a worker did to the rates of the current period, and drop some old ones."""

    async def rates(self, wanted: RateFilter) -> list[Rate]:
        """In the order of their instants and tasks; steps in which nothing was done are left
        out."""

    async def error_groups(
        self, limit: int = 50, tenant: str | None = None, most: int = COUNTED_OF_GROUP
    ) -> ErrorGroups:
        """The latest `limit` groups. Each is counted up to `most` jobs, and one that has more is
        told as `most`, an estimate. Their jobs are found by `JobFilter.fingerprint`."""
