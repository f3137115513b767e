"""What pages show of many jobs at once: depths, counts, rates and groups of failures.

It is the one module between the pages and the verbs that answer these, so that a page says what it
wants to show, and not how that is counted.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.client import Client
from windlass.model.job import JobState
from windlass.server.dashboard.resting import Resting
from windlass.server.dashboard.search import Search, batches
from windlass.server.service import Service
from windlass.store.figures import BOUNDS, Depths, ErrorGroups, Figures, RateFilter
from windlass.store.figures import Rate as StoredRate

MOST_COUNTED = 10_000
"""Up to which jobs of a search are counted one by one."""
WINDOWS = {15: 10.0, 60: 30.0, 360: 180.0}
"""Minutes that charts may show, and the seconds of one of their steps."""
MOST_NAMES = 60
"""Tasks, or queues, whose depths one page looks up."""
_SAMPLED = 200
"""Jobs in which names of tasks and queues are looked for."""


class Count(msgspec.Struct, frozen=True):
    """A number of jobs; where it is not exact, there are at least so many."""

    number: int
    is_exact: bool = True


class Work(msgspec.Struct, frozen=True):
    """What was done in a stretch of time. Times are seconds, None where nothing was done."""

    done: int
    failed: int
    """Attempts that failed, those that are tried again, too."""
    per_second: float
    wait: float | None
    wait95: float | None
    run: float | None
    run95: float | None

    @property
    def failing(self) -> float:
        """The part of all attempts that failed."""
        return self.failed / self.done if self.done else 0.0


class History(msgspec.Struct, frozen=True):
    """Rates and times, one value for each step: `at` are seconds since 1970. Times are None where
    nothing was done."""

    step: float
    at: list[int]
    done: list[float]
    failed: list[float]
    wait: list[float | None]
    wait95: list[float | None]
    run: list[float | None]
    run95: list[float | None]


class Looks:
    """The figures of one service. `tenant` is whose they are, None for those of all."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._depths: Resting[Depths] = Resting(service.clock)
        self._groups: Resting[ErrorGroups] = Resting(service.clock)

    async def depths(
        self,
        tenant: str | None,
        *,
        task: str | None = None,
        queue: str | None = None,
        least: float = 0.0,
    ) -> Depths:
        """As they are, or were `least` seconds ago at most; longer ago where that takes long."""
        store = self._service.store
        return await self._depths.get(
            (tenant, task, queue),
            lambda: store.depths(task=task, queue=queue, tenant=tenant),
            least=least,
        )

    async def count(self, client: Client, search: Search) -> Count:
        """How many jobs a search selects, exactly up to `MOST_COUNTED`."""
        total = 0
        async for batch in batches(client, search):
            total += len(batch)
            if total >= MOST_COUNTED:
                return Count(total, is_exact=False)
        return Count(total)

    async def groups(self, tenant: str | None) -> ErrorGroups:
        store = self._service.store
        return await self._groups.get(tenant, lambda: store.error_groups(tenant=tenant))

    async def history(self, tenant: str | None, minutes: int) -> History:
        """All tasks together, as far back as asked."""
        step = WINDOWS[minutes]
        store = self._service.store
        found = await store.rates(RateFilter(seconds=minutes * 60.0, step=step, tenant=tenant))
        return history(found, minutes * 60, step, await store.now())

    async def by_task(self, tenant: str | None, minutes: int) -> dict[str, Work]:
        """What was done of each task in so many minutes, the busiest first."""
        seconds = minutes * 60.0
        wanted = RateFilter(seconds=seconds, step=seconds, by_task=True, tenant=tenant)
        sums: dict[str, Figures] = {}
        for rate in await self._service.store.rates(wanted):
            sums.setdefault(rate.task, Figures()).add(rate.figures)
        found = {task: work(figures, seconds) for task, figures in sums.items()}
        return dict(sorted(found.items(), key=lambda item: (-item[1].done, item[0])))

    async def names(self, client: Client) -> tuple[set[str], set[str]]:
        """Tasks and queues that the newest jobs are of, and those that failed last."""
        found = await client.list_jobs(limit=_SAMPLED)
        found += await client.list_jobs(state=JobState.FAILED, limit=_SAMPLED)
        return {job.task for job in found}, {job.queue for job in found if job.queue is not None}


def work(figures: Figures, seconds: float) -> Work:
    done = figures.processed
    return Work(
        done=done,
        failed=failed(figures),
        per_second=done / seconds,
        wait=mean(figures.waited, figures.waits),
        wait95=quantile(figures.waits, 0.95),
        run=mean(figures.ran, figures.runs),
        run95=quantile(figures.runs, 0.95),
    )


def failed(figures: Figures) -> int:
    return figures.retry + figures.failed + figures.poison


def history(found: Sequence[StoredRate], seconds: float, step: float, now: int) -> History:
    """Every step of the window has its values, those too in which nothing was done. The step that
    is under way is left out: its rate is not known yet."""
    by_instant = {rate.at // 1_000_000: rate.figures for rate in found}
    end = int(now / 1e6 // step * step)
    begin = int((now / 1e6 - seconds) // step * step)
    at = list(range(begin, end, int(step)))
    all_of = [by_instant.get(instant, Figures()) for instant in at]
    return History(
        step=step,
        at=at,
        done=[round(one.processed / step, 3) for one in all_of],
        failed=[round(failed(one) / step, 3) for one in all_of],
        wait=[mean(one.waited, one.waits) for one in all_of],
        wait95=[quantile(one.waits, 0.95) for one in all_of],
        run=[mean(one.ran, one.runs) for one in all_of],
        run95=[quantile(one.runs, 0.95) for one in all_of],
    )


def mean(micros: int, counts: Sequence[int]) -> float | None:
    total = sum(counts)
    return round(micros / 1e6 / total, 4) if total else None


def quantile(counts: Sequence[int], part: float) -> float | None:
    """About so large is the value below which this part of all lies: as good as the bounds of the
    buckets are, and no larger than the last of them."""
    total = sum(counts)
    if not total:
        return None
    wanted, below, low = total * part, 0.0, 0.0
    for count, high in zip(counts, BOUNDS, strict=False):
        if below + count >= wanted:
            return round(low + (high - low) * (wanted - below) / count, 4)
        below, low = below + count, high
    return low
