"""Strict jobs of serial queues: one whose attempt failed holds its queue.

While such a job waits for its retry, or has failed, no other job of its queue starts, unless it
holds the queue too. The hold ends when the job is completed, cancelled, replaced or removed; a job
that is retried keeps its hold, and so runs before the others.
"""

from __future__ import annotations

from windlass.model.job import Job, JobState
from windlass.store.records import CANCEL, COMPLETE, RELEASE
from windlass.testing.contract.case import Group
from windlass.testing.contract.kit import Kit

case = Group(__name__)
CASES = case.cases


async def _two(kit: Kit, **options: object) -> tuple[Job, Job]:
    """A strict job, and one behind it."""
    held, behind = await kit.add_many(
        {"queue": "q", "is_strict": 1, "key": "k", **options}, {"queue": "q", "is_strict": 1}
    )
    return held, behind


async def _failed(kit: Kit) -> tuple[Job, Job]:
    """The first has failed for good and holds its queue."""
    held, behind = await _two(kit)
    await kit.fail(await kit.take(), final=True)
    assert await kit.claim(past_heads=True) == []
    return held, behind


@case
async def a_job_says_that_it_is_strict(kit: Kit) -> None:
    held, _ = await _two(kit)
    plain = await kit.add(queue="q")
    assert (held.strict, plain.strict) == (True, False)
    assert (await kit.get(held.id)).strict is True


@case
async def while_it_waits_for_its_retry(kit: Kit) -> None:
    held, behind = await _two(kit)
    await kit.fail(await kit.take(), delay=60.0)
    assert await kit.claim(past_heads=True) == []
    await kit.pass_time(59)
    assert await kit.claim(past_heads=True) == []
    await kit.pass_time(1)
    again = await kit.take()
    assert again.job_id == held.id
    assert await kit.claim() == []
    await kit.settle(again, COMPLETE)
    assert await kit.claimed() == [behind.id]


@case
async def its_retry_comes_before_more_urgent_jobs(kit: Kit) -> None:
    held, _ = await _two(kit)
    lease = await kit.take()
    await kit.add(queue="q", priority=-100)
    await kit.fail(lease)
    assert await kit.claimed() == [held.id]


@case
async def a_job_that_is_not_strict_holds_nothing(kit: Kit) -> None:
    _, behind = await _two(kit, is_strict=0)
    await kit.fail(await kit.take(), delay=60.0)
    assert await kit.claimed() == [behind.id]


@case
async def without_a_queue_it_holds_nothing(kit: Kit) -> None:
    first = await kit.add(is_strict=1)
    await kit.fail(await kit.take(), final=True)
    second = await kit.add(is_strict=1)
    assert await kit.claimed() == [second.id]
    assert await kit.state(first.id) is JobState.FAILED


@case
async def it_holds_its_own_queue_alone(kit: Kit) -> None:
    await _failed(kit)
    free = await kit.add_many({"queue": "r"}, {}, {"queue": "q", "tenant": "acme"})
    assert await kit.claimed() == [job.id for job in free]


@case
async def added_later_they_wait_too(kit: Kit) -> None:
    await _failed(kit)
    await kit.add_many({"queue": "q"}, {"queue": "q", "priority": -5})
    assert await kit.claim(past_heads=True) == []


@case
async def handed_back_it_holds_nothing(kit: Kit) -> None:
    """No attempt has failed; it is simply the next again."""
    await _two(kit)
    await kit.settle(await kit.take(), RELEASE)
    urgent = await kit.add(queue="q", priority=-1)
    assert await kit.claimed(past_heads=True) == [urgent.id]


@case.each(("complete",), ("cancel",), ("remove",), ("replace",), ("delete_failed",))
async def the_hold_ends(kit: Kit, verb: str) -> None:
    held, behind = await _failed(kit)
    if verb == "complete":
        await kit.store.complete([held.id])
    elif verb == "cancel":
        await kit.store.retry([held.id])
        await kit.store.cancel([held.id])
    elif verb == "remove":
        await kit.store.remove("k")
    elif verb == "replace":
        await kit.add(key="k", delay=60_000_000, queue="q", is_strict=1)
    else:
        assert await kit.store.delete_failed(10) == 1
    assert await kit.claimed() == [behind.id]


@case
async def cancelled_while_it_waits_for_its_retry(kit: Kit) -> None:
    held, behind = await _two(kit)
    await kit.fail(await kit.take(), delay=60.0)
    await kit.store.cancel([held.id])
    assert await kit.claimed() == [behind.id]


