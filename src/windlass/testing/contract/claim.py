"""Claiming: which jobs a worker is given, in which order, and what its leases say."""

from __future__ import annotations

from windlass.clock import to_micros
from windlass.model.job import JobState
from windlass.store.records import COMPLETE, RELEASE, Fail
from windlass.testing.contract.case import Group
from windlass.testing.contract.kit import Kit, ids

case = Group(__name__)
CASES = case.cases


@case
async def nothing_there(kit: Kit) -> None:
    assert await kit.claim() == []


@case
async def order_by_priority(kit: Kit) -> None:
    zero, plus, minus = await kit.add_many({}, {"priority": 3}, {"priority": -3})
    assert await kit.claimed() == [minus.id, zero.id, plus.id]


@case
async def order_by_run_at_within_a_priority(kit: Kit) -> None:
    late, early, middle = await kit.add_many(
        {"run_at": kit.micros() - 1}, {"run_at": kit.micros() - 3}, {"run_at": kit.micros() - 2}
    )
    assert await kit.claimed() == [early.id, middle.id, late.id]


@case
async def order_by_id_at_last(kit: Kit) -> None:
    jobs = await kit.add_many(*[{"run_at": kit.micros(-1), "priority": 2}] * 8)
    assert await kit.claimed() == ids(jobs)


@case
async def priority_goes_before_run_at(kit: Kit) -> None:
    old, urgent = await kit.add_many({"run_at": kit.micros(-99)}, {"priority": -1})
    assert await kit.claimed() == [old.id, urgent.id][::-1]


@case
async def the_order_holds_across_tasks(kit: Kit) -> None:
    jobs = await kit.add_many(
        {"task": "b", "priority": 2},
        {"task": "a", "priority": 1},
        {"task": "b", "priority": 0},
        {"task": "a", "priority": 3},
    )
    expected = [jobs[2].id, jobs[1].id, jobs[0].id, jobs[3].id]
    assert await kit.claimed(tasks=["a", "b"]) == expected


@case
async def the_limit_takes_the_first(kit: Kit) -> None:
    jobs = await kit.add_many(*({"priority": -n} for n in range(10)))
    assert await kit.claimed(limit=3) == ids(jobs)[:6:-1]
    assert await kit.claimed(limit=3) == ids(jobs)[6:3:-1]


@case
async def limit_zero_takes_nothing(kit: Kit) -> None:
    job = await kit.add()
    assert await kit.claim(limit=0) == []
    assert await kit.state(job.id) is JobState.READY


@case
async def unknown_tasks_are_left(kit: Kit) -> None:
    foreign, mine = await kit.add_many({"task": "x", "priority": -9}, {})
    assert await kit.claimed(limit=1) == [mine.id]
    assert await kit.state(foreign.id) is JobState.READY


@case
async def a_worker_without_tasks_gets_nothing(kit: Kit) -> None:
    await kit.add()
    assert await kit.claim(tasks=[]) == []


@case
async def task_names_are_compared_exactly(kit: Kit) -> None:
    await kit.add_many({"task": "T"}, {"task": "t "}, {"task": "tt"})
    assert await kit.claim() == []


@case
async def a_forbidden_flag_leaves_the_job(kit: Kit) -> None:
    flagged, free, other = await kit.add_many(
        {"flags": ("eu", "gpu"), "priority": -1}, {}, {"flags": ("eu",)}
    )
    assert await kit.claimed(forbidden_flags=("gpu", "unused")) == [free.id, other.id]
    assert await kit.claimed() == [flagged.id]


@case
async def forbidden_jobs_do_not_use_up_the_limit(kit: Kit) -> None:
    await kit.add_many(*[{"flags": ("gpu",), "priority": -1}] * 5)
    free = await kit.add()
    assert await kit.claimed(limit=1, forbidden_flags=("gpu",)) == [free.id]


@case
async def a_flag_is_compared_whole(kit: Kit) -> None:
    job = await kit.add(flags=("gpu-large",))
    assert await kit.claimed(forbidden_flags=("gpu", "large")) == [job.id]


@case
async def a_job_is_given_once(kit: Kit) -> None:
    await kit.add()
    other = await kit.other()
    assert len(await kit.claim(worker="a")) == 1
    assert await kit.claim(worker="b", store=other) == []
    assert await kit.claim(worker="a") == []


@case
async def a_claimed_job_is_seen_running(kit: Kit) -> None:
    job = await kit.add()
    await kit.take(worker="w-1")
    seen = await kit.get(job.id)
    assert (seen.state, seen.locked_by) == (JobState.RUNNING, "w-1")
    assert (seen.attempts, seen.deliveries) == (1, 1)


