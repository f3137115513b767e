"""Wrong stores, each wrong in one named way, and the cases that must notice."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from tests.contract.mutant import killed_by
from windlass.clock import SYSTEM, Clock
from windlass.model.cron import Schedule
from windlass.model.job import DEFAULT_TENANT, Job, JobState
from windlass.store import rules
from windlass.store.chaining import Started
from windlass.store.records import (
    Cancel,
    ClaimRequest,
    Complete,
    Fail,
    Lease,
    LostReason,
    NewJob,
    Note,
    Outcome,
    Paused,
    Reaped,
    Release,
    Renewal,
    Row,
    Settled,
    Verdict,
)
from windlass.store.rules import add_to_log
from windlass.store.schedules import Fired, FireVerdict, KnownSchedule
from windlass.stores.memory import _ANYTHING, MemoryStore, MemoryTransaction, _Addition
from windlass.testing.contract.concurrency import RIVALS


class Gap:
    """The gap between a look and the lock that should have covered it: all rivals meet in it once.

    The first calls of all rivals have then looked before any of them changes anything, on every
    machine. Later calls pass through.
    """

    def __init__(self) -> None:
        self._meeting = threading.Barrier(RIVALS)
        self._places = itertools.count()

    def wait_for_rivals(self) -> None:
        if next(self._places) < RIVALS:
            self._meeting.wait()


# ── hints ──


@killed_by(
    "life.a_job_that_is_due_soon_is_told_of[enqueue]",
    "life.a_job_that_is_due_soon_is_told_of[replace]",
    "life.a_job_that_is_due_soon_is_told_of[reschedule]",
    "life.a_job_that_is_due_soon_is_told_of[retry]",
    "life.a_job_that_is_due_soon_is_told_of[fire]",
)
class JobsToComeAreNotHintedAt(MemoryStore):
    def _hint_due(self) -> None:
        pass


@killed_by(
    "life.a_job_that_is_far_off_is_not_told_of[enqueue]",
    "life.a_job_that_is_far_off_is_not_told_of[reschedule]",
)
class JobsFarOffAreHintedAt(MemoryStore):
    def _hint_due(self) -> None:
        for _, due in self._hints._subscribers:
            due(self._until_due())


# ── suspects ──


@killed_by(
    "queues.a_suspect_keeps_its_place_in_its_queue[heads only]",
    "queues.a_suspect_behind_a_foreign_head_keeps_its_place",
)
class AQueueGoesOnWithoutItsSuspect(MemoryStore):
    def _claimable(self, request: ClaimRequest) -> Iterable[Row]:
        for row in super()._claimable(request):
            if request.suspects or not row.suspect:
                yield row


# ── leases and settling ──


@killed_by(
    "settle.a_wrong_token_is_lost[complete]",
    "settle.an_old_delivery_cannot_end_the_new_one",
    "settle.old_deliveries_of_many_claims_end_nothing",
)
class TokenIgnored(MemoryStore):
    def _owned(self, lease: Lease) -> Row | None:
        row = self._rows.get(lease.job_id)
        return row if row is not None and row.state is JobState.RUNNING else None


@killed_by("settle.an_instant_goes_before_the_delay")
class InstantIgnored(MemoryStore):
    def _end(self, row: Row, outcome: Outcome, now: int) -> None:
        if isinstance(outcome, Fail):
            outcome = msgspec.structs.replace(outcome, run_at=None)
        super()._end(row, outcome, now)


@killed_by("settle.the_second_time_is_not_applied[fail_and_retry_now]")
class SettleTwiceApplied(MemoryStore):
    def _end(self, row: Row, outcome: Outcome, now: int) -> None:
        token = row.token
        super()._end(row, outcome, now)
        row.token = token

    def _owned(self, lease: Lease) -> Row | None:
        row = self._rows.get(lease.job_id)
        return row if row is not None and row.token == lease.token else None


@killed_by("settle.a_reaped_delivery_is_lost")
class LostReportedAsApplied(MemoryStore):
    def _settle(self, lease: Lease, outcome: Outcome, now: int) -> Settled:
        answer = super()._settle(lease, outcome, now)
        if answer.verdict is Verdict.LOST:
            return Settled(Verdict.APPLIED, JobState.COMPLETED)
        return answer


@killed_by("settle.an_unknown_job_is_missing")
class MissingReportedAsLost(MemoryStore):
    def _refusal(self, lease: Lease) -> Verdict:
        return Verdict.LOST


@killed_by("settle.a_mixed_batch_is_answered_row_by_row")
class ABatchStopsAtTheFirstLostRow(MemoryStore):
    async def settle(self, settlements: Sequence[tuple[Lease, Outcome]]) -> list[Settled]:
        answers: list[Settled] = []
        for lease, outcome in settlements:
            answers += await super().settle([(lease, outcome)])
            if answers[-1].verdict is not Verdict.APPLIED:
                break
        return answers + [Settled(Verdict.LOST)] * (len(settlements) - len(answers))


@killed_by("claim.no_two_deliveries_of_a_job_share_a_token")
class TokensUsedAgain(MemoryStore):
    def _deliver(self, row: Row, request: ClaimRequest) -> Lease:
        self._tokens = itertools.count(row.id)
        return super()._deliver(row, request)


@killed_by("claim.attempts_and_deliveries_count_each_delivery")
class AttemptNotCharged(MemoryStore):
    def _deliver(self, row: Row, request: ClaimRequest) -> Lease:
        row.attempts -= 1
        return super()._deliver(row, request)


@killed_by(
    "settle.a_release_gives_the_attempt_back",
    "reap.reap_gives_the_attempt_back",
)
class AttemptNotGivenBack(MemoryStore):
    def _end(self, row: Row, outcome: Outcome, now: int) -> None:
        row.attempts += isinstance(outcome, Release)
        super()._end(row, outcome, now)

    def _take_back(self, rows: Sequence[Row], max_resets: int, now: int) -> Reaped:
        for row in rows:
            row.attempts += 1
        return super()._take_back(rows, max_resets, now)


@killed_by("claim.a_delivery_is_never_given_back")
class DeliveryGivenBackOnRelease(MemoryStore):
    def _end(self, row: Row, outcome: Outcome, now: int) -> None:
        row.deliveries -= isinstance(outcome, Release)
        super()._end(row, outcome, now)


@killed_by("settle.the_jobs_own_limit_decides")
class RetryPastTheLimit(MemoryStore):
    def _end(self, row: Row, outcome: Outcome, now: int) -> None:
        own, row.max_attempts = row.max_attempts, 99
        super()._end(row, outcome, now)
        row.max_attempts = own


@killed_by("settle.a_small_own_limit_beats_a_larger_one")
class TheSettlementsLimitBeatsTheJobsOwn(MemoryStore):
    def _end(self, row: Row, outcome: Outcome, now: int) -> None:
        own, row.max_attempts = row.max_attempts, None
        super()._end(row, outcome, now)
        row.max_attempts = own


@killed_by("settle.final_fails_whatever_is_left")
class FinalIgnored(MemoryStore):
    def _end(self, row: Row, outcome: Outcome, now: int) -> None:
        if isinstance(outcome, Fail):
            outcome = Fail(outcome.error, outcome.delay, outcome.max_attempts)
        super()._end(row, outcome, now)


@killed_by("settle.the_delay_is_exact")
class DelayRoundedToSeconds(MemoryStore):
    def _end(self, row: Row, outcome: Outcome, now: int) -> None:
        if isinstance(outcome, Fail):
            outcome = Fail(outcome.error, round(outcome.delay), outcome.max_attempts)
        super()._end(row, outcome, now)


@killed_by("batches.failed_items_replace_the_payload")
class PartialPayloadNotStored(MemoryStore):
    def _end(self, row: Row, outcome: Outcome, now: int) -> None:
        payload = row.payload
        super()._end(row, outcome, now)
        row.payload = payload


@killed_by("settle.a_failed_attempt_keeps_its_error")
class LastErrorDropped(MemoryStore):
    def _end(self, row: Row, outcome: Outcome, now: int) -> None:
        super()._end(row, outcome, now)
        row.last_error = None


@killed_by(
    "leases.a_cancel_request_is_told",
    "settle.after_a_cancel_request[release-cancelled]",
)
class CancelRequestDropped(MemoryStore):
    async def cancel(self, ids: Sequence[int], tenant: str | None = None) -> list[Job]:
        jobs = await super().cancel(ids, tenant)
        for job in jobs:
            self._rows[job.id].cancel_requested = False
        return jobs


# ── claiming ──


@killed_by("claim.order_by_priority", "claim.order_by_run_at_within_a_priority")
class OrderByIdOnly(MemoryStore):
    async def claim(self, request: ClaimRequest) -> list[Lease]:
        return await claim_ordered(super().claim, self, request, lambda row: (0, 0, row.id))


@killed_by("claim.priority_goes_before_run_at")
class PriorityIgnored(MemoryStore):
    async def claim(self, request: ClaimRequest) -> list[Lease]:
        return await claim_ordered(
            super().claim, self, request, lambda row: (0, row.run_at, row.id)
        )


@killed_by("claim.order_by_id_at_last")
class TheLatestFirstAmongEquals(MemoryStore):
    async def claim(self, request: ClaimRequest) -> list[Lease]:
        return await claim_ordered(
            super().claim, self, request, lambda row: (row.priority, row.run_at, -row.id)
        )


async def claim_ordered(
    claim: Callable[[ClaimRequest], Any],
    store: MemoryStore,
    request: ClaimRequest,
    order: Callable[[Row], tuple[Any, ...]],
) -> list[Lease]:
    """Claim in another order, by giving the rows that order for the time of the call."""
    rows = list(store._rows.values())
    true_order = {row.id: (row.priority, row.run_at) for row in rows}
    for place, row in enumerate(sorted(rows, key=order)):
        row.priority, row.run_at = place, 0
    leases: list[Lease] = await claim(request)
    for row in rows:
        row.priority, row.run_at = true_order[row.id]
    return leases


@killed_by("claim.the_limit_takes_the_first")
class OneMoreThanTheLimit(MemoryStore):
    async def claim(self, request: ClaimRequest) -> list[Lease]:
        return await super().claim(changed(request, limit=request.limit + 1))


@killed_by("claim.unknown_tasks_are_left")
class UnknownTaskDelivered(MemoryStore):
    async def claim(self, request: ClaimRequest) -> list[Lease]:
        tasks = tuple({row.task for row in self._rows.values()})
        return await super().claim(changed(request, tasks=tasks))


@killed_by(
    "claim.of_every_task",
    "claim.of_every_task_but_paused_ones",
    "claim.of_every_task_past_a_head_it_may_not_run",
    "claim.suspects_of_every_task",
)
class EveryTaskIsNone(MemoryStore):
    async def claim(self, request: ClaimRequest) -> list[Lease]:
        return await super().claim(changed(request, tasks=request.tasks or ()))


@killed_by("claim.of_every_task_but_paused_ones")
class EveryTaskCountsPausedOnesToo(MemoryStore):
    def _claimable(self, request: ClaimRequest) -> Iterable[Row]:
        paused = self._paused
        self._paused = set() if request.tasks is None else paused
        yield from [*super()._claimable(request)]
        self._paused = paused


@killed_by("claim.a_forbidden_flag_leaves_the_job")
class ForbiddenFlagIgnored(MemoryStore):
    async def claim(self, request: ClaimRequest) -> list[Lease]:
        return await super().claim(changed(request, forbidden_flags=()))


@killed_by("claim.a_scheduled_job_is_not_given_before_its_time")
class FutureJobDelivered(MemoryStore):
    async def claim(self, request: ClaimRequest) -> list[Lease]:
        for row in self._scheduled():
            row.state = JobState.READY
        return await super().claim(request)


@killed_by("reap.suspects_are_not_given_where_none_may_be")
class SuspectPrefetched(MemoryStore):
    async def claim(self, request: ClaimRequest) -> list[Lease]:
        return await super().claim(changed(request, suspects=request.limit))


@killed_by("reap.suspects_up_to_their_number")
class SuspectsInAnyNumber(MemoryStore):
    async def claim(self, request: ClaimRequest) -> list[Lease]:
        suspects = request.limit if request.suspects else 0
        return await super().claim(changed(request, suspects=suspects))


def changed(request: ClaimRequest, **changes: Any) -> ClaimRequest:
    values = {name: getattr(request, name) for name in ClaimRequest.__struct_fields__}
    return ClaimRequest(**{**values, **changes})


@killed_by("claim.promote_takes_the_earliest_up_to_its_limit")
class PromoteIgnoresItsLimit(MemoryStore):
    async def promote(self, limit: int) -> int:
        return await super().promote(10**6)


@killed_by("claim.next_due_is_the_earliest_scheduled")
class NextDueWrong(MemoryStore):
    async def next_due(self) -> float | None:
        rows = sorted(self._scheduled(), key=lambda row: row.order)
        return (rows[0].run_at - self._clock.now()) / 1e6 if rows else None


@killed_by("claim.next_due_is_zero_when_overdue")
class NextDueNegative(MemoryStore):
    async def next_due(self) -> float | None:
        rows = self._scheduled()
        return (rows[0].run_at - self._clock.now()) / 1e6 if rows else None


# ── serial queues ──


@killed_by(
    "queues.one_of_a_queue_in_a_claim",
    "queues.one_of_each_queue_in_a_claim",
)
class SecondJobOfAQueueInOneClaim(MemoryStore):
    async def claim(self, request: ClaimRequest) -> list[Lease]:
        running = {r.queue for r in self._rows.values() if r.state is JobState.RUNNING}
        held = {r.id: r.queue for r in self._rows.values() if r.queue not in running}
        for job_id in held:
            self._rows[job_id].queue = None
        leases = await super().claim(request)
        for job_id, queue in held.items():
            self._rows[job_id].queue = queue
        return leases


@killed_by(
    "queues.one_of_a_queue_across_claimers",
    "concurrency.a_queue_runs_one_at_a_time",
)
class QueueIgnoredAcrossClaimers(MemoryStore):
    async def claim(self, request: ClaimRequest) -> list[Lease]:
        with self._lock:
            foreign = [
                row
                for row in self._rows.values()
                if row.state is JobState.RUNNING and row.worker != request.worker
            ]
            for row in foreign:
                row.state = JobState.BLOCKED
            leases = await super().claim(request)
            for row in foreign:
                row.state = JobState.RUNNING
            return leases


@killed_by("queues.the_next_goes_on_after[fail_for_good]")
class AFailedHeadHoldsItsQueue(MemoryStore):
    def _claimable(self, request: ClaimRequest) -> Iterable[Row]:
        held = {row.queue for row in self._rows.values() if row.state is JobState.FAILED}
        return [row for row in super()._claimable(request) if row.queue not in held - {None}]


@killed_by("queues.a_scheduled_job_does_not_hold_its_queue_up")
class AScheduledHeadHoldsItsQueue(MemoryStore):
    def _claimable(self, request: ClaimRequest) -> Iterable[Row]:
        held = {row.queue for row in self._scheduled()}
        return [row for row in super()._claimable(request) if row.queue not in held - {None}]


@killed_by(
    "queues.a_head_this_worker_may_not_run_is_passed[unknown_task]",
)
class AHeadNobodyHereMayRunHoldsItsQueue(MemoryStore):
    def _claimable(self, request: ClaimRequest) -> Iterable[Row]:
        ready = [row for row in self._rows.values() if row.state is JobState.READY]
        heads = {row.queue: row for row in sorted(ready, key=lambda row: row.order, reverse=True)}
        return [row for row in super()._claimable(request) if heads[row.queue].task == row.task]


# ── keys ──


@killed_by(
    "concurrency.one_open_job_per_key[replace]",
    "concurrency.one_open_job_per_key[unsafe_dedupe]",
)
class KeyRace(MemoryStore):
    def __init__(self, clock: Clock = SYSTEM) -> None:
        super().__init__(clock)
        self._gap = Gap()

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Job]:
        found = [self._keyed(new.key or "", new.tenant) for new in jobs]
        self._gap.wait_for_rivals()
        if any(row is None for row in found):
            with self._lock:
                rows = {row.id: row.key for row in self._rows.values()}
                for row in self._rows.values():
                    row.key = None
                added = await super().enqueue(jobs)
                for job_id, key in rows.items():
                    self._rows[job_id].key = key
                return added
        return await super().enqueue(jobs)


@killed_by("keys.adding_again[replace-running]")
class RunningJobReplacedInPlace(MemoryStore):
    def _add(self, new: NewJob, now: int) -> Row:
        existing = self._keyed(new.key, new.tenant) if new.key is not None else None
        if existing is not None and existing.state is JobState.RUNNING:
            existing.payload = new.payload
            return existing
        return super()._add(new, now)


@killed_by(
    "keys.a_superseded_job_does_not_run_again[fail]",
    "keys.a_superseded_job_does_not_run_again[reap]",
)
class SupersededJobRetried(MemoryStore):
    def _end(self, row: Row, outcome: Outcome, now: int) -> None:
        row.superseded = False
        super()._end(row, outcome, now)

    def _take_back(self, rows: Sequence[Row], max_resets: int, now: int) -> Reaped:
        for row in rows:
            row.superseded = False
        return super()._take_back(rows, max_resets, now)


@killed_by("keys.remove_of_a_running_job_only_stops_its_retry")
class RemovedRunningJobRetried(MemoryStore):
    async def remove(self, key: str, tenant: str = DEFAULT_TENANT) -> Job | None:
        job = await super().remove(key, tenant)
        if job is not None and job.state is JobState.RUNNING:
            self._rows[job.id].superseded = False
        return job


@killed_by("keys.adding_again[unsafe_dedupe-ready]")
class UnsafeDedupeReplaces(MemoryStore):
    def _add(self, new: NewJob, now: int) -> Row:
        return super()._add(_as(new, "replace") if new.key_mode == "unsafe_dedupe" else new, now)


@killed_by("keys.adding_again[preserve_run_at-scheduled]")
class PreserveRunAtMoves(MemoryStore):
    def _add(self, new: NewJob, now: int) -> Row:
        return super()._add(_as(new, "replace") if new.key_mode == "preserve_run_at" else new, now)


def _as(new: NewJob, mode: str) -> NewJob:
    values = {name: getattr(new, name) for name in NewJob.__struct_fields__}
    return NewJob(**{**values, "key_mode": mode})


@killed_by("keys.adding_again[preserve_run_at-awaiting_retry]")
class PreserveRunAtAlsoAfterAFailure(MemoryStore):
    def _replace(self, row: Row, new: NewJob, now: int) -> None:
        run_at, state = row.run_at, row.state
        super()._replace(row, new, now)
        if new.key_mode == "preserve_run_at":
            row.run_at, row.state = run_at, state


@killed_by("keys.adding_again[replace-failed]")
class FailedKeyMakesASecondRow(MemoryStore):
    def _keyed(self, key: str, tenant: str) -> Row | None:
        row = super()._keyed(key, tenant)
        return None if row is not None and row.state is JobState.FAILED else row


@killed_by("keys.adding_again[replace-cancelled]")
class CancelledHoldsItsKey(MemoryStore):
    def _keyed(self, key: str, tenant: str) -> Row | None:
        return next((row for row in self._rows.values() if row.key == key), None)


@killed_by("keys.adding_again[unsafe_dedupe-completed_and_kept]")
class KeptHoldsItsKey(MemoryStore):
    def _keyed(self, key: str, tenant: str) -> Row | None:
        kept = (row for row in self._history.values() if row.key == key)
        return super()._keyed(key, tenant) or next(kept, None)


@killed_by(
    "keys.arrays_under_one_key_are_joined[replace-two]",
    "keys.arrays_under_one_key_are_joined[preserve_run_at-two]",
    "keys.arrays_in_one_call_are_joined",
    "keys.what_is_left_of_a_failed_job_is_joined",
)
class ArraysAreReplaced(MemoryStore):
    def _replace(self, row: Row, new: NewJob, now: int) -> None:
        super()._replace(row, new, now)
        row.payload = new.payload


@killed_by("keys.omitted_values_go_back_to_their_defaults[replace]")
class ReplaceKeepsOmittedValues(MemoryStore):
    def _replace(self, row: Row, new: NewJob, now: int) -> None:
        queue, flags = row.queue, row.flags
        super()._replace(row, new, now)
        row.queue, row.flags = row.queue or queue, row.flags or flags


@killed_by("keys.the_revision_counts_every_request")
class RevisionNotCounted(MemoryStore):
    def _replace(self, row: Row, new: NewJob, now: int) -> None:
        row.revision -= 1
        super()._replace(row, new, now)


@killed_by("keys.a_revived_job_has_all_its_attempts")
class AttemptsKeptOnReplace(MemoryStore):
    def _replace(self, row: Row, new: NewJob, now: int) -> None:
        attempts = row.attempts
        super()._replace(row, new, now)
        row.attempts = attempts


@killed_by("keys.the_last_of_two_in_one_call_wins[none]")
class TheFirstOfTwoInOneCallWins(MemoryStore):
    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Job]:
        firsts: dict[str, NewJob] = {}
        for new in jobs:
            firsts.setdefault(new.key or "", new)
        return await super().enqueue([firsts[new.key] if new.key else new for new in jobs])


# ── enqueue ──


@killed_by("enqueue.all_or_nothing")
class HalfOfACallStored(MemoryStore):
    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Job]:
        added: list[Job] = []
        for new in jobs:
            added += await super().enqueue([new])
        return added


@killed_by("enqueue.unset_max_attempts_stays_unset")
class UnsetMaxAttemptsStoredAsTheDefault(MemoryStore):
    def _add(self, new: NewJob, now: int) -> Row:
        row = super()._add(new, now)
        row.max_attempts = row.max_attempts or 25
        return row


@killed_by("enqueue.keep_zero_is_not_unset")
class KeepZeroTakenForUnset(MemoryStore):
    def _add(self, new: NewJob, now: int) -> Row:
        row = super()._add(new, now)
        row.keep = row.keep or None
        return row


# ── reaping and renewing ──


@killed_by("reap.each_further_crash_counts_as_a_reset")
class ResetNotCounted(MemoryStore):
    def _take_back(self, rows: Sequence[Row], max_resets: int, now: int) -> Reaped:
        resets = {row.id: row.resets for row in rows}
        reaped = super()._take_back(rows, max_resets, now)
        for row in rows:
            row.resets = resets[row.id]
        return reaped


@killed_by(
    "reap.the_first_crash_is_not_blamed",
    "crash.a_job_in_a_killed_workers_prefetch_is_not_blamed",
)
class FirstCrashBlamed(MemoryStore):
    def _take_back(self, rows: Sequence[Row], max_resets: int, now: int) -> Reaped:
        for row in rows:
            row.suspect = True
        return super()._take_back(rows, max_resets, now)


@killed_by("reap.at_the_reset_limit_the_job_fails")
class KillerNeverFails(MemoryStore):
    def _take_back(self, rows: Sequence[Row], max_resets: int, now: int) -> Reaped:
        return super()._take_back(rows, 10**6, now)


@killed_by("leases.a_tasks_longer_lease_outlives_the_worker")
class ReapIgnoresOwnLongerLease(MemoryStore):
    async def reap(self, limit: int, max_resets: int) -> Reaped:
        for row in self._rows.values():
            row.lease_until = None
        return await super().reap(limit, max_resets)


@killed_by("reap.reap_takes_no_more_than_its_limit")
class ReapIgnoresItsLimit(MemoryStore):
    async def reap(self, limit: int, max_resets: int) -> Reaped:
        return await super().reap(10**6, max_resets)


@killed_by("reap.a_lease_ends_on_the_microsecond")
class ALeaseEndsAMicrosecondLate(MemoryStore):
    def _beat(self, worker: str, lease: float) -> None:
        super()._beat(worker, lease + 0.000001)


@killed_by(
    "clock_jumps.a_live_worker_keeps_its_jobs[forward-same]",
    "clock_jumps.a_live_worker_keeps_its_jobs[forward_a_little-started_later]",
    "clock_jumps.a_dead_workers_job_comes_back_in_time[back]",
    "clock_jumps.several_reapers_do_not_put_it_off[back]",
    "clock_jumps.a_jobs_own_lease_ends_in_time[back-of_its_task]",
    "clock_jumps.a_longer_lease_asked_for_after_the_jump_counts_from_then[back]",
    "clock_jumps.workers_are_told_with_the_end_of_their_leases[forward]",
)
class TheWallClockDecidesLeases(MemoryStore):
    def _ticks(self) -> int:
        return self._clock.now()


@killed_by("clock_jumps.a_live_worker_keeps_its_jobs[forward-same]")
class AClockSetForwardEndsLeases(MemoryStore):
    _farthest = 0

    def _ticks(self) -> int:
        self._farthest = max(self._farthest, self._clock.now())
        return self._farthest


@killed_by(
    "clock_jumps.a_worker_that_died_after_the_jump_is_found[forward]",
    "clock_jumps.several_reapers_do_not_put_it_off[forward]",
    "clock_jumps.a_jobs_own_lease_given_after_the_jump_ends_in_time[forward-asked_for]",
)
class AJumpGivesLeasesTheTimeItSkipped(MemoryStore):
    _offset: int | None = None

    async def reap(self, limit: int, max_resets: int) -> Reaped:
        before, self._offset = self._offset, self._clock.now() - self._ticks()
        if before is not None and self._offset > before:
            for worker in self._workers:
                self._workers[worker] += self._offset - before
            for row in self._rows.values():
                if row.lease_until is not None:
                    row.lease_until += self._offset - before
        return await super().reap(limit, max_resets)


@killed_by("clock_jumps.after_a_long_silence_a_new_reaper_need_not_wait")
class ALongSilenceIsTakenForAJump(MemoryStore):
    _reaped_at = 0

    async def reap(self, limit: int, max_resets: int) -> Reaped:
        before, self._reaped_at = self._reaped_at, self._clock.now()
        if before and self._reaped_at - before > 3_600_000_000:
            for worker in self._workers:
                self._beat(worker, 30.0)
        return await super().reap(limit, max_resets)


@killed_by("leases.renew_extends_the_lease")
class RenewDoesNotExtend(MemoryStore):
    def renew(
        self,
        worker: str,
        lease: float,
        leases: Sequence[Lease],
        extend: Sequence[tuple[Lease, float]] = (),
    ) -> Renewal:
        before = self._workers.get(worker)
        answer = super().renew(worker, lease, leases, extend)
        if before is not None:
            self._workers[worker] = before
        return answer


@killed_by("leases.extend_never_shortens")
class ExtendShortens(MemoryStore):
    def renew(
        self,
        worker: str,
        lease: float,
        leases: Sequence[Lease],
        extend: Sequence[tuple[Lease, float]] = (),
    ) -> Renewal:
        for held, _seconds in extend:
            self._rows[held.job_id].lease_until = None
        return super().renew(worker, lease, leases, extend)


@killed_by("leases.check_writes_nothing")
class CheckRenews(MemoryStore):
    def check(self, worker: str, leases: Sequence[Lease]) -> Renewal:
        self._beat(worker, 30.0)
        return super().check(worker, leases)


@killed_by("leases.lost_because_it_is_gone")
class EveryLossCalledTaken(MemoryStore):
    def _why_lost(self, lease: Lease) -> LostReason:
        return LostReason.TAKEN_BY_ANOTHER_WORKER


@killed_by("reap.retire_hands_everything_back")
class RetireHandsNothingBack(MemoryStore):
    async def retire(self, worker: str) -> None:
        self._workers.pop(worker, None)


@killed_by("notes.the_log_drops_its_oldest_entries")
class LogGrowsWithoutEnd(MemoryStore):
    async def note(self, lease: Lease, note: Note) -> Verdict:
        row = self._owned(lease)
        if row is not None and note.entry is not None:
            row.log = add_to_log(row.log, note.entry, most=10**6)
            return Verdict.APPLIED
        return await super().note(lease, note)


# ── history ──


@killed_by("history.a_kept_job_is_whole", "settle.output[object]")
class KeepIgnored(MemoryStore):
    def _end(self, row: Row, outcome: Outcome, now: int) -> None:
        if isinstance(outcome, Complete):
            row.keep, outcome = None, Complete(outcome.output)
        super()._end(row, outcome, now)


@killed_by(
    "settle.the_jobs_keep_beats_the_settlements[zero-some-gone]",
)
class TheSettlementsKeepBeatsTheJobs(MemoryStore):
    def _end(self, row: Row, outcome: Outcome, now: int) -> None:
        if isinstance(outcome, Complete) and outcome.keep is not None:
            row.keep = outcome.keep
        super()._end(row, outcome, now)


@killed_by("history.a_kept_job_expires_on_the_microsecond")
class PruneRemovesUnexpired(MemoryStore):
    async def prune(self, limit: int, *keeps: float) -> int:
        for row in self._history.values():
            row.expires_at = 0
        return await super().prune(limit, *keeps)


@killed_by("history.open_and_failed_jobs_are_never_pruned")
class PruneRemovesFailedJobs(MemoryStore):
    async def prune(self, limit: int, *keeps: float) -> int:
        return await super().prune(limit, *keeps) + await self.delete_failed(limit)


# ── operators ──


@killed_by(
    "admin.reschedule_takes_priority_zero",
    "admin.reschedule_takes_attempts_zero",
)
class RescheduleIgnoresZero(MemoryStore):
    async def reschedule(
        self,
        ids: Sequence[int],
        run_at: int | None = None,
        priority: int | None = None,
        attempts: int | None = None,
        max_attempts: int | None = None,
        tenant: str | None = None,
    ) -> list[Job]:
        return await super().reschedule(
            ids, run_at or None, priority or None, attempts or None, max_attempts or None, tenant
        )


@killed_by("admin.reschedule_leaves_a_failed_job_failed")
class RescheduleRevivesFailedJobs(MemoryStore):
    async def reschedule(
        self,
        ids: Sequence[int],
        run_at: int | None = None,
        priority: int | None = None,
        attempts: int | None = None,
        max_attempts: int | None = None,
        tenant: str | None = None,
    ) -> list[Job]:
        return await super().reschedule(ids, run_at, priority, attempts or 0, max_attempts, tenant)


@killed_by(
    "admin.running_jobs_are_skipped[complete]",
    "admin.running_jobs_are_skipped[reschedule]",
)
class AdminTouchesRunningRows(MemoryStore):
    def _may_touch(self, verb: str, row: Row) -> bool:
        return super()._may_touch(verb, row) or row.state is JobState.RUNNING


@killed_by("admin.retry_leaves_a_cancelled_job_whose_key_is_taken")
class RetryStealsAKey(MemoryStore):
    def _may_touch(self, verb: str, row: Row) -> bool:
        return row.state in rules.TOUCHED_BY[verb]


@killed_by(
    "admin.a_verb_meets_a_job[delete-completed]",
    "admin.deleted_jobs_are_counted_and_listed_no_more",
)
class DeleteLeavesTheHistory(MemoryStore):
    def _may_delete(self, row: Row) -> bool:
        return super()._may_delete(row) and row.id not in self._history


@killed_by("admin.a_verb_meets_a_job[delete-running]", "admin.running_jobs_are_skipped[delete]")
class DeleteTakesRunningJobs(MemoryStore):
    def _may_delete(self, row: Row) -> bool:
        return True


@killed_by(
    "admin.a_verb_meets_a_job[delete-ready]",
    "admin.deleted_jobs_are_counted_and_listed_no_more",
)
class DeleteCancels(MemoryStore):
    async def delete(self, ids: Sequence[int], tenant: str | None = None) -> list[Job]:
        return await self.cancel(ids, tenant)


@killed_by("admin.delete_takes_a_cancelled_job_whose_key_is_taken")
class DeleteLeavesJobsWhoseKeyIsTaken(MemoryStore):
    def _may_delete(self, row: Row) -> bool:
        return self._may_touch("delete", row)


@killed_by("admin.delete_frees_the_key", "admin.delete_lets_the_queue_go_on")
class DeleteFailsJobs(MemoryStore):
    async def delete(self, ids: Sequence[int], tenant: str | None = None) -> list[Job]:
        return await self.fail(ids, "deleted", tenant)


@killed_by("admin.cancel_asks_a_running_job_to_stop")
class CancelEndsRunningJobs(MemoryStore):
    async def cancel(self, ids: Sequence[int], tenant: str | None = None) -> list[Job]:
        for job_id in ids:
            row = self._rows.get(job_id)
            if row is not None and row.state is JobState.RUNNING:
                self._end(row, Cancel(), self._clock.now())
        return [row.job() for job_id in ids if (row := self._rows.get(job_id))]


@killed_by("admin.fail_uses_up_all_attempts[unset-25]")
class FailLeavesAttemptsOver(MemoryStore):
    async def fail(self, ids: Sequence[int], reason: str, tenant: str | None = None) -> list[Job]:
        before = {job_id: row.attempts for job_id, row in self._rows.items()}
        jobs = await super().fail(ids, reason, tenant)
        for job in jobs:
            self._rows[job.id].attempts = before[job.id]
        return [self._rows[job.id].job() for job in jobs]


@killed_by("pages_counts.filters_apply_before_the_page_is_cut")
class PagesCutBeforeTheFilter(MemoryStore):
    async def find(self, wanted: Any) -> list[Job]:
        rows = [row.id for row in self._rows.values()]
        page = sorted((i for i in rows if wanted.after is None or i < wanted.after), reverse=True)
        found = await super().find(wanted)
        return [job for job in found if job.id in page[: wanted.limit]]


@killed_by(
    "pages_counts.pages_begin_with_the_newest",
    "pages_counts.what_is_found_is_what_get_says",
    "pages_counts.a_hundred_in_a_page_by_default",
)
class ListsBeginWithTheOldest(MemoryStore):
    async def find(self, wanted: Any) -> list[Job]:
        found = await super().find(msgspec.structs.replace(wanted, limit=10**6, after=None))
        rest = [job for job in found[::-1] if wanted.after is None or job.id > wanted.after]
        return rest[: wanted.limit]


@killed_by("pages_counts.pages_begin_with_the_newest")
class APageBeginsWithTheLastOfTheOneBefore(MemoryStore):
    async def find(self, wanted: Any) -> list[Job]:
        after = None if wanted.after is None else wanted.after + 1
        found = await super().find(msgspec.structs.replace(wanted, after=after))
        return found if len(found) > 1 else []


@killed_by("pages_counts.pages_run_through_open_jobs_and_history")
class HistoryNotListed(MemoryStore):
    async def find(self, wanted: Any) -> list[Job]:
        return [job for job in await super().find(wanted) if job.id in self._rows]


@killed_by("pages_counts.counts_of_every_state")
class HistoryNotCounted(MemoryStore):
    async def counts(self, tenant: str | None = None) -> dict[JobState, int]:
        return {**await super().counts(tenant), JobState.COMPLETED: 0}


# ── pausing ──


@killed_by("pause.a_paused_task_is_not_given", "pause.a_paused_queue_is_not_given")
class PauseForgotten(MemoryStore):
    async def claim(self, request: ClaimRequest) -> list[Lease]:
        self._paused.clear()
        return await super().claim(request)


@killed_by("pause.a_paused_queue_is_not_given")
class PauseOfAQueueForgotten(MemoryStore):
    async def pause(
        self, *, task: str | None = None, queue: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> None:
        await super().pause(task=task, tenant=tenant)


@killed_by("pause.what_is_paused_is_listed_in_order")
class PausesNotListed(MemoryStore):
    async def paused(self, tenant: str | None = None) -> Paused:
        return Paused()


# ── who runs what ──


@killed_by("roster.a_queue_says_that_it_keeps_a_roster")
class SecretRoster(MemoryStore):
    capabilities = msgspec.structs.replace(MemoryStore.capabilities, roster=False)


@killed_by("roster.a_stranger_cannot_be_introduced")
class StrangersIntroduced(MemoryStore):
    async def introduce(
        self, worker: str, tasks: Sequence[str], tenants: Sequence[str] | None = None
    ) -> bool:
        await super().introduce(worker, tasks, tenants)
        return True


@killed_by("roster.a_dead_worker_runs_nothing", "roster.who_is_not_introduced_may_run_anything")
class TheDeadStillRun(MemoryStore):
    async def stranded(self) -> list[str]:
        ends, far = dict(self._workers), self._ticks() + 1
        self._workers.update(dict.fromkeys(ends, far))
        try:
            return await super().stranded()
        finally:
            self._workers.update(ends)


@killed_by("roster.who_is_not_introduced_may_run_anything")
class TheSilentRunNothing(MemoryStore):
    async def stranded(self) -> list[str]:
        before = dict(self._introduced)
        self._introduced = {**dict.fromkeys(self._workers, _ANYTHING), **before}
        try:
            return await super().stranded()
        finally:
            self._introduced = before


@killed_by(
    "roster.a_worker_that_comes_back_must_be_introduced_again[retire]",
    "roster.a_worker_that_comes_back_must_be_introduced_again[unlock]",
    "roster.a_worker_that_comes_back_must_be_introduced_again[reap]",
)
class TheGoneAreStillIntroduced(MemoryStore):
    def _forget(self, worker: str) -> None:
        self._workers.pop(worker, None)


@killed_by("roster.paused_tasks_are_not_stranded")
class PausedTasksStranded(MemoryStore):
    async def stranded(self) -> list[str]:
        paused, self._paused = self._paused, set()
        try:
            return await super().stranded()
        finally:
            self._paused = paused


@killed_by("roster.jobs_of_serial_queues_are_stranded_too")
class OnlyWhatCanBeClaimedIsStranded(MemoryStore):
    async def stranded(self) -> list[str]:
        anything = ClaimRequest("", tuple({row.task for row in self._rows.values()}), 1)
        busy = {row.queue for row in self._rows.values() if row.state is JobState.RUNNING}
        first: dict[str | int, str] = {}
        for row in sorted(self._claimable(anything), key=lambda row: row.order):
            if row.queue is None or row.queue not in busy:
                first.setdefault(row.queue or row.id, row.task)
        return [task for task in await super().stranded() if task in first.values()]


@killed_by("roster.only_ready_jobs_are_stranded")
class WhateverLiesThereIsStranded(MemoryStore):
    async def stranded(self) -> list[str]:
        found = {row.task for row in self._rows.values()} if await super().stranded() == [] else ()
        return sorted(found)


@killed_by(
    "roster.tasks_that_no_live_worker_runs_are_told",
    "roster.a_claim_and_a_renewal_keep_the_introduction",
)
class IntroductionForgotten(MemoryStore):
    async def introduce(
        self, worker: str, tasks: Sequence[str], tenants: Sequence[str] | None = None
    ) -> bool:
        return await super().introduce(worker, [], tenants)


# ── schedules ──


@killed_by(
    "schedules_fire.expected_elsewhere_it_is_lost[earlier]",
    "schedules_fire.expected_elsewhere_it_is_lost[later]",
    "schedules.resumed_it_goes_on_from_now",
)
class FireIgnoresWhereItIs(MemoryStore):
    async def fire(
        self,
        identifier: str,
        expected: int,
        until: int,
        jobs: Sequence[NewJob],
        tenant: str = DEFAULT_TENANT,
    ) -> Fired:
        known = self._schedules.get((tenant, identifier))
        expected = expected if known is None else known.floor_at
        return await super().fire(identifier, expected, until, jobs, tenant)


@killed_by("schedules_fire.a_paused_one_is_not_fired", "schedules.they_are_remembered")
class FireIgnoresThePause(MemoryStore):
    async def fire(
        self,
        identifier: str,
        expected: int,
        until: int,
        jobs: Sequence[NewJob],
        tenant: str = DEFAULT_TENANT,
    ) -> Fired:
        await self.resume_schedule(identifier, tenant)
        return await super().fire(identifier, expected, until, jobs, tenant)


@killed_by("schedules_fire.a_second_time_is_lost", "schedules_at_once.an_instant_is_fired_by_one")
class LostFiringsAddTheirJobs(MemoryStore):
    async def fire(
        self,
        identifier: str,
        expected: int,
        until: int,
        jobs: Sequence[NewJob],
        tenant: str = DEFAULT_TENANT,
    ) -> Fired:
        fired = await super().fire(identifier, expected, until, jobs, tenant)
        if fired.verdict is FireVerdict.LOST:
            await self.enqueue(jobs)
        return fired


@killed_by("schedules_fire.both_or_neither[plain]", "schedules_fire.both_or_neither[keyed]")
class FireMovesThoughAddingFailed(MemoryStore):
    async def fire(
        self,
        identifier: str,
        expected: int,
        until: int,
        jobs: Sequence[NewJob],
        tenant: str = DEFAULT_TENANT,
    ) -> Fired:
        fired = await super().fire(identifier, expected, until, [], tenant)
        if fired.verdict is FireVerdict.APPLIED:
            await self.enqueue(jobs)
        return fired


@killed_by("schedules_fire.both_or_neither[plain]", "schedules_fire.both_or_neither[keyed]")
class FireAddsWhatItCan(MemoryStore):
    def _add_all(self, jobs: Sequence[NewJob], now: int) -> list[Row]:
        return [row for new in jobs for row in super(FireAddsWhatItCan, self)._add_all([new], now)]


@killed_by(
    "schedules_fire.early_to_the_microsecond", "schedules_fire.a_clock_set_back_fires_nothing_again"
)
class FireIgnoresTheClock(MemoryStore):
    async def fire(
        self,
        identifier: str,
        expected: int,
        until: int,
        jobs: Sequence[NewJob],
        tenant: str = DEFAULT_TENANT,
    ) -> Fired:
        fired = await super().fire(identifier, expected, until, jobs, tenant)
        if fired.verdict is FireVerdict.EARLY:
            _set(self, identifier, floor_at=until, last_at=until)
            await self.enqueue(jobs)
            return Fired(FireVerdict.APPLIED, until)
        return fired


@killed_by("schedules_fire.early_to_the_microsecond")
class EarlyOnTheVeryInstant(MemoryStore):
    async def fire(
        self,
        identifier: str,
        expected: int,
        until: int,
        jobs: Sequence[NewJob],
        tenant: str = DEFAULT_TENANT,
    ) -> Fired:
        known = self._schedules.get((tenant, identifier))
        if known is not None and until == self._clock.now():
            return Fired(FireVerdict.EARLY, known.floor_at)
        return await super().fire(identifier, expected, until, jobs, tenant)


@killed_by("schedules_fire.lost_goes_before_early")
class EarlyGoesBeforeLost(MemoryStore):
    async def fire(
        self,
        identifier: str,
        expected: int,
        until: int,
        jobs: Sequence[NewJob],
        tenant: str = DEFAULT_TENANT,
    ) -> Fired:
        known = self._schedules.get((tenant, identifier))
        if known is not None and until > self._clock.now():
            return Fired(FireVerdict.EARLY, known.floor_at)
        return await super().fire(identifier, expected, until, jobs, tenant)


@killed_by(
    "schedules_fire.it_never_goes_back[same]",
    "schedules_fire.it_never_goes_back[before]",
    "schedules_fire.it_never_goes_back[long_before]",
)
class FireGoesBack(MemoryStore):
    async def fire(
        self,
        identifier: str,
        expected: int,
        until: int,
        jobs: Sequence[NewJob],
        tenant: str = DEFAULT_TENANT,
    ) -> Fired:
        known = self._schedules.get((tenant, identifier))
        if known is not None and known.floor_at == expected >= until:
            expected = until - 1
            _set(self, identifier, floor_at=expected)
        return await super().fire(identifier, expected, until, jobs, tenant)


@killed_by(
    "schedules_fire.expected_elsewhere_it_is_lost[earlier]", "schedules_fire.a_second_time_is_lost"
)
class TheLoserIsNotToldWhereItIs(MemoryStore):
    async def fire(
        self,
        identifier: str,
        expected: int,
        until: int,
        jobs: Sequence[NewJob],
        tenant: str = DEFAULT_TENANT,
    ) -> Fired:
        fired = await super().fire(identifier, expected, until, jobs, tenant)
        return Fired(fired.verdict, expected) if fired.verdict is FireVerdict.LOST else fired


@killed_by("schedules_fire.an_unknown_one_is_missing", "schedules.forgotten_it_is_gone")
class FireKnowsWhatNobodyKnew(MemoryStore):
    async def fire(
        self,
        identifier: str,
        expected: int,
        until: int,
        jobs: Sequence[NewJob],
        tenant: str = DEFAULT_TENANT,
    ) -> Fired:
        if (tenant, identifier) not in self._schedules:
            now = self._clock.now()
            schedule = Schedule(identifier=identifier, task="t", pattern="* * * * *")
            self._schedules[tenant, identifier] = KnownSchedule(schedule, now, now, expected)
        return await super().fire(identifier, expected, until, jobs, tenant)


@killed_by("schedules_fire.firing_moves_it_and_adds_its_jobs")
class TheLastInstantIsNotKept(MemoryStore):
    async def fire(
        self,
        identifier: str,
        expected: int,
        until: int,
        jobs: Sequence[NewJob],
        tenant: str = DEFAULT_TENANT,
    ) -> Fired:
        fired = await super().fire(identifier, expected, until, jobs, tenant)
        _set(self, identifier, last_at=None)
        return fired


@killed_by("schedules_fire.firing_moves_it_and_adds_its_jobs")
class FireMovesToNow(MemoryStore):
    async def fire(
        self,
        identifier: str,
        expected: int,
        until: int,
        jobs: Sequence[NewJob],
        tenant: str = DEFAULT_TENANT,
    ) -> Fired:
        fired = await super().fire(identifier, expected, until, jobs, tenant)
        if fired.verdict is FireVerdict.APPLIED:
            _set(self, identifier, floor_at=self._clock.now())
        return fired


@killed_by(
    "schedules_fire.many_instants_in_one_firing[plain]",
    "schedules_fire.instants_of_one_key_become_one_job",
)
class TheLatestInstantFirst(MemoryStore):
    async def fire(
        self,
        identifier: str,
        expected: int,
        until: int,
        jobs: Sequence[NewJob],
        tenant: str = DEFAULT_TENANT,
    ) -> Fired:
        return await super().fire(identifier, expected, until, jobs[::-1], tenant)


@killed_by(
    "schedules_fire.many_instants_in_one_firing[plain]",
    "schedules_at_once.everybody_goes_on_from_where_it_is",
)
class OneJobForManyInstants(MemoryStore):
    async def fire(
        self,
        identifier: str,
        expected: int,
        until: int,
        jobs: Sequence[NewJob],
        tenant: str = DEFAULT_TENANT,
    ) -> Fired:
        return await super().fire(identifier, expected, until, jobs[-1:], tenant)


@killed_by(
    "schedules_fire.a_key_meets[replace-ready]",
    "schedules_fire.a_key_meets[preserve_run_at-scheduled]",
    "schedules_fire.a_key_meets[unsafe_dedupe-running]",
    "schedules_fire.a_fired_job_has_every_value",
)
class FiredJobsLoseTheirKeys(MemoryStore):
    async def fire(
        self,
        identifier: str,
        expected: int,
        until: int,
        jobs: Sequence[NewJob],
        tenant: str = DEFAULT_TENANT,
    ) -> Fired:
        bare = [msgspec.structs.replace(new, key=None) for new in jobs]
        return await super().fire(identifier, expected, until, bare, tenant)


@killed_by("schedules_fire.a_key_meets[preserve_run_at-ready]")
class FiredKeysAlwaysReplace(MemoryStore):
    async def fire(
        self,
        identifier: str,
        expected: int,
        until: int,
        jobs: Sequence[NewJob],
        tenant: str = DEFAULT_TENANT,
    ) -> Fired:
        replacing = [msgspec.structs.replace(new, key_mode="replace") for new in jobs]
        return await super().fire(identifier, expected, until, replacing, tenant)


@killed_by("schedules_fire.a_fired_job_has_every_value")
class FiredJobsLoseTheirFlags(MemoryStore):
    async def fire(
        self,
        identifier: str,
        expected: int,
        until: int,
        jobs: Sequence[NewJob],
        tenant: str = DEFAULT_TENANT,
    ) -> Fired:
        bare = [msgspec.structs.replace(new, flags=None) for new in jobs]
        return await super().fire(identifier, expected, until, bare, tenant)


@killed_by("schedules_at_once.an_instant_is_fired_by_one")
class FireLooksBeforeItLocks(MemoryStore):
    def __init__(self, clock: Clock = SYSTEM) -> None:
        super().__init__(clock)
        self._gap = Gap()

    async def fire(
        self,
        identifier: str,
        expected: int,
        until: int,
        jobs: Sequence[NewJob],
        tenant: str = DEFAULT_TENANT,
    ) -> Fired:
        known = self._schedules.get((tenant, identifier))
        if known is None or known.floor_at != expected or expected >= until:
            return await super().fire(identifier, expected, until, jobs, tenant)
        self._gap.wait_for_rivals()
        with self._lock:  # it goes by what it saw, whatever rivals have fired since
            _set(self, identifier, floor_at=expected)
            return await super().fire(identifier, expected, until, jobs, tenant)


@killed_by(
    "schedules.known_again_it_stays_where_it_is",
    "schedules_fire.a_clock_set_back_moves_nothing_known",
)
class KnowingAgainBeginsAnew(MemoryStore):
    async def register(
        self, wanted: Sequence[Schedule], tenant: str = DEFAULT_TENANT
    ) -> list[KnownSchedule]:
        for schedule in wanted:
            self._schedules.pop((tenant, schedule.identifier), None)
        return await super().register(wanted, tenant)


@killed_by(
    "schedules.known_again_it_stays_where_it_is",
    "schedules_fire.a_clock_set_back_moves_nothing_known",
)
class KnowingAgainMovesTheFloor(MemoryStore):
    async def register(
        self, wanted: Sequence[Schedule], tenant: str = DEFAULT_TENANT
    ) -> list[KnownSchedule]:
        for schedule in wanted:
            _set(self, schedule.identifier, floor_at=self._clock.now())
        return await super().register(wanted, tenant)


@killed_by("schedules.known_again_it_stays_where_it_is")
class KnowingAgainResumes(MemoryStore):
    async def register(
        self, wanted: Sequence[Schedule], tenant: str = DEFAULT_TENANT
    ) -> list[KnownSchedule]:
        for schedule in wanted:
            _set(self, schedule.identifier, paused_at=None)
        return await super().register(wanted, tenant)


@killed_by("schedules.known_again_it_stays_where_it_is")
class TheFirstTextIsKept(MemoryStore):
    async def register(
        self, wanted: Sequence[Schedule], tenant: str = DEFAULT_TENANT
    ) -> list[KnownSchedule]:
        kept = {name: known.schedule for (_, name), known in self._schedules.items()}
        return await super().register([kept.get(new.identifier, new) for new in wanted], tenant)


@killed_by("schedules.the_answer_is_in_the_order_given")
class KnownAnsweredByIdentifier(MemoryStore):
    async def register(
        self, wanted: Sequence[Schedule], tenant: str = DEFAULT_TENANT
    ) -> list[KnownSchedule]:
        return sorted(await super().register(wanted, tenant), key=lambda known: known.identifier)


@killed_by("schedules.the_answer_is_in_the_order_given")
class EverythingKnownIsAnswered(MemoryStore):
    async def register(
        self, wanted: Sequence[Schedule], tenant: str = DEFAULT_TENANT
    ) -> list[KnownSchedule]:
        told = await super().register(wanted, tenant)
        return told + [known for known in await self.schedules() if known not in told]


@killed_by("schedules.they_are_listed_by_identifier")
class SchedulesListedAsTheyCame(MemoryStore):
    async def schedules(self, tenant: str | None = None) -> list[KnownSchedule]:
        return list(self._schedules.values())


@killed_by("schedules.pausing_twice_keeps_the_first_instant")
class PausingAgainMovesItsInstant(MemoryStore):
    async def pause_schedule(
        self, identifier: str, tenant: str = DEFAULT_TENANT
    ) -> KnownSchedule | None:
        _set(self, identifier, paused_at=None)
        return await super().pause_schedule(identifier, tenant)


@killed_by(
    "schedules.resumed_it_goes_on_from_now",
    "schedules_at_once.a_firing_meets_a_resume",
)
class ResumingKeepsTheFloor(MemoryStore):
    async def resume_schedule(
        self, identifier: str, tenant: str = DEFAULT_TENANT
    ) -> KnownSchedule | None:
        return _set(self, identifier, paused_at=None)


@killed_by("schedules_fire.resuming_never_goes_back")
class ResumingGoesBackWithTheClock(MemoryStore):
    async def resume_schedule(
        self, identifier: str, tenant: str = DEFAULT_TENANT
    ) -> KnownSchedule | None:
        return _set(self, identifier, paused_at=None, floor_at=self._clock.now())


@killed_by("schedules.resumed_it_goes_on_from_now")
class ResumingCountsAsFiring(MemoryStore):
    async def resume_schedule(
        self, identifier: str, tenant: str = DEFAULT_TENANT
    ) -> KnownSchedule | None:
        await super().resume_schedule(identifier, tenant)
        return _set(self, identifier, last_at=self._clock.now())


@killed_by("schedules.resuming_what_was_not_paused_changes_nothing")
class ResumingMovesWhatWasNotPaused(MemoryStore):
    async def resume_schedule(
        self, identifier: str, tenant: str = DEFAULT_TENANT
    ) -> KnownSchedule | None:
        await self.pause_schedule(identifier, tenant)
        return await super().resume_schedule(identifier, tenant)


@killed_by("schedules.forgotten_it_is_gone", "schedules.other_stores_see_the_same")
class ForgetDoesNotDelete(MemoryStore):
    async def forget_schedule(
        self, identifier: str, tenant: str = DEFAULT_TENANT
    ) -> KnownSchedule | None:
        return self._schedules.get((tenant, identifier))


@killed_by("schedules.forgotten_and_known_it_is_new")
class TheForgottenIsRemembered(MemoryStore):
    async def forget_schedule(
        self, identifier: str, tenant: str = DEFAULT_TENANT
    ) -> KnownSchedule | None:
        known = await super().forget_schedule(identifier, tenant)
        if known is not None:
            self._gone = {**getattr(self, "_gone", {}), identifier: known}
        return known

    async def register(
        self, wanted: Sequence[Schedule], tenant: str = DEFAULT_TENANT
    ) -> list[KnownSchedule]:
        gone: dict[str, KnownSchedule] = getattr(self, "_gone", {})
        for schedule in wanted:
            if schedule.identifier in gone:
                self._schedules[tenant, schedule.identifier] = gone[schedule.identifier]
        return await super().register(wanted, tenant)


@killed_by("schedules.the_others_are_left_alone", "schedules.identifiers_that_look_alike_are_apart")
class APauseHoldsThemAll(MemoryStore):
    async def pause_schedule(
        self, identifier: str, tenant: str = DEFAULT_TENANT
    ) -> KnownSchedule | None:
        for _, name in self._schedules:
            await super().pause_schedule(name, tenant)
        return self._schedules.get((tenant, identifier))


@killed_by(
    "schedules.identifiers_that_look_alike_are_apart", "schedules.the_answer_is_in_the_order_given"
)
class CapitalsDoNotCount(MemoryStore):
    async def register(
        self, wanted: Sequence[Schedule], tenant: str = DEFAULT_TENANT
    ) -> list[KnownSchedule]:
        lowered = [
            msgspec.structs.replace(schedule, identifier=schedule.identifier.lower())
            for schedule in wanted
        ]
        return await super().register(lowered, tenant)


def _set(store: MemoryStore, identifier: str, **changes: Any) -> KnownSchedule | None:
    """Change a schedule of the default tenant behind the store's back, if it is known."""
    place = DEFAULT_TENANT, identifier
    known = store._schedules.get(place)
    if known is not None:
        known = store._schedules[place] = msgspec.structs.replace(known, **changes)
    return known


