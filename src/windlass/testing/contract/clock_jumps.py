"""What happens to leases when the database's clock is set forward or back.

An operator, a time server or a failover to another machine may set it by an hour. A lease is a
length of time, so it ends neither sooner nor later for that: a live worker keeps its jobs although
it has had no chance to renew yet, and a dead worker's jobs come back as soon as they would have.
"""

from __future__ import annotations

from windlass.store.port import Store
from windlass.store.records import Lease
from windlass.testing.contract.case import Group
from windlass.testing.contract.kit import LEASE, Kit

case = Group(__name__)
CASES = case.cases

HOUR = 3600.0
SWEEP = 5.0
"""Seconds between two reaps."""

JUMPS = {"forward": HOUR, "back": -HOUR, "forward_a_little": 20.0, "back_a_little": -20.0}
EACH_JUMP = tuple((how,) for how in JUMPS)
REAPERS = (("same",), ("other",), ("started_later",))
"""Which process reaps: the worker's own, another that ran before the jump, or a new one."""


async def _reap(kit: Kit, store: Store) -> list[int]:
    reaped = await store.reap(100, 5)
    return [*reaped.requeued, *reaped.ended]


async def _sweep(kit: Kit, seconds: float, *stores: Store) -> list[int]:
    """Every store reaps now and once per SWEEP, for so long; what they took back."""
    reaped: list[int] = []
    for _ in range(round(seconds / SWEEP)):
        for store in stores or (kit.store,):
            reaped += await _reap(kit, store)
        kit.clock.advance(SWEEP)
    for store in stores or (kit.store,):
        reaped += await _reap(kit, store)
    return reaped


@case.each(*((how, who) for how in JUMPS for [who] in REAPERS))
async def a_live_worker_keeps_its_jobs(kit: Kit, how: str, who: str) -> None:
    await kit.add_many({}, {})
    leases = [await kit.take(worker, limit=1) for worker in ("a", "b")]
    reaper = await kit.other() if who == "other" else kit.store
    assert await _sweep(kit, 10, reaper) == []
    for worker, lease in zip(("a", "b"), leases, strict=True):
        kit.renew(lease, worker=worker)
    kit.clock.jump(JUMPS[how])
    if who == "started_later":
        reaper = await kit.other()
    assert await _sweep(kit, 25, reaper) == []  # no worker has renewed yet: their leases hold
    for worker, lease in zip(("a", "b"), leases, strict=True):
        assert kit.renew(lease, worker=worker).lost == {}
    assert await _sweep(kit, 25, reaper) == []


@case.each(*EACH_JUMP)
async def a_live_worker_that_goes_on_renewing_keeps_its_jobs(kit: Kit, how: str) -> None:
    await kit.add()
    lease = await kit.take()
    kit.renew(lease)
    kit.clock.jump(JUMPS[how])
    for _ in range(10):
        assert kit.renew(lease).lost == {}
        assert await _sweep(kit, LEASE / 3) == []


@case.each(*EACH_JUMP)
async def a_dead_workers_job_comes_back_in_time(kit: Kit, how: str) -> None:
    job = await kit.add()
    await kit.take()
    assert await _sweep(kit, SWEEP) == []
    kit.clock.jump(JUMPS[how])
    assert await _sweep(kit, LEASE + SWEEP) == [job.id]


@case.each(*EACH_JUMP)
async def several_reapers_do_not_put_it_off(kit: Kit, how: str) -> None:
    job = await kit.add()
    await kit.take()
    stores = [kit.store, await kit.other(), await kit.other()]
    assert await _sweep(kit, SWEEP, *stores) == []
    kit.clock.jump(JUMPS[how])
    assert await _sweep(kit, LEASE + SWEEP, *stores) == [job.id]


@case.each(*EACH_JUMP)
async def a_reaper_that_started_later_finds_a_dead_workers_job(kit: Kit, how: str) -> None:
    job = await kit.add()
    await kit.take()
    kit.clock.jump(JUMPS[how])
    await kit.reopen()
    assert await _sweep(kit, LEASE + SWEEP) == [job.id]


