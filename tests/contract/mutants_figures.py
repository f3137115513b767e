"""Stores that tell wrongly how work goes, each because of one named thing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from tests.contract.mutant import killed_by
from windlass.model.job import Job, JobState
from windlass.store.figures import (
    Depth,
    Depths,
    ErrorGroups,
    Figures,
    Rate,
    RateFilter,
    TaskFigures,
)
from windlass.store.records import JobFilter
from windlass.stores.memory import MemoryStore

# ── depths ──


class _Depths(MemoryStore):
    """Tells something else than what is right."""

    async def depths(self, **asked: Any) -> Depths:
        return self._told(await super().depths(**asked), asked)

    def _told(self, depths: Depths, asked: dict[str, Any]) -> Depths:
        raise NotImplementedError


@killed_by("figures.depths_of_nothing")
class StatesWithoutJobsAreLeftOut(_Depths):
    def _told(self, depths: Depths, asked: dict[str, Any]) -> Depths:
        return replace(depths, states={s: it for s, it in depths.states.items() if it.count})


@killed_by("figures.depths_of_every_state", "figures.depths_of_a_task")
class KeptJobsAreNotCounted(_Depths):
    def _told(self, depths: Depths, asked: dict[str, Any]) -> Depths:
        return replace(depths, states={**depths.states, JobState.COMPLETED: Depth()})


@killed_by("figures.a_blocked_job_is_counted")
class BlockedJobsHaveNoDepth(_Depths):
    def _told(self, depths: Depths, asked: dict[str, Any]) -> Depths:
        return replace(depths, states={**depths.states, JobState.BLOCKED: Depth()})


@killed_by("figures.depths_of_a_queue")
class QueuesAreNotToldApart(MemoryStore):
    async def depths(self, **asked: Any) -> Depths:
        return await super().depths(**{**asked, "queue": None})


@killed_by("figures.depths_of_a_tenant")
class DepthsOfAllTenants(MemoryStore):
    async def depths(self, **asked: Any) -> Depths:
        return await super().depths(**{**asked, "tenant": None})


@killed_by("figures.a_depth_is_exact_up_to_a_limit")
class EveryDepthIsAnEstimate(_Depths):
    def _told(self, depths: Depths, asked: dict[str, Any]) -> Depths:
        return replace(
            depths, states={s: Depth(it.count, it.count > 1) for s, it in depths.states.items()}
        )


@killed_by(
    "figures.the_oldest_ready_job_is_the_one_that_was_due_first",
    "figures.jobs_that_run_are_not_the_oldest_ready",
)
class TheOldestMayRun(MemoryStore):
    async def depths(self, **asked: Any) -> Depths:
        depths = await super().depths(**asked)
        return replace(depths, oldest_ready_at=min(row.created_at for row in self._rows.values()))


# ── rates ──


@killed_by("figures.what_workers_report_is_added_up")
class TheLastReportCounts(MemoryStore):
    async def note_rates(self, reported: Sequence[TaskFigures]) -> None:
        self._rates.clear()
        await super().note_rates(reported)


@killed_by("figures.no_rates_of_nothing")
class AReportOfNothingIsOne(MemoryStore):
    async def note_rates(self, reported: Sequence[TaskFigures]) -> None:
        await super().note_rates(reported or [TaskFigures("t", Figures())])


@killed_by(
    "figures.a_period_is_the_databases",
    "figures.rates_in_longer_steps",
    "figures.rates_by_task",
)
class StepsAreNotKept(MemoryStore):
    async def rates(self, wanted: RateFilter) -> list[Rate]:
        return await super().rates(replace(wanted, step=3600.0))


@killed_by(
    "figures.rates_of_a_tenant",
)
class RatesOfAllTenants(MemoryStore):
    async def rates(self, wanted: RateFilter) -> list[Rate]:
        return await super().rates(replace(wanted, tenant=None))


@killed_by("figures.rates_are_seen_by_others_and_after_a_restart")
class RatesAreOfTheLastReporter(TheLastReportCounts):
    pass


@killed_by("figures.old_rates_are_dropped")
class RatesAreKeptForGood(MemoryStore):
    async def note_rates(self, reported: Sequence[TaskFigures]) -> None:
        before = {**self._rates}
        await super().note_rates(reported)
        self._rates = before | self._rates


# ── groups of errors ──


class _Groups(MemoryStore):
    """Tells something else than what is right."""

    async def error_groups(self, *asked: Any, **more: Any) -> ErrorGroups:
        return self._told(await super().error_groups(*asked, **more))

    def _told(self, groups: ErrorGroups) -> ErrorGroups:
        raise NotImplementedError


class _Fingerprints(MemoryStore):
    """A look puts jobs into another group than their own."""

    def _look(self) -> None:
        raise NotImplementedError

    async def error_groups(self, *asked: Any, **more: Any) -> ErrorGroups:
        self._look()
        return await super().error_groups(*asked, **more)

    async def find(self, wanted: JobFilter) -> list[Job]:
        self._look()
        return await super().find(wanted)


@killed_by(
    "figures.errors_that_differ_in_a_number_are_a_group",
    "figures.a_group_is_found_page_by_page_and_leaves_when_it_is_retried",
)
class EachErrorIsAGroup(_Fingerprints):
    def _look(self) -> None:
        for row in self._rows.values():
            row.fingerprint = str(row.last_error)


@killed_by(
    "figures.errors_of_two_places_or_tasks_are_two_groups",
    "figures.a_job_that_fails_again_is_in_the_group_of_its_last_error",
    "figures.whatever_makes_jobs_fail_they_are_in_groups",
    "figures.groups_belong_to_tenants",
    "figures.the_latest_groups_come_first_and_are_counted_to_a_limit",
)
class AllErrorsAreOneGroup(_Fingerprints):
    def _look(self) -> None:
        for row in self._rows.values():
            row.fingerprint = "0" * 16


@killed_by("figures.deleted_jobs_leave_their_group")
class GroupsRememberWhatIsDeleted(_Groups):
    known = ErrorGroups()

    def _told(self, groups: ErrorGroups) -> ErrorGroups:
        self.known = groups if groups.groups else self.known
        return self.known


@killed_by(
    "figures.no_groups_where_nothing_has_failed",
    "figures.a_cancelled_job_is_in_no_group",
)
class EveryErrorIsInAGroup(MemoryStore):
    async def error_groups(self, *asked: Any, **more: Any) -> ErrorGroups:
        before = {row.id: row.state for row in self._rows.values()}
        for row in self._rows.values():
            if row.last_error is not None:
                row.state = JobState.FAILED
        try:
            return await super().error_groups(*asked, **more)
        finally:
            for row in self._rows.values():
                row.state = before[row.id]
