"""Leases: renewing them, checking them, and the longer ones of single jobs.

A worker's lease covers all it holds; a single job may have a longer one of its own. Only when
both have run out may `reap` take the job back.
"""

from __future__ import annotations

from windlass.store.records import (
    CANCEL,
    COMPLETE,
    RELEASE,
    Complete,
    Fail,
    LostReason,
    Outcome,
)
from windlass.testing.contract.case import Group
from windlass.testing.contract.kit import Kit

case = Group(__name__)
CASES = case.cases

ENDINGS: dict[str, Outcome] = {
    "completed": Complete(keep=60.0),
    "failed": Fail("oops", final=True),
    "cancelled": CANCEL,
}


# ── renew and check ──


@case
async def a_held_lease_is_neither_lost_nor_stopped(kit: Kit) -> None:
    await kit.add()
    lease = await kit.take()
    for answer in (kit.renew(lease), kit.check(lease)):
        assert (answer.lost, answer.cancel) == ({}, frozenset())


@case
async def renewing_nothing_keeps_the_worker_alive(kit: Kit) -> None:
    kit.renew(worker="idle")
    assert [worker.id for worker in await kit.store.workers()] == ["idle"]


@case
async def renew_extends_the_lease(kit: Kit) -> None:
    await kit.add()
    lease = await kit.take()
    for _ in range(3):
        kit.clock.advance(29)
        assert kit.renew(lease).lost == {}
        assert (await kit.reap()).total == 0
    kit.clock.advance(30)
    assert (await kit.reap()).requeued == (lease.job_id,)


@case
async def renew_covers_every_job_of_the_worker(kit: Kit) -> None:
    await kit.add_many(*[{}] * 5)
    leases = await kit.claim()
    kit.clock.advance(29)
    kit.renew(leases[0])
    kit.clock.advance(29)
    assert (await kit.reap()).total == 0


@case
async def renew_is_for_that_worker_only(kit: Kit) -> None:
    jobs = await kit.add_many({}, {})
    held = await kit.take(worker="a", limit=1)
    await kit.take(worker="b", limit=1)
    kit.clock.advance(29)
    kit.renew(held, worker="a")
    kit.clock.advance(1)
    assert (await kit.reap()).requeued == (jobs[1].id,)


@case
async def renew_counts_from_now_by_its_own_length(kit: Kit) -> None:
    await kit.add()
    lease = await kit.take()
    kit.clock.advance(1)
    kit.renew(lease, lease=100.0)
    kit.clock.advance(99.999999)
    assert (await kit.reap()).total == 0
    kit.clock.advance(0.000001)
    assert (await kit.reap()).total == 1


@case
async def renew_before_the_reaper_saves_an_expired_lease(kit: Kit) -> None:
    await kit.add()
    lease = await kit.take()
    kit.clock.advance(300)
    assert kit.renew(lease).lost == {}
    assert (await kit.reap()).total == 0


@case.each(("renew",), ("check",))
async def lost_because_it_was_requeued(kit: Kit, verb: str) -> None:
    await kit.add()
    lease = await kit.take()
    await kit.crash()
    answer = kit.renew(lease) if verb == "renew" else kit.check(lease)
    assert answer.lost == {lease.job_id: LostReason.TAKEN_BY_ANOTHER_WORKER}


@case.each(("renew",), ("check",))
async def lost_to_another_worker(kit: Kit, verb: str) -> None:
    await kit.add()
    lease = await kit.take(worker="a")
    await kit.crash()
    new = await kit.take(worker="b", suspects=1)
    answer = kit.renew(lease, worker="a") if verb == "renew" else kit.check(lease, worker="a")
    assert answer.lost == {lease.job_id: LostReason.TAKEN_BY_ANOTHER_WORKER}
    assert kit.renew(new, worker="b").lost == {}


@case.each(*((how,) for how in ENDINGS))
async def lost_because_it_ended(kit: Kit, how: str) -> None:
    await kit.add()
    lease = await kit.take()
    await kit.settle(lease, ENDINGS[how])
    assert kit.renew(lease).lost == {lease.job_id: LostReason.ALREADY_COMPLETED}
    assert kit.check(lease).lost == {lease.job_id: LostReason.ALREADY_COMPLETED}


@case
async def lost_because_it_is_gone(kit: Kit) -> None:
    await kit.add()
    lease = await kit.take()
    await kit.settle(lease, COMPLETE)
    assert kit.renew(lease).lost == {lease.job_id: LostReason.NOT_FOUND}
    assert kit.check(lease).lost == {lease.job_id: LostReason.NOT_FOUND}


