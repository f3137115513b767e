"""What becomes of a dead worker's jobs: reaped, suspected, unlocked; and a living one's retreat.

The first time a job is taken back it only becomes *suspect*, because it may have lain in a
prefetch. A suspect is started as soon as it is claimed, so from then on each crash is its own,
and at `max_resets` it fails.
"""

from __future__ import annotations

from windlass.model.job import JobState
from windlass.store.records import COMPLETE, RELEASE
from windlass.testing.contract.case import Group
from windlass.testing.contract.kit import Kit, ids

case = Group(__name__)
CASES = case.cases


@case
async def reap_finds_nothing(kit: Kit) -> None:
    await kit.add_many({}, {"delay": 1_000_000})
    kit.clock.advance(100)
    reaped = await kit.reap()
    assert (reaped.requeued, reaped.ended, reaped.total) == ((), (), 0)


@case
async def a_lease_ends_on_the_microsecond(kit: Kit) -> None:
    job = await kit.add()
    await kit.take()
    kit.clock.advance(29.999999)
    assert (await kit.reap()).total == 0
    kit.clock.advance(0.000001)
    assert (await kit.reap()).requeued == (job.id,)


@case
async def reap_takes_no_more_than_its_limit(kit: Kit) -> None:
    jobs = await kit.add_many(*[{}] * 5)
    await kit.claim()
    kit.clock.advance(30)
    reaped = [await kit.reap(limit=2) for _ in range(4)]
    assert [step.total for step in reaped] == [2, 2, 1, 0]
    assert sorted(job_id for step in reaped for job_id in step.requeued) == ids(jobs)


@case
async def reap_gives_the_attempt_back(kit: Kit) -> None:
    job = await kit.add(max_attempts=1)
    await kit.take()
    await kit.crash()
    seen = await kit.get(job.id)
    assert (seen.state, seen.attempts, seen.deliveries) == (JobState.READY, 0, 1)
    assert (seen.locked_by, seen.last_error) == (None, None)


@case
async def the_first_crash_is_not_blamed(kit: Kit) -> None:
    job = await kit.add()
    await kit.take()
    await kit.crash(max_resets=1)
    seen = await kit.get(job.id)
    assert (seen.state, seen.resets) == (JobState.READY, 0)
    lease = await kit.take(suspects=1)
    assert (lease.suspect, lease.resets) == (True, 0)


@case
async def each_further_crash_counts_as_a_reset(kit: Kit) -> None:
    job = await kit.add()
    await kit.take()
    await kit.crash()
    for resets in (1, 2, 3):
        lease = await kit.take(suspects=1)
        assert (lease.suspect, lease.resets) == (True, resets - 1)
        await kit.crash()
        assert (await kit.get(job.id)).resets == resets


@case
async def at_the_reset_limit_the_job_fails(kit: Kit) -> None:
    job = await kit.add(max_attempts=99)
    for _ in range(3):
        await kit.take(suspects=1)
        assert (await kit.crash(max_resets=3)).requeued == (job.id,)
    await kit.take(suspects=1)
    assert (await kit.crash(max_resets=3)).ended == (job.id,)
    seen = await kit.get(job.id)
    assert (seen.state, seen.resets, seen.deliveries) == (JobState.FAILED, 3, 4)
    assert (seen.locked_by, seen.finished_at) == (None, kit.at())
    assert seen.last_error is not None and "max_resets" in seen.last_error
    assert await kit.claim(suspects=9) == []


@case
async def a_retried_killer_starts_with_a_clean_slate(kit: Kit) -> None:
    job = await kit.add()
    for _ in range(2):
        await kit.take(suspects=1)
        await kit.crash(max_resets=1)
    assert await kit.state(job.id) is JobState.FAILED
    await kit.store.retry([job.id])
    lease = await kit.take(suspects=0)
    assert (lease.suspect, lease.resets) == (False, 0)


@case
async def a_failed_attempt_clears_the_suspicion_but_not_the_count(kit: Kit) -> None:
    await kit.add()
    for _ in range(2):
        await kit.take(suspects=1)
        await kit.crash()
    await kit.fail(await kit.take(suspects=1))
    lease = await kit.take(suspects=0)
    assert (lease.suspect, lease.resets) == (False, 1)


@case
async def a_release_keeps_the_suspicion(kit: Kit) -> None:
    job = await kit.add()
    await kit.take()
    await kit.crash()
    await kit.settle(await kit.take(suspects=1), RELEASE)
    assert await kit.claim(suspects=0) == []
    lease = await kit.take(suspects=1)
    assert (lease.job_id, lease.suspect) == (job.id, True)


@case
async def a_reaped_job_that_should_stop_is_cancelled(kit: Kit) -> None:
    job = await kit.add(key="k")
    await kit.take()
    await kit.store.cancel([job.id])
    reaped = await kit.crash()
    assert (reaped.requeued, reaped.ended) == ((), (job.id,))
    assert await kit.state(job.id) is JobState.CANCELLED
    assert await kit.store.get_by_key("k") is None


@case
async def reap_leaves_live_workers_alone(kit: Kit) -> None:
    jobs = await kit.add_many({}, {})
    await kit.take(worker="a", limit=1)
    kit.clock.advance(10)
    await kit.take(worker="b", limit=1)
    kit.clock.advance(20)
    assert (await kit.reap()).requeued == (jobs[0].id,)
    assert (await kit.get(jobs[1].id)).locked_by == "b"


