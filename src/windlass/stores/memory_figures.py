"""What the reference store tells of how work goes: it looks at every row."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from windlass.clock import Clock
from windlass.model.job import JobState
from windlass.store.figures import (
    ALL_TASKS,
    COUNTED,
    COUNTED_OF_GROUP,
    MOST_GROUPS,
    PERIOD,
    RATES_KEPT,
    Depth,
    Depths,
    ErrorGroup,
    ErrorGroups,
    Figures,
    Rate,
    RateFilter,
    TaskFigures,
    with_totals,
)
from windlass.store.records import MAX_ERROR_TEXT, Row, sees
from windlass.store.rules import micros


class MemoryFigures:
    """A part of the store."""

    _clock: Clock
    _lock: threading.RLock
    _rows: dict[int, Row]
    _history: dict[int, Row]
    _rates: dict[tuple[int, str, str], Figures]
    """By period, task and tenant."""

    async def depths(
        self,
        *,
        task: str | None = None,
        queue: str | None = None,
        tenant: str | None = None,
        most: int = COUNTED,
    ) -> Depths:
        with self._lock:
            rows = [
                row
                for row in (*self._rows.values(), *self._history.values())
                if sees(tenant, row)
                and (task is None or row.task == task)
                and (queue is None or row.queue == queue)
            ]
            states = [row.state for row in rows]
            return Depths(
                states={state: Depth(states.count(state)) for state in JobState},
                now=self._clock.now(),
                oldest_ready_at=min(
                    [row.run_at for row in rows if row.state is JobState.READY], default=None
                ),
            )

    async def note_rates(self, reported: Sequence[TaskFigures]) -> None:
        with self._lock:
            now = self._clock.now()
            period = _begin(now, PERIOD)
            for one in with_totals(reported):
                place = (period, one.task, one.tenant)
                self._rates.setdefault(place, Figures()).add(one.figures)
            oldest = now - micros(RATES_KEPT)
            for place in [place for place in self._rates if place[0] < oldest]:
                del self._rates[place]

    async def rates(self, wanted: RateFilter) -> list[Rate]:
        with self._lock:
            since = _begin(self._clock.now() - micros(wanted.seconds), wanted.step)
            found: dict[tuple[int, str], Figures] = {}
            for (period, task, tenant), figures in self._rates.items():
                is_asked_for = (
                    task != ALL_TASKS if wanted.by_task else task == (wanted.task or ALL_TASKS)
                )
                if (
                    is_asked_for
                    and period >= since
                    and (wanted.tenant is None or tenant == wanted.tenant)
                    and (wanted.task is None or task == wanted.task)
                ):
                    place = (_begin(period, wanted.step), task)
                    found.setdefault(place, Figures()).add(figures)
            return [Rate(at, task, found[at, task]) for at, task in sorted(found)]

    async def error_groups(
        self, limit: int = 50, tenant: str | None = None, most: int = COUNTED_OF_GROUP
    ) -> ErrorGroups:
        with self._lock:
            groups: dict[str, list[Row]] = {}
            for row in sorted(self._rows.values(), key=lambda row: -row.id):
                if row.state is JobState.FAILED and sees(tenant, row):
                    groups.setdefault(row.fingerprint or "", []).append(row)
            newest = list(groups.items())[:limit]
            found = [_group(fingerprint, rows, most) for fingerprint, rows in newest]
            found.sort(key=lambda group: (group.latest_at, group.latest_job), reverse=True)
            return ErrorGroups(tuple(found), is_cut=len(groups) > MOST_GROUPS)


def is_of_group(fingerprint: str, row: Row) -> bool:
    return row.state is JobState.FAILED and (row.fingerprint or "") == fingerprint


def _begin(at: int, step: float) -> int:
    return at - at % micros(step)


def _group(fingerprint: str, rows: Sequence[Row], most: int) -> ErrorGroup:
    latest = max(rows[: most + 1], key=lambda row: (row.finished_at or 0, row.id))
    return ErrorGroup(
        fingerprint=fingerprint,
        tenant=latest.tenant,
        task=latest.task,
        error=(latest.last_error or "")[:MAX_ERROR_TEXT],
        count=Depth(min(len(rows), most), is_estimate=len(rows) > most),
        latest_at=latest.finished_at or 0,
        latest_job=latest.id,
    )
