"""Tenants: each owns its jobs, keys, queues, schedules and pauses, and two never meet.

A worker may be given the jobs of all tenants or of some; a caller sees all, or those of one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from windlass.model.cron import Schedule
from windlass.model.job import Job, JobState
from windlass.store.records import COMPLETE, RELEASE, JobFilter, Paused, PausedName
from windlass.store.schedules import FireVerdict
from windlass.testing.contract.case import Group
from windlass.testing.contract.kit import Kit, ids

case = Group(__name__)
CASES = case.cases

A, B = "acme", "bond"
MINUTE = 60_000_000


async def _three(kit: Kit, **options: Any) -> tuple[Job, Job, Job]:
    """One job of the default tenant, one of A, one of B, alike in everything else."""
    first, second, third = await kit.add_many(
        options, {**options, "tenant": A}, {**options, "tenant": B}
    )
    return first, second, third


# ── what a job says ──


@case
async def a_job_says_whose_it_is(kit: Kit) -> None:
    jobs = await _three(kit)
    assert [job.tenant for job in jobs] == [None, A, B]
    assert [(await kit.get(job.id)).tenant for job in jobs] == [None, A, B]
    leases = await kit.claim()
    assert [lease.tenant for lease in leases] == ["", A, B]
    assert [lease.job.tenant for lease in leases] == [None, A, B]


@case
async def the_history_says_it_too(kit: Kit) -> None:
    jobs = await _three(kit, keep=600.0)
    await kit.store.settle([(lease, COMPLETE) for lease in await kit.claim()])
    kept = [await kit.get(job.id) for job in jobs]
    assert [(job.tenant, job.state) for job in kept] == [
        (None, JobState.COMPLETED),
        (A, JobState.COMPLETED),
        (B, JobState.COMPLETED),
    ]


@case
async def names_are_compared_exactly(kit: Kit) -> None:
    names = ["x", "X", "x ", "é", "%", "'"]
    jobs = await kit.add_many(*({"tenant": name, "key": "k", "queue": "q"} for name in names))
    assert len(set(ids(jobs))) == len(names)
    for name, job in zip(names, jobs, strict=True):
        assert await kit.page(tenant=name) == [job.id]
        assert await kit.claimed(tenants=(name,), worker=f"w{job.id}") == [job.id]


# ── claims ──


@case
async def a_worker_of_all_tenants_takes_jobs_in_one_order(kit: Kit) -> None:
    jobs = await kit.add_many(
        {"tenant": B, "priority": 2},
        {"priority": 1},
        {"tenant": A, "priority": 0},
        {"tenant": A, "priority": 3},
        {"tenant": B, "priority": 1},
    )
    wanted = [jobs[2].id, jobs[1].id, jobs[4].id, jobs[0].id, jobs[3].id]
    assert await kit.claimed(limit=3) == wanted[:3]
    assert await kit.claimed() == wanted[3:]


@case.each(("default",), (A,), ("both",), ("unknown",))
async def a_worker_of_some_tenants_takes_only_theirs(kit: Kit, which: str) -> None:
    jobs = await kit.add_many(*[{}, {"tenant": A}, {"tenant": B}] * 3)
    tenants, wanted = {
        "default": (("",), [0, 3, 6]),
        A: ((A,), [1, 4, 7]),
        "both": ((A, ""), [0, 1, 3, 4, 6, 7]),
        "unknown": (("stranger",), []),
    }[which]
    assert sorted(await kit.claimed(limit=100, tenants=tenants)) == [jobs[n].id for n in wanted]
    assert await kit.claim(limit=100, tenants=tenants) == []


@case
async def a_worker_of_no_tenant_takes_nothing(kit: Kit) -> None:
    await _three(kit)
    assert await kit.claim(tenants=()) == []


@case.each(("one",), ("twenty",), ("every",))
async def many_tenants_and_many_tasks(kit: Kit, which: str) -> None:
    """Whatever the number of tasks and tenants, a claim takes what it may, in order."""
    names = [f"t{n}" for n in range(20)]
    tenants = ["", *(f"tenant-{n}" for n in range(9))]
    jobs = await kit.add_many(
        *(
            {"task": task, "tenant": tenant, "priority": (7 * n + m) % 11}
            for n, task in enumerate(names)
            for m, tenant in enumerate(tenants)
        )
    )
    tasks = {"one": names[:1], "twenty": names, "every": None}[which]
    some = ("", "tenant-3", "tenant-7")
    for wanted in (("tenant-1",), some, None):
        mine = [
            job
            for job in jobs
            if (tasks is None or job.task in tasks)
            and (wanted is None or (job.tenant or "") in wanted)
        ]
        expected = ids(sorted(mine, key=lambda job: (job.priority, job.run_at, job.id)))
        taken: list[int] = []
        leases = []
        while part := await kit.claim(limit=13, tasks=tasks, tenants=wanted):
            assert sorted(lease.job_id for lease in part) == sorted(
                expected[len(taken) : len(taken) + 13]
            )
            taken += [lease.job_id for lease in part]
            leases += part
        assert len(taken) == len(expected)
        await kit.store.settle([(lease, RELEASE) for lease in leases])


@case
async def suspects_of_other_tenants_are_left(kit: Kit) -> None:
    jobs = await _three(kit)
    await kit.claim(worker="dead")
    await kit.crash()
    assert await kit.claimed(tenants=(A,), suspects=5) == [jobs[1].id]
    assert await kit.claimed(tenants=("",), suspects=5) == [jobs[0].id]
    assert await kit.claimed(suspects=5) == [jobs[2].id]


@case
async def a_job_that_becomes_due_is_its_tenants(kit: Kit) -> None:
    jobs = await _three(kit, delay=MINUTE)
    await kit.pass_time(60)
    assert await kit.claimed(tenants=(B,)) == [jobs[2].id]
    assert await kit.claimed() == ids(jobs)[:2]


@case
async def retried_and_handed_back_it_is_still_its_tenants(kit: Kit) -> None:
    jobs = await _three(kit)
    for lease in await kit.claim():
        await kit.fail(lease)
    for lease in await kit.claim():
        await kit.settle(lease, RELEASE)
    assert await kit.claimed(tenants=(A,)) == [jobs[1].id]
    assert (await kit.get(jobs[1].id)).tenant == A


# ── keys ──


@case.each(("replace",), ("preserve_run_at",), ("unsafe_dedupe",))
async def a_key_belongs_to_its_tenant(kit: Kit, mode: str) -> None:
    first = await _three(kit, key="k")
    assert len(set(ids(first))) == 3
    again = await kit.add_many(
        *({"key": "k", "tenant": tenant, "key_mode": mode} for tenant in (B, "", A))
    )
    assert ids(again) == [first[2].id, first[0].id, first[1].id]
    for tenant, job in zip(("", A, B), first, strict=True):
        found = await kit.store.get_by_key("k", tenant)
        assert found is not None and found.id == job.id
    assert (await kit.store.get_by_key("k")) == await kit.get(first[0].id)
    assert await kit.store.get_by_key("k", "stranger") is None


@case
async def one_key_of_two_tenants_in_one_call(kit: Kit) -> None:
    jobs = await kit.add_many(
        {"key": "k", "priority": 1},
        {"key": "k", "tenant": A, "priority": 2},
        {"key": "k", "priority": 3},
        {"key": "k", "tenant": A, "priority": 4},
    )
    assert [job.id for job in jobs] == [jobs[0].id, jobs[1].id, jobs[0].id, jobs[1].id]
    assert [(await kit.get(job.id)).priority for job in jobs[:2]] == [3, 4]


@case
async def a_key_that_runs_is_superseded_in_its_tenant_alone(kit: Kit) -> None:
    jobs = await _three(kit, key="k")
    await kit.claim()
    new = await kit.add(key="k", tenant=A)
    assert new.id not in ids(jobs)
    assert [(await kit.get(job.id)).key for job in jobs] == ["k", None, "k"]


@case
async def removing_by_key_removes_its_tenants(kit: Kit) -> None:
    jobs = await _three(kit, key="k")
    removed = await kit.store.remove("k", B)
    assert removed is not None and removed.id == jobs[2].id
    assert await kit.store.remove("k", B) is None
    removed = await kit.store.remove("k")
    assert removed is not None and removed.id == jobs[0].id
    assert await kit.ids() == [jobs[1].id]


@case
async def a_cancelled_job_comes_back_unless_its_tenant_uses_its_key(kit: Kit) -> None:
    jobs = await _three(kit, key="k")
    await kit.store.cancel(ids(jobs))
    await kit.add(key="k", tenant=A)
    assert ids(await kit.store.retry(ids(jobs))) == [jobs[0].id, jobs[2].id]


# ── queues ──


@case
async def a_queue_belongs_to_its_tenant(kit: Kit) -> None:
    firsts = await _three(kit, queue="q")
    seconds = await _three(kit, queue="q")
    leases = await kit.claim()
    assert [lease.job_id for lease in leases] == ids(firsts)
    assert await kit.claim() == []
    await kit.settle(leases[1], COMPLETE)
    assert await kit.claimed() == [seconds[1].id]


@case
async def the_next_of_a_queue_is_for_its_tenants_workers(kit: Kit) -> None:
    firsts = await _three(kit, queue="q")
    seconds = await _three(kit, queue="q")
    for number, tenant in enumerate(("", A, B)):
        lease = await kit.take(tenants=(tenant,), worker=f"w{number}")
        assert lease.job_id == firsts[number].id
        assert await kit.claim(tenants=(tenant,), worker=f"w{number}") == []
        await kit.settle(lease, COMPLETE)
        assert await kit.claimed(tenants=(tenant,), worker=f"w{number}") == [seconds[number].id]


@case
async def a_worker_looks_past_heads_in_its_own_tenant(kit: Kit) -> None:
    await kit.add_many(*({"task": "x", "queue": "q", "tenant": t} for t in ("", A, B)))
    behind = await _three(kit, queue="q")
    assert await kit.claimed(tenants=(A,), past_heads=True) == [behind[1].id]
    assert await kit.claimed(tenants=("",), past_heads=True) == [behind[0].id]
    assert await kit.claimed(past_heads=True) == [behind[2].id]


# ── pauses ──


@case
async def a_pause_belongs_to_its_tenant(kit: Kit) -> None:
    plain = await _three(kit)
    queued = await _three(kit, queue="q")
    await kit.store.pause(task="x", queue="q", tenant=A)
    await kit.store.pause(queue="q", tenant=B)
    everything = {*ids(plain), *ids(queued)}
    assert set(await kit.claimed(limit=100, past_heads=True)) == everything - {
        queued[1].id,
        queued[2].id,
    }
    await kit.store.resume(queue="q", tenant=B)
    assert await kit.claimed() == [queued[2].id]
    await kit.store.resume(queue="q", tenant=A)
    assert await kit.claimed() == [queued[1].id]


@case.each(("all",), ("its own",), ("two",))
async def a_paused_task_of_one_tenant_is_not_given(kit: Kit, whose: str) -> None:
    """Not to workers of all tenants, nor to those of one; others' jobs of that task are."""
    tenants = {"all": None, "its own": (A,), "two": (A, B)}[whose]
    jobs = await kit.add_many(*[{"tenant": A}] * 30, {"tenant": B}, {}, {"tenant": A, "task": "x"})
    await kit.store.pause(task="t", tenant=A)
    free = {None: [30, 31, 32], (A,): [32], (A, B): [30, 32]}[tenants]
    taken = await kit.claimed(limit=10, tasks=["t", "x"], tenants=tenants)
    taken += await kit.claimed(limit=10, tasks=["t", "x"], tenants=tenants)
    assert taken == [jobs[n].id for n in free]
    assert [await kit.state(job.id) for job in jobs[:30]] == [JobState.READY] * 30
    assert (await kit.store.counts(A))[JobState.READY] == 30
    late = await kit.add(tenant=A)
    assert await kit.claimed(limit=10, tenants=tenants, tasks=["t"]) == []
    await kit.store.resume(task="t", tenant=A)
    again = await kit.claimed(limit=100, tasks=["t"], tenants=tenants)
    assert again == [*ids(jobs[:30]), late.id]