@case
async def cancelled_while_it_runs_again(kit: Kit) -> None:
    _, behind = await _two(kit)
    await kit.fail(await kit.take())
    await kit.settle(await kit.take(), CANCEL)
    assert await kit.claimed() == [behind.id]


@case
async def retried_it_runs_first(kit: Kit) -> None:
    held, behind = await _failed(kit)
    kit.clock.advance(5)
    await kit.add(queue="q", priority=-5)
    await kit.store.retry([held.id])
    lease = await kit.take()
    assert lease.job_id == held.id
    await kit.settle(lease, COMPLETE)
    assert (await kit.take()).job_id != behind.id


@case
async def rescheduled_it_keeps_its_hold(kit: Kit) -> None:
    held, behind = await _failed(kit)
    await kit.store.reschedule([held.id], run_at=kit.micros(60), attempts=0)
    assert await kit.state(held.id) is JobState.SCHEDULED
    assert await kit.claim(past_heads=True) == []
    await kit.pass_time(60)
    lease = await kit.take()
    assert lease.job_id == held.id
    await kit.settle(lease, COMPLETE)
    assert await kit.claimed() == [behind.id]


@case
async def failed_by_an_operator_it_holds_the_queue(kit: Kit) -> None:
    held, behind = await _two(kit)
    await kit.store.fail([held.id], "no")
    assert await kit.claim(past_heads=True) == []
    await kit.store.cancel([behind.id])
    third = await kit.add(queue="q")
    assert await kit.claim() == []
    await kit.store.remove("k")
    assert await kit.claimed() == [third.id]


@case
async def two_may_hold_one_queue(kit: Kit) -> None:
    """Each runs when it can, and the others wait for both."""
    held, behind = await _two(kit)
    third = await kit.add(queue="q")
    await kit.store.fail([held.id, behind.id], "no")
    assert await kit.claim(past_heads=True) == []
    await kit.store.retry([behind.id])
    lease = await kit.take()
    assert lease.job_id == behind.id
    await kit.settle(lease, COMPLETE)
    assert await kit.claim(past_heads=True) == []
    await kit.store.complete([held.id])
    assert await kit.claimed() == [third.id]


@case
async def a_job_that_kills_its_workers_holds_its_queue(kit: Kit) -> None:
    held, behind = await _two(kit)
    while await kit.state(held.id) is not JobState.FAILED:
        await kit.take(suspects=1)
        await kit.crash(max_resets=2)
    assert await kit.claim(past_heads=True, suspects=1) == []
    await kit.store.complete([held.id])
    assert await kit.claimed() == [behind.id]


@case
async def replaced_while_it_ran_it_holds_nothing(kit: Kit) -> None:
    _, behind = await _two(kit)
    lease = await kit.take()
    new = await kit.add(key="k", queue="q", is_strict=1, priority=5)
    await kit.fail(lease)
    lease = await kit.take()
    assert lease.job_id == behind.id
    await kit.settle(lease, COMPLETE)
    assert await kit.claimed() == [new.id]


@case
async def a_head_it_may_not_run_is_not_passed_by_a_worker(kit: Kit) -> None:
    """A hold is stronger than a worker's look past heads."""
    held, _ = await kit.add_many(
        {"task": "x", "queue": "q", "is_strict": 1}, {"task": "t", "queue": "q"}
    )
    await kit.fail(await kit.take(tasks=["x"]))
    assert await kit.claim(tasks=["t"], past_heads=True) == []
    assert await kit.claimed(tasks=["x"]) == [held.id]


@case
async def paused_and_resumed_it_still_goes_first(kit: Kit) -> None:
    held, _ = await _two(kit)
    await kit.fail(await kit.take())
    await kit.store.pause(queue="q")
    assert await kit.claim() == []
    await kit.add(queue="q", priority=-5)
    await kit.store.resume(queue="q")
    assert await kit.claimed() == [held.id]


@case
async def a_hold_that_an_operator_makes_keeps_back_the_first_of_the_queue(kit: Kit) -> None:
    first, second = await kit.add_many({"queue": "q"}, {"queue": "q", "is_strict": 1})
    await kit.claim(tasks=["other"])
    await kit.store.fail([second.id], "no")
    assert await kit.claim(past_heads=True) == []
    await kit.store.complete([second.id])
    assert await kit.claimed() == [first.id]
