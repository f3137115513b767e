"""What is kept of finished jobs, for how long, and how it goes away."""

from __future__ import annotations

from windlass.model.job import JobState
from windlass.store.records import CANCELLED_KEPT, COMPLETE, Complete
from windlass.testing.contract.case import Group
from windlass.testing.contract.kit import Kit, ids

case = Group(__name__)
CASES = case.cases


async def _finished(kit: Kit, keep: float) -> int:
    job = await kit.add(keep=keep)
    await kit.settle(await kit.take(), Complete(str(job.id)))
    return job.id


@case
async def a_completed_job_is_gone_by_default(kit: Kit) -> None:
    job = await kit.add()
    await kit.settle(await kit.take(), COMPLETE)
    assert await kit.store.get(job.id) is None
    assert (await kit.store.counts())[JobState.COMPLETED] == 0


@case
async def a_kept_job_is_whole(kit: Kit) -> None:
    job = await kit.add(
        payload="[1]", queue="q", key="k", priority=2, flags=("f",), max_attempts=3, keep=60.0
    )
    await kit.fail(await kit.take())
    kit.clock.advance(4)
    await kit.settle(await kit.take(), Complete('{"n":1}'))
    seen = await kit.get(job.id)
    assert (seen.state, seen.output, seen.finished_at) == (JobState.COMPLETED, {"n": 1}, kit.at())
    assert (seen.task, seen.payload, seen.queue, seen.key) == ("t", [1], "q", "k")
    assert (seen.priority, seen.flags, seen.max_attempts) == (2, ("f",), 3)
    assert (seen.attempts, seen.deliveries, seen.locked_by) == (2, 2, None)
    assert (seen.created_at, seen.keep) == (job.created_at, 60.0)


@case
async def a_kept_job_is_never_given_again(kit: Kit) -> None:
    await _finished(kit, 600.0)
    await kit.pass_time(60)
    assert (await kit.reap()).total == 0
    assert await kit.claim(suspects=9) == []


@case
async def prune_finds_nothing(kit: Kit) -> None:
    await kit.add()
    assert await kit.store.prune(10) == 0


@case
async def a_kept_job_expires_on_the_microsecond(kit: Kit) -> None:
    job_id = await _finished(kit, 60.0)
    kit.clock.advance(59.999999)
    assert await kit.store.prune(10) == 0
    assert await kit.state(job_id) is JobState.COMPLETED
    kit.clock.advance(0.000001)
    assert await kit.store.prune(10) == 1
    assert await kit.store.get(job_id) is None


@case
async def each_job_is_kept_for_its_own_time(kit: Kit) -> None:
    short = await _finished(kit, 10.0)
    long = await _finished(kit, 1000.0)
    kit.clock.advance(100)
    assert await kit.store.prune(10) == 1
    assert (await kit.store.get(short), await kit.state(long)) == (None, JobState.COMPLETED)


@case
async def keep_counts_from_the_end_of_the_job(kit: Kit) -> None:
    job = await kit.add(keep=60.0)
    kit.clock.advance(500)
    await kit.settle(await kit.take(), COMPLETE)
    kit.clock.advance(59)
    assert await kit.store.prune(10) == 0
    assert await kit.state(job.id) is JobState.COMPLETED


@case
async def prune_takes_no_more_than_its_limit(kit: Kit) -> None:
    for _ in range(5):
        await _finished(kit, 10.0)
    kit.clock.advance(10)
    assert [await kit.store.prune(2) for _ in range(4)] == [2, 2, 1, 0]
    assert await kit.ids() == []


@case
async def a_cancelled_job_can_be_seen_for_a_week(kit: Kit) -> None:
    job = await kit.add()
    await kit.store.cancel([job.id])
    kit.clock.advance(CANCELLED_KEPT - 0.000001)
    assert await kit.store.prune(10) == 0
    assert await kit.state(job.id) is JobState.CANCELLED
    kit.clock.advance(0.000001)
    assert await kit.store.prune(10) == 1
    assert await kit.store.get(job.id) is None


@case
async def the_limit_is_for_completed_and_cancelled_together(kit: Kit) -> None:
    for _ in range(3):
        await _finished(kit, 10.0)
    jobs = await kit.add_many({}, {})
    await kit.store.cancel(ids(jobs))
    kit.clock.advance(CANCELLED_KEPT)
    assert await kit.store.prune(4) == 4
    assert await kit.store.prune(4) == 1


@case
async def open_and_failed_jobs_are_never_pruned(kit: Kit) -> None:
    failed = await kit.add(keep=1.0)
    await kit.fail(await kit.take(), final=True)
    running = await kit.add(keep=1.0)
    await kit.take()
    waiting = await kit.add_many({"keep": 1.0}, {"delay": 60_000_000, "keep": 1.0})
    kit.clock.advance(CANCELLED_KEPT * 2)
    assert await kit.store.prune(10) == 0
    assert await kit.ids() == [failed.id, running.id, *ids(waiting)]


@case
async def history_is_out_of_the_operators_reach(kit: Kit) -> None:
    job_id = await _finished(kit, 600.0)
    before = await kit.get(job_id)
    for changed in (
        await kit.store.retry([job_id]),
        await kit.store.reschedule([job_id], attempts=0),
        await kit.store.cancel([job_id]),
        await kit.store.fail([job_id], "no"),
        await kit.store.complete([job_id]),
    ):
        assert changed == []
    assert await kit.store.delete_failed(10) == 0
    assert await kit.get(job_id) == before