@case
async def a_lease_carries_the_whole_job(kit: Kit) -> None:
    job = await kit.add(
        payload="[1]",
        queue="q",
        run_at=kit.micros(-5),
        max_attempts=4,
        key="k",
        priority=-2,
        flags=("f",),
        keep=3.5,
    )
    await kit.add(payload="[1]", queue="q", key="k", key_mode="unsafe_dedupe")
    kit.clock.advance(7)
    lease = await kit.take(worker="w-9")
    assert (lease.job_id, lease.worker, lease.task, lease.payload) == (job.id, "w-9", "t", "[1]")
    assert (lease.attempts, lease.deliveries, lease.max_attempts) == (1, 1, 4)
    assert (lease.priority, lease.run_at) == (-2, to_micros(job.run_at))
    assert (lease.key, lease.queue, lease.flags, lease.keep) == ("k", "q", ("f",), 3.5)
    assert (lease.revision, lease.resets, lease.suspect, lease.last_error) == (1, 0, False, None)
    assert lease.created_at == to_micros(job.created_at)


@case
async def a_leases_job_is_the_job_seen_running(kit: Kit) -> None:
    job = await kit.add(payload='{"a":[1]}', key="k", flags=("f",), priority=1)
    shown = (await kit.take()).job
    seen = await kit.get(job.id)
    assert (shown.id, shown.payload, shown.state) == (seen.id, seen.payload, seen.state)
    assert (shown.run_at, shown.max_attempts, shown.flags) == (seen.run_at, 25, seen.flags)
    assert (shown.attempts, shown.deliveries, shown.locked_by) == (1, 1, "w")


@case
async def attempts_and_deliveries_count_each_delivery(kit: Kit) -> None:
    await kit.add()
    for count in (1, 2, 3):
        lease = await kit.take()
        assert (lease.attempts, lease.deliveries) == (count, count)
        await kit.fail(lease)


@case
async def a_delivery_is_never_given_back(kit: Kit) -> None:
    await kit.add()
    for count in (1, 2, 3):
        lease = await kit.take()
        assert (lease.attempts, lease.deliveries) == (1, count)
        await kit.settle(lease, RELEASE)


@case
async def the_last_error_comes_with_the_next_delivery(kit: Kit) -> None:
    await kit.add()
    await kit.fail(await kit.take(), "first\ntrace ünï")
    assert (await kit.take()).last_error == "first\ntrace ünï"


@case
async def no_two_deliveries_of_a_job_share_a_token(kit: Kit) -> None:
    jobs = await kit.add_many(*[{}] * 3)
    tokens: dict[int, set[int]] = {job.id: set() for job in jobs}
    for outcome in (RELEASE, Fail("oops"), RELEASE, RELEASE, Fail("oops")):
        leases = await kit.claim()
        for lease in leases:
            tokens[lease.job_id].add(lease.token)
        await kit.store.settle([(lease, outcome) for lease in leases])
    assert [len(seen) for seen in tokens.values()] == [5, 5, 5]


@case
async def a_retried_job_is_claimed_by_its_new_run_at(kit: Kit) -> None:
    failing = await kit.add()
    fresh = await kit.add()
    lease, _ = await kit.claim()
    kit.clock.advance(1)
    await kit.fail(lease, delay=0.0)
    await kit.store.retire("w")
    assert await kit.claimed() == [fresh.id, failing.id]


# ── due times ──


@case
async def a_scheduled_job_is_not_given_before_its_time(kit: Kit) -> None:
    job = await kit.add(delay=10_000_000)
    kit.clock.advance(9.999999)
    assert await kit.store.promote(10) == 0
    assert await kit.claim() == []
    assert await kit.state(job.id) is JobState.SCHEDULED


@case
async def a_due_job_is_promoted_on_the_microsecond(kit: Kit) -> None:
    job = await kit.add(delay=10_000_000)
    kit.clock.advance(10)
    assert await kit.store.promote(10) == 1
    assert await kit.state(job.id) is JobState.READY
    assert await kit.claimed() == [job.id]


@case
async def promote_counts_only_what_it_made_ready(kit: Kit) -> None:
    await kit.add_many({}, {"delay": 1_000_000}, {"delay": 2_000_000}, {"delay": 3_000_000})
    kit.clock.advance(2)
    assert await kit.store.promote(10) == 2
    assert await kit.store.promote(10) == 0