@case.each(*EACH_JUMP)
async def a_worker_that_died_after_the_jump_is_found(kit: Kit, how: str) -> None:
    """Its last sign of life was after the jump, and before any reaper noticed that."""
    job = await kit.add()
    lease = await kit.take()
    assert await _sweep(kit, SWEEP) == []
    kit.clock.jump(JUMPS[how])
    kit.renew(lease)
    assert await _sweep(kit, LEASE - SWEEP) == []
    assert await _sweep(kit, 2 * SWEEP) == [job.id]


async def _give_longer_lease(kit: Kit, way: str) -> tuple[int, Lease]:
    job = await kit.add()
    if way == "of_its_task":
        return job.id, await kit.take(longer_leases={"t": 90.0})
    lease = await kit.take()
    kit.renew(lease, extend=[(lease, 90.0)])
    return job.id, lease


@case.each(*((how, way) for how in JUMPS for way in ("of_its_task", "asked_for")))
async def a_jobs_own_lease_ends_in_time(kit: Kit, how: str, way: str) -> None:
    job_id, _ = await _give_longer_lease(kit, way)
    assert await _sweep(kit, SWEEP) == []
    kit.clock.jump(JUMPS[how])
    assert await _sweep(kit, 80) == []
    assert await _sweep(kit, 20) == [job_id]


@case.each(*((how, way) for how in JUMPS for way in ("of_its_task", "asked_for")))
async def a_jobs_own_lease_given_after_the_jump_ends_in_time(kit: Kit, how: str, way: str) -> None:
    kit.renew()
    assert await _sweep(kit, SWEEP) == []
    kit.clock.jump(JUMPS[how])
    job_id, _ = await _give_longer_lease(kit, way)
    assert await _sweep(kit, 85) == []
    assert await _sweep(kit, 15) == [job_id]


@case.each(("back",), ("back_a_little",))
async def a_longer_lease_asked_for_after_the_jump_counts_from_then(kit: Kit, how: str) -> None:
    job_id, lease = await _give_longer_lease(kit, "asked_for")
    kit.clock.jump(JUMPS[how])
    kit.renew(lease, extend=[(lease, 40.0)])
    assert await _sweep(kit, 35) == []
    assert await _sweep(kit, 70) == [job_id]


@case.each(*EACH_JUMP)
async def two_jumps(kit: Kit, how: str) -> None:
    """There and back again, as when a clock was set wrong and mended."""
    dead, live = await kit.add_many({}, {})
    await kit.take(worker="dead", limit=1)
    lease = await kit.take(worker="live", limit=1)
    for seconds in (JUMPS[how], -JUMPS[how]):
        assert await _sweep(kit, SWEEP) == []
        kit.clock.jump(seconds)
        kit.renew(lease, worker="live")
    found: list[int] = []
    for _ in range(4):
        found += await _sweep(kit, 10)
        kit.renew(lease, worker="live")
    assert found == [dead.id]
    assert (await kit.get(live.id)).locked_by == "live"


@case
async def after_a_long_silence_a_new_reaper_need_not_wait(kit: Kit) -> None:
    """Hours in which no process ran are no jump, if it can be told."""
    job = await kit.add()
    await kit.take()
    assert await _reap(kit, kit.store) == []
    kit.clock.advance(5 * HOUR)
    await kit.reopen()
    assert await _reap(kit, kit.store) == [job.id]


@case.each(*EACH_JUMP)
async def workers_are_told_with_the_end_of_their_leases(kit: Kit, how: str) -> None:
    kit.renew(worker="a")
    await kit.reap()
    kit.clock.jump(JUMPS[how])
    await kit.reap()
    [told] = await kit.store.workers()
    assert kit.micros() < told.expires_at <= kit.micros(LEASE)
