"""Serial queues: one job of a queue at a time, in order, whichever worker claims.

A job that waits for a retry, is scheduled, or ended does not hold its queue up.
"""

from __future__ import annotations

from typing import Any

from windlass.model.job import JobState
from windlass.store.records import CANCEL, COMPLETE, RELEASE, Complete, Fail, Outcome
from windlass.testing.contract.case import Group
from windlass.testing.contract.kit import Kit, ids

case = Group(__name__)
CASES = case.cases

OUTCOMES: dict[str, Outcome] = {
    "complete": COMPLETE,
    "complete_kept": Complete(keep=60.0),
    "fail_and_retry": Fail("oops", delay=60.0),
    "fail_for_good": Fail("oops", final=True),
    "cancel": CANCEL,
}


async def _two(kit: Kit) -> tuple[int, int]:
    head, behind = await kit.add_many({"queue": "q", "key": "head"}, {"queue": "q"})
    return head.id, behind.id


@case
async def one_of_a_queue_in_a_claim(kit: Kit) -> None:
    jobs = await kit.add_many(*[{"queue": "q"}] * 5)
    assert await kit.claimed() == [jobs[0].id]
    assert await kit.claim() == []


@case
async def jobs_without_a_queue_go_together(kit: Kit) -> None:
    jobs = await kit.add_many(*[{}] * 5)
    assert await kit.claimed() == ids(jobs)


@case
async def one_of_each_queue_in_a_claim(kit: Kit) -> None:
    jobs = await kit.add_many({"queue": "a"}, {"queue": "a"}, {"queue": "b"}, {}, {"queue": "b"})
    assert await kit.claimed() == [jobs[0].id, jobs[2].id, jobs[3].id]


@case
async def one_of_a_queue_across_claimers(kit: Kit) -> None:
    await _two(kit)
    other = await kit.other()
    assert len(await kit.claim(worker="a")) == 1
    assert await kit.claim(worker="b", store=other) == []
    assert await kit.claim(worker="a") == []


@case
async def one_of_a_queue_across_tasks(kit: Kit) -> None:
    first, _ = await kit.add_many({"queue": "q", "task": "a"}, {"queue": "q", "task": "b"})
    assert await kit.claimed(tasks=["a", "b"]) == [first.id]
    assert await kit.claim(tasks=["b"], past_heads=True) == []


@case
async def queue_names_are_compared_exactly(kit: Kit) -> None:
    jobs = await kit.add_many({"queue": "q"}, {"queue": "Q"}, {"queue": "q "})
    assert await kit.claimed() == ids(jobs)


@case
async def a_queue_runs_in_order(kit: Kit) -> None:
    late, low, early, high, tie = await kit.add_many(
        {"queue": "q", "run_at": kit.micros(-1)},
        {"queue": "q", "priority": 5},
        {"queue": "q", "run_at": kit.micros(-2)},
        {"queue": "q", "priority": -5},
        {"queue": "q", "run_at": kit.micros(-1)},
    )
    ran = []
    while leases := await kit.claim():
        [lease] = leases
        ran.append(lease.job_id)
        await kit.settle(lease, COMPLETE)
    assert ran == [high.id, early.id, late.id, tie.id, low.id]


@case
async def a_better_newcomer_goes_first(kit: Kit) -> None:
    await _two(kit)
    better = await kit.add(queue="q", priority=-1)
    assert await kit.claimed() == [better.id]


@case
async def a_better_newcomer_waits_for_the_running_one(kit: Kit) -> None:
    head, behind = await _two(kit)
    lease = await kit.take()
    better = await kit.add(queue="q", priority=-1)
    assert lease.job_id == head
    assert await kit.claim() == []
    await kit.settle(lease, COMPLETE)
    again = await kit.take()
    assert again.job_id == better.id
    await kit.settle(again, COMPLETE)
    assert await kit.claimed() == [behind]


@case.each(*((name,) for name in OUTCOMES))
async def the_next_goes_on_after(kit: Kit, name: str) -> None:
    head, behind = await _two(kit)
    lease = await kit.take()
    assert lease.job_id == head
    await kit.settle(lease, OUTCOMES[name])
    assert await kit.claimed() == [behind]


@case
async def a_released_head_is_first_again(kit: Kit) -> None:
    head, _ = await _two(kit)
    await kit.settle(await kit.take(), RELEASE)
    assert await kit.claimed() == [head]


@case
async def a_retry_without_delay_takes_its_turn_by_run_at(kit: Kit) -> None:
    head, behind = await _two(kit)
    kit.clock.advance(1)
    await kit.fail(await kit.take(), delay=0.0)
    lease = await kit.take()
    assert lease.job_id == behind
    await kit.settle(lease, COMPLETE)
    assert await kit.claimed() == [head]


