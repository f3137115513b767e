"""Crashes between any two verbs: whichever worker vanishes, every job is still somewhere, once.

A worker that vanishes is one that stops calling; `reopen` goes on with a fresh store, as a new
process would, where the store outlives its process.
"""

from __future__ import annotations

from msgspec.structs import replace

from windlass.model.cron import Schedule
from windlass.model.job import Job, JobState
from windlass.store.records import (
    COMPLETE,
    RELEASE,
    Complete,
    Fail,
    Note,
    Paused,
    Verdict,
    WorkerInfo,
)
from windlass.store.schedules import FireVerdict, KnownSchedule
from windlass.testing.contract.case import Group
from windlass.testing.contract.kit import Kit, ids

case = Group(__name__)
CASES = case.cases

VERBS = (
    "enqueue",
    "replace",
    "supersede",
    "claim",
    "settle",
    "note",
    "renew",
    "extend",
    "retire",
    "reap",
    "promote",
    "prune",
    "cancel",
    "complete",
    "fail",
    "reschedule",
    "retry",
    "remove",
    "unlock",
    "pause",
    "delete_failed",
    "delete",
    "register",
    "fire",
    "pause_schedule",
    "resume_schedule",
    "forget_schedule",
)


async def _do(kit: Kit, verb: str) -> None:
    """One verb on a database that holds two running, one ready and one scheduled job."""
    await kit.store.enqueue([kit.new(queue="q", key="a", keep=60.0), kit.new(key="b")])
    one, two = await kit.claim()
    await kit.store.enqueue([kit.new(key="c"), kit.new(key="d", delay=10_000_000, keep=60.0)])
    store = kit.store
    third, fourth = await store.get_by_key("c"), await store.get_by_key("d")
    assert third is not None and fourth is not None
    match verb:
        case "enqueue":
            await kit.add_many({"flags": ("f",), "payload": '"ü"'}, {"queue": "q"})
        case "replace":
            await kit.add(key="d", payload="2", priority=3)
        case "supersede":
            await kit.add(key="a", payload="2")
        case "claim":
            await kit.take(worker="late", lease=45.0)
        case "settle":
            await store.settle([(one, Complete("1")), (two, Fail("oops", delay=7.0))])
        case "note":
            await store.note(one, Note('[0.5,"half"]', '"said"'))
        case "renew":
            kit.clock.advance(10)
            kit.renew(one, two)
        case "extend":
            kit.renew(one, extend=[(one, 100.0)])
        case "retire":
            await store.retire("w")
        case "reap":
            await kit.crash()
        case "promote":
            await kit.pass_time(10)
        case "prune":
            await kit.settle(one, COMPLETE)
            kit.clock.advance(60)
            assert await store.prune(10) == 1
        case "cancel":
            await store.cancel([one.job_id, third.id])
        case "complete":
            await store.complete([third.id, fourth.id])
        case "fail":
            await store.fail([third.id], "no")
        case "reschedule":
            await store.reschedule([third.id], run_at=kit.micros(60), attempts=3)
        case "retry":
            await store.retry([fourth.id])
        case "remove":
            await store.remove("c")
        case "unlock":
            await store.unlock(["w"], 5)
        case "pause":
            await store.pause(task="t", queue="q")
        case "delete_failed":
            await kit.fail(one, final=True)
            assert await store.delete_failed(10) == 1
        case "delete":
            await kit.settle(one, COMPLETE)
            gone = [one.job_id, two.job_id, third.id, fourth.id]
            assert ids(await store.delete(gone)) == [one.job_id, third.id, fourth.id]
        case _:
            await _do_with_a_schedule(kit, verb)


async def _do_with_a_schedule(kit: Kit, verb: str) -> None:
    store = kit.store
    wanted = Schedule(identifier="s", task="t", pattern="* * * * *", payload={"n": "ü"})
    [known, _] = await store.register([wanted, replace(wanted, identifier="other")])
    kit.clock.advance(5)
    match verb:
        case "register":
            await store.register([replace(wanted, task="x"), replace(wanted, identifier="new")])
        case "fire":
            until = kit.micros(-1)
            fired = await store.fire("s", known.floor_at, until, [kit.new(run_at=until)] * 2)
            assert fired.verdict is FireVerdict.APPLIED
        case "pause_schedule":
            await store.pause_schedule("s")
        case "resume_schedule":
            await store.pause_schedule("s")
            await store.resume_schedule("s")
        case "forget_schedule":
            await store.forget_schedule("s")
        case _:
            raise AssertionError(f"nothing is done for {verb}")


