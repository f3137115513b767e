"""Stores in which tenants meet, each in one named way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from tests.contract.mutant import killed_by
from tests.contract.mutants import changed, claim_ordered
from windlass.model.cron import Schedule
from windlass.model.job import DEFAULT_TENANT, Job, JobState
from windlass.store import rules
from windlass.store.records import (
    COMPLETE,
    ClaimRequest,
    Complete,
    JobFilter,
    Lease,
    NewJob,
    Outcome,
    Paused,
    PausedName,
    Release,
    Row,
    WorkerInfo,
)
from windlass.store.schedules import Fired, KnownSchedule
from windlass.stores.memory import MemoryStore

# ── what a job says ──


@killed_by("tenants.a_job_says_whose_it_is")
class TheTenantIsNotStored(MemoryStore):
    def _put(self, new: NewJob, now: int, job_id: int | None = None) -> Row:
        return super()._put(msgspec.structs.replace(new, tenant=DEFAULT_TENANT), now, job_id)


@killed_by("tenants.a_job_says_whose_it_is")
class TheWorkerIsNotToldTheTenant(MemoryStore):
    def _deliver(self, row: Row, request: ClaimRequest) -> Lease:
        lease = super()._deliver(row, request)
        lease.tenant = DEFAULT_TENANT
        return lease


@killed_by("tenants.the_history_says_it_too")
class TheHistoryForgetsTheTenant(MemoryStore):
    def _ended(self, row: Row, now: int, completion: Complete = COMPLETE, **how: Any) -> None:
        super()._ended(row, now, completion, **how)
        row.tenant = DEFAULT_TENANT


@killed_by("tenants.names_are_compared_exactly")
class CapitalsAndSpacesOfTenantsDoNotCount(MemoryStore):
    def _put(self, new: NewJob, now: int, job_id: int | None = None) -> Row:
        tenant = new.tenant.strip().lower()
        return super()._put(msgspec.structs.replace(new, tenant=tenant), now, job_id)


# ── claims ──


@killed_by(
    "tenants.a_worker_of_some_tenants_takes_only_theirs[default]",
    "tenants.a_worker_of_some_tenants_takes_only_theirs[acme]",
    "tenants.a_worker_of_some_tenants_takes_only_theirs[both]",
    "tenants.a_worker_of_some_tenants_takes_only_theirs[unknown]",
    "tenants.many_tenants_and_many_tasks[one]",
    "tenants.many_tenants_and_many_tasks[twenty]",
    "tenants.many_tenants_and_many_tasks[every]",
)
class AClaimIgnoresTenants(MemoryStore):
    async def claim(self, request: ClaimRequest) -> list[Lease]:
        return await super().claim(changed(request, tenants=None))


@killed_by(
    "tenants.a_worker_of_some_tenants_takes_only_theirs[both]",
    "tenants.many_tenants_and_many_tasks[one]",
)
class AWorkerServesItsFirstTenantAlone(MemoryStore):
    async def claim(self, request: ClaimRequest) -> list[Lease]:
        first = None if request.tenants is None else request.tenants[:1]
        return await super().claim(changed(request, tenants=first))


@killed_by(
    "tenants.a_worker_of_all_tenants_takes_jobs_in_one_order",
    "tenants.a_job_that_becomes_due_is_its_tenants",
)
class AWorkerOfAllTenantsServesTheDefaultOne(MemoryStore):
    async def claim(self, request: ClaimRequest) -> list[Lease]:
        tenants = (DEFAULT_TENANT,) if request.tenants is None else request.tenants
        return await super().claim(changed(request, tenants=tenants))


@killed_by("tenants.a_worker_of_no_tenant_takes_nothing")
class NoTenantsAreAllTenants(MemoryStore):
    async def claim(self, request: ClaimRequest) -> list[Lease]:
        return await super().claim(changed(request, tenants=request.tenants or None))


@killed_by("tenants.a_worker_of_all_tenants_takes_jobs_in_one_order")
class TenantsAreServedOneAfterTheOther(MemoryStore):
    async def claim(self, request: ClaimRequest) -> list[Lease]:
        return await claim_ordered(
            super().claim, self, request, lambda row: (row.tenant, *row.order)
        )


@killed_by("tenants.suspects_of_other_tenants_are_left")
class SuspectsAreForAllWorkers(MemoryStore):
    def _claimable(self, request: ClaimRequest) -> Iterable[Row]:
        yield from super()._claimable(request)
        others = changed(request, tenants=None)
        if request.tenants is not None:
            theirs = [row for row in super()._claimable(others) if row.suspect]
            yield from (row for row in theirs if row.tenant not in request.tenants)


@killed_by("tenants.a_job_that_becomes_due_is_its_tenants")
class JobsThatBecomeDueAreTheDefaultTenants(MemoryStore):
    async def promote(self, limit: int) -> int:
        due = [row for row in self._scheduled() if row.run_at <= self._clock.now()]
        for row in due[:limit]:
            row.tenant = DEFAULT_TENANT
        return await super().promote(limit)


@killed_by("tenants.retried_and_handed_back_it_is_still_its_tenants")
class JobsHandedBackAreTheDefaultTenants(MemoryStore):
    def _end(self, row: Row, outcome: Outcome, now: int) -> None:
        super()._end(row, outcome, now)
        if isinstance(outcome, Release):
            row.tenant = DEFAULT_TENANT


# ── keys ──


@killed_by(
    "tenants.a_key_belongs_to_its_tenant[replace]",
    "tenants.a_key_belongs_to_its_tenant[preserve_run_at]",
    "tenants.a_key_belongs_to_its_tenant[unsafe_dedupe]",
    "tenants.one_key_of_two_tenants_in_one_call",
    "tenants.removing_by_key_removes_its_tenants",
)
class TenantsShareKeys(MemoryStore):
    def _keyed(self, key: str, tenant: str) -> Row | None:
        tenants = dict.fromkeys([tenant, *(row.tenant for row in self._rows.values())])
        found = (super(TenantsShareKeys, self)._keyed(key, name) for name in tenants)
        return next((row for row in found if row is not None), None)


@killed_by("tenants.a_key_belongs_to_its_tenant[replace]")
class AKeyIsFoundInTheDefaultTenant(MemoryStore):
    async def get_by_key(self, key: str, tenant: str = DEFAULT_TENANT) -> Job | None:
        return await super().get_by_key(key)


@killed_by("tenants.a_key_that_runs_is_superseded_in_its_tenant_alone")
class AKeyIsSupersededInEveryTenant(MemoryStore):
    def _put(self, new: NewJob, now: int, job_id: int | None = None) -> Row:
        row = super()._put(new, now, job_id)
        for other in self._rows.values():
            if new.key is not None and other.key == new.key and other.state is JobState.RUNNING:
                rules.supersede(other, now)
        return row


@killed_by("tenants.removing_by_key_removes_its_tenants")
class RemovingRemovesTheDefaultTenants(MemoryStore):
    async def remove(self, key: str, tenant: str = DEFAULT_TENANT) -> Job | None:
        return await super().remove(key)


@killed_by("tenants.a_cancelled_job_comes_back_unless_its_tenant_uses_its_key")
class AnotherTenantsKeyKeepsAJobCancelled(MemoryStore):
    def _may_touch(self, verb: str, row: Row) -> bool:
        is_used = any(
            other.key == row.key and other.state is not JobState.CANCELLED
            for other in self._rows.values()
        )
        return super()._may_touch(verb, row) and not is_used


@killed_by("tenants.a_cancelled_job_comes_back_unless_its_tenant_uses_its_key")
class ACancelledJobAsksForTheDefaultTenantsKey(MemoryStore):
    def _may_touch(self, verb: str, row: Row) -> bool:
        is_free = row.key is None or self._keyed(row.key, DEFAULT_TENANT) is None
        return row.state in rules.TOUCHED_BY[verb] and is_free


# ── queues ──


@killed_by(
    "tenants.a_queue_belongs_to_its_tenant",
    "tenants.the_next_of_a_queue_is_for_its_tenants_workers",
    "tenants.a_worker_looks_past_heads_in_its_own_tenant",
)
class TenantsShareQueues(MemoryStore):
    def _claimable(self, request: ClaimRequest) -> Iterable[Row]:
        seen = {row.queue for row in self._rows.values() if row.state is JobState.RUNNING}
        for row in sorted(super()._claimable(request), key=lambda row: row.order):
            if row.queue is None or row.queue not in seen:
                seen.add(row.queue)
                yield row


@killed_by("tenants.a_queue_belongs_to_its_tenant")
class OtherTenantsHaveNoQueues(MemoryStore):
    async def claim(self, request: ClaimRequest) -> list[Lease]:
        queues = {row.id: row.queue for row in self._rows.values() if row.tenant}
        for job_id in queues:
            self._rows[job_id].queue = None
        leases = await super().claim(request)
        for job_id, queue in queues.items():
            self._rows[job_id].queue = queue
        return leases


# ── pauses ──


@killed_by(
    "tenants.a_pause_belongs_to_its_tenant",
    "tenants.pausing_the_default_tenant_pauses_no_other",
)
class TenantsSharePauses(MemoryStore):
    def _claimable(self, request: ClaimRequest) -> Iterable[Row]:
        paused = {(name.kind, name.name) for name in self._paused}
        for row in super()._claimable(request):
            if not {("task", row.task), ("queue", row.queue)} & paused:
                yield row


@killed_by(
    "tenants.a_pause_belongs_to_its_tenant",
    "tenants.a_paused_task_of_one_tenant_is_not_given[all]",
    "tenants.a_paused_task_of_one_tenant_is_not_given[its own]",
    "tenants.a_paused_task_of_one_tenant_is_not_given[two]",
)
class OnlyTheDefaultTenantPauses(MemoryStore):
    def _claimable(self, request: ClaimRequest) -> Iterable[Row]:
        paused, self._paused = self._paused, {name for name in self._paused if not name.tenant}
        yield from [*super()._claimable(request)]
        self._paused = paused


@killed_by("tenants.pausing_the_default_tenant_pauses_no_other")
class ResumingInTheDefaultTenantChangesNothing(MemoryStore):
    async def resume(
        self, *, task: str | None = None, queue: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> None:
        if tenant:
            await super().resume(task=task, queue=queue, tenant=tenant)


@killed_by(
    "tenants.a_job_that_a_pause_keeps_back_can_be_changed[cancel]",
    "tenants.a_job_that_a_pause_keeps_back_can_be_changed[complete]",
    "tenants.a_job_that_a_pause_keeps_back_can_be_changed[fail]",
    "tenants.a_job_that_a_pause_keeps_back_can_be_changed[reschedule]",
    "tenants.a_job_that_a_pause_keeps_back_can_be_changed[replace]",
    "tenants.a_job_that_a_pause_keeps_back_can_be_changed[remove]",
)
class JobsThatAPauseKeepsBackAreOutOfReach(MemoryStore):
    def _is_kept_back(self, row: Row) -> bool:
        return PausedName(row.tenant, "task", row.task) in self._paused

    def _may_touch(self, verb: str, row: Row) -> bool:
        return super()._may_touch(verb, row) and not self._is_kept_back(row)

    def _keyed(self, key: str, tenant: str) -> Row | None:
        row = super()._keyed(key, tenant)
        return None if row is None or self._is_kept_back(row) else row


@killed_by("tenants.what_is_paused_is_told_to_its_tenant")
class AllPausesAreToldToEachTenant(MemoryStore):
    async def paused(self, tenant: str | None = None) -> Paused:
        return await super().paused()


@killed_by("tenants.what_is_paused_is_told_to_its_tenant")
class OtherTenantsPausesAreNotTold(MemoryStore):
    async def paused(self, tenant: str | None = None) -> Paused:
        return await super().paused(tenant or DEFAULT_TENANT)


# ── schedules ──


@killed_by(
    "tenants.a_schedule_belongs_to_its_tenant",
    "tenants.firing_moves_one_tenants_schedule",
)
class TenantsShareSchedules(MemoryStore):
    async def register(
        self, wanted: Sequence[Schedule], tenant: str = DEFAULT_TENANT
    ) -> list[KnownSchedule]:
        return await super().register(wanted)


@killed_by("tenants.a_schedule_belongs_to_its_tenant")
class SchedulesOfAllTenantsAreListed(MemoryStore):
    async def schedules(self, tenant: str | None = None) -> list[KnownSchedule]:
        return await super().schedules()


@killed_by("tenants.firing_moves_one_tenants_schedule")
class FiringMovesTheDefaultTenants(MemoryStore):
    async def fire(
        self,
        identifier: str,
        expected: int,
        until: int,
        jobs: Sequence[NewJob],
        tenant: str = DEFAULT_TENANT,
    ) -> Fired:
        return await super().fire(identifier, expected, until, jobs)


@killed_by("tenants.changing_one_tenants_schedule[pause]")
class PausingPausesTheDefaultTenants(MemoryStore):
    async def pause_schedule(
        self, identifier: str, tenant: str = DEFAULT_TENANT
    ) -> KnownSchedule | None:
        return await super().pause_schedule(identifier)


@killed_by("tenants.changing_one_tenants_schedule[pause]")
class ResumingResumesTheDefaultTenants(MemoryStore):
    async def resume_schedule(
        self, identifier: str, tenant: str = DEFAULT_TENANT
    ) -> KnownSchedule | None:
        await super().resume_schedule(identifier)
        return self._schedules.get((tenant, identifier))


@killed_by("tenants.changing_one_tenants_schedule[forget]")
class ForgettingForgetsTheDefaultTenants(MemoryStore):
    async def forget_schedule(
        self, identifier: str, tenant: str = DEFAULT_TENANT
    ) -> KnownSchedule | None:
        return await super().forget_schedule(identifier)


# ── what a caller of one tenant sees and touches ──


@killed_by("tenants.a_caller_of_one_tenant_sees_its_own")
class AnyJobIsGotByItsId(MemoryStore):
    async def get(self, job_id: int, tenant: str | None = None) -> Job | None:
        return await super().get(job_id)


@killed_by("tenants.a_caller_of_one_tenant_sees_its_own")
class JobsOfAllTenantsAreCounted(MemoryStore):
    async def counts(self, tenant: str | None = None) -> dict[JobState, int]:
        return await super().counts()


@killed_by(
    "tenants.a_caller_of_one_tenant_sees_its_own",
    "tenants.filters_and_pages_within_a_tenant",
)
class JobsOfAllTenantsAreListed(MemoryStore):
    async def find(self, wanted: JobFilter) -> list[Job]:
        return await super().find(msgspec.structs.replace(wanted, tenant=None))


@killed_by("tenants.filters_and_pages_within_a_tenant")
class APageIsCutBeforeTheTenantIsAskedFor(MemoryStore):
    async def find(self, wanted: JobFilter) -> list[Job]:
        found = await super().find(msgspec.structs.replace(wanted, tenant=None))
        return [job for job in found if wanted.tenant in (None, job.tenant or DEFAULT_TENANT)]


@killed_by("tenants.a_filter_without_a_tenant_finds_all")
class WithoutATenantTheDefaultOneIsListed(MemoryStore):
    async def find(self, wanted: JobFilter) -> list[Job]:
        tenant = wanted.tenant or DEFAULT_TENANT
        return await super().find(msgspec.structs.replace(wanted, tenant=tenant))


@killed_by(
    "tenants.a_caller_of_one_tenant_changes_its_own[cancel]",
    "tenants.a_caller_of_one_tenant_changes_its_own[complete]",
    "tenants.a_caller_of_one_tenant_changes_its_own[fail]",
    "tenants.a_caller_of_one_tenant_changes_its_own[reschedule]",
    "tenants.a_caller_of_one_tenant_changes_its_own[retry]",
)
class VerbsChangeJobsOfAllTenants(MemoryStore):
    def _change(
        self,
        verb: str,
        ids: Sequence[int],
        tenant: str | None,
        change: Callable[[Row, int], None],
    ) -> list[Job]:
        return super()._change(verb, ids, None, change)


@killed_by("tenants.a_caller_of_one_tenant_changes_its_own[delete]")
class JobsOfAllTenantsAreDeleted(MemoryStore):
    async def delete(self, ids: Sequence[int], tenant: str | None = None) -> list[Job]:
        return await super().delete(ids)


@killed_by("tenants.deleting_failed_jobs_of_one_tenant")
class FailedJobsOfAllTenantsAreDeleted(MemoryStore):
    async def delete_failed(self, limit: int, tenant: str | None = None) -> int:
        return await super().delete_failed(limit)


@killed_by("tenants.workers_that_serve_a_tenant")
class WorkersOfAllTenantsAreListed(MemoryStore):
    def _serves(self, worker: str, tenant: str) -> bool:
        return True


@killed_by("tenants.workers_that_serve_a_tenant")
class RunningJobsOfAllTenantsAreCounted(MemoryStore):
    async def workers(self, tenant: str | None = None) -> list[WorkerInfo]:
        told = {info.id for info in await super().workers(tenant)}
        return [info for info in await super().workers() if info.id in told]


@killed_by("tenants.a_task_is_stranded_where_no_worker_serves_its_tenant")
class AWorkerIsThoughtToServeAllTenants(MemoryStore):
    async def introduce(
        self, worker: str, tasks: Sequence[str], tenants: Sequence[str] | None = None
    ) -> bool:
        return await super().introduce(worker, tasks)


@killed_by("tenants.a_task_is_stranded_where_no_worker_serves_its_tenant")
class TasksPausedInOneTenantAreStranded(MemoryStore):
    async def stranded(self) -> list[str]:
        paused, self._paused = self._paused, {name for name in self._paused if not name.tenant}
        told = await super().stranded()
        self._paused = paused
        return told