# ── transactions ──


@killed_by(
    "transactions.an_exception_rolls_everything_back",
    "transactions.nothing_is_seen_before_the_commit",
)
class TransactionsSettleAtOnce(MemoryStore):
    def transaction(self, lease: Lease) -> Any:
        store = self

        class AtOnce(MemoryTransaction):
            def complete(self, outcome: Outcome) -> None:
                store._settle(lease, outcome, store._start())

        return AtOnce(self, lease)


@killed_by(
    "transactions.a_joined_enqueue_is_gone_if_that_transaction_rolls_back",
    "transactions.a_lost_lease_rolls_everything_back",
    "transactions.nothing_is_seen_before_the_commit",
)
class JoinedJobsDoNotWait(MemoryStore):
    def joined(self, connection: Any) -> Any:
        store = self

        class AtOnce(MemoryTransaction):
            def enqueue(self, jobs: Sequence[NewJob]) -> list[Job]:
                return [row.job() for row in store._add_all(jobs, store._start())]

        if not isinstance(connection, MemoryTransaction):
            return super().joined(connection)
        return AtOnce(self, connection._lease)


@killed_by("transactions.a_key_is_free_after_its_job_is_completed_inside")
class JoinedJobsComeFirst(MemoryStore):
    def _carry_out(self, lease: Lease, steps: Sequence[Any]) -> list[Row | Started]:
        return super()._carry_out(lease, sorted(steps, key=lambda step: not _adds(step)))