async def _all(
    kit: Kit,
) -> tuple[
    list[Job], dict[JobState, int], Paused, list[WorkerInfo], float | None, list[KnownSchedule]
]:
    store = kit.store
    jobs = await kit.jobs()
    return (
        jobs,
        await store.counts(),
        await store.paused(),
        await store.workers(),
        await store.next_due(),
        await store.schedules(),
    )


@case.each(*((verb,) for verb in VERBS))
async def a_verb_outlives_its_process(kit: Kit, verb: str) -> None:
    await _do(kit, verb)
    before = await _all(kit)
    await kit.reopen()
    assert await _all(kit) == before


@case.each(*((verb,) for verb in VERBS))
async def every_job_can_still_end_after(kit: Kit, verb: str) -> None:
    """All workers vanish right after the verb; what is left is reaped and run to its end."""
    await _do(kit, verb)
    await kit.store.resume(task="t", queue="q")
    await kit.reopen()
    open_before = await kit.ids(states=(JobState.READY, JobState.RUNNING, JobState.SCHEDULED))
    ran: list[int] = []
    for _ in range(8):
        await kit.pass_time(100)
        ended = (await kit.reap()).ended
        leases = await kit.claim(worker="heir", suspects=9)
        ran += [*ended, *(lease.job_id for lease in leases)]
        answers = await kit.store.settle([(lease, COMPLETE) for lease in leases])
        assert all(answer.verdict is Verdict.APPLIED for answer in answers)
    assert sorted(ran) == open_before
    counts = await kit.store.counts()
    assert counts[JobState.READY] == counts[JobState.RUNNING] == counts[JobState.SCHEDULED] == 0


@case
async def vanished_after_a_claim(kit: Kit) -> None:
    jobs = await kit.add_many(*[{}] * 3)
    await kit.claim()
    await kit.reopen()
    assert (await kit.crash()).total == 3
    assert await kit.claimed(worker="heir", suspects=3) == ids(jobs)


@case
async def vanished_after_settling_a_part(kit: Kit) -> None:
    jobs = await kit.add_many(*[{}] * 4)
    leases = await kit.claim()
    await kit.store.settle([(leases[0], COMPLETE), (leases[2], Fail("oops", delay=500.0))])
    await kit.reopen()
    assert sorted((await kit.crash()).requeued) == [jobs[1].id, jobs[3].id]
    seen = await kit.get(jobs[2].id)
    assert (seen.state, seen.attempts, seen.last_error) == (JobState.SCHEDULED, 1, "oops")
    assert await kit.store.get(jobs[0].id) is None


@case
async def vanished_after_a_renewal(kit: Kit) -> None:
    job = await kit.add()
    lease = await kit.take()
    kit.clock.advance(20)
    kit.renew(lease)
    await kit.reopen()
    kit.clock.advance(29)
    assert (await kit.reap()).total == 0
    kit.clock.advance(1)
    assert (await kit.reap()).requeued == (job.id,)


@case
async def the_reaper_vanished_before_a_claim(kit: Kit) -> None:
    job = await kit.add()
    old = await kit.take()
    await kit.crash()
    await kit.reopen()
    assert (await kit.reap()).total == 0
    new = await kit.take(worker="heir", suspects=1)
    assert (new.job_id, new.suspect, new.attempts, new.deliveries) == (job.id, True, 1, 2)
    assert (await kit.settle(old, COMPLETE)).verdict is Verdict.LOST
    assert (await kit.settle(new, COMPLETE)).verdict is Verdict.APPLIED


