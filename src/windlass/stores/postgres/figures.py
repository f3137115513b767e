"""The verbs of `FigureStore`: how work goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.model.fingerprint import first_of_tenant
from windlass.model.job import JobState
from windlass.store.figures import (
    ALL_TASKS,
    COLUMNS,
    COUNTED,
    COUNTED_OF_GROUP,
    MOST_GROUPS,
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
from windlass.stores.postgres.calls import Calls

_SUMS = ", ".join(f"pg_catalog.sum(r.{name})::bigint" for name in COLUMNS)
_STEP = "pg_catalog.date_bin(pg_catalog.make_interval(secs => %s), {0}, timestamptz 'epoch')"
_RATES = f"""
SELECT {{schema}}._micros({_STEP.format("r.period")}), r.task, {_SUMS}
FROM {{schema}}._rates AS r
WHERE {{of}} AND coalesce(r.tenant = %s, true) AND r.period >= {_STEP.format("{since}")}
GROUP BY 1, 2 ORDER BY 1, r.task COLLATE "C"
"""  # noqa: S608
_SINCE = "coalesce(%s, statement_timestamp()) - pg_catalog.make_interval(secs => %s)"

_depths = msgspec.json.Decoder(tuple[list[tuple[JobState, int, bool]], int | None, int]).decode
_groups = msgspec.json.Decoder(tuple[int, list[tuple[str, int, str, str, str, int, int]]]).decode


class FigureVerbs:
    """A part of the store, which has these."""

    _calls: Calls

    async def depths(
        self,
        *,
        task: str | None = None,
        queue: str | None = None,
        tenant: str | None = None,
        most: int = COUNTED,
    ) -> Depths:
        [text] = await self._calls.row(
            "SELECT {schema}._depths(%s, %s, %s, %s::integer, %s)::text",
            task,
            queue,
            tenant,
            most,
            self._calls.now,
        )
        counts, oldest, now = _depths(text)
        found = {state: Depth(jobs, is_estimate=is_cut) for state, jobs, is_cut in counts}
        return Depths(
            states={state: found[state] for state in JobState}, now=now, oldest_ready_at=oldest
        )

    async def note_rates(self, reported: Sequence[TaskFigures]) -> None:
        rows = [(one.task, one.tenant, *one.figures.numbers()) for one in with_totals(reported)]
        await self._calls.row(
            "SELECT {schema}._note_rates(%s::json, %s)",
            msgspec.json.encode(rows).decode(),
            self._calls.now,
        )

    async def rates(self, wanted: RateFilter) -> list[Rate]:
        of: list[str] = []
        values: list[Any] = [wanted.step]
        if wanted.by_task:
            of.append("r.task <> ''")
        if wanted.task is not None or not wanted.by_task:
            of.append("r.task = %s")
            values.append(wanted.task or ALL_TASKS)
        values += [wanted.tenant, wanted.step, self._calls.now, wanted.seconds]
        statement = _RATES.replace("{of}", " AND ".join(of)).replace("{since}", _SINCE)
        found = await self._calls.rows(statement, *values)
        return [Rate(at, task, Figures.of(numbers)) for at, task, *numbers in found]

    async def error_groups(
        self, limit: int = 50, tenant: str | None = None, most: int = COUNTED_OF_GROUP
    ) -> ErrorGroups:
        [text] = await self._calls.row(
            "SELECT {schema}._error_groups(%s::integer, %s, %s, %s::integer, %s::integer)::text",
            limit,
            tenant,
            "" if tenant is None else first_of_tenant(tenant),
            most,
            MOST_GROUPS,
        )
        looked, found = _groups(text)
        return ErrorGroups(
            tuple(
                ErrorGroup(
                    fingerprint=fingerprint,
                    tenant=owner,
                    task=task,
                    error=error,
                    count=Depth(min(count, most), is_estimate=count > most),
                    latest_at=at,
                    latest_job=job,
                )
                for fingerprint, count, owner, task, error, at, job in found
            ),
            is_cut=looked > MOST_GROUPS,
        )