@killed_by("transactions.a_key_taken_inside_before_the_job_fails_ends_it")
class JoinedJobsComeLast(MemoryStore):
    def _carry_out(self, lease: Lease, steps: Sequence[Any]) -> list[Row | Started]:
        return super()._carry_out(lease, sorted(steps, key=_adds))


def _adds(step: object) -> bool:
    return isinstance(step, _Addition)


@killed_by("transactions.two_with_one_key_inside_are_answered_as_one")
class JoinedJobsAnsweredOneByOne(MemoryStore):
    def transaction(self, lease: Lease) -> Any:
        class OneByOne(MemoryTransaction):
            def enqueue(self, jobs: Sequence[NewJob]) -> list[Job]:
                enqueue = super().enqueue
                return [job for new in jobs for job in enqueue([new])]

        return OneByOne(self, lease)


@killed_by("transactions.a_joined_enqueue_of_no_jobs_adds_none")
class NoJobsJoinedAreOne(MemoryStore):
    def transaction(self, lease: Lease) -> Any:
        class AtLeastOne(MemoryTransaction):
            def enqueue(self, jobs: Sequence[NewJob]) -> list[Job]:
                return super().enqueue(jobs or [NewJob("t")])

        return AtLeastOne(self, lease)


@killed_by("transactions.a_lost_lease_rolls_everything_back")
class TransactionsAskForNoLease(MemoryStore):
    def transaction(self, lease: Lease) -> Any:
        class Unchecked(MemoryTransaction):
            def complete(self, outcome: Outcome) -> None: ...

        return Unchecked(self, lease)