@case
async def the_reaper_vanished_half_way(kit: Kit) -> None:
    jobs = await kit.add_many(*[{}] * 5)
    await kit.claim()
    kit.clock.advance(30)
    await kit.reap(limit=2)
    await kit.reopen()
    assert (await kit.reap()).total == 3
    assert await kit.claimed(suspects=9) == ids(jobs)


@case
async def a_worker_that_comes_back_may_still_settle(kit: Kit) -> None:
    await kit.add()
    lease = await kit.take()
    await kit.reopen()
    assert kit.check(lease).lost == {}
    assert (await kit.settle(lease, COMPLETE)).verdict is Verdict.APPLIED


@case
async def a_worker_that_comes_back_too_late_is_told(kit: Kit) -> None:
    await kit.add(max_attempts=1)
    old = await kit.take(worker="stopped")
    await kit.crash()
    new = await kit.take(worker="heir", suspects=1)
    assert list(kit.renew(old, worker="stopped").lost) == [old.job_id]
    for outcome in (COMPLETE, RELEASE, Fail("late")):
        assert (await kit.settle(old, outcome)).verdict is Verdict.LOST
    assert (await kit.settle(new, COMPLETE)).verdict is Verdict.APPLIED


@case
async def tokens_are_not_used_again_after_a_restart(kit: Kit) -> None:
    await kit.add()
    tokens = []
    for _ in range(4):
        lease = await kit.take()
        tokens.append(lease.token)
        await kit.settle(lease, RELEASE)
        await kit.reopen()
    assert len(set(tokens)) == 4


@case
async def ids_are_not_used_again_after_a_restart(kit: Kit) -> None:
    job = await kit.add()
    await kit.settle(await kit.take(), COMPLETE)
    await kit.reopen()
    assert (await kit.add()).id > job.id


@case
async def a_life_with_a_crash_between_any_two_verbs(kit: Kit) -> None:
    job = await kit.add(key="k", delay=1_000_000, keep=60.0, payload="[1]")
    await kit.reopen()
    await kit.pass_time(1)
    await kit.reopen()
    lease = await kit.take()
    await kit.reopen()
    await kit.store.note(lease, Note(entry='"one"'))
    await kit.reopen()
    await kit.fail(lease, delay=5.0)
    await kit.reopen()
    await kit.pass_time(5)
    await kit.reopen()
    await kit.take()
    await kit.reopen()
    await kit.crash()
    await kit.reopen()
    lease = await kit.take(suspects=1)
    await kit.reopen()
    await kit.settle(lease, Complete("7"))
    await kit.reopen()
    seen = await kit.get(job.id)
    assert (seen.state, seen.output, seen.log) == (JobState.COMPLETED, 7, ("one",))
    assert (seen.attempts, seen.deliveries, seen.resets) == (2, 3, 0)
    kit.clock.advance(60)
    assert await kit.store.prune(10) == 1


@case
async def a_job_in_a_killed_workers_prefetch_is_not_blamed(kit: Kit) -> None:
    """The killer reaches max_resets; what only lay beside it is never charged with a reset."""
    killer = await kit.add(priority=-1)
    bystanders = await kit.add_many(*[{}] * 4)
    await kit.claim(worker="w0")
    assert (await kit.crash(max_resets=3)).total == 5
    for crash in (1, 2, 3):
        [running] = await kit.claim(worker=f"w{crash}", suspects=1)
        assert running.job_id == killer.id
        reaped = await kit.crash(max_resets=3)
        assert reaped.total == 1
    assert (await kit.get(killer.id)).state is JobState.FAILED
    for job in bystanders:
        lease = await kit.take(worker="survivor", suspects=1)
        assert (lease.job_id, lease.resets, lease.attempts) == (job.id, 0, 1)
        await kit.settle(lease, COMPLETE)


@case
async def fresh_jobs_go_on_beside_suspects(kit: Kit) -> None:
    await kit.add_many(*[{"priority": -1}] * 3)
    await kit.claim()
    await kit.crash()
    fresh = await kit.add_many({}, {})
    leases = await kit.claim(worker="heir", suspects=1)
    assert [lease.suspect for lease in leases] == [True, False, False]
    assert [lease.job_id for lease in leases[1:]] == ids(fresh)
