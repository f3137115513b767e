"""The contract suite on a table of somebody's own, on PostgreSQL 16 and 18.

Every case runs unless it is excused here, family by family, with the reason. A case that is new in
the suite therefore runs; an excuse that fits no case is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import psycopg
import pytest

pytest.register_assert_rewrite("windlass.testing.contract")

from tests.postgres.cluster import Cluster, Version, shared_cluster  # noqa: E402
from tests.postgres.table.table_kit import (  # noqa: E402
    NULLABLE,
    TheirTable,
    fresh_table,
    make_table,
)
from tests.postgres.versions import VERSIONS  # noqa: E402
from windlass.clock import SYSTEM, Clock  # noqa: E402
from windlass.model.job import JobState  # noqa: E402
from windlass.store.port import Store  # noqa: E402
from windlass.store.records import (  # noqa: E402
    COMPLETE,
    RELEASE,
    Fail,
    JobFilter,
    Lease,
    Note,
    Verdict,
)
from windlass.testing import contract  # noqa: E402
from windlass.testing.contract.case import Group  # noqa: E402
from windlass.testing.contract.kit import Kit  # noqa: E402

CASES = contract.cases()
DATABASE = "their_contract"

# Names of groups, of cases, or of families of cases, by the reason why they are left out.
EXCUSED: dict[str, tuple[str, ...]] = {
    "rows of a table neither continue one another nor wait for chains; the store says so in its"
    " capabilities": (
        "chains",
        "blockers",
        "chain_keys",
        "chain_operators",
        "chains_at_once",
    ),
    "a table has no keys: rows are replaced by their owner's own UPDATE": (
        "keys",
        "claim.a_lease_carries_the_whole_job",
        "settle.the_row_as_it_is_now_decides",
        "batches.a_superseded_batch_leaves_its_replacement_alone",
        "crash.a_verb_outlives_its_process[replace]",
        "crash.a_verb_outlives_its_process[supersede]",
        "crash.a_verb_outlives_its_process[remove]",
        "crash.every_job_can_still_end_after[replace]",
        "crash.every_job_can_still_end_after[supersede]",
        "crash.every_job_can_still_end_after[remove]",
        "concurrency.one_open_job_per_key",
        "concurrency.a_running_job_is_superseded_once",
        "concurrency.no_request_by_key_is_lost",
        "concurrency.keys_taken_in_opposite_orders",
        "enqueue.all_or_nothing",
        "transactions.a_key_is_free_after_its_job_is_completed_inside",
        "transactions.two_with_one_key_inside_are_answered_as_one",
        "transactions.a_key_taken_inside_before_the_job_fails_ends_it",
    ),
    "a table has no serial queues": (
        "queues",
        "strict",
        "claim.of_every_task_past_a_head_it_may_not_run",
        "pages_counts.waiting_behind_a_queue_counts_as_ready",
        "concurrency.a_queue_runs_one_at_a_time",
        "concurrency.a_strict_queue_keeps_its_order_through_failures",
        "transactions.completing_in_a_transaction_frees_the_queue",
    ),
    "a table has no tenants: its rows are its owner's": ("tenants",),
    "single deliveries are taken back for a server, which a table has none of": ("expire",),
    "a row has no meta, so there is no address to post its end to": ("webhooks",),
    "all rows are of one task": (
        "claim.of_every_task",
        "claim.suspects_of_every_task",
    ),
    "a table has no pauses: owners have conditions of their own": (
        "pause",
        "claim.of_every_task_but_paused_ones",
        "concurrency.a_task_that_is_paused_for_a_tenant_and_resumed_loses_no_job",
        "crash.a_verb_outlives_its_process[pause]",
        "crash.every_job_can_still_end_after[pause]",
    ),
    "a table has no schedules": (
        "schedules",
        "schedules_fire",
        "schedules_at_once",
        *(
            f"crash.{family}[{verb}]"
            for family in ("a_verb_outlives_its_process", "every_job_can_still_end_after")
            for verb in ("register", "fire", "pause_schedule", "resume_schedule", "forget_schedule")
        ),
    ),
    "what is finished is the owner's to keep, to delete and to count": (
        "history",
        "settle.the_jobs_keep_beats_the_settlements",
        "settle.a_mixed_batch_is_answered_row_by_row",
        "crash.a_verb_outlives_its_process[prune]",
        "crash.every_job_can_still_end_after[prune]",
    ),
    "a handler's output has no column: it writes what it found in its transaction": (
        "settle.output",
        "transactions.writes_and_completion_commit_together",
        "crash.a_life_with_a_crash_between_any_two_verbs",
    ),
    "a payload is the owner's columns, which no outcome changes": (
        "batches.failed_items_replace_the_payload",
        "batches.a_payload_shrinks_attempt_by_attempt",
        "batches.failed_for_good_the_rest_can_be_seen",
        "batches.several_batches_in_one_call",
    ),
    "adding rows is the owner's own INSERT": (
        "enqueue.defaults",
        "enqueue.what_is_returned_is_what_is_stored",
        "enqueue.every_option_is_stored",
        "enqueue.nothing_to_add",
        "enqueue.results_follow_the_order_given",
        "enqueue.ids_ascend_in_the_order_given",
        "enqueue.ids_are_not_used_again",
        "enqueue.keep_zero_is_not_unset",
        "enqueue.run_at_goes_before_delay",
        "enqueue.flags_keep_their_order",
        "enqueue.equal_jobs_without_a_key_are_all_stored",
        "crash.ids_are_not_used_again_after_a_restart",
        "concurrency.every_added_job_is_there_once",
        "concurrency.ids_ascend_within_each_bulk",
        "concurrency.one_store_serves_several_event_loops",
        "transactions.a_joined_enqueue_exists_if_that_transaction_commits",
        "transactions.a_joined_enqueue_is_gone_if_that_transaction_rolls_back",
        "transactions.a_joined_enqueue_of_no_jobs_adds_none",
    ),
    "rows have no limit of attempts of their own: max_num_retries is the table's": (
        "enqueue.unset_max_attempts_stays_unset",
        "settle.the_jobs_own_limit_decides",
        "settle.a_small_own_limit_beats_a_larger_one",
    ),
    "a row has no memory of deliveries that were handed back": (
        "claim.a_delivery_is_never_given_back",
        "settle.a_release_gives_the_attempt_back",
    ),
    "a row that is taken again starts with an empty failure_message and execution_logs": (
        "claim.the_last_error_comes_with_the_next_delivery",
        "settle.a_release_keeps_the_error_and_the_place",
        "notes.notes_survive_a_retry",
    ),
    "execution_logs is the owner's: nothing is dropped from it, and it holds no progress": (
        "notes.progress_is_shown",
        "notes.progress_and_entry_leave_one_another_alone",
        "notes.the_log_drops_its_oldest_entries",
        "notes.a_kept_job_keeps_its_notes",
    ),
    "claims look at process_after themselves: nothing is promoted, nobody waits for an instant": (
        "claim.a_due_job_is_promoted_on_the_microsecond",
        "claim.promote_counts_only_what_it_made_ready",
        "claim.promote_takes_the_earliest_up_to_its_limit",
        "claim.a_retry_becomes_due_like_any_job",
        "claim.nothing_is_due_next",
        "claim.next_due_is_the_earliest_scheduled",
        "claim.next_due_is_zero_when_overdue",
        "claim.next_due_looks_at_scheduled_jobs_only",
        "claim.next_due_sees_a_retry",
        "claim.next_due_forgets_what_was_promoted_or_moved",
        "concurrency.a_job_is_promoted_once",
        *(
            f"life.a_job_that_is_due_soon_is_told_of[{verb}]"
            for verb in ("enqueue", "replace", "reschedule", "retry", "fire")
        ),
        "life.a_job_that_is_far_off_is_not_told_of[reschedule]",
        "life.a_job_that_is_far_off_is_not_told_of[fire]",
    ),
    "heartbeats, due times and ages go by the database's clock alone": ("clock_jumps",),
    "a table does not know its workers, nor what they run": ("roster",),
    "a heartbeat is of a row, not of a worker, and its age is judged by the table's one age": (
        "leases.renewing_nothing_keeps_the_worker_alive",
        "leases.renew_covers_every_job_of_the_worker",
        "leases.renew_counts_from_now_by_its_own_length",
        "leases.check_makes_no_worker_known",
        "leases.a_tasks_longer_lease_outlives_the_worker",
        "leases.a_live_worker_keeps_a_job_past_its_own_lease",
        "reap.a_claim_renews_its_worker_too",
        "reap.retire_forgets_the_worker",
        "reap.workers_are_listed_with_what_they_run",
        "reap.a_dead_worker_is_forgotten_once_its_jobs_are_back",
    ),
    "no row is prefetched, so there are no suspects: each reset is counted": (
        "reap.the_first_crash_is_not_blamed",
        "reap.each_further_crash_counts_as_a_reset",
        "reap.at_the_reset_limit_the_job_fails",
        "reap.a_retried_killer_starts_with_a_clean_slate",
        "reap.a_failed_attempt_clears_the_suspicion_but_not_the_count",
        "reap.a_release_keeps_the_suspicion",
        "reap.suspects_are_not_given_where_none_may_be",
        "reap.suspects_up_to_their_number",
        "reap.suspects_count_towards_the_limit",
        "crash.the_reaper_vanished_before_a_claim",
        "crash.a_job_in_a_killed_workers_prefetch_is_not_blamed",
        "crash.fresh_jobs_go_on_beside_suspects",
    ),
    "operators change rows with SQL of their own; only cancel is more than an UPDATE": (
        *(
            f"admin.{family}[{verb}{rest}]"
            for verb in ("complete", "fail", "reschedule", "retry", "delete")
            for family, rest in (
                *(
                    ("a_verb_meets_a_job", f"-{state}")
                    for state in (
                        "scheduled",
                        "ready",
                        "running",
                        "awaiting_retry",
                        "failed",
                        "cancelled",
                        "completed",
                    )
                ),
                ("unknown_ids_are_ignored", ""),
                ("an_id_given_twice_is_changed_once", ""),
                ("many_at_once", ""),
                ("running_jobs_are_skipped", ""),
            )
        ),
        "admin.complete_keeps_what_the_job_said_to_keep",
        "admin.fail_uses_up_all_attempts",
        "admin.fail_renames_the_reason_of_a_failed_job",
        "admin.fail_keeps_the_key",
        "admin.reschedule_without_values_changes_none",
        "admin.reschedule_sets_what_is_given",
        "admin.reschedule_takes_priority_zero",
        "admin.reschedule_takes_attempts_zero",
        "admin.reschedule_takes_run_at_zero",
        "admin.reschedule_to_the_past_is_ready",
        "admin.reschedule_leaves_a_failed_job_failed",
        "admin.reschedule_with_attempts_revives_a_failed_job",
        "admin.reschedule_with_too_many_attempts_does_not",
        "admin.reschedule_at_the_limit_fails_a_waiting_job",
        "admin.reschedule_moves_a_job_in_the_order",
        "admin.retry_runs_it_now_with_all_its_attempts",
        "admin.retry_keeps_the_error_until_the_next",
        "admin.retry_of_a_cancelled_job_does_not_stop_it_again",
        "admin.retry_of_a_cancelled_job_takes_its_key_back",
        "admin.retry_leaves_a_cancelled_job_whose_key_is_taken",
        "admin.retry_gives_a_key_to_one_of_two_cancelled_jobs",
        "admin.delete_lets_the_queue_go_on",
        "admin.delete_frees_the_key",
        "admin.delete_takes_a_cancelled_job_whose_key_is_taken",
        "admin.deleted_jobs_are_counted_and_listed_no_more",
        "admin.delete_failed_removes_failed_jobs_only",
        "admin.a_deleted_failed_job_frees_its_key",
        "reap.unlock_treats_workers_as_dead_now",
        "reap.unlock_counts_resets_like_a_crash",
        "reap.unlock_nobody",
        *(
            f"crash.{family}[{verb}]"
            for family in ("a_verb_outlives_its_process", "every_job_can_still_end_after")
            for verb in (
                "complete",
                "fail",
                "reschedule",
                "retry",
                "unlock",
                "delete_failed",
                "delete",
            )
        ),
    ),
    "a table has no column for what callers of ours send along": (
        "enqueue.meta_goes_along_with_a_job",
        "enqueue.each_job_of_a_call_has_its_own_meta",
        "enqueue.meta_is_replaced_with_the_job",
    ),
    "a row has its last failure only": (
        "settle.failed_attempts_are_remembered",
        "settle.the_last_ten_failed_attempts_are_kept_and_the_beginning_of_each",
        "settle.failed_attempts_go_with_a_kept_job",
        "settle.an_operators_retry_keeps_the_record",
    ),
    "a row says when it was queued and finished, not when it was changed": (
        "admin.a_verb_meets_a_job[cancel-running]",
    ),
}

KEPT = (
    "settle.an_outcome_is_applied[complete_kept]",
    "leases.lost_because_it_ended[completed]",
)
"""These complete with `keep`: they run on a table whose owner deletes nothing."""

MOVING = (
    "claim.no_two_deliveries_of_a_job_share_a_token",
    "crash.tokens_are_not_used_again_after_a_restart",
)
"""A token is the instant at which a row was taken, so these need a clock that moves: the server's.
They use no other time."""

own = Group("table.test_table")


def _is(case: contract.Case, name: str) -> bool:
    return name in (case.group, str(case)) or str(case).startswith(f"{name}[")


def _excuses(case: contract.Case) -> list[str]:
    return [name for names in EXCUSED.values() for name in names if _is(case, name)]


CHOSEN = [case for case in CASES if not _excuses(case)]


def _database(cluster: Cluster) -> str:
    try:
        url = cluster.create_database(DATABASE)
    except psycopg.errors.DuplicateDatabase:
        return cluster.url(DATABASE)
    make_table(url)
    return url


@contextmanager
def _fresh(cluster: Cluster, case: contract.Case, clock: Clock) -> Iterator[Callable[[], Store]]:
    url = _database(cluster)
    if str(case) in MOVING:
        clock = SYSTEM
    with fresh_table(url, keeps_all=str(case) in KEPT):
        yield lambda: cast(Store, TheirTable(url, clock=clock))


@pytest.mark.parametrize("case", CHOSEN, ids=str)
@pytest.mark.parametrize("version", VERSIONS)
def test_contract(case: contract.Case, version: Version) -> None:
    contract.run(case, lambda clock: _fresh(shared_cluster(version), case, clock))


# ── the list itself ──


def test_every_excuse_is_for_cases_there_are() -> None:
    names = [name for names in EXCUSED.values() for name in names]
    assert [name for name in names if not any(_is(case, name) for case in CASES)] == []


def test_no_case_is_excused_twice() -> None:
    assert [str(case) for case in CASES if len(_excuses(case)) > 1] == []


def test_what_is_run_specially_is_run() -> None:
    assert {*KEPT, *MOVING} <= {str(case) for case in CHOSEN}


def test_every_part_that_a_table_has_is_chosen() -> None:
    parts = "life claim settle leases reap notes admin pages_counts crash concurrency transactions"
    assert set(parts.split()) <= {case.group for case in CHOSEN}


# ── what a table does where the suite's own case is excused ──


def _set(kit: Kit, text: str) -> None:
    with kit.store.connection() as connection:
        connection.execute(text)


def _row(kit: Kit, job_id: int, columns: str) -> tuple[object, ...]:
    with kit.store.connection() as connection:
        row = connection.execute(
            f"SELECT {columns} FROM their_jobs WHERE id = %s", [job_id]
        ).fetchone()
    return tuple(row)


@own
async def writes_and_completion_commit_together(kit: Kit) -> None:
    job = await kit.add(keep=60.0)
    with kit.store.transaction(await kit.take()) as tx:
        tx.execute("UPDATE their_jobs SET payload = '[7]' WHERE id = %s", [job.id])
        tx.complete(COMPLETE)
    seen = await kit.get(job.id)
    assert (seen.state, seen.payload) == (JobState.COMPLETED, [7])


@own
async def each_reset_is_counted_and_the_one_too_many_fails_the_row(kit: Kit) -> None:
    job = await kit.add()
    for resets in (1, 2, 3):
        await kit.take()
        assert (await kit.crash(max_resets=3)).requeued == (job.id,)
        assert (await kit.get(job.id)).resets == resets
    await kit.take()
    assert (await kit.crash(max_resets=3)).ended == (job.id,)
    seen = await kit.get(job.id)
    assert (seen.state, seen.resets, seen.finished_at) == (JobState.FAILED, 3, kit.at())
    assert seen.last_error is not None and "max_num_resets" in seen.last_error
    assert await kit.claim() == []


@own
async def a_reset_row_that_should_stop_has_no_failure(kit: Kit) -> None:
    job = await kit.add()
    await kit.take()
    await kit.store.cancel([job.id])
    assert (await kit.crash(max_resets=0)).total == 1
    assert _row(kit, job.id, "state, failure_message, num_resets") == ("canceled", None, 0)


@own
async def the_next_delivery_starts_with_a_clean_row(kit: Kit) -> None:
    job = await kit.add()
    lease = await kit.take()
    await kit.store.note(lease, Note(entry='"said"'))
    await kit.fail(lease, "oops")
    assert _row(kit, job.id, "state, failure_message, num_failures") == ("errored", "oops", 1)
    assert (await kit.get(job.id)).log == ("said",)
    again = await kit.take()
    assert (again.attempts, again.resets) == (2, 0)
    assert _row(kit, job.id, "failure_message, execution_logs, finished_at") == (None, None, None)


@own
async def a_delivery_settles_nothing_of_its_successor_in_the_same_call(kit: Kit) -> None:
    job = await kit.add(keep=60.0)
    old = await kit.take()
    await kit.settle(old, RELEASE)
    kit.clock.advance(1)
    new = await kit.take()
    late, applied = await kit.store.settle([(old, Fail("late", final=True)), (new, COMPLETE)])
    assert (late.verdict, applied.verdict) == (Verdict.LOST, Verdict.APPLIED)
    assert _row(kit, job.id, "state, failure_message") == ("completed", None)


@own
async def a_lease_of_the_same_instant_is_another_workers(kit: Kit) -> None:
    """The token is the instant and the worker's name together."""
    await kit.add()
    lease = await kit.take(worker="a")
    stolen = Lease(**{name: getattr(lease, name) for name in Lease.__struct_fields__})
    stolen.worker = "b"
    assert (await kit.settle(stolen, COMPLETE)).verdict is Verdict.LOST
    assert list(kit.check(stolen).lost) == [lease.job_id]
    assert (await kit.settle(lease, COMPLETE)).verdict is Verdict.APPLIED


