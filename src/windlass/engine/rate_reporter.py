"""Reports what a worker did, every ten seconds and outside settlements: the rates of dashboards."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from windlass.clock import Clock
from windlass.engine.delivery import Delivery
from windlass.errors import OutcomeUnknownError, StoreError
from windlass.observe.instruments import ending_of
from windlass.store.figures import (
    BOUNDS,
    MOST_TASKS,
    OTHER,
    PERIOD,
    Figures,
    FigureStore,
    TaskFigures,
)
from windlass.store.records import Settled

MEASURED = 32
"""Of a batch about so many deliveries are measured: what ends together is alike."""

Place = tuple[str, str]
"""A tenant and a task."""


class RateReporter:
    """Adds up batches that are settled, and writes the sums.

    They are decoration: what the store cannot take now is written with the next, and what may have
    been written is not written again. A worker that is killed takes along what it had not reported.
    """

    def __init__(self, store: FigureStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._sums: dict[Place, Figures] = {}

    def settled(
        self, batch: Sequence[Delivery], answers: Sequence[Settled], now: float, *, all_done: bool
    ) -> None:
        """These deliveries are over; `now` is the event loop's time, and `all_done` says that each
        has completed. Those that were handed back before they began do not count."""
        ahead = self._clock.now() - now * 1e6
        if all_done:
            for place, some in _by_place(batch):
                figures = self._of(place)
                figures.ok += len(some)
                _measure(figures, some, ahead)
            return
        begun: dict[Place, list[Delivery]] = {}
        for delivery, answer in zip(batch, answers, strict=True):
            if delivery.started_at:
                place = delivery.lease.tenant, delivery.lease.task
                begun.setdefault(place, []).append(delivery)
                figures, ending = self._of(place), ending_of(delivery, answer).value
                setattr(figures, ending, getattr(figures, ending) + 1)
        for place, some in begun.items():
            _measure(self._of(place), some, ahead)

    def _of(self, place: Place) -> Figures:
        figures = self._sums.get(place)
        if figures is None:
            if len(self._sums) >= MOST_TASKS and place[1] != OTHER:
                return self._of((place[0], OTHER))
            figures = self._sums[place] = Figures()
        return figures

    async def step(self) -> float:
        sums, self._sums = self._sums, {}
        if sums:
            reported = [TaskFigures(task, it, tenant) for (tenant, task), it in sums.items()]
            try:
                await self._store.note_rates(reported)
            except StoreError as error:
                if not isinstance(error, OutcomeUnknownError):
                    for place, figures in sums.items():
                        self._of(place).add(figures)
                raise
        return PERIOD


def _by_place(batch: Sequence[Delivery]) -> Iterable[tuple[Place, Sequence[Delivery]]]:
    leases = [one.lease for one in batch]
    tasks, tenants = {lease.task for lease in leases}, {lease.tenant for lease in leases}
    if len(tasks) == len(tenants) == 1:
        return [((tenants.pop(), tasks.pop()), batch)]
    found: dict[Place, list[Delivery]] = {}
    for one, lease in zip(batch, leases, strict=True):
        found.setdefault((lease.tenant, lease.task), []).append(one)
    return found.items()


def _measure(figures: Figures, batch: Sequence[Delivery], ahead: float) -> None:
    """How long these waited and ran. Of many that end together some stand for those after them."""
    step = max(1, len(batch) // MEASURED)
    some = batch[::step]
    last = len(batch) - step * (len(some) - 1)
    runs = [one.ended_at - one.started_at for one in some]
    # The database's clock may be ahead of this machine's.
    waits = [max(0.0, one.started_at + (ahead - one.lease.run_at) / 1e6) for one in some]
    figures.ran += round((sum(runs[:-1]) * step + runs[-1] * last) * 1e6)
    figures.waited += round((sum(waits[:-1]) * step + waits[-1] * last) * 1e6)
    for counts, seconds in ((figures.runs, runs), (figures.waits, waits)):
        for each in seconds[:-1]:
            counts[bisect_left(BOUNDS, each)] += step
        counts[bisect_left(BOUNDS, seconds[-1])] += last