@case
async def a_claim_renews_its_worker_too(kit: Kit) -> None:
    await kit.add_many({}, {})
    await kit.take(limit=1)
    kit.clock.advance(20)
    await kit.take()
    kit.clock.advance(20)
    assert (await kit.reap()).total == 0


# ── suspects ──


@case
async def suspects_are_not_given_where_none_may_be(kit: Kit) -> None:
    suspect = await kit.add(priority=-9)
    await kit.take()
    await kit.crash()
    fresh = await kit.add()
    assert await kit.claimed(suspects=0) == [fresh.id]
    assert await kit.claimed(suspects=1) == [suspect.id]


@case
async def suspects_up_to_their_number(kit: Kit) -> None:
    jobs = await kit.add_many(*({"priority": n - 9} for n in range(4)))
    await kit.claim()
    await kit.crash()
    fresh = await kit.add_many({}, {})
    assert await kit.claimed(suspects=2) == [jobs[0].id, jobs[1].id, *ids(fresh)]
    assert await kit.claimed(suspects=9) == [jobs[2].id, jobs[3].id]


@case
async def suspects_count_towards_the_limit(kit: Kit) -> None:
    jobs = await kit.add_many(*({"priority": n - 9} for n in range(3)))
    await kit.claim()
    await kit.crash()
    await kit.add()
    assert await kit.claimed(limit=2, suspects=9) == ids(jobs)[:2]


# ── retire, workers, unlock ──


@case
async def retire_hands_everything_back(kit: Kit) -> None:
    jobs = await kit.add_many({}, {}, {})
    leases = await kit.claim(worker="a", limit=2)
    other = await kit.take(worker="b")
    await kit.store.retire("a")
    for job in jobs[:2]:
        seen = await kit.get(job.id)
        assert (seen.state, seen.attempts, seen.resets) == (JobState.READY, 0, 0)
        assert seen.locked_by is None
    assert (await kit.get(jobs[2].id)).locked_by == "b"
    assert set(kit.check(*leases).lost) == set(ids(jobs)[:2])
    assert (await kit.settle(other, COMPLETE)).state is JobState.COMPLETED
    assert await kit.claimed(worker="b", suspects=0) == ids(jobs)[:2]


@case
async def retire_forgets_the_worker(kit: Kit) -> None:
    kit.renew(worker="a")
    kit.renew(worker="b")
    await kit.store.retire("a")
    assert [worker.id for worker in await kit.store.workers()] == ["b"]


@case
async def retire_of_a_stranger_is_harmless(kit: Kit) -> None:
    await kit.add()
    lease = await kit.take()
    await kit.store.retire("stranger")
    assert kit.check(lease).lost == {}


@case
async def retire_cancels_what_was_asked_to_stop(kit: Kit) -> None:
    job = await kit.add()
    await kit.take()
    await kit.store.cancel([job.id])
    await kit.store.retire("w")
    assert await kit.state(job.id) is JobState.CANCELLED


@case
async def workers_are_listed_with_what_they_run(kit: Kit) -> None:
    await kit.add_many({}, {}, {})
    await kit.claim(worker="b", limit=2)
    await kit.claim(worker="a", limit=1, lease=10.0)
    kit.renew(worker="c")
    told = await kit.store.workers()
    assert [(worker.id, worker.running) for worker in told] == [("a", 1), ("b", 2), ("c", 0)]
    assert [worker.expires_at for worker in told] == [
        kit.micros(10),
        kit.micros(30),
        kit.micros(30),
    ]


@case
async def a_dead_worker_is_forgotten_once_its_jobs_are_back(kit: Kit) -> None:
    await kit.add_many({}, {})
    await kit.claim()
    kit.clock.advance(30)
    await kit.reap(limit=1)
    assert [worker.running for worker in await kit.store.workers()] == [1]
    await kit.reap()
    assert await kit.store.workers() == []


@case
async def unlock_treats_workers_as_dead_now(kit: Kit) -> None:
    jobs = await kit.add_many({}, {}, {})
    leases = await kit.claim(worker="a", limit=1)
    await kit.claim(worker="b", limit=1, longer_leases={"t": 900.0})
    await kit.claim(worker="c", limit=1)
    told = await kit.store.unlock(["a", "b", "stranger"], 5)
    assert sorted(ids(told)) == ids(jobs)[:2]
    assert all((job.state, job.attempts) == (JobState.READY, 0) for job in told)
    assert [worker.id for worker in await kit.store.workers()] == ["c"]
    assert list(kit.check(*leases).lost) == [jobs[0].id]
    assert await kit.claim(suspects=0) == []
    assert await kit.claimed(suspects=9) == ids(jobs)[:2]


@case
async def unlock_counts_resets_like_a_crash(kit: Kit) -> None:
    job = await kit.add()
    for _ in range(2):
        await kit.take(suspects=1)
        [told] = await kit.store.unlock(["w"], 1)
    assert (told.id, told.state, told.resets) == (job.id, JobState.FAILED, 1)


@case
async def unlock_nobody(kit: Kit) -> None:
    await kit.add()
    await kit.take()
    assert await kit.store.unlock([], 5) == []
    assert len(await kit.store.workers()) == 1
