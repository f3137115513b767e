"""Stores whose strict jobs hold their queues wrongly, each in one named way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from tests.contract.mutant import killed_by
from windlass.model.job import DEFAULT_TENANT, Job, JobState
from windlass.store.records import ClaimRequest, Fail, Lease, NewJob, Outcome, Reaped, Release, Row
from windlass.stores.memory import MemoryStore


@killed_by("strict.a_job_says_that_it_is_strict")
class StrictIsNotStored(MemoryStore):
    def _put(self, new: NewJob, now: int, job_id: int | None = None) -> Row:
        return super()._put(msgspec.structs.replace(new, is_strict=0), now, job_id)


# ── who holds a queue ──


@killed_by(
    "strict.while_it_waits_for_its_retry",
    "strict.its_retry_comes_before_more_urgent_jobs",
    "strict.added_later_they_wait_too",
    "strict.failed_by_an_operator_it_holds_the_queue",
    "strict.two_may_hold_one_queue",
    "strict.a_job_that_kills_its_workers_holds_its_queue",
    "strict.a_head_it_may_not_run_is_not_passed_by_a_worker",
)
class AStrictJobHoldsNothing(MemoryStore):
    async def claim(self, request: ClaimRequest) -> list[Lease]:
        for row in self._rows.values():
            row.holds = 0
        return await super().claim(request)


@killed_by("strict.while_it_waits_for_its_retry")
class OnlyAJobThatFailedForGoodHolds(MemoryStore):
    def _end(self, row: Row, outcome: Outcome, now: int) -> None:
        super()._end(row, outcome, now)
        row.holds *= row.state is JobState.FAILED


@killed_by("strict.rescheduled_it_keeps_its_hold", "strict.added_later_they_wait_too")
class OnlyAJobThatWaitsForItsRetryHolds(MemoryStore):
    def _end(self, row: Row, outcome: Outcome, now: int) -> None:
        super()._end(row, outcome, now)
        row.holds *= row.state is not JobState.FAILED


@killed_by("strict.a_job_that_is_not_strict_holds_nothing")
class EveryFailedAttemptHolds(MemoryStore):
    def _end(self, row: Row, outcome: Outcome, now: int) -> None:
        super()._end(row, outcome, now)
        if isinstance(outcome, Fail):
            row.holds = int(row.queue is not None)


@killed_by("strict.without_a_queue_it_holds_nothing")
class JobsWithoutAQueueAreOneQueue(MemoryStore):
    def _end(self, row: Row, outcome: Outcome, now: int) -> None:
        super()._end(row, outcome, now)
        if isinstance(outcome, Fail):
            row.holds = row.is_strict


@killed_by("strict.it_holds_its_own_queue_alone")
class TheQueuesOfThatNameInAllTenantsAreHeld(MemoryStore):
    def _claimable(self, request: ClaimRequest) -> Iterable[Row]:
        held = {row.queue for row in self._rows.values() if row.holds}
        return [row for row in super()._claimable(request) if row.holds or row.queue not in held]


@killed_by("strict.it_holds_its_own_queue_alone")
class AHoldStopsEveryQueue(MemoryStore):
    def _claimable(self, request: ClaimRequest) -> Iterable[Row]:
        is_held = any(row.holds for row in self._rows.values())
        for row in super()._claimable(request):
            if row.holds or row.queue is None or not is_held:
                yield row


@killed_by("strict.added_later_they_wait_too", "strict.retried_it_runs_first")
class JobsAddedLaterPassAHold(MemoryStore):
    def _put(self, new: NewJob, now: int, job_id: int | None = None) -> Row:
        row = super()._put(new, now, job_id)
        row.holds = int(any(other.holds for other in self._rows.values()))
        return row


@killed_by("strict.handed_back_it_holds_nothing")
class AJobThatIsHandedBackHolds(MemoryStore):
    def _end(self, row: Row, outcome: Outcome, now: int) -> None:
        super()._end(row, outcome, now)
        if isinstance(outcome, Release):
            row.holds = row.is_strict


@killed_by(
    "strict.failed_by_an_operator_it_holds_the_queue",
    "strict.two_may_hold_one_queue",
    "strict.a_hold_that_an_operator_makes_keeps_back_the_first_of_the_queue",
)
class AJobThatAnOperatorFailsHoldsNothing(MemoryStore):
    async def fail(self, ids: Sequence[int], reason: str, tenant: str | None = None) -> list[Job]:
        jobs = await super().fail(ids, reason, tenant)
        for job in jobs:
            self._rows[job.id].holds = 0
        return jobs


@killed_by("strict.a_job_that_kills_its_workers_holds_its_queue")
class AJobThatKillsItsWorkersHoldsNothing(MemoryStore):
    def _take_back(self, rows: Sequence[Row], max_resets: int, now: int) -> Reaped:
        reaped = super()._take_back(rows, max_resets, now)
        for row in rows:
            row.holds = 0
        return reaped


@killed_by("strict.replaced_while_it_ran_it_holds_nothing")
class AReplacedJobHolds(MemoryStore):
    def _end(self, row: Row, outcome: Outcome, now: int) -> None:
        is_strict = row.is_strict
        super()._end(row, outcome, now)
        if row.state is JobState.FAILED:
            row.holds = is_strict


@killed_by("strict.two_may_hold_one_queue")
class ASecondHolderWaitsForTheFirst(MemoryStore):
    def _claimable(self, request: ClaimRequest) -> Iterable[Row]:
        first: dict[tuple[str, str] | None, int] = {}
        for row in self._rows.values():
            if row.holds:
                first.setdefault(row.place, row.id)
        for row in super()._claimable(request):
            if not row.holds or first[row.place] == row.id:
                yield row


# ── a job that holds its queue goes first ──


@killed_by(
    "strict.its_retry_comes_before_more_urgent_jobs",
    "strict.retried_it_runs_first",
    "strict.paused_and_resumed_it_still_goes_first",
    "strict.a_head_it_may_not_run_is_not_passed_by_a_worker",
)
class AHoldEndsWhenTheJobIsReady(MemoryStore):
    async def claim(self, request: ClaimRequest) -> list[Lease]:
        for row in self._rows.values():
            row.holds *= row.state is not JobState.READY
        return await super().claim(request)


@killed_by("strict.retried_it_runs_first")
class ARetryEndsTheHold(MemoryStore):
    async def retry(self, ids: Sequence[int], tenant: str | None = None) -> list[Job]:
        jobs = await super().retry(ids, tenant)
        for job in jobs:
            self._rows[job.id].holds = 0
        return jobs


@killed_by("strict.rescheduled_it_keeps_its_hold")
class AnotherInstantEndsTheHold(MemoryStore):
    async def reschedule(
        self,
        ids: Sequence[int],
        run_at: int | None = None,
        priority: int | None = None,
        attempts: int | None = None,
        max_attempts: int | None = None,
        tenant: str | None = None,
    ) -> list[Job]:
        jobs = await super().reschedule(ids, run_at, priority, attempts, max_attempts, tenant)
        for job in jobs:
            self._rows[job.id].holds = 0
        return jobs


@killed_by("strict.paused_and_resumed_it_still_goes_first")
class AResumeEndsTheHold(MemoryStore):
    async def resume(
        self, *, task: str | None = None, queue: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> None:
        await super().resume(task=task, queue=queue, tenant=tenant)
        for row in self._rows.values():
            row.holds *= row.place != (tenant, queue)


@killed_by("strict.a_head_it_may_not_run_is_not_passed_by_a_worker")
class AWorkerLooksPastAHold(MemoryStore):
    async def claim(self, request: ClaimRequest) -> list[Lease]:
        holding = [row for row in self._rows.values() if row.holds and request.past_heads]
        for row in holding:
            row.holds = 0
        leases = await super().claim(request)
        for row in holding:
            row.holds = 1
        return leases


# ── how a hold ends ──


@killed_by(
    "strict.the_hold_ends[complete]",
    "strict.the_hold_ends[cancel]",
    "strict.the_hold_ends[remove]",
    "strict.the_hold_ends[replace]",
    "strict.the_hold_ends[delete_failed]",
    "strict.cancelled_while_it_runs_again",
    "strict.while_it_waits_for_its_retry",
    "strict.rescheduled_it_keeps_its_hold",
)
class AHoldNeverEnds(MemoryStore):
    def _claimable(self, request: ClaimRequest) -> Iterable[Row]:
        self._held: set[tuple[str, str] | None] = getattr(self, "_held", set())
        self._held |= {row.place for row in self._rows.values() if row.holds}
        return [
            row for row in super()._claimable(request) if row.holds or row.place not in self._held
        ]


@killed_by("strict.the_hold_ends[cancel]", "strict.cancelled_while_it_waits_for_its_retry")
class ACancelledJobHolds(MemoryStore):
    async def cancel(self, ids: Sequence[int], tenant: str | None = None) -> list[Job]:
        held = {row.id for row in self._rows.values() if row.holds}
        jobs = await super().cancel(ids, tenant)
        for job in jobs:
            self._rows[job.id].holds = int(job.id in held)
        return jobs


@killed_by("strict.the_hold_ends[replace]")
class AReplacementHolds(MemoryStore):
    def _replace(self, row: Row, new: NewJob, now: int) -> None:
        held = row.holds
        super()._replace(row, new, now)
        row.holds = held