@case
async def promote_takes_the_earliest_up_to_its_limit(kit: Kit) -> None:
    late, early, middle = await kit.add_many(
        {"delay": 3_000_000}, {"delay": 1_000_000}, {"delay": 2_000_000}
    )
    kit.clock.advance(5)
    assert await kit.store.promote(2) == 2
    assert await kit.state(late.id) is JobState.SCHEDULED
    assert await kit.claimed() == [early.id, middle.id]
    assert await kit.store.promote(2) == 1


@case
async def promoted_jobs_keep_their_run_at(kit: Kit) -> None:
    job = await kit.add(delay=10_000_000)
    await kit.pass_time(60)
    assert (await kit.get(job.id)).run_at == job.run_at


@case
async def a_retry_becomes_due_like_any_job(kit: Kit) -> None:
    job = await kit.add()
    await kit.settle(await kit.take(), Fail("oops", delay=2.5))
    kit.clock.advance(2.499999)
    assert await kit.store.promote(10) == 0
    kit.clock.advance(0.000001)
    assert await kit.store.promote(10) == 1
    assert await kit.claimed() == [job.id]


@case
async def nothing_is_due_next(kit: Kit) -> None:
    assert await kit.store.next_due() is None


@case
async def next_due_is_the_earliest_scheduled(kit: Kit) -> None:
    await kit.add_many({"delay": 60_000_000, "priority": -9}, {"delay": 12_500_000})
    assert await kit.store.next_due() == 12.5
    kit.clock.advance(2)
    assert await kit.store.next_due() == 10.5


@case
async def next_due_is_zero_when_overdue(kit: Kit) -> None:
    await kit.add(delay=1_000_000)
    kit.clock.advance(5)
    assert await kit.store.next_due() == 0


@case
async def next_due_looks_at_scheduled_jobs_only(kit: Kit) -> None:
    await kit.add_many({"priority": -1}, {"task": "x"}, {"queue": "q"}, {"queue": "q"})
    await kit.claim(limit=1)
    gone = await kit.add(delay=1_000_000)
    await kit.store.cancel([gone.id])
    failed = await kit.add(delay=2_000_000)
    await kit.store.fail([failed.id], "no")
    assert await kit.store.next_due() is None


@case
async def next_due_sees_a_retry(kit: Kit) -> None:
    await kit.add()
    await kit.fail(await kit.take(), delay=7.0)
    assert await kit.store.next_due() == 7


@case
async def next_due_forgets_what_was_promoted_or_moved(kit: Kit) -> None:
    await kit.add(delay=1_000_000)
    later = await kit.add(delay=5_000_000)
    await kit.pass_time(1)
    assert await kit.store.next_due() == 4
    await kit.store.reschedule([later.id], run_at=kit.micros(9))
    assert await kit.store.next_due() == 9


@case
async def a_worker_may_claim_again_while_it_runs(kit: Kit) -> None:
    jobs = await kit.add_many(*[{}] * 4)
    first = await kit.claim(limit=2)
    second = await kit.claim(limit=2)
    assert [lease.job_id for lease in first + second] == ids(jobs)
    await kit.store.settle([(lease, COMPLETE) for lease in second + first])
    assert await kit.ids() == []


@case
async def of_every_task(kit: Kit) -> None:
    jobs = await kit.add_many(
        {"task": "b", "priority": 1},
        {"task": "a", "queue": "q"},
        {"task": "c", "queue": "q"},
        {"task": "d", "delay": 60_000_000},
        {"task": "e", "flags": ("f",)},
        {"task": "a", "priority": -1},
    )
    taken = await kit.claimed(tasks=None, forbidden_flags=("f",))
    assert taken == [jobs[5].id, jobs[1].id, jobs[0].id]
    assert await kit.claim(tasks=None, forbidden_flags=("f",), past_heads=True) == []
    assert await kit.claimed(tasks=None) == [jobs[4].id]


@case
async def of_every_task_but_paused_ones(kit: Kit) -> None:
    _, free = await kit.add_many({"task": "a"}, {"task": "b"})
    await kit.store.pause(task="a")
    assert await kit.claimed(tasks=None) == [free.id]


@case
async def of_every_task_past_a_head_it_may_not_run(kit: Kit) -> None:
    _, behind = await kit.add_many({"task": "a", "queue": "q", "flags": ("f",)}, {"queue": "q"})
    assert await kit.claimed(tasks=None, forbidden_flags=("f",), past_heads=True) == [behind.id]


@case
async def suspects_of_every_task(kit: Kit) -> None:
    job = await kit.add(task="a")
    await kit.claim(tasks=None)
    await kit.crash()
    assert await kit.claimed(tasks=None, suspects=1) == [job.id]