@own
async def what_was_never_filled_in_counts_as_nothing(kit: Kit) -> None:
    """The owner's columns may be nullable, and have no defaults."""
    job = await kit.add()
    _set(kit, NULLABLE)
    lease = await kit.take()
    assert (lease.attempts, lease.resets) == (1, 0)
    await kit.fail(lease)
    await kit.take()
    await kit.crash()
    seen = await kit.get(job.id)
    assert (seen.state, seen.attempts, seen.resets) == (JobState.READY, 1, 1)


@own
async def a_row_that_waits_for_ever_can_be_seen(kit: Kit) -> None:
    job = await kit.add()
    _set(kit, "UPDATE their_jobs SET process_after = 'infinity'")
    seen = await kit.get(job.id)
    assert (seen.state, seen.run_at.year) == (JobState.SCHEDULED, 9999)
    assert await kit.claim() == []


@own
async def a_row_in_a_state_of_the_owners_is_left_alone(kit: Kit) -> None:
    job = await kit.add()
    _set(kit, "UPDATE their_jobs SET state = 'draft'")
    assert await kit.claim() == []
    assert await kit.store.cancel([job.id]) == []
    assert (await kit.reap()).total == 0
    assert await kit.ids(states=(JobState.BLOCKED,)) == [job.id]


@own
async def rows_are_found_by_the_owners_own_columns(kit: Kit) -> None:
    store = cast(TheirTable, kit.store)
    jobs = await kit.add_many(*({"priority": n, "payload": '"100%"'} for n in range(6)))
    found = await store.find(JobFilter(limit=2), ["j.priority % 2 = 1 AND payload LIKE '%100%'"])
    assert found == [jobs[5], jobs[3]]
    page = JobFilter(limit=2, after=jobs[3].id)
    assert await store.find(page, ["j.priority % 2 = 1"]) == [jobs[1]]


@pytest.mark.parametrize("case", own.cases, ids=str)
def test_own_rules(case: contract.Case) -> None:
    contract.run(case, lambda clock: _fresh(shared_cluster(18), case, clock))