@case
async def pausing_the_default_tenant_pauses_no_other(kit: Kit) -> None:
    jobs = await _three(kit)
    await kit.store.pause(task="t")
    assert await kit.claimed() == ids(jobs)[1:]
    assert await kit.claim(tenants=("",)) == []
    await kit.store.resume(task="t")
    assert await kit.claimed(tenants=("",)) == [jobs[0].id]


@case.each(("cancel",), ("complete",), ("fail",), ("reschedule",), ("replace",), ("remove",))
async def a_job_that_a_pause_keeps_back_can_be_changed(kit: Kit, verb: str) -> None:
    job = await kit.add(tenant=A, key="k")
    await kit.store.pause(task="t", tenant=A)
    assert await kit.claim() == []
    store = kit.store
    if verb == "cancel":
        assert ids(await store.cancel([job.id])) == [job.id]
        assert await kit.state(job.id) is JobState.CANCELLED
    elif verb == "complete":
        assert ids(await store.complete([job.id])) == [job.id]
        assert await kit.state(job.id) is None
    elif verb == "fail":
        assert ids(await store.fail([job.id], "no")) == [job.id]
        assert await kit.state(job.id) is JobState.FAILED
    elif verb == "reschedule":
        assert ids(await store.reschedule([job.id], priority=-5)) == [job.id]
    elif verb == "replace":
        assert (await kit.add(tenant=A, key="k", priority=-5)).id == job.id
    else:
        assert await store.remove("k", A) is not None
        assert await kit.state(job.id) is None
    assert await kit.claim() == []
    await store.resume(task="t", tenant=A)
    assert await kit.claimed() == ([job.id] if verb in ("reschedule", "replace") else [])