@case
async def a_reaped_head_is_first_again(kit: Kit) -> None:
    head, behind = await _two(kit)
    await kit.take()
    assert (await kit.crash()).requeued == (head,)
    lease = await kit.take(suspects=5)
    assert lease.job_id == head
    await kit.settle(lease, COMPLETE)
    assert await kit.claimed() == [behind]


@case.each(("heads only",), ("past heads",))
async def a_suspect_keeps_its_place_in_its_queue(kit: Kit, look: str) -> None:
    """Where a claim may take no suspect, the rest of the queue waits with it."""
    head, behind = await _two(kit)
    await kit.take()
    await kit.crash()
    free = await kit.add()
    assert await kit.claimed(suspects=0, past_heads=look == "past heads") == [free.id]
    lease = await kit.take(suspects=1, past_heads=look == "past heads")
    assert lease.job_id == head
    await kit.settle(lease, COMPLETE)
    assert await kit.claimed() == [behind]


@case
async def a_suspect_behind_a_foreign_head_keeps_its_place(kit: Kit) -> None:
    suspect = await kit.add(queue="q")
    await kit.take()
    await kit.crash()
    await kit.add(queue="q", priority=9)
    await kit.add("foreign", queue="q", priority=-9)
    assert await kit.claim(suspects=0, past_heads=True) == []
    assert await kit.claimed(suspects=1, past_heads=True) == [suspect.id]


@case
async def a_reaped_head_that_ends_lets_the_next_go(kit: Kit) -> None:
    head, behind = await _two(kit)
    await kit.take()
    await kit.store.cancel([head])
    assert (await kit.crash()).ended == (head,)
    assert await kit.claimed() == [behind]


@case
async def a_retired_workers_head_is_first_again(kit: Kit) -> None:
    head, _ = await _two(kit)
    await kit.take(worker="a")
    await kit.store.retire("a")
    assert await kit.claimed(worker="b") == [head]


@case
async def an_unlocked_workers_head_is_first_again(kit: Kit) -> None:
    head, _ = await _two(kit)
    await kit.take(worker="a")
    await kit.store.unlock(["a"], 5)
    assert await kit.claimed(worker="b", suspects=1) == [head]


@case.each(
    ("cancel",), ("complete",), ("fail",), ("reschedule",), ("remove",), ("replace",), ("lower",)
)
async def the_next_goes_on_when_an_operator_moves_the_head(kit: Kit, verb: str) -> None:
    head, behind = await _two(kit)
    if verb == "cancel":
        await kit.store.cancel([head])
    elif verb == "complete":
        await kit.store.complete([head])
    elif verb == "fail":
        await kit.store.fail([head], "no")
    elif verb == "reschedule":
        await kit.store.reschedule([head], run_at=kit.micros(60))
    elif verb == "lower":
        await kit.store.reschedule([head], priority=9)
    elif verb == "remove":
        await kit.store.remove("head")
    else:
        await kit.add(queue="q", key="head", delay=60_000_000)
    assert await kit.claimed() == [behind]


@case
async def a_scheduled_job_does_not_hold_its_queue_up(kit: Kit) -> None:
    await kit.add(queue="q", priority=-9, delay=60_000_000)
    ready = await kit.add(queue="q")
    assert await kit.claimed() == [ready.id]


@case
async def a_due_job_takes_its_place_in_the_order(kit: Kit) -> None:
    due = await kit.add(queue="q", priority=-9, delay=60_000_000)
    await kit.add(queue="q")
    await kit.pass_time(60)
    assert await kit.claimed() == [due.id]


@case
async def two_due_at_once_still_run_one_at_a_time(kit: Kit) -> None:
    first, second = await kit.add_many(*[{"queue": "q", "delay": 1_000_000}] * 2)
    await kit.pass_time(1)
    lease = await kit.take()
    assert lease.job_id == first.id
    await kit.settle(lease, COMPLETE)
    assert await kit.claimed() == [second.id]


@case
async def a_due_job_waits_for_the_running_one(kit: Kit) -> None:
    running = await kit.add(queue="q")
    due = await kit.add(queue="q", delay=1_000_000)
    lease = await kit.take()
    await kit.pass_time(1)
    assert lease.job_id == running.id
    assert await kit.claim() == []
    await kit.settle(lease, COMPLETE)
    assert await kit.claimed() == [due.id]


