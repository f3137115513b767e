"""Taking single deliveries back by the reaper's rule, while their worker lives."""

from __future__ import annotations

from windlass.model.job import JobState
from windlass.store.records import COMPLETE, Complete, LostReason, Settled, Verdict
from windlass.testing.contract.case import Group
from windlass.testing.contract.kit import Kit, ids

case = Group(__name__)
CASES = case.cases


@case
async def the_job_is_ready_again_and_suspect(kit: Kit) -> None:
    job = await kit.add()
    lease = await kit.take()
    assert await kit.store.expire([lease], 5) == [Settled(Verdict.APPLIED, JobState.READY)]
    told = await kit.get(job.id)
    assert (told.state, told.attempts, told.deliveries, told.resets) == (JobState.READY, 0, 1, 0)
    assert await kit.claim() == [], "a suspect is claimed for a free slot only"
    again = await kit.take(suspects=1)
    assert again.suspect and again.deliveries == 2


@case
async def others_of_that_worker_stay(kit: Kit) -> None:
    await kit.add_many(*[{}] * 3)
    leases = await kit.claim()
    await kit.store.expire(leases[:1], 5)
    assert kit.check(*leases).lost == {leases[0].job_id: LostReason.TAKEN_BY_ANOTHER_WORKER}
    settled = await kit.store.settle([(lease, COMPLETE) for lease in leases])
    assert [answer.verdict for answer in settled] == [
        Verdict.LOST,
        Verdict.APPLIED,
        Verdict.APPLIED,
    ]


@case
async def some_of_many(kit: Kit) -> None:
    jobs = await kit.store.enqueue([kit.new()] * 60)
    leases = await kit.claim(limit=60)
    answers = await kit.store.expire(leases[::2], 5)
    assert answers == [Settled(Verdict.APPLIED, JobState.READY)] * 30
    again = await kit.claim(limit=60, suspects=60, worker="v")
    assert sorted(lease.job_id for lease in again) == [lease.job_id for lease in leases[::2]]
    settled = await kit.store.settle([(lease, COMPLETE) for lease in leases[1::2]])
    assert {answer.verdict for answer in settled} == {Verdict.APPLIED}
    assert await kit.ids(limit=100) == ids(jobs)[::2]


@case
async def at_the_reset_limit_the_job_fails(kit: Kit) -> None:
    job = await kit.add()
    await kit.store.expire([await kit.take()], 2)
    await kit.store.expire([await kit.take(suspects=1)], 2)
    assert (await kit.get(job.id)).resets == 1
    answers = await kit.store.expire([await kit.take(suspects=1)], 2)
    assert answers == [Settled(Verdict.APPLIED, JobState.FAILED)]
    told = await kit.get(job.id)
    assert told.state is JobState.FAILED
    assert told.last_error is not None and "2 times" in told.last_error


@case
async def only_the_delivery_that_owns_the_job(kit: Kit) -> None:
    kept, gone = await kit.add_many({"keep": 60.0}, {})
    old = await kit.claim()
    await kit.store.settle([(lease, Complete()) for lease in old])
    assert await kit.store.expire(old, 5) == [Settled(Verdict.LOST), Settled(Verdict.MISSING)]
    job = await kit.add()
    first = await kit.take()
    await kit.store.expire([first], 5)
    second = await kit.take(suspects=1)
    assert await kit.store.expire([first], 5) == [Settled(Verdict.LOST)]
    assert (await kit.settle(second, COMPLETE)).verdict is Verdict.APPLIED
    assert (await kit.state(job.id), await kit.state(kept.id), await kit.state(gone.id)) == (
        None,
        JobState.COMPLETED,
        None,
    )


@case
async def none_of_none(kit: Kit) -> None:
    assert await kit.store.expire([], 5) == []


@case
async def a_cancelled_or_replaced_job_ends(kit: Kit) -> None:
    cancelled, replaced = await kit.add_many({}, {"key": "k"})
    leases = await kit.claim()
    await kit.store.cancel([cancelled.id])
    await kit.add(key="k", task="x")
    answers = await kit.store.expire(leases, 5)
    assert [answer.state for answer in answers] == [JobState.CANCELLED, JobState.FAILED]
    assert await kit.state(replaced.id) is JobState.FAILED


@case
async def the_next_of_its_queue_waits_for_it(kit: Kit) -> None:
    first, second = await kit.add_many({"queue": "q"}, {"queue": "q"})
    await kit.store.expire([await kit.take()], 5)
    assert await kit.claim() == []
    lease = await kit.take(suspects=1)
    assert lease.job_id == first.id
    await kit.settle(lease, COMPLETE)
    assert await kit.claimed() == [second.id]