@case
async def what_is_paused_is_told_to_its_tenant(kit: Kit) -> None:
    await kit.store.pause(task="a", queue="q")
    await kit.store.pause(task="b", tenant=B)
    await kit.store.pause(queue="z", tenant=A)
    assert await kit.store.paused(A) == Paused(queues=("z",))
    assert await kit.store.paused(B) == Paused(tasks=("b",))
    assert await kit.store.paused("") == Paused(tasks=("a",), queues=("q",))
    assert await kit.store.paused() == Paused(
        tasks=("a",),
        queues=("q",),
        elsewhere=(PausedName(A, "queue", "z"), PausedName(B, "task", "b")),
    )


# ── schedules ──


def _schedule(task: str = "t") -> Schedule:
    return Schedule(identifier="s", task=task, pattern="* * * * *")


@case
async def a_schedule_belongs_to_its_tenant(kit: Kit) -> None:
    [mine] = await kit.store.register([_schedule()], A)
    kit.clock.advance(1)
    [theirs] = await kit.store.register([_schedule("x")])
    assert (mine.tenant, theirs.tenant) == (A, "")
    assert mine.known_since < theirs.known_since
    assert await kit.store.schedules() == [theirs, mine]
    assert await kit.store.schedules(A) == [mine]
    assert await kit.store.schedules("") == [theirs]
    assert await kit.store.schedules(B) == []