@killed_by("transactions.a_job_is_completed_once_in_its_transaction")
class TransactionsCompleteTwice(MemoryStore):
    def transaction(self, lease: Lease) -> Any:
        class Twice(MemoryTransaction):
            def complete(self, outcome: Outcome) -> None:
                self._has_ended = False
                super().complete(outcome)

        return Twice(self, lease)


@killed_by("transactions.any_outcome_may_end_the_transaction")
class TransactionsOnlyComplete(MemoryStore):
    def transaction(self, lease: Lease) -> Any:
        class Completing(MemoryTransaction):
            def complete(self, outcome: Outcome) -> None:
                super().complete(Complete())

        return Completing(self, lease)


@killed_by("transactions.writes_and_completion_commit_together")
class TransactionsClaimSql(MemoryStore):
    def transaction(self, lease: Lease) -> Any:
        class Pretending(MemoryTransaction):
            def execute(self, sql: str, values: Any = ()) -> list[Any]:
                return []

        return Pretending(self, lease)


@killed_by("transactions.a_statement_is_not_disturbed_by_an_interrupt_before_it")
class AnInterruptEndsTheTransaction(MemoryStore):
    def transaction(self, lease: Lease) -> Any:
        class Undone(MemoryTransaction):
            is_interrupted = False

            def interrupt(self) -> None:
                self.is_interrupted = True

            def complete(self, outcome: Outcome) -> None:
                if not self.is_interrupted:
                    super().complete(outcome)

        return Undone(self, lease)


