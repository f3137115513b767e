"""What operators do: running jobs are skipped, zero is a value, what changed is returned."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.model.job import Job, JobState
from windlass.store import rules
from windlass.store.records import COMPLETE, Fail
from windlass.testing.contract.case import Group
from windlass.testing.contract.kit import Kit, ids

case = Group(__name__)
CASES = case.cases

VERBS = tuple(rules.TOUCHED_BY)
STATES = ("scheduled", "ready", "running", "awaiting_retry", "failed", "cancelled", "completed")


async def _job(kit: Kit, state: str) -> Job:
    if state == "scheduled":
        return await kit.add(delay=60_000_000)
    job = await kit.add(keep=600.0 if state == "completed" else None)
    if state == "cancelled":
        await kit.store.cancel([job.id])
    elif state != "ready":
        lease = await kit.take()
        if state == "awaiting_retry":
            await kit.fail(lease, delay=60.0)
        elif state == "failed":
            await kit.fail(lease, final=True)
        elif state == "completed":
            await kit.settle(lease, COMPLETE)
    return await kit.get(job.id)


async def _do(kit: Kit, verb: str, which: Sequence[int]) -> list[Job]:
    match verb:
        case "cancel":
            return await kit.store.cancel(which)
        case "complete":
            return await kit.store.complete(which)
        case "fail":
            return await kit.store.fail(which, "by hand")
        case "retry":
            return await kit.store.retry(which)
        case "delete":
            return await kit.store.delete(which)
        case _:
            return await kit.store.reschedule(which, priority=3)


@case.each(*((verb, state) for verb in VERBS for state in STATES))
async def a_verb_meets_a_job(kit: Kit, verb: str, state: str) -> None:
    before = await _job(kit, state)
    kit.clock.advance(1)
    changed = await _do(kit, verb, [before.id])
    after = await kit.store.get(before.id)
    is_touched = ("scheduled" if state == "awaiting_retry" else state) in rules.TOUCHED_BY[verb]
    if not is_touched:
        assert changed == []
        assert after == before
    elif verb == "delete":
        assert changed == [before]
        assert after is None
    elif verb == "complete":
        assert [(job.id, job.state) for job in changed] == [(before.id, JobState.COMPLETED)]
        assert after is None
    else:
        assert changed == [after]
        assert after is not None and after.updated_at == kit.at()


@case.each(*((verb,) for verb in VERBS))
async def unknown_ids_are_ignored(kit: Kit, verb: str) -> None:
    job = await kit.add(delay=60_000_000)
    assert await _do(kit, verb, []) == []
    assert await _do(kit, verb, [job.id + 99]) == []
    assert ids(await _do(kit, verb, [job.id + 99, job.id, -1])) == [job.id]


@case.each(*((verb,) for verb in VERBS))
async def an_id_given_twice_is_changed_once(kit: Kit, verb: str) -> None:
    job = await kit.add(delay=60_000_000)
    assert ids(await _do(kit, verb, [job.id, job.id])) == [job.id]


@case.each(*((verb,) for verb in VERBS))
async def many_at_once(kit: Kit, verb: str) -> None:
    jobs = await kit.add_many(*[{"delay": 60_000_000}] * 50)
    spared = await kit.add(delay=60_000_000)
    assert sorted(ids(await _do(kit, verb, ids(jobs)))) == ids(jobs)
    assert await kit.get(spared.id) == spared


@case.each(("complete",), ("fail",), ("reschedule",), ("retry",), ("delete",))
async def running_jobs_are_skipped(kit: Kit, verb: str) -> None:
    running = await kit.add()
    lease = await kit.take()
    waiting = await kit.add(delay=60_000_000)
    assert ids(await _do(kit, verb, [running.id, waiting.id])) == [waiting.id]
    assert (await kit.settle(lease, COMPLETE)).state is JobState.COMPLETED


# ── get ──


@case
async def nobody_has_an_unknown_id(kit: Kit) -> None:
    assert await kit.store.get(123456) is None


# ── cancel ──


@case
async def cancel_ends_a_waiting_job(kit: Kit) -> None:
    job = await kit.add(key="k")
    [told] = await kit.store.cancel([job.id])
    assert (told.state, told.finished_at) == (JobState.CANCELLED, kit.at())
    assert await kit.claim() == []
    assert await kit.store.get_by_key("k") is None


@case
async def cancel_asks_a_running_job_to_stop(kit: Kit) -> None:
    job = await kit.add()
    lease = await kit.take()
    [told] = await kit.store.cancel([job.id])
    assert (told.state, told.locked_by) == (JobState.RUNNING, "w")
    assert kit.check(lease).cancel == {job.id}
    assert ids(await kit.store.cancel([job.id])) == [job.id]


# ── complete and fail ──


@case
async def complete_keeps_what_the_job_said_to_keep(kit: Kit) -> None:
    job = await kit.add(keep=60.0, key="k")
    [told] = await kit.store.complete([job.id])
    seen = await kit.get(job.id)
    assert told == seen
    assert (seen.state, seen.output, seen.finished_at) == (JobState.COMPLETED, None, kit.at())
    assert await kit.store.get_by_key("k") is None


@case.each(("unset", "25"), ("own", "4"))
async def fail_uses_up_all_attempts(kit: Kit, which: str, attempts: str) -> None:
    job = await kit.add(max_attempts=4 if which == "own" else None)
    [told] = await kit.store.fail([job.id], "by hand")
    assert (told.state, told.last_error) == (JobState.FAILED, "by hand")
    assert (told.attempts, told.finished_at) == (int(attempts), kit.at())
    assert await kit.claim() == []


@case
async def fail_renames_the_reason_of_a_failed_job(kit: Kit) -> None:
    job = await _job(kit, "failed")
    [told] = await kit.store.fail([job.id], "known bug")
    assert (told.state, told.last_error) == (JobState.FAILED, "known bug")


@case
async def fail_keeps_the_key(kit: Kit) -> None:
    job = await kit.add(key="k")
    await kit.store.fail([job.id], "no")
    found = await kit.store.get_by_key("k")
    assert found is not None and found.id == job.id


# ── reschedule ──


@case
async def reschedule_without_values_changes_none(kit: Kit) -> None:
    job = await kit.add(delay=60_000_000, priority=4, max_attempts=7)
    [told] = await kit.store.reschedule([job.id])
    assert told == job


@case
async def reschedule_sets_what_is_given(kit: Kit) -> None:
    job = await kit.add(priority=4)
    [told] = await kit.store.reschedule(
        [job.id], run_at=kit.micros(60), priority=-4, attempts=2, max_attempts=9
    )
    assert (told.state, told.run_at, told.priority) == (JobState.SCHEDULED, kit.at(60), -4)
    assert (told.attempts, told.max_attempts) == (2, 9)
    await kit.pass_time(60)
    assert (await kit.take()).attempts == 3


@case
async def reschedule_takes_priority_zero(kit: Kit) -> None:
    job = await kit.add(priority=4)
    assert (await kit.store.reschedule([job.id], priority=0))[0].priority == 0


@case
async def reschedule_takes_attempts_zero(kit: Kit) -> None:
    job = await _job(kit, "awaiting_retry")
    [told] = await kit.store.reschedule([job.id], attempts=0)
    assert (told.attempts, told.state) == (0, JobState.SCHEDULED)


@case
async def reschedule_takes_run_at_zero(kit: Kit) -> None:
    job = await kit.add(delay=60_000_000)
    [told] = await kit.store.reschedule([job.id], run_at=0)
    assert (told.state, told.run_at.year) == (JobState.READY, 1970)


@case
async def reschedule_to_the_past_is_ready(kit: Kit) -> None:
    job = await kit.add(delay=60_000_000)
    await kit.store.reschedule([job.id], run_at=kit.micros())
    assert await kit.claimed() == [job.id]


@case
async def reschedule_leaves_a_failed_job_failed(kit: Kit) -> None:
    job = await _job(kit, "failed")
    [told] = await kit.store.reschedule([job.id], run_at=kit.micros(), max_attempts=99, priority=0)
    assert (told.state, told.max_attempts, told.run_at) == (JobState.FAILED, 99, kit.at())
    assert await kit.claim() == []


@case
async def reschedule_with_attempts_revives_a_failed_job(kit: Kit) -> None:
    job = await _job(kit, "failed")
    [told] = await kit.store.reschedule([job.id], attempts=0)
    assert (told.state, told.attempts, told.finished_at) == (JobState.READY, 0, None)
    assert await kit.claimed() == [job.id]


@case
async def reschedule_with_too_many_attempts_does_not(kit: Kit) -> None:
    job = await _job(kit, "failed")
    [told] = await kit.store.reschedule([job.id], attempts=25)
    assert told.state is JobState.FAILED


@case
async def reschedule_at_the_limit_fails_a_waiting_job(kit: Kit) -> None:
    job = await _job(kit, "awaiting_retry")
    [told] = await kit.store.reschedule([job.id], max_attempts=1)
    assert (told.state, told.attempts, told.finished_at) == (JobState.FAILED, 1, kit.at())
    await kit.pass_time(100)
    assert await kit.claim() == []


@case
async def reschedule_moves_a_job_in_the_order(kit: Kit) -> None:
    one, two = await kit.add_many({}, {})
    await kit.store.reschedule([two.id], priority=-1)
    assert await kit.claimed() == [two.id, one.id]


# ── retry ──


@case.each(("scheduled",), ("awaiting_retry",), ("failed",), ("cancelled",))
async def retry_runs_it_now_with_all_its_attempts(kit: Kit, state: str) -> None:
    job = await _job(kit, state)
    kit.clock.advance(5)
    [told] = await kit.store.retry([job.id])
    assert (told.state, told.attempts, told.run_at) == (JobState.READY, 0, kit.at())
    assert (told.finished_at, told.resets) == (None, 0)
    assert (await kit.take()).job_id == job.id


@case
async def retry_keeps_the_error_until_the_next(kit: Kit) -> None:
    job = await _job(kit, "failed")
    await kit.store.retry([job.id])
    assert (await kit.take()).last_error == "oops"


@case
async def retry_of_a_cancelled_job_does_not_stop_it_again(kit: Kit) -> None:
    job = await kit.add()
    lease = await kit.take()
    await kit.store.cancel([job.id])
    await kit.settle(lease, Fail("stopped"))
    assert await kit.state(job.id) is JobState.CANCELLED
    await kit.store.retry([job.id])
    again = await kit.take()
    assert kit.check(again).cancel == frozenset()
    assert (await kit.fail(again)).state is JobState.READY


@case
async def retry_of_a_cancelled_job_takes_its_key_back(kit: Kit) -> None:
    job = await kit.add(key="k")
    await kit.store.cancel([job.id])
    await kit.store.retry([job.id])
    found = await kit.store.get_by_key("k")
    assert found is not None and found.id == job.id
    assert (await kit.add(key="k")).id == job.id


@case
async def retry_leaves_a_cancelled_job_whose_key_is_taken(kit: Kit) -> None:
    old = await kit.add(key="k")
    await kit.store.cancel([old.id])
    new = await kit.add(key="k")
    assert await kit.store.retry([old.id]) == []
    assert await kit.state(old.id) is JobState.CANCELLED
    assert await kit.claimed() == [new.id]


@case
async def retry_gives_a_key_to_one_of_two_cancelled_jobs(kit: Kit) -> None:
    jobs = []
    for _ in range(2):
        jobs.append(await kit.add(key="k"))
        await kit.store.cancel([jobs[-1].id])
    assert len(await kit.store.retry(ids(jobs))) == 1
    assert len(await kit.claimed()) == 1


# ── delete ──


@case
async def delete_lets_the_queue_go_on(kit: Kit) -> None:
    head, held, next_one, other = await kit.add_many(
        *({"queue": "q", "is_strict": strict} for strict in (0, 1, 0)), {"queue": "r"}
    )
    await kit.store.delete([head.id])
    lease = await kit.take(limit=1)
    assert lease.job_id == held.id
    await kit.fail(lease, final=True)
    assert await kit.claimed() == [other.id]
    await kit.store.delete([held.id])
    assert await kit.claimed() == [next_one.id]


@case
async def delete_frees_the_key(kit: Kit) -> None:
    job = await kit.add(key="k")
    await kit.store.delete([job.id])
    assert await kit.store.get_by_key("k") is None
    assert (await kit.add(key="k")).id != job.id


@case
async def delete_takes_a_cancelled_job_whose_key_is_taken(kit: Kit) -> None:
    old = await kit.add(key="k")
    await kit.store.cancel([old.id])
    new = await kit.add(key="k")
    assert ids(await kit.store.delete([old.id])) == [old.id]
    assert await kit.ids() == [new.id]


@case
async def deleted_jobs_are_counted_and_listed_no_more(kit: Kit) -> None:
    states = ("scheduled", "awaiting_retry", "failed", "cancelled", "completed", "ready")
    jobs = [await _job(kit, state) for state in states]
    assert ids(await kit.store.delete(ids(jobs)[::-1])) == ids(jobs)[::-1]
    assert await kit.ids() == []
    assert sum((await kit.store.counts()).values()) == 0
    assert await kit.store.next_due() is None
    kit.clock.advance(1000)
    assert await kit.store.promote(10) == 0
    assert await kit.claim() == []


# ── delete_failed ──


@case
async def delete_failed_removes_failed_jobs_only(kit: Kit) -> None:
    gone = [await _job(kit, "failed") for _ in range(3)]
    kept = [await _job(kit, s) for s in ("completed", "cancelled", "awaiting_retry", "ready")]
    assert await kit.store.delete_failed(2) == 2
    assert await kit.store.delete_failed(2) == 1
    assert await kit.store.delete_failed(2) == 0
    assert await kit.ids() == ids(kept)
    assert [await kit.store.get(job.id) for job in gone] == [None] * 3


@case
async def a_deleted_failed_job_frees_its_key(kit: Kit) -> None:
    job = await kit.add(key="k")
    await kit.store.fail([job.id], "no")
    await kit.store.delete_failed(10)
    assert (await kit.add(key="k")).id != job.id