@case
async def firing_moves_one_tenants_schedule(kit: Kit) -> None:
    [mine] = await kit.store.register([_schedule()], A)
    await kit.store.register([_schedule()])
    kit.clock.advance(60)
    until = kit.micros()
    new = [kit.new(tenant=A)]
    assert (await kit.store.fire("s", mine.floor_at, until, new, B)).verdict is FireVerdict.MISSING
    fired = await kit.store.fire("s", mine.floor_at, until, new, A)
    assert (fired.verdict, fired.floor_at) == (FireVerdict.APPLIED, until)
    floors = {known.tenant: known.floor_at for known in await kit.store.schedules()}
    assert floors == {"": mine.floor_at, A: until}
    assert [job.tenant for job in await kit.jobs()] == [A]


@case.each(("pause",), ("forget",))
async def changing_one_tenants_schedule(kit: Kit, verb: str) -> None:
    await kit.store.register([_schedule()], A)
    [theirs] = await kit.store.register([_schedule()])
    if verb == "pause":
        assert await kit.store.pause_schedule("s", B) is None
        paused = await kit.store.pause_schedule("s", A)
        assert paused is not None and paused.paused_at == kit.micros()
        assert await kit.store.schedules("") == [theirs]
        resumed = await kit.store.resume_schedule("s", A)
        assert resumed is not None and resumed.paused_at is None
    else:
        assert await kit.store.forget_schedule("s", B) is None
        forgotten = await kit.store.forget_schedule("s", A)
        assert forgotten is not None and forgotten.tenant == A
        assert await kit.store.schedules() == [theirs]


# ── what a caller of one tenant sees and touches ──


