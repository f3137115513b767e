"""Stores that get chains wrong, each in one named way."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from tests.contract.mutant import killed_by
from windlass.model.chain import KEEP_CHAINS, KEEP_FAILED_CHAINS, Chain, ChainState
from windlass.model.job import Job, JobState
from windlass.store import rules
from windlass.store.chaining import Chaining, Started
from windlass.store.records import (
    COMPLETE,
    Blocker,
    BlockerState,
    ChainFilter,
    ChainRow,
    ClaimRequest,
    Complete,
    Lease,
    NewChain,
    NewJob,
    Outcome,
    Row,
    Settled,
)
from windlass.stores.memory import MemoryStore, MemoryTransaction

# ── going on ──


@killed_by(
    "chains.a_late_answer_goes_on_with_nothing",
    "chains.asking_twice_goes_on_once",
)
class TheNextJobIsStoredThoughTheDeliveryIsLost(MemoryStore):
    def _settle(self, lease: Lease, outcome: Outcome, now: int) -> Settled:
        answer = super()._settle(lease, outcome, now)
        if answer.state is None and isinstance(outcome, Complete) and outcome.next is not None:
            self._put(outcome.next, now)
        return answer


@killed_by(
    "chains.a_chain_that_starts_with_an_unknown_blocker_is_refused",
    "blockers.a_chain_that_starts_may_wait_for_one_before_it",
)
class ChildrenAreStoredBeforeTheCompletion(MemoryStore):
    def _settle(self, lease: Lease, outcome: Outcome, now: int) -> Settled:
        if isinstance(outcome, Complete) and outcome.next is None:
            for new in outcome.starts:
                self._chaining(now).start(replace(new, job=replace(new.job, blockers=())))
            outcome = replace(outcome, starts=())
        return super()._settle(lease, outcome, now)


@killed_by(
    "chains.a_job_goes_on_with_another",
    "chains.the_last_jobs_output_is_the_chains",
    "chains.a_chain_survives_its_process",
    "chains.a_transaction_goes_on",
    "chains.a_list_shows_current_jobs",
    "chain_operators.a_chain_is_completed_by_hand[running]",
)
class TheNextJobStartsANewChain(MemoryStore):
    class chaining(Chaining):
        def _go_on(self, row: Row, new: NewJob, *, is_cancelled: bool) -> None:
            self.start(NewChain(job=new))


@killed_by(
    "chains.a_loop_goes_on_and_on",
    "chains.kept_jobs_of_a_chain_are_listed_in_order",
    "chain_operators.a_chain_goes_on_by_hand[blocked]",
    "chain_operators.a_chain_goes_on_by_hand[scheduled]",
    "chain_operators.a_chain_goes_on_by_hand[queued]",
)
class StepsAreNotCounted(MemoryStore):
    class chaining(Chaining):
        def _add_next(
            self, chain: int, step: int, new: NewJob, *, is_cancelled: bool = False
        ) -> None:
            super()._add_next(chain, 1, new, is_cancelled=is_cancelled)


@killed_by(
    "chains.a_plain_job_that_goes_on_becomes_a_chain",
    "chains.a_plain_job_that_is_kept_and_goes_on_is_the_first_of_its_chain",
    "blockers.a_plain_job_that_waited_goes_on",
    "chain_keys.a_child_that_is_there_already_is_waited_for",
)
class APlainJobThatGoesOnMakesNoChain(MemoryStore):
    class chaining(Chaining):
        def _go_on(self, row: Row, new: NewJob, *, is_cancelled: bool) -> None:
            if row.chain is None:
                self.book.add_job(rules.new_row(new, self.now))
            else:
                super()._go_on(row, new, is_cancelled=is_cancelled)


@killed_by(
    "chains.a_job_goes_on_with_another",
)
class AChainShowsItsCurrentTask(MemoryStore):
    def _seen(self, chain: ChainRow, is_duplicate: bool = False) -> Chain[Any]:
        seen = super()._seen(chain, is_duplicate)
        return seen if seen.job is None else replace(seen, task=seen.job.task)


@killed_by(
    "chains.the_last_jobs_output_is_the_chains",
    "chains.a_plain_job_that_goes_on_becomes_a_chain",
    "blockers.a_completion_fans_out_and_in",
    "chain_operators.a_chain_is_completed_by_hand[scheduled]",
    "chain_operators.a_chain_is_completed_by_hand[ready]",
    "chain_operators.a_chain_is_completed_by_hand[queued]",
)
class TheOutputIsKeptOnlyWithTheJob(MemoryStore):
    class chaining(Chaining):
        def _end_chain(self, row: Row, token: int | None = None) -> ChainRow | None:
            chain = super()._end_chain(row, token)
            if chain is not None and row.expires_at is None:
                chain.output = None
            return chain


@killed_by(
    "chains.attempts_are_counted_per_job",
    "chains.a_batch_goes_on_and_ends_and_fails",
    "chains.a_job_that_is_retried_keeps_its_chain_open",
)
class AFailedAttemptEndsTheChain(MemoryStore):
    def _end(self, row: Row, outcome: Outcome, now: int) -> None:
        super()._end(row, outcome, now)
        chain = None if row.chain is None else self._book.chain(row.chain)
        if chain is not None and row.state in (JobState.READY, JobState.SCHEDULED):
            chain.state, chain.error, chain.finished_at = ChainState.FAILED, row.last_error, now


@killed_by(
    "chains.attempts_are_counted_per_job",
    "chains.a_job_that_fails_for_good_fails_its_chain",
    "chains.a_job_that_kills_its_workers_fails_its_chain",
    "chains.operators_end_a_chain_by_its_job",
    "chains.a_failed_chain_outlives_its_deleted_job",
    "blockers.a_failure_stops_where_a_job_would_run",
    "chain_operators.open_and_completed_chains_are_not_retried",
)
class AChainWhoseJobFailsStaysOpen(MemoryStore):
    class chaining(Chaining):
        def ended(self, row: Row, *rest: Any, **how: Any) -> None:
            if row.state is not JobState.FAILED:
                super().ended(row, *rest, **how)


@killed_by(
    "chains.cancelling_the_current_job_cancels_its_chain[waiting]",
    "chains.cancelling_the_current_job_cancels_its_chain[running]",
    "chain_operators.a_chain_is_cancelled[blocked]",
    "chain_operators.a_chain_is_cancelled[scheduled]",
    "chain_operators.a_chain_is_cancelled[ready]",
    "chain_operators.a_chain_is_cancelled[queued]",
)
class ACancelledJobLeavesItsChainOpen(MemoryStore):
    class chaining(Chaining):
        def ended(self, row: Row, *rest: Any, **how: Any) -> None:
            if row.state is not JobState.CANCELLED:
                super().ended(row, *rest, **how)


@killed_by(
    "chains.what_a_job_goes_on_with_after_a_cancel_is_cancelled",
)
class AJobAskedToStopGoesOnAsIfNothingWere(MemoryStore):
    class chaining(Chaining):
        def ended(self, row: Row, *rest: Any, **how: Any) -> None:
            super().ended(row, *rest, **{**how, "is_cancelled": False})


@killed_by(
    "chains.a_continuation_with_an_unknown_blocker_is_refused_alone",
    "chains.a_chain_that_starts_with_an_unknown_blocker_is_refused",
    "chains.a_transaction_that_is_refused_writes_nothing",
    "blockers.an_unknown_chain_is_refused_before_anything_is_stored[chain]",
)
class AnUnknownBlockerOfANextJobIsTaken(MemoryStore):
    class chaining(Chaining):
        def _is_there(self, chain_id: int, tenant: str) -> bool:
            return True


@killed_by(
    "blockers.a_chain_of_another_tenant_is_unknown",
)
class BlockersOfOtherTenantsAreTaken(MemoryStore):
    class chaining(Chaining):
        def _is_there(self, chain_id: int, tenant: str) -> bool:
            return self.book.chain(chain_id) is not None


@killed_by(
    "blockers.a_continuation_cannot_wait_for_its_own_chain",
    "blockers.a_cycle_over_others_is_refused",
)
class CyclesAreNotLookedFor(MemoryStore):
    class chaining(Chaining):
        def _is_reached(self, target: int, chains: Iterable[int]) -> bool:
            return False


@killed_by(
    "blockers.a_cycle_over_others_is_refused",
    "blockers.a_cycle_that_a_retry_would_make_is_refused",
    "chain_operators.by_hand_it_cannot_wait_for_itself_or_for_nothing",
)
class CyclesAreLookedForOneStepDeep(MemoryStore):
    class chaining(Chaining):
        def _is_reached(self, target: int, chains: Iterable[int]) -> bool:
            return target in chains


@killed_by(
    "blockers.a_cycle_over_others_is_refused",
)
class ACycleThroughAChildIsNotSeen(MemoryStore):
    class chaining(Chaining):
        def _waited_for(self, new: NewJob, starts: Sequence[NewChain]) -> set[int]:
            return {blocker for blocker in new.blockers if blocker > 0}


@killed_by(
    "blockers.a_cycle_through_a_key_that_two_chains_share_is_refused",
)
class AChildIsNeverTheOneBeforeIt(MemoryStore):
    class chaining(Chaining):
        def _waited_for_by(self, starts: Sequence[NewChain], place: int) -> Sequence[int]:
            return super()._waited_for_by([starts[place]], 0)


@killed_by(
    "blockers.a_cycle_over_one_batch_is_refused",
)
class ABatchIsLookedAtBeforeItIsWritten(MemoryStore):
    async def settle(self, settlements: Sequence[tuple[Lease, Outcome]]) -> list[Settled]:
        scratch = type(self)(self._clock)
        answers = []
        for lease, outcome in settlements:
            scratch._use(self._book.copy())
            answers.append(scratch._settle(lease, outcome, self._clock.now()))
        for (lease, outcome), answer in zip(settlements, answers, strict=True):
            row = self._owned(lease)
            if answer.reason is None and row is not None:
                self._end(row, outcome, self._clock.now())
        return answers


@killed_by(
    "blockers.no_chain_has_the_id_zero",
)
class TheIdZeroStandsForNoChain(MemoryStore):
    class chaining(Chaining):
        def _is_there(self, chain_id: int, tenant: str) -> bool:
            return chain_id == 0 or super()._is_there(chain_id, tenant)


# ── waiting ──


@killed_by(
    "blockers.it_waits_for_the_end_and_not_for_a_step",
)
class AStepReleasesJobsThatWait(MemoryStore):
    class chaining(Chaining):
        def _go_on(self, row: Row, new: NewJob, *, is_cancelled: bool) -> None:
            super()._go_on(row, new, is_cancelled=is_cancelled)
            assert row.chain is not None
            done = ChainRow(
                id=row.chain, state=ChainState.COMPLETED, task="", payload="{}", created_at=0
            )
            for waiting, named in self._blocked_by(row.chain):
                self._hear(waiting, named, done)


@killed_by(
    "blockers.the_last_of_several_releases_it[012]",
    "blockers.the_last_of_several_releases_it[210]",
    "blockers.the_last_of_several_releases_it[120]",
    "blockers.the_jobs_that_wait_for_a_chain_are_listed",
)
class TheFirstOfSeveralReleases(MemoryStore):
    class chaining(Chaining):
        def _hear(self, row: Row, named: Sequence[Blocker], chain: ChainRow | None) -> None:
            row.blockers_open = 1
            super()._hear(row, named, chain)


@killed_by(
    "blockers.several_that_end_in_one_batch_release_it_once",
    "blockers.outputs_that_are_too_long_are_asked_for",
)
class ReleaseLooksAtAStaleSnapshot(MemoryStore):
    """Ends that are settled together do not see each other."""

    async def settle(self, settlements: Sequence[tuple[Lease, Outcome]]) -> list[Settled]:
        before = {row.id: row.blockers_open for row in self._rows.values() if row.blockers_open}
        answers = await super().settle(settlements)
        for job_id, count in before.items():
            row = self._rows.get(job_id)
            if row is not None and (row.blockers_open or 0) < count - 1:
                row.blockers_open, row.state = count - 1, JobState.BLOCKED
        return answers


@killed_by(
    "blockers.a_chain_named_twice_counts_once",
)
class AnEndIsCountedForEachPlace(MemoryStore):
    class chaining(Chaining):
        def _hear(self, row: Row, named: Sequence[Blocker], chain: ChainRow | None) -> None:
            super()._hear(row, named, chain)
            if row.state is JobState.BLOCKED and len(named) > 1:
                row.blockers_open = (row.blockers_open or 0) - len(named) + 1


@killed_by(
    "blockers.a_chain_that_has_completed_is_met_at_once",
    "blockers.a_chain_named_twice_counts_once",
    "blockers.a_continuation_waits_for_chains_that_were_there",
)
class AChainNamedTwiceCountsTwice(MemoryStore):
    class chaining(Chaining):
        def block(self, row: Row, blockers: Sequence[int], *, is_cancelled: bool = False) -> None:
            super().block(row, blockers, is_cancelled=is_cancelled)
            if row.blockers_open:
                row.blockers_open = row.blockers_total = len(blockers)


@killed_by(
    "blockers.a_chain_that_has_completed_is_met_at_once",
    "blockers.a_chain_that_has_failed_can_be_named[run]",
)
class ACompletedChainIsWaitedFor(MemoryStore):
    class chaining(Chaining):
        def block(self, row: Row, blockers: Sequence[int], *, is_cancelled: bool = False) -> None:
            super().block(row, blockers, is_cancelled=is_cancelled)
            if blockers and row.state is not JobState.FAILED:
                row.state = JobState.BLOCKED


@killed_by(
    "blockers.a_released_job_is_due_when_it_is_released",
    "blockers.rescheduled_it_stays_blocked",
)
class AReleaseJumpsTheOrder(MemoryStore):
    class chaining(Chaining):
        def _hear(self, row: Row, named: Sequence[Blocker], chain: ChainRow | None) -> None:
            run_at = row.run_at
            super()._hear(row, named, chain)
            row.run_at = run_at


@killed_by(
    "blockers.a_later_run_at_survives_the_release",
)
class AReleaseForgetsALaterRunAt(MemoryStore):
    class chaining(Chaining):
        def _hear(self, row: Row, named: Sequence[Blocker], chain: ChainRow | None) -> None:
            super()._hear(row, named, chain)
            if row.state is JobState.SCHEDULED:
                row.state, row.run_at = JobState.READY, self.now


@killed_by(
    "blockers.a_run_at_that_passes_meanwhile_releases_nothing",
)
class APromotionReleases(MemoryStore):
    async def promote(self, limit: int) -> int:
        now = self._start()
        for row in self._rows.values():
            if row.state is JobState.BLOCKED and row.run_at <= now:
                row.state = JobState.READY
        return await super().promote(limit)


@killed_by(
    "blockers.a_chain_named_twice_counts_once",
    "blockers.outputs_come_in_the_order_given",
)
class BlockersAreSeenInTheOrderOfTheirIds(MemoryStore):
    def _named_by(self, row: Row) -> list[ChainRow]:
        return sorted(super()._named_by(row), key=lambda chain: chain.id)


@killed_by(
    "blockers.a_job_without_blockers_has_none",
    "blockers.outputs_that_are_too_long_are_asked_for",
)
class ALeaseCarriesEveryOutput(MemoryStore):
    def _deliver(self, row: Row, request: Any) -> Lease:
        lease = super()._deliver(row, request)
        return replace(lease, blockers=lease.blockers or "[]")


@killed_by(
    "blockers.a_second_delivery_sees_them_again",
    "blockers.a_job_that_ran_is_retried_without_waiting",
)
class ARetriedDeliveryForgetsItsBlockers(MemoryStore):
    def _deliver(self, row: Row, request: Any) -> Lease:
        lease = super()._deliver(row, request)
        if row.deliveries > 1:
            lease.blockers = None
            self._book.named.pop(row.id, None)
        return lease


@killed_by(
    "blockers.a_chain_that_an_open_job_names_is_not_forgotten",
)
class ABlockerIsForgottenWhileItIsNamed(MemoryStore):
    def _old_chains(self, now: int, completed: int, failed: int) -> list[ChainRow]:
        named, self._book.named = self._book.named, {}
        found = super()._old_chains(now, completed, failed)
        self._book.named = named
        return found


@killed_by(
    "blockers.its_key_replaces_its_blockers_too",
)
class AKeyAddsToItsBlockers(MemoryStore):
    def _replace(self, row: Row, new: NewJob, now: int) -> None:
        before = tuple(it.chain for it in self._book.blockers(row.id))
        super()._replace(row, new, now)
        new.blockers = (*before, *new.blockers)


@killed_by(
    "blockers.a_retry_puts_back_nothing_that_failed_by_itself",
    "blockers.a_blocked_job_is_ended_by_operators",
    "blockers.it_is_ended_with_the_chain_it_waits_for[complete]",
)
class ABlockedJobCannotBeTouched(MemoryStore):
    def _may_touch(self, verb: str, row: Row) -> bool:
        return row.state is not JobState.BLOCKED and super()._may_touch(verb, row)


@killed_by(
    "blockers.rescheduled_it_stays_blocked",
)
class ARescheduleReleases(MemoryStore):
    async def reschedule(self, ids: Sequence[int], *rest: Any, **values: Any) -> list[Job]:
        jobs = await super().reschedule(ids, *rest, **values)
        for job in jobs:
            if job.state is JobState.BLOCKED:
                self._rows[job.id].state = JobState.READY
        return jobs


# ── a chain that ends badly ──


@killed_by(
    "blockers.a_cycle_that_a_retry_would_make_is_refused",
    "blockers.a_job_fails_with_the_chain_it_waits_for[failed]",
    "blockers.a_chain_that_has_failed_can_be_named[fail]",
    "blockers.a_chain_that_starts_behind_a_failed_one_fails",
)
class ABadEndReleases(MemoryStore):
    class chaining(Chaining):
        def _standing(
            self, row: Row, chain: ChainRow | None, reopened: Collection[int] = ()
        ) -> BlockerState:
            found = super()._standing(row, chain, reopened)
            return BlockerState.MET if found is BlockerState.FAILED else found


@killed_by(
    "blockers.a_job_fails_with_the_chain_it_waits_for[cancelled]",
    "blockers.a_job_may_go_on_waiting[cancelled]",
)
class OnlyAFailureIsABadEnd(MemoryStore):
    class chaining(Chaining):
        def _standing(
            self, row: Row, chain: ChainRow | None, reopened: Collection[int] = ()
        ) -> BlockerState:
            if chain is not None and chain.state is ChainState.CANCELLED:
                return BlockerState.MET
            return super()._standing(row, chain, reopened)


@killed_by(
    "blockers.a_job_may_run_all_the_same[failed]",
    "blockers.a_job_may_run_all_the_same[cancelled]",
    "blockers.a_chain_that_has_failed_can_be_named[wait]",
)
class TheChoiceOnFailureIsNotStored(MemoryStore):
    def _put(self, new: NewJob, now: int, job_id: int | None = None) -> Row:
        return super()._put(replace(new, on_blocker_failure=None), now, job_id)


@killed_by(
    "blockers.a_cycle_that_a_retry_would_make_is_refused",
    "blockers.a_failure_goes_along_the_line",
)
class AFailureStopsAfterOne(MemoryStore):
    class chaining(Chaining):
        def _close(self, row: Row, token: int | None = None) -> None:
            chain = self._end_chain(row, token)
            if chain is not None:
                for waiting, named in self._blocked_by(chain.id):
                    self._hear(waiting, named, chain)


@killed_by(
    "blockers.a_job_that_waits_is_released_by_completion_by_hand",
    "chain_operators.a_chain_is_completed_by_hand[failed]",
    "chain_operators.a_chain_is_completed_by_hand[cancelled]",
)
class AFailedChainIsNeverMetByHand(MemoryStore):
    class chaining(Chaining):
        def complete(self, chain: ChainRow, completion: Complete, inherits: Sequence[str]) -> None:
            was_open = chain.state is ChainState.OPEN
            told = self._blocked_by
            if not was_open:
                self._blocked_by = lambda chain_id: iter(())  # type: ignore[method-assign]
            super().complete(chain, completion, inherits)
            self._blocked_by = told  # type: ignore[method-assign]


# ── brought back ──


@killed_by(
    "blockers.a_retry_puts_back_what_failed_because_of_it[chain]",
    "blockers.a_retry_puts_back_what_failed_because_of_it[job]",
    "blockers.a_job_that_failed_runs_when_its_chain_was_completed_by_hand",
)
class ARetryDoesNotPutDependentsBack(MemoryStore):
    class chaining(Chaining):
        def _put_back(self, row: Row) -> ChainRow | None:
            return None


@killed_by(
    "blockers.a_retry_puts_back_what_failed_because_of_it[chain]",
    "blockers.a_retry_puts_back_what_failed_because_of_it[job]",
    "blockers.a_retry_puts_back_what_failed_because_of_it[reschedule]",
)
class ARetryPutsBackDirectDependentsOnly(MemoryStore):
    class chaining(Chaining):
        def _put_back(self, row: Row) -> ChainRow | None:
            return super()._put_back(row) if row.chain is None else None


@killed_by(
    "blockers.a_job_may_go_on_waiting[failed]",
    "blockers.a_job_may_go_on_waiting[cancelled]",
)
class ARetryPutsBackAllThatNamedTheChain(MemoryStore):
    class chaining(Chaining):
        def _open(self, chain: ChainRow) -> ChainRow:
            for it in self.book.naming(chain.id):
                it.state = BlockerState.FAILED
            return super()._open(chain)


@killed_by(
    "chains.rescheduled_with_attempts_a_failed_chain_is_open_again",
    "chains.a_job_whose_chain_is_forgotten_can_be_retried",
    "chain_operators.a_retried_chain_is_open_again[failed]",
    "chain_operators.a_retried_chain_is_open_again[cancelled]",
)
class ARetryLeavesTheChainFailed(MemoryStore):
    class chaining(Chaining):
        def brought_back(self, rows: Sequence[Row]) -> None:
            super().brought_back([replace(row, chain=None) for row in rows])


@killed_by(
    "blockers.a_cancelled_job_waits_again_when_it_is_retried",
)
class ARetriedJobWaitsForNothing(MemoryStore):
    class chaining(Chaining):
        def brought_back(self, rows: Sequence[Row]) -> None:
            super().brought_back([row for row in rows if row.chain is not None])


@killed_by(
    "blockers.two_failed_chains_must_both_be_retried",
)
class OneOfTwoFailedChainsIsEnough(MemoryStore):
    class chaining(Chaining):
        def _weigh(self, row: Row, named: Sequence[Blocker]) -> ChainRow | None:
            failed = super()._weigh(row, named)
            return None if any(it.state is BlockerState.OPEN for it in named) else failed


@killed_by(
    "blockers.a_retry_behind_a_failed_chain_is_refused[job]",
    "blockers.a_retry_behind_a_failed_chain_is_refused[chain]",
    "blockers.a_retry_behind_a_failed_chain_is_refused[reschedule]",
)
class AHopelessRetryIsTaken(MemoryStore):
    class chaining(Chaining):
        def check_retry(self, rows: Iterable[Row], reopened: Collection[int] = ()) -> None:
            pass


@killed_by(
    "blockers.both_may_be_retried_at_once",
)
class ARetryIsCheckedOneByOne(MemoryStore):
    class chaining(Chaining):
        def check_retry(self, rows: Iterable[Row], reopened: Collection[int] = ()) -> None:
            super().check_retry(rows)


@killed_by(
    "blockers.a_chain_that_stays_failed_names_the_other_one",
)
class AChainThatStaysFailedKeepsItsError(MemoryStore):
    class chaining(Chaining):
        def _put_back(self, row: Row) -> ChainRow | None:
            chain = None if row.chain is None else self.book.chain(row.chain)
            error = None if chain is None else chain.error
            opened = super()._put_back(row)
            if chain is not None and opened is None:
                chain.error = error
            return opened


@killed_by(
    "blockers.a_chain_whose_job_is_gone_is_not_retried_with_others",
)
class WhateverIsToBeRetriedCountsAsOpen(MemoryStore):
    class chaining(Chaining):
        def retry(self, chains: Sequence[ChainRow]) -> list[ChainRow]:
            self.asked = {chain.id for chain in chains}
            return super().retry(chains)

        def check_retry(self, rows: Iterable[Row], reopened: Collection[int] = ()) -> None:
            super().check_retry(rows, {*reopened, *getattr(self, "asked", ())})


@killed_by(
    "blockers.it_is_ended_with_the_chain_it_waits_for[cancel]",
    "blockers.it_is_ended_with_the_chain_it_waits_for[fail]",
)
class OperatorsEndJobsOneByOne(MemoryStore):
    def _change(self, verb: str, ids: Sequence[int], *rest: Any) -> list[Job]:
        change = super()._change
        return [job for each in ids for job in change(verb, [each], *rest)]


@killed_by(
    "blockers.a_job_that_waits_again_holds_no_queue[job]",
    "blockers.a_job_that_waits_again_holds_no_queue[chain]",
)
class ABlockedJobHoldsItsQueue(MemoryStore):
    class chaining(Chaining):
        def _stand(self, row: Row, named: Sequence[Blocker]) -> None:
            holds = row.holds
            super()._stand(row, named)
            row.holds = holds


# ── keys ──


@killed_by(
    "chain_keys.two_failed_chains_of_one_key_are_not_opened_together[chain]",
    "chain_keys.two_failed_chains_of_one_key_are_not_opened_together[job]",
    "chain_keys.two_failed_chains_of_one_key_are_not_opened_together[reschedule]",
)
class KeysAreCheckedOneByOne(MemoryStore):
    class chaining(Chaining):
        def check_retry(self, rows: Iterable[Row], reopened: Collection[int] = ()) -> None:
            for row in rows:
                super().check_retry([row], reopened)


@killed_by(
    "chain_keys.of_two_that_could_be_put_back_one_is",
    "chain_keys.a_chain_that_is_retried_has_its_key_before_others",
)
class ChainsOpenedTogetherAreNoRivals(MemoryStore):
    class chaining(Chaining):
        def _open(self, chain: ChainRow) -> ChainRow:
            self.opened = {chain.id, *getattr(self, "opened", ())}
            return super()._open(chain)

        def _rival(self, chain: ChainRow) -> ChainRow | None:
            rival = super()._rival(chain)
            return None if rival is None or rival.id in self.opened else rival


@killed_by(
    "chain_keys.also_when_it_has_gone_on",
    "chain_keys.a_window_counts_chains_that_have_ended",
    "chain_keys.a_chain_that_goes_on_keeps_its_key_from_its_children",
    "chain_operators.a_chain_goes_on_by_hand[ready]",
    "chain_operators.a_chain_goes_on_by_hand[running]",
)
class AKeyLooksAtTheFirstJobOnly(MemoryStore):
    class chaining(Chaining):
        def _same_key(self, new: NewChain, ended: int | None = None) -> ChainRow | None:
            there = super()._same_key(new, ended)
            is_at_first = there is not None and self.book.job(there.id) is not None
            return there if is_at_first else None


@killed_by(
    "chain_keys.an_ended_chain_leaves_its_key[completed]",
    "chain_keys.an_ended_chain_leaves_its_key[failed]",
    "chain_keys.an_ended_chain_leaves_its_key[cancelled]",
)
class AKeyIsNeverFreeAgain(MemoryStore):
    class chaining(Chaining):
        def _same_key(self, new: NewChain, ended: int | None = None) -> ChainRow | None:
            return super()._same_key(replace(new, key_window=10**15), ended)


@killed_by(
    "chain_keys.a_window_counts_chains_that_have_ended",
)
class AWindowDoesNotCount(MemoryStore):
    class chaining(Chaining):
        def _same_key(self, new: NewChain, ended: int | None = None) -> ChainRow | None:
            return super()._same_key(replace(new, key_window=0), ended)


@killed_by(
    "chain_keys.after_the_window_the_key_is_free",
)
class AWindowIsAMicrosecondLonger(MemoryStore):
    class chaining(Chaining):
        def _same_key(self, new: NewChain, ended: int | None = None) -> ChainRow | None:
            more = new.key_window + 1 if new.key_window else 0
            return super()._same_key(replace(new, key_window=more), ended)


@killed_by(
    "chain_keys.the_job_itself_has_no_key",
)
class KeysOfChainsAndJobsAreOne(MemoryStore):
    class chaining(Chaining):
        def start(self, new: NewChain, *, job_id: int = 0, ended: int | None = None) -> Started:
            job = replace(new.job, key=new.key)
            return super().start(replace(new, job=job), job_id=job_id, ended=ended)


@killed_by(
    "chain_keys.keys_of_two_tenants_never_meet",
)
class KeysOfAllTenantsAreOne(MemoryStore):
    class chaining(Chaining):
        def _same_key(self, new: NewChain, ended: int | None = None) -> ChainRow | None:
            for tenant in ("", "acme", "other"):
                found = super()._same_key(replace(new, job=replace(new.job, tenant=tenant)), ended)
                if found is not None:
                    return found
            return None


@killed_by(
    "chain_keys.a_chain_starts_its_successor_with_its_own_key",
)
class ASuccessorMeetsTheChainThatEnds(MemoryStore):
    class chaining(Chaining):
        def start(self, new: NewChain, *, job_id: int = 0, ended: int | None = None) -> Started:
            return super().start(new, job_id=job_id)


@killed_by(
    "chain_keys.a_second_start_gets_the_open_chain",
)
class ADuplicateIsNotSaid(MemoryStore):
    def _seen(self, chain: ChainRow, is_duplicate: bool = False) -> Chain[Any]:
        return super()._seen(chain)


@killed_by(
    "chain_keys.a_failed_chain_cannot_be_open_beside_a_newer_one",
    "chain_keys.what_cannot_be_put_back_stays_failed_and_says_so",
)
class ARetryTakesTheKeyOfANewerChain(MemoryStore):
    class chaining(Chaining):
        def _rival(self, chain: ChainRow) -> ChainRow | None:
            return None


# ── operators ──


@killed_by(
    "blockers.a_job_that_waits_is_released_by_completion_by_hand",
    "chain_keys.a_failed_chain_cannot_be_open_beside_a_newer_one",
    "chain_keys.a_failed_chain_whose_key_is_taken_is_completed_by_hand",
    "chain_operators.a_chain_is_completed_by_hand[blocked]",
    "chain_operators.a_chain_whose_job_is_gone_is_completed_by_hand",
)
class OnlyARunningJobIsCompletedByHand(MemoryStore):
    class chaining(Chaining):
        def complete(self, chain: ChainRow, completion: Complete, inherits: Sequence[str]) -> None:
            row = self.book.current(chain.id)
            if row is not None and row.state in (JobState.RUNNING, JobState.READY):
                super().complete(chain, completion, inherits)


@killed_by(
    "chain_keys.a_failed_chain_cannot_be_open_beside_a_newer_one",
    "chain_operators.a_chain_goes_on_by_hand[failed]",
    "chain_operators.a_chain_goes_on_by_hand[cancelled]",
    "chain_operators.a_completed_chain_is_closed",
)
class ACompletedChainIsCompletedAgain(MemoryStore):
    class chaining(Chaining):
        def complete(self, chain: ChainRow, completion: Complete, inherits: Sequence[str]) -> None:
            chain.state = ChainState.OPEN
            super().complete(chain, completion, inherits)


@killed_by(
    "chains.a_job_is_told_that_its_chain_was_completed_by_hand",
    "chain_operators.a_running_job_is_told_and_its_answer_is_lost",
)
class ALostJobIsNotFoundThoughItsChainIsThere(MemoryStore):
    def _knows_chain(self, lease: Lease) -> bool:
        return False


@killed_by(
    "chain_operators.the_next_job_inherits_what_it_is_told_to",
)
class NothingIsInherited(MemoryStore):
    class chaining(Chaining):
        def complete(self, chain: ChainRow, completion: Complete, inherits: Sequence[str]) -> None:
            super().complete(chain, completion, ())


@killed_by(
    "chain_operators.an_ended_chain_cannot_be_cancelled[completed]",
    "chain_operators.an_ended_chain_cannot_be_cancelled[failed]",
    "chain_operators.an_ended_chain_cannot_be_cancelled[cancelled]",
    "chain_operators.chains_that_wait_for_one_another_are_cancelled_together",
)
class CancellingIsOneByOne(MemoryStore):
    class chaining(Chaining):
        def cancel(self, chains: Sequence[ChainRow]) -> None:
            for chain in chains:
                super().cancel([chain])


@killed_by(
    "chain_operators.unknown_chains_change_nothing",
    "chain_operators.another_tenants_chain_is_unknown",
)
class UnknownChainsArePassedOver(MemoryStore):
    class chaining(Chaining):
        def find(self, ids: Sequence[int], tenant: str | None) -> list[ChainRow]:
            return super().find([it for it in ids if self._seen(it, tenant)], tenant)


@killed_by(
    "chain_operators.another_tenants_chain_is_unknown",
)
class ChainsOfAllTenantsAreSeen(MemoryStore):
    class chaining(Chaining):
        def _seen(self, chain_id: int, tenant: str | None) -> ChainRow | None:
            return self.book.chain(chain_id)


@killed_by(
    "chains.chains_of_another_tenant_are_not_there",
)
class ListsShowChainsOfAllTenants(MemoryStore):
    async def find_chains(self, wanted: ChainFilter) -> list[Chain[Any]]:
        return await super().find_chains(replace(wanted, tenant=None))


@killed_by(
    "chains.lists_are_newest_first",
    "chains.lists_are_of_a_state_or_a_task",
)
class ListsAreOldestFirst(MemoryStore):
    async def find_chains(self, wanted: ChainFilter) -> list[Chain[Any]]:
        return (await super().find_chains(wanted))[::-1]


@killed_by(
    "chains.lists_are_of_a_state_or_a_task",
)
class AnyStateIsListed(MemoryStore):
    async def find_chains(self, wanted: ChainFilter) -> list[Chain[Any]]:
        return await super().find_chains(replace(wanted, states=None))


@killed_by(
    "chain_operators.a_chain_that_an_open_job_names_is_not_deleted[open]",
    "chain_operators.a_chain_that_an_open_job_names_is_not_deleted[completed]",
)
class AChainThatIsNamedIsDeleted(MemoryStore):
    class chaining(Chaining):
        def _refuse_references(self, doomed: Any) -> None:
            pass


@killed_by(
    "chain_operators.a_cascade_deletes_blockers_of_all_jobs_that_are_stored",
    "chain_operators.a_cascade_spares_what_is_needed_outside",
)
class ACascadeStopsAfterOne(MemoryStore):
    class chaining(Chaining):
        def delete(
            self, ids: Sequence[int], tenant: str | None, *, cascade: bool
        ) -> list[ChainRow]:
            more = [
                it.chain
                for chain_id in (ids if cascade else ())
                for row in self.book.chain_jobs(chain_id)
                for it in self.book.blockers(row.id)
            ]
            return super().delete([*ids, *more], tenant, cascade=False)


@killed_by(
    "chain_operators.a_cascade_deletes_blockers_of_all_jobs_that_are_stored",
    "chain_operators.a_cascade_spares_what_is_needed_outside",
)
class ACascadeLooksAtTheFirstJobOnly(MemoryStore):
    class chaining(Chaining):
        def delete(
            self, ids: Sequence[int], tenant: str | None, *, cascade: bool
        ) -> list[ChainRow]:
            rows = [self.book.job(chain_id) for chain_id in ids]
            cascade = cascade and any(row is not None and row.blockers_total for row in rows)
            return super().delete(ids, tenant, cascade=cascade)


@killed_by(
    "chain_operators.a_chain_that_waits_is_deleted",
    "chain_operators.without_a_cascade_blockers_stay",
)
class EveryDeleteIsACascade(MemoryStore):
    class chaining(Chaining):
        def delete(
            self, ids: Sequence[int], tenant: str | None, *, cascade: bool
        ) -> list[ChainRow]:
            return super().delete(ids, tenant, cascade=True)


@killed_by(
    "chain_operators.a_deleted_chain_is_gone_with_its_jobs",
    "chain_operators.a_running_job_of_a_deleted_chain_is_told",
    "chain_operators.both_ends_are_deleted_in_one_call",
)
class ADeletedChainLeavesItsJobs(MemoryStore):
    class chaining(Chaining):
        def delete(
            self, ids: Sequence[int], tenant: str | None, *, cascade: bool
        ) -> list[ChainRow]:
            doomed = [chain for it in ids if (chain := self._seen(it, tenant)) is not None]
            self._refuse_references({chain.id: chain for chain in doomed})
            for chain in doomed:
                self.book.delete_chain(chain)
            return doomed


@killed_by(
    "chain_operators.a_chain_that_ended_badly_is_deleted_and_releases[failed]",
    "chain_operators.a_chain_that_ended_badly_is_deleted_and_releases[cancelled]",
)
class ADeletedChainReleasesNothing(MemoryStore):
    class chaining(Chaining):
        def _hear(self, row: Row, named: Sequence[Blocker], chain: ChainRow | None) -> None:
            if chain is not None:
                super()._hear(row, named, chain)


@killed_by(
    "chains.ended_chains_are_forgotten_in_time",
    "chains.a_job_whose_chain_is_forgotten_can_be_retried",
)
class EndedChainsAreNeverForgotten(MemoryStore):
    def _old_chains(self, now: int, completed: int, failed: int) -> list[ChainRow]:
        return []


@killed_by(
    "chains.ended_chains_are_forgotten_in_time",
)
class FailedChainsAreForgottenLikeCompletedOnes(MemoryStore):
    async def prune(
        self,
        limit: int,
        keep_chains: float = KEEP_CHAINS,
        keep_failed_chains: float = KEEP_FAILED_CHAINS,
    ) -> int:
        return await super().prune(limit, keep_chains, keep_chains)


@killed_by(
    "chain_keys.a_window_makes_a_chain_stay",
)
class AWindowDoesNotMakeAChainStay(MemoryStore):
    def _old_chains(self, now: int, completed: int, failed: int) -> list[ChainRow]:
        for chain in self._book.chains.values():
            chain.key_window = 0
        return super()._old_chains(now, completed, failed)


@killed_by(
    "chains.ended_chains_are_forgotten_in_time",
    "chains.an_open_chain_is_never_forgotten",
)
class OpenChainsAreForgotten(MemoryStore):
    def _old_chains(self, now: int, completed: int, failed: int) -> list[ChainRow]:
        return [it for it in self._book.chains.values() if it.created_at + completed <= now]


# ── what is stored ──


@killed_by(
    "chains.a_chain_starts_with_a_job_of_its_id",
    "chains.an_output_may_be_null",
    "chains.a_job_whose_worker_died_goes_on_elsewhere",
    "chains.a_job_that_completes_after_a_cancel_completes_its_chain",
    "blockers.chains_that_end_before_the_next_job_is_there_count",
    "chain_operators.a_running_chain_is_asked_to_stop",
)
class AStartIsAPlainJob(MemoryStore):
    class chaining(Chaining):
        def start(self, new: NewChain, *, job_id: int = 0, ended: int | None = None) -> Started:
            started = super().start(new, job_id=job_id, ended=ended)
            row = self.book.job(started.chain.id)
            if row is not None:
                row.chain = None
            return started


@killed_by(
    "chains.a_plain_job_is_no_chain",
    "chains.a_job_that_only_starts_chains_is_none_itself",
    "blockers.an_unknown_chain_is_refused_before_anything_is_stored[job]",
)
class EveryJobIsAChain(MemoryStore):
    def _put(self, new: NewJob, now: int, job_id: int | None = None) -> Row:
        row = super()._put(new, now, job_id)
        chain = ChainRow(id=row.id, task=row.task, payload=row.payload, created_at=now)
        self._book.write_chain(chain)
        return row


@killed_by(
    "chains.many_start_in_the_order_given",
    "chains.a_continuation_with_an_unknown_blocker_is_refused_alone",
    "chain_keys.of_several_in_one_call_the_first_wins",
)
class TheLastChainStartsFirst(MemoryStore):
    async def start_chains(self, chains: Sequence[NewChain]) -> list[Chain[Any]]:
        return (await super().start_chains(chains[::-1]))[::-1]


@killed_by(
    "chains.the_first_job_has_all_its_options",
    "chain_operators.a_queue_goes_on_after_completion_by_hand",
)
class AFirstJobForgetsItsOptions(MemoryStore):
    class chaining(Chaining):
        def start(self, new: NewChain, *, job_id: int = 0, ended: int | None = None) -> Started:
            job = replace(new.job, delay=0, priority=0, queue=None, flags=None)
            return super().start(replace(new, job=job), job_id=job_id, ended=ended)


@killed_by(
    "chains.the_next_job_has_options_of_its_own",
    "chain_operators.the_next_job_inherits_what_it_is_told_to",
)
class ANextJobIsLikeTheOneBefore(MemoryStore):
    class chaining(Chaining):
        def _go_on(self, row: Row, new: NewJob, *, is_cancelled: bool) -> None:
            like = replace(new, priority=row.priority, queue=row.queue, meta=row.meta)
            super()._go_on(row, like, is_cancelled=is_cancelled)


@killed_by(
    "chains.jobs_that_go_on_stay_in_their_tenant",
    "chain_operators.the_next_job_inherits_what_it_is_told_to",
)
class ANextJobIsTheDefaultTenants(MemoryStore):
    class chaining(Chaining):
        def _go_on(self, row: Row, new: NewJob, *, is_cancelled: bool) -> None:
            super()._go_on(row, replace(new, tenant=""), is_cancelled=is_cancelled)


@killed_by(
    "chains.the_last_job_is_the_chains_where_it_is_kept",
)
class AKeptLastJobIsNotShown(MemoryStore):
    def _seen(self, chain: ChainRow, is_duplicate: bool = False) -> Chain[Any]:
        seen = super()._seen(chain, is_duplicate)
        is_over = chain.state is ChainState.COMPLETED
        return replace(seen, job=None) if is_over else seen


@killed_by(
    "chains.chains_start_with_a_completion",
    "chains.chains_start_with_the_end_of_another",
)
class ChainsStartOnlyWhereTheJobGoesOn(MemoryStore):
    class chaining(Chaining):
        def ended(self, row: Row, completion: Complete = COMPLETE, **how: Any) -> None:
            if completion.next is None:
                completion = replace(completion, starts=())
            super().ended(row, completion, **how)


@killed_by(
    "chains.a_transaction_that_is_undone_goes_on_with_nothing",
)
class ACompletionIsNotUndone(MemoryStore):
    def transaction(self, lease: Lease) -> Any:
        return _Hasty(self, lease)


@killed_by("chains.a_chain_starts_inside_a_transaction")
class AChainThatStartsInsideIsNotUndone(MemoryStore):
    def transaction(self, lease: Lease) -> Any:
        return _Starting(self, lease)


class _Starting(MemoryTransaction):
    def start_chains(self, chains: Sequence[NewChain]) -> list[Chain[Any]]:
        now = self.store._start()
        return [self.store._seen(*it) for it in self.store._start_all(chains, now)]


class _Hasty(MemoryTransaction):
    def complete(self, outcome: Outcome) -> None:
        super().complete(outcome)
        self.store._commit(self._lease, self._steps)
        self._steps = []


@killed_by(
    "blockers.priorities_and_queues_apply_after_the_release",
    "blockers.a_strict_job_that_fails_with_its_chain_holds_its_queue",
)
class AReleasedJobPassesItsQueue(MemoryStore):
    class chaining(Chaining):
        def _hear(self, row: Row, named: Sequence[Blocker], chain: ChainRow | None) -> None:
            super()._hear(row, named, chain)
            row.queue = None


@killed_by(
    "blockers.a_paused_task_stays_paused_after_the_release",
)
class AReleasedJobIsNeverPaused(MemoryStore):
    def _claimable(self, request: ClaimRequest) -> Iterable[Row]:
        free = [row for row in self._rows.values() if row.blockers_total]
        paused, self._paused = self._paused, set()
        found = [row for row in super()._claimable(request) if row in free]
        self._paused = paused
        return [*found, *(row for row in super()._claimable(request) if row not in found)]


@killed_by(
    "blockers.a_job_waits_for_a_chain",
    "blockers.one_end_releases_many",
    "blockers.a_chain_waits_too",
    "blockers.waiting_survives_the_process",
    "chain_operators.by_hand_it_may_wait_for_other_chains",
)
class AJobAddedInTheSameInstantIsNotTold(MemoryStore):
    class chaining(Chaining):
        def _hear(self, row: Row, named: Sequence[Blocker], chain: ChainRow | None) -> None:
            if row.created_at != self.now:
                super()._hear(row, named, chain)


@killed_by(
    "blockers.one_that_is_asked_for_again_keeps_its_blockers[replace]",
    "blockers.one_that_is_asked_for_again_keeps_its_blockers[unsafe_dedupe]",
)
class AJobThatIsAskedForAgainLosesItsBlockers(MemoryStore):
    def _put(self, new: NewJob, now: int, job_id: int | None = None) -> Row:
        row = super()._put(new, now, job_id)
        if new.key_mode == "unsafe_dedupe" and row.revision:
            self._chaining(now).block(row, ())
            row.state = JobState.READY
        return row


@killed_by(
    "blockers.its_key_gives_a_ready_job_blockers",
)
class AKeyGivesAReadyJobNoBlockers(MemoryStore):
    def _replace(self, row: Row, new: NewJob, now: int) -> None:
        was_ready = row.state is JobState.READY
        super()._replace(row, new, now)
        if was_ready:
            new.blockers = ()


@killed_by(
    "blockers.counts_and_lists_tell_of_blocked_jobs",
)
class BlockedJobsAreNotCounted(MemoryStore):
    async def counts(self, tenant: str | None = None) -> dict[JobState, int]:
        return {**await super().counts(tenant), JobState.BLOCKED: 0}


@killed_by(
    "chains.a_job_is_told_that_its_chain_was_completed_by_hand",
    "chain_operators.a_running_job_is_told_and_its_answer_is_lost",
)
class AJobCompletedByHandGoesOnRunning(MemoryStore):
    class chaining(Chaining):
        def complete(self, chain: ChainRow, completion: Complete, inherits: Sequence[str]) -> None:
            row = self.book.current(chain.id)
            was_running = row is not None and row.state is JobState.RUNNING
            super().complete(chain, completion, inherits)
            if row is not None and was_running:
                self.book.add_job(replace(row, state=JobState.RUNNING, chain=None))


@killed_by(
    "chain_operators.a_job_that_is_kept_is_kept_by_hand",
)
class WhatIsCompletedByHandIsNotKept(MemoryStore):
    class chaining(Chaining):
        def complete(self, chain: ChainRow, completion: Complete, inherits: Sequence[str]) -> None:
            row = self.book.current(chain.id)
            super().complete(chain, completion, inherits)
            if row is not None:
                self.book.delete_job(row)


@killed_by(
    "chains.an_earlier_job_that_is_kept_longer_is_not_its_last",
)
class AnyKeptJobIsTheLastOne(MemoryStore):
    def _seen(self, chain: ChainRow, is_duplicate: bool = False) -> Chain[Any]:
        jobs = self._book.chain_jobs(chain.id)
        return chain.chain(jobs[-1].job() if jobs else None, deduplicated=is_duplicate)


@killed_by(
    "chains.a_delivery_that_asks_again_learns_whether_it_ended_the_chain",
)
class ADeliveryThatAsksAgainLearnsNothing(MemoryStore):
    def _end_by(self, lease: Lease) -> JobState | None:
        return None


@killed_by(
    "chains.a_delivery_that_asks_again_learns_whether_it_ended_the_chain",
)
class EveryEndIsTheDeliverysOwn(MemoryStore):
    def _end_by(self, lease: Lease) -> JobState | None:
        return JobState.COMPLETED if self._knows_chain(lease) else None


@killed_by(
    *(
        f"chains.a_job_that_is_due_soon_is_told_of[{verb}]"
        for verb in ("start", "next", "child", "release", "by hand", "delete")
    ),
)
class WhatChainsScheduleIsNotToldOf(MemoryStore):
    def _hint(self, jobs: Iterable[Job | Row] = ()) -> None:
        self._hints.ready()


# ── deleting single jobs ──


@killed_by("chain_operators.jobs_of_an_open_chain_are_not_deleted_alone")
class JobsOfOpenChainsAreDeleted(MemoryStore):
    def _may_delete(self, row: Row) -> bool:
        return row.state is not JobState.RUNNING


@killed_by(
    *(
        f"chain_operators.jobs_of_a_chain_that_has_ended_are_deleted[{how}]"
        for how in ("completed", "failed", "cancelled")
    )
)
class JobsOfChainsAreNeverDeleted(MemoryStore):
    def _may_delete(self, row: Row) -> bool:
        return super()._may_delete(row) and row.chain is None


@killed_by("chain_operators.a_blocked_job_is_deleted")
class WhatADeletedJobNamedStays(MemoryStore):
    async def delete(self, ids: Sequence[int], tenant: str | None = None) -> list[Job]:
        named = dict(self._book.named)
        deleted = await super().delete(ids, tenant)
        self._book.named.update(named)
        return deleted

    async def blockers(self, job_id: int, tenant: str | None = None) -> list[Chain[Any]]:
        return [it.chain() for it in map(self._book.chain, self._names(job_id)) if it]

    def _names(self, job_id: int) -> list[int]:
        return [it.chain for it in self._book.blockers(job_id)]