# ── what a job carries, and its failed attempts ──


@killed_by("enqueue.meta_goes_along_with_a_job")
class MetaStaysBehind(MemoryStore):
    def _deliver(self, row: Row, request: ClaimRequest) -> Lease:
        lease = super()._deliver(row, request)
        lease.meta = None
        return lease


@killed_by("enqueue.meta_is_replaced_with_the_job")
class AKeyKeepsItsOldMeta(MemoryStore):
    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Job]:
        for new in jobs:
            row = self._keyed(new.key, new.tenant) if new.key is not None else None
            if row is not None:
                new.meta = row.meta
        return await super().enqueue(jobs)


@killed_by("settle.failed_attempts_are_remembered")
class OnlyTheLastFailedAttemptIsRemembered(MemoryStore):
    def _end(self, row: Row, outcome: Outcome, now: int) -> None:
        row.errors = None
        super()._end(row, outcome, now)


@killed_by("settle.the_last_ten_failed_attempts_are_kept_and_the_beginning_of_each")
class FailedAttemptsPileUp(MemoryStore):
    def _end(self, row: Row, outcome: Outcome, now: int) -> None:
        before = msgspec.json.decode(row.errors) if row.errors else []
        super()._end(row, outcome, now)
        if isinstance(outcome, Fail):
            newest = msgspec.json.decode(row.errors or "[]")[-1]
            row.errors = msgspec.json.encode([*before, newest]).decode()


@killed_by("settle.a_key_that_is_used_again_forgets_the_failed_attempts")
class AKeyRemembersFailedAttempts(MemoryStore):
    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Job]:
        held = {
            job.key: row.errors
            for job in jobs
            if job.key and (row := self._keyed(job.key, job.tenant))
        }
        added = await super().enqueue(jobs)
        for job in added:
            self._rows[job.id].errors = held.get(job.key or "")
        return [self._rows[job.id].job() for job in added]
