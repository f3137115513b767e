"""Stores that post the ends of jobs wrongly, each in one named way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from tests.contract.mutant import killed_by
from windlass.model.job import DEFAULT_TENANT, Job, JobState
from windlass.store import rules
from windlass.store.chaining import Chaining
from windlass.store.records import (
    COMPLETE,
    Blocker,
    ChainRow,
    ClaimRequest,
    Complete,
    Fail,
    Lease,
    NewJob,
    Outcome,
    Reaped,
    Row,
)
from windlass.store.webhooks import WEBHOOK_TASK, address_of, call_for
from windlass.stores.memory import MemoryStore, _Step
from windlass.testing.contract.webhooks import KINDS, WAYS

# ── all ways to end ──


def _ends(*states: JobState) -> list[str]:
    """The cases of jobs that end in one of these states."""
    ways = [name for name, way in WAYS.items() if way.state in states]
    return [f"webhooks.an_end_is_posted_once[{way}-{kind}]" for way in ways for kind in KINDS]


ALL_ENDS = _ends(*JobState)


@killed_by(
    *ALL_ENDS,
    "webhooks.in_a_transaction[commits]",
    "webhooks.in_a_transaction[rolls back]",
    "webhooks.a_transaction_goes_on_and_starts_others",
    "webhooks.a_blocked_job_is_cancelled",
)
class NoEndIsPosted(MemoryStore):
    class chaining(Chaining):
        def _post(self, row: Row) -> None:
            """Post nothing."""


@killed_by(
    *(f"webhooks.an_end_without_an_address_is_not_posted[{way}]" for way in WAYS),
    *(
        f"webhooks.what_is_no_address_is_not_posted[{meta}]"
        for meta in ("7", "null", '{"webhook":7}', '{"webhook":null}', '["webhook"]')
    ),
)
class EveryEndIsPosted(MemoryStore):
    class chaining(Chaining):
        def _post(self, row: Row) -> None:
            url = address_of(row.meta) or "https://example.org/"
            self.book.add_job(rules.new_row(call_for(row, url, self.now), self.now))


@killed_by(*ALL_ENDS, "webhooks.a_job_that_goes_on", "webhooks.in_a_transaction[commits]")
class EveryEndIsPostedTwice(MemoryStore):
    class chaining(Chaining):
        def _post(self, row: Row) -> None:
            super()._post(row)
            super()._post(row)


def _post_unless(is_silent: Callable[[Row], bool]) -> type[Chaining]:
    class Silent(Chaining):
        def _post(self, row: Row) -> None:
            if not is_silent(row):
                super()._post(row)

    return Silent


@killed_by(*_ends(JobState.FAILED), "webhooks.a_mixed_batch")
class FailedJobsAreNotPosted(MemoryStore):
    chaining = _post_unless(lambda row: row.state is JobState.FAILED)


@killed_by(*_ends(JobState.CANCELLED), "webhooks.a_blocked_job_is_cancelled")
class CancelledJobsAreNotPosted(MemoryStore):
    chaining = _post_unless(lambda row: row.state is JobState.CANCELLED)


@killed_by(*_ends(JobState.COMPLETED), "webhooks.without_an_output_it_is_null")
class CompletedJobsAreNotPosted(MemoryStore):
    chaining = _post_unless(lambda row: row.state is JobState.COMPLETED)


@killed_by(
    "webhooks.the_end_of_a_job_that_is_kept_is_posted_and_kept",
    "webhooks.an_end_is_posted_once[complete-kept]",
)
class KeptJobsAreNotPosted(MemoryStore):
    chaining = _post_unless(lambda row: row.expires_at is not None)


@killed_by(
    *(f"webhooks.the_last_job_of_a_chain[{how}]" for how in ("completed", "failed", "cancelled")),
    *(f"webhooks.what_operators_do_to_chains[{verb}]" for verb in ("complete", "go on", "cancel")),
)
class JobsOfChainsAreNotPosted(MemoryStore):
    chaining = _post_unless(lambda row: row.chain is not None)


# ── what is posted ──


def _tell(change: Callable[[dict[str, Any], Row], None]) -> type[Chaining]:
    """Posts that tell something else."""

    class Other(Chaining):
        def _post(self, row: Row) -> None:
            url = address_of(row.meta)
            if url is None:
                return
            new = call_for(row, url, self.now)
            told = msgspec.json.decode(new.payload)
            change(told, row)
            new.payload = msgspec.json.encode(told).decode()
            self.book.add_job(rules.new_row(new, self.now))

    return Other


def _change_job(name: str, value: Callable[[Any, Row], Any]) -> type[Chaining]:
    def change(told: dict[str, Any], row: Row) -> None:
        told["job"][name] = value(told["job"][name], row)

    return _tell(change)


@killed_by("webhooks.what_is_told_of_a_completed_job", "webhooks.in_a_transaction[commits]")
class TheOutputIsNotTold(MemoryStore):
    chaining = _change_job("output", lambda output, row: None)


@killed_by("webhooks.without_an_output_it_is_null", "webhooks.what_is_told_of_a_failed_job")
class NoOutputIsAnObject(MemoryStore):
    chaining = _change_job("output", lambda output, row: {} if output is None else output)


@killed_by("webhooks.what_is_told_of_a_failed_job")
class TheErrorIsNotTold(MemoryStore):
    chaining = _change_job("error", lambda error, row: None)


@killed_by("webhooks.what_is_told_of_a_failed_job")
class AttemptsAreDeliveriesBefore(MemoryStore):
    chaining = _change_job("attempts", lambda attempts, row: attempts - 1)


@killed_by("webhooks.what_is_told_of_a_completed_job")
class TheEndIsTheBeginning(MemoryStore):
    chaining = _change_job("finished_at", lambda at, row: row.created_at)


@killed_by("webhooks.what_is_told_of_a_completed_job")
class TheAddressIsCut(MemoryStore):
    chaining = _tell(lambda told, row: told.update(url=told["url"].partition("?")[0]))


@killed_by("webhooks.what_is_told_of_a_failed_job")
class TheDefaultTenantIsEmptyText(MemoryStore):
    chaining = _change_job("tenant", lambda tenant, row: tenant or "")


@killed_by("webhooks.the_last_job_of_a_chain[completed]", "webhooks.a_job_that_goes_on")
class ChainsAreNotTold(MemoryStore):
    chaining = _change_job("chain", lambda chain, row: None)


def _add_as(change: Callable[[NewJob, Row], None]) -> type[Chaining]:
    """Posts that are other jobs."""

    class Other(Chaining):
        def _post(self, row: Row) -> None:
            url = address_of(row.meta)
            if url is not None:
                new = call_for(row, url, self.now)
                change(new, row)
                self.book.add_job(rules.new_row(new, self.now))

    return Other


@killed_by("webhooks.what_is_told_of_a_completed_job")
class PostsAreTheDefaultTenants(MemoryStore):
    chaining = _add_as(lambda new, row: setattr(new, "tenant", DEFAULT_TENANT))


@killed_by("webhooks.what_is_told_of_a_completed_job")
class PostsInheritTheQueue(MemoryStore):
    chaining = _add_as(lambda new, row: setattr(new, "queue", row.queue))


@killed_by("webhooks.the_job_that_posts_is_run_like_any")
class PostsAreNotKept(MemoryStore):
    chaining = _add_as(lambda new, row: setattr(new, "keep", None))


@killed_by(
    "webhooks.what_is_told_of_a_completed_job", "webhooks.the_job_that_posts_is_run_like_any"
)
class PostsArePosted(MemoryStore):
    chaining = _add_as(lambda new, row: setattr(new, "meta", row.meta))


@killed_by(
    "webhooks.a_job_that_runs_again_is_posted_again",
    "webhooks.one_that_waits_again_is_posted_again",
    "webhooks.an_end_is_posted_once[operator completes a failed one-plain]",
)
class OneEndOfAJobIsPosted(MemoryStore):
    class chaining(Chaining):
        def _post(self, row: Row) -> None:
            posts = [
                msgspec.json.decode(self.book.job(n).payload)["job"]["id"]  # type: ignore[union-attr]
                for n in range(1, 100)
                if (it := self.book.job(n)) is not None and it.task == WEBHOOK_TASK
            ]
            if row.id not in posts:
                super()._post(row)


@killed_by("webhooks.a_worker_of_every_task_does_not_post")
class AWorkerOfEveryTaskPosts(MemoryStore):
    def _claimable(self, request: ClaimRequest) -> Iterable[Row]:
        if request.tasks is not None:
            return super()._claimable(request)
        tasks = tuple({row.task for row in self._rows.values()})
        return super()._claimable(msgspec.structs.replace(request, tasks=tasks))


# ── what is no end ──


def _posted(store: MemoryStore, rows: Iterable[Row]) -> None:
    for row in rows:
        store._chaining(store._clock.now())._post(row)


@killed_by("webhooks.no_end[cancel request]")
class ARequestToCancelIsPosted(MemoryStore):
    async def cancel(self, ids: Sequence[int], tenant: str | None = None) -> list[Job]:
        cancelled = await super().cancel(ids, tenant)
        _posted(self, [row for row in self._rows.values() if row.cancel_requested])
        return cancelled


@killed_by(
    "webhooks.no_end[delete]",
    "webhooks.no_end[remove]",
    "webhooks.what_has_ended_ends_no_more",
)
class DeletedJobsArePosted(MemoryStore):
    def _ended(self, row: Row, now: int, completion: Complete = COMPLETE, **how: Any) -> None:
        super()._ended(row, now, completion, **how)
        if how.get("is_removed"):
            _posted(self, [row])


@killed_by("webhooks.no_end[fail, attempts left]")
class FailedAttemptsArePosted(MemoryStore):
    def _end(self, row: Row, outcome: Outcome, now: int) -> None:
        super()._end(row, outcome, now)
        if isinstance(outcome, Fail) and not row.state.is_final:
            _posted(self, [row])


@killed_by("webhooks.no_end[release]")
class DeliveriesThatAreHandedBackArePosted(MemoryStore):
    def _end(self, row: Row, outcome: Outcome, now: int) -> None:
        super()._end(row, outcome, now)
        if row.state is JobState.READY:
            _posted(self, [row])


@killed_by("webhooks.no_end[remove while it runs]")
class JobsThatLoseTheirKeyArePosted(MemoryStore):
    async def remove(self, key: str, tenant: str = DEFAULT_TENANT) -> Job | None:
        removed = await super().remove(key, tenant)
        _posted(self, [row for row in self._rows.values() if row.superseded])
        return removed


@killed_by("webhooks.no_end[replace]")
class ReplacedJobsArePosted(MemoryStore):
    def _replace(self, row: Row, new: NewJob, now: int) -> None:
        super()._replace(row, new, now)
        _posted(self, [row])


@killed_by("webhooks.no_end[reschedule]")
class ChangedJobsArePosted(MemoryStore):
    async def reschedule(self, ids: Sequence[int], *how: Any, **more: Any) -> list[Job]:
        changed = await super().reschedule(ids, *how, **more)
        _posted(self, [self._rows[job.id] for job in changed])
        return changed


@killed_by("webhooks.no_end[suspect]")
class JobsTakenBackArePosted(MemoryStore):
    def _take_back(self, rows: Sequence[Row], max_resets: int, now: int) -> Reaped:
        reaped = super()._take_back(rows, max_resets, now)
        _posted(self, [row for row in rows if row.state is JobState.READY])
        return reaped


# ── chains ──


@killed_by("webhooks.a_job_that_goes_on", "webhooks.what_operators_do_to_chains[go on]")
class JobsThatGoOnAreNotPosted(MemoryStore):
    class chaining(Chaining):
        def ended(self, row: Row, completion: Complete = COMPLETE, **how: Any) -> None:
            meta = row.meta
            if completion.next is not None:
                row.meta = None
            super().ended(row, completion, **how)
            row.meta = meta


@killed_by("webhooks.what_operators_do_to_chains[delete]")
class DeletedChainsArePosted(MemoryStore):
    class chaining(Chaining):
        def delete(
            self, ids: Sequence[int], tenant: str | None, *, cascade: bool
        ) -> list[ChainRow]:
            rows = [row for chain in ids for row in self.book.chain_jobs(chain)]
            deleted = super().delete(ids, tenant, cascade=cascade)
            for row in rows:
                self._post(row)
            return deleted


@killed_by(
    *(
        f"webhooks.those_that_fail_because_a_blocker_did[{how}]"
        for how in ("fail", "cancel", "by hand")
    ),
    "webhooks.one_that_waits_again_is_posted_again",
)
class JobsThatFailBecauseOfOthersAreNotPosted(MemoryStore):
    class chaining(Chaining):
        def _hear(self, row: Row, named: Sequence[Blocker], chain: ChainRow | None) -> None:
            meta, row.meta = row.meta, None
            super()._hear(row, named, chain)
            row.meta = meta


@killed_by(
    *(
        f"webhooks.a_job_that_is_added_behind_a_failed_chain[{which}]"
        for which in ("job", "chain", "next", "replaced")
    ),
    "webhooks.a_chain_asked_to_stop_that_goes_on",
)
class JobsThatAreOverFromTheStartAreNotPosted(MemoryStore):
    class chaining(Chaining):
        def block(self, row: Row, blockers: Sequence[int], *, is_cancelled: bool = False) -> None:
            meta, row.meta = row.meta, None
            super().block(row, blockers, is_cancelled=is_cancelled)
            row.meta = meta


# ── transactions ──


@killed_by("webhooks.a_transaction_goes_on_and_starts_others")
class WhatIsForeseenIsPosted(MemoryStore):
    def _foreseen(self, lease: Lease, steps: Sequence[_Step]) -> MemoryStore:
        scratch = super()._foreseen(lease, steps)
        for row in scratch._rows.values():
            if row.task == WEBHOOK_TASK and row.id not in self._rows:
                self._rows[row.id] = row
        return scratch


@killed_by("webhooks.an_end_is_posted_once[complete beside a lost one-plain]")
class OneLostAnswerHindersThePosts(MemoryStore):
    def _settle(self, lease: Lease, outcome: Outcome, now: int) -> Any:
        answer = super()._settle(lease, outcome, now)
        if answer.state is None:
            self.chaining = NoEndIsPosted.chaining
        return answer