@case
async def the_answer_is_for_the_leases_asked_about(kit: Kit) -> None:
    await kit.add_many({}, {}, {})
    one, two, three = await kit.claim()
    await kit.settle(two, Fail("x"))
    await kit.settle(three, COMPLETE)
    assert kit.renew(one).lost == {}
    assert kit.renew(one, two).lost == {two.job_id: LostReason.TAKEN_BY_ANOTHER_WORKER}
    assert set(kit.renew(one, two, three).lost) == {two.job_id, three.job_id}


@case
async def a_cancel_request_is_told(kit: Kit) -> None:
    await kit.add_many({}, {})
    one, two = await kit.claim()
    await kit.store.cancel([one.job_id])
    for answer in (kit.check(one, two), kit.renew(one, two), kit.renew(one, two)):
        assert (answer.lost, answer.cancel) == ({}, frozenset([one.job_id]))


@case
async def a_lost_job_is_not_asked_to_stop(kit: Kit) -> None:
    job = await kit.add()
    lease = await kit.take()
    await kit.store.retire("w")
    await kit.take(worker="b")
    await kit.store.cancel([job.id])
    answer = kit.check(lease)
    assert answer.cancel == frozenset()
    assert list(answer.lost) == [job.id]


@case
async def check_writes_nothing(kit: Kit) -> None:
    job = await kit.add()
    lease = await kit.take()
    before = await kit.get(job.id)
    kit.clock.advance(29)
    assert kit.check(lease).lost == {}
    assert await kit.get(job.id) == before
    kit.clock.advance(1)
    assert kit.check(lease).lost == {}
    assert (await kit.reap()).requeued == (job.id,)


@case
async def check_makes_no_worker_known(kit: Kit) -> None:
    kit.check(worker="stranger")
    assert await kit.store.workers() == []


# ── leases of their own ──


@case
async def extend_outlives_the_worker(kit: Kit) -> None:
    plain, long = await kit.add_many({}, {})
    leases = await kit.claim()
    kit.renew(*leases, extend=[(leases[1], 100.0)])
    kit.clock.advance(99.999999)
    assert (await kit.reap()).requeued == (plain.id,)
    kit.clock.advance(0.000001)
    assert (await kit.reap()).requeued == (long.id,)


@case
async def extend_never_shortens(kit: Kit) -> None:
    await kit.add()
    lease = await kit.take()
    kit.renew(lease, extend=[(lease, 100.0)])
    kit.renew(lease, extend=[(lease, 40.0)])
    kit.clock.advance(99)
    assert (await kit.reap()).total == 0
    kit.clock.advance(1)
    assert (await kit.reap()).total == 1


@case
async def extend_counts_from_now(kit: Kit) -> None:
    await kit.add()
    lease = await kit.take()
    kit.renew(lease, extend=[(lease, 100.0)])
    kit.clock.advance(50)
    kit.renew(lease, extend=[(lease, 100.0)])
    kit.clock.advance(99)
    assert (await kit.reap()).total == 0


@case
async def extend_of_a_lost_lease_does_nothing(kit: Kit) -> None:
    await kit.add()
    old = await kit.take(worker="a")
    await kit.crash()
    new = await kit.take(worker="b", suspects=1)
    answer = kit.renew(worker="a", extend=[(old, 1000.0)])
    assert answer.lost == {}
    kit.clock.advance(30)
    assert (await kit.reap()).requeued == (new.job_id,)


@case
async def a_tasks_longer_lease_outlives_the_worker(kit: Kit) -> None:
    plain, slow = await kit.add_many({}, {"task": "slow"})
    await kit.claim(tasks=["t", "slow"], longer_leases={"slow": 90.0})
    kit.clock.advance(30)
    assert (await kit.reap()).requeued == (plain.id,)
    kit.clock.advance(59.999999)
    assert (await kit.reap()).total == 0
    kit.clock.advance(0.000001)
    assert (await kit.reap()).requeued == (slow.id,)


@case
async def a_live_worker_keeps_a_job_past_its_own_lease(kit: Kit) -> None:
    await kit.add("slow")
    lease = await kit.take(tasks=["slow"], longer_leases={"slow": 40.0})
    for _ in range(4):
        kit.clock.advance(20)
        kit.renew(lease)
    assert (await kit.reap()).total == 0


@case
async def a_new_delivery_starts_without_the_old_longer_lease(kit: Kit) -> None:
    job = await kit.add()
    lease = await kit.take()
    kit.renew(lease, extend=[(lease, 1000.0)])
    await kit.settle(lease, RELEASE)
    await kit.take()
    assert (await kit.crash()).requeued == (job.id,)