@case.each(("unknown_task",), ("forbidden_flag",), ("paused_task",))
async def a_head_this_worker_may_not_run_is_passed(kit: Kit, why: str) -> None:
    head = await kit.add("x" if why == "unknown_task" else "p", queue="q", flags=("gpu",))
    behind = await kit.add(queue="q")
    last = await kit.add(queue="q")
    options: dict[str, Any] = {"tasks": ["t"] if why == "unknown_task" else ["t", "p"]}
    if why == "forbidden_flag":
        options["forbidden_flags"] = ("gpu",)
    if why == "paused_task":
        await kit.store.pause(task="p")
    lease = await kit.take(past_heads=True, **options)
    assert lease.job_id == behind.id
    assert await kit.claim(worker="all", tasks=["t", "p", "x"], past_heads=True) == []
    await kit.settle(lease, COMPLETE)
    assert await kit.claimed(past_heads=True, **options) == [last.id]
    assert await kit.state(head.id) is JobState.READY


@case
async def a_passed_head_runs_when_its_worker_comes(kit: Kit) -> None:
    head = await kit.add("x", queue="q")
    await kit.add(queue="q")
    await kit.settle(await kit.take(past_heads=True), COMPLETE)
    assert await kit.claimed(tasks=["x"], past_heads=True) == [head.id]


@case
async def a_head_that_was_not_passed_keeps_its_place(kit: Kit) -> None:
    heads = await kit.add_many({"task": "x", "queue": "q"}, {"task": "x", "queue": "r"})
    behind = await kit.add_many({"queue": "q"}, {"queue": "r"})
    assert await kit.claimed(limit=1, past_heads=True) == [behind[0].id]
    assert await kit.claimed(worker="all", tasks=["t", "x"]) == [heads[1].id]


@case
async def a_job_that_changes_queue_leaves_its_old_one(kit: Kit) -> None:
    head, behind = await _two(kit)
    other = await kit.add(queue="other")
    kit.clock.advance(1)
    await kit.add(queue="other", key="head")
    assert sorted(await kit.claimed()) == sorted([behind, other.id])
    assert await kit.claim() == []
    assert await kit.state(head) is JobState.READY


@case
async def a_job_that_joins_a_queue_waits_in_it(kit: Kit) -> None:
    loose = await kit.add(key="k")
    running = await kit.add(queue="q", priority=-1)
    assert await kit.claimed(limit=1) == [running.id]
    await kit.add(queue="q", key="k")
    assert await kit.claim() == []
    await kit.store.retire("w")
    lease = await kit.take()
    assert lease.job_id == running.id
    await kit.settle(lease, COMPLETE)
    assert await kit.claimed() == [loose.id]


@case
async def a_job_that_leaves_its_queue_is_free(kit: Kit) -> None:
    await kit.add(queue="q")
    waiting = await kit.add(queue="q", key="k")
    await kit.take()
    await kit.add(key="k")
    assert await kit.claimed() == [waiting.id]


@case
async def a_replacement_waits_for_the_one_it_superseded(kit: Kit) -> None:
    await kit.add(queue="q", key="k")
    lease = await kit.take()
    new = await kit.add(queue="q", key="k")
    assert await kit.claim() == []
    await kit.settle(lease, COMPLETE)
    assert await kit.claimed() == [new.id]


@case
async def a_retried_job_waits_in_its_queue(kit: Kit) -> None:
    head, behind = await _two(kit)
    await kit.fail(await kit.take(), final=True)
    lease = await kit.take()
    assert lease.job_id == behind
    await kit.store.retry([head])
    assert await kit.claim() == []
    await kit.settle(lease, COMPLETE)
    assert await kit.claimed() == [head]


@case
async def many_queues_each_keep_their_order(kit: Kit) -> None:
    jobs = await kit.add_many(*({"queue": f"q{n % 7}"} for n in range(35)))
    expected = {f"q{k}": [job.id for job in jobs[k::7]] for k in range(7)}
    ran: dict[str, list[int]] = {name: [] for name in expected}
    while leases := await kit.claim(limit=4):
        for lease in leases:
            ran[lease.queue or ""].append(lease.job_id)
        assert len({lease.queue for lease in leases}) == len(leases)
        await kit.store.settle([(lease, COMPLETE) for lease in leases])
    assert ran == expected


@case
async def settling_a_whole_batch_frees_every_queue(kit: Kit) -> None:
    jobs = await kit.add_many(*({"queue": f"q{n % 3}"} for n in range(6)))
    leases = await kit.claim()
    outcomes: list[Outcome] = [COMPLETE, Fail("oops", delay=60.0), CANCEL]
    await kit.store.settle(list(zip(leases, outcomes, strict=True)))
    assert await kit.claimed() == ids(jobs)[3:]