@case
async def a_caller_of_one_tenant_sees_its_own(kit: Kit) -> None:
    jobs = await _three(kit, keep=600.0)
    done = await _three(kit, task="x", keep=600.0)
    await kit.store.settle([(lease, COMPLETE) for lease in await kit.claim(tasks=["x"])])
    for number, tenant in enumerate(("", A, B)):
        assert await kit.page(tenant=tenant) == [done[number].id, jobs[number].id]
        counts = await kit.store.counts(tenant)
        assert (counts[JobState.READY], counts[JobState.COMPLETED]) == (1, 1)
        assert sum(counts.values()) == 2
        for job in (*jobs, *done):
            seen = await kit.store.get(job.id, tenant)
            assert (seen is not None) == ((job.tenant or "") == tenant)
    assert sum((await kit.store.counts()).values()) == 6
    assert len(await kit.page()) == 6


@case
async def filters_and_pages_within_a_tenant(kit: Kit) -> None:
    jobs = await kit.add_many(
        *({"tenant": (A, B)[n % 2], "task": "tx"[n % 4 < 2]} for n in range(12))
    )
    mine = [job for job in reversed(jobs) if job.tenant == A]
    assert await kit.page(tenant=A, limit=2) == ids(mine)[:2]
    assert await kit.page(tenant=A, limit=2, after=mine[1].id) == ids(mine)[2:4]
    assert await kit.page(tenant=A, task="t") == [job.id for job in mine if job.task == "t"]
    assert await kit.page(tenant=A, ids=tuple(ids(jobs))) == ids(mine)
    assert await kit.page(tenant=A, states=(JobState.READY,)) == ids(mine)


Verb = Callable[[Kit, list[int]], Awaitable[list[Job]]]

VERBS: dict[str, Verb] = {
    "cancel": lambda kit, which: kit.store.cancel(which, A),
    "complete": lambda kit, which: kit.store.complete(which, A),
    "fail": lambda kit, which: kit.store.fail(which, "no", A),
    "reschedule": lambda kit, which: kit.store.reschedule(which, priority=4, tenant=A),
    "retry": lambda kit, which: kit.store.retry(which, A),
    "delete": lambda kit, which: kit.store.delete(which, A),
}


@case.each(*((verb,) for verb in VERBS))
async def a_caller_of_one_tenant_changes_its_own(kit: Kit, verb: str) -> None:
    jobs = await kit.add_many(*({"tenant": tenant, "delay": MINUTE} for tenant in ("", A, B)))
    kit.clock.advance(1)
    assert ids(await VERBS[verb](kit, ids(jobs))) == [jobs[1].id]
    assert [await kit.get(job.id) for job in (jobs[0], jobs[2])] == [jobs[0], jobs[2]]


@case
async def deleting_failed_jobs_of_one_tenant(kit: Kit) -> None:
    jobs = await _three(kit)
    await kit.store.fail(ids(jobs), "no")
    assert await kit.store.delete_failed(10, B) == 1
    assert await kit.ids() == ids(jobs)[:2]
    assert await kit.store.delete_failed(10) == 2


@case
async def workers_that_serve_a_tenant(kit: Kit) -> None:
    await kit.add_many({}, {"tenant": A}, {"tenant": A})
    await kit.claim(worker="all")
    await kit.store.introduce("all", ["t"])
    kit.renew(worker="some")
    await kit.store.introduce("some", ["t"], [B])
    listed = {
        tenant: [(info.id, info.running) for info in await kit.store.workers(tenant)]
        for tenant in (None, "", A, B)
    }
    assert listed == {
        None: [("all", 3), ("some", 0)],
        "": [("all", 1)],
        A: [("all", 2)],
        B: [("all", 0), ("some", 0)],
    }


@case
async def a_task_is_stranded_where_no_worker_serves_its_tenant(kit: Kit) -> None:
    await kit.add_many({"tenant": A}, {"tenant": B, "task": "x"})
    for worker, tasks, tenants in (("w", ["t"], [B]), ("v", ["x"], [B, ""])):
        kit.renew(worker=worker)
        await kit.store.introduce(worker, tasks, tenants)
    assert await kit.store.stranded() == ["t"]
    await kit.store.pause(task="t", tenant=A)
    assert await kit.store.stranded() == []
    await kit.store.resume(task="t", tenant=A)
    await kit.store.introduce("w", ["t"])
    assert await kit.store.stranded() == []


@case
async def a_filter_without_a_tenant_finds_all(kit: Kit) -> None:
    jobs = await _three(kit, key="k", queue="q")
    wanted = JobFilter(key="k", queue="q", task="t")
    assert ids(await kit.store.find(wanted)) == ids(jobs)[::-1]
