"""Pausing tasks and queues: nothing new of them starts until they are resumed."""

from __future__ import annotations

from windlass.model.job import JobState
from windlass.store.records import COMPLETE, Paused
from windlass.testing.contract.case import Group
from windlass.testing.contract.kit import Kit, ids

case = Group(__name__)
CASES = case.cases


@case
async def nothing_is_paused_at_first(kit: Kit) -> None:
    assert await kit.store.paused() == Paused()


@case
async def what_is_paused_is_listed_in_order(kit: Kit) -> None:
    await kit.store.pause(task="b")
    await kit.store.pause(task="a", queue="z")
    await kit.store.pause(queue="y")
    await kit.store.pause(task="a")
    assert await kit.store.paused() == Paused(tasks=("a", "b"), queues=("y", "z"))
    await kit.store.resume(task="a", queue="y")
    assert await kit.store.paused() == Paused(tasks=("b",), queues=("z",))


@case
async def a_paused_task_is_not_given(kit: Kit) -> None:
    held, free = await kit.add_many({"task": "a"}, {"task": "b"})
    await kit.store.pause(task="a")
    assert await kit.claimed(tasks=["a", "b"]) == [free.id]
    await kit.store.resume(task="a")
    assert await kit.claimed(tasks=["a", "b"]) == [held.id]


@case
async def a_paused_queue_is_not_given(kit: Kit) -> None:
    jobs = await kit.add_many({"queue": "a"}, {"queue": "b"}, {}, {"queue": "a"})
    await kit.store.pause(queue="a")
    assert await kit.claimed(past_heads=True) == [jobs[1].id, jobs[2].id]
    await kit.store.resume(queue="a")
    assert await kit.claimed() == [jobs[0].id]


@case
async def a_task_and_a_queue_of_one_name_are_two_things(kit: Kit) -> None:
    by_task, by_queue = await kit.add_many({"task": "n"}, {"queue": "n"})
    await kit.store.pause(task="n")
    assert await kit.claimed(tasks=["n", "t"]) == [by_queue.id]
    await kit.store.resume(task="n")
    await kit.store.pause(queue="n")
    assert await kit.claimed(tasks=["n", "t"]) == [by_task.id]


@case
async def paused_jobs_do_not_use_up_the_limit(kit: Kit) -> None:
    await kit.add_many(*[{"task": "a", "priority": -1}] * 5)
    await kit.add_many(*({"queue": f"q{n}", "priority": -1} for n in range(5)))
    free = await kit.add()
    await kit.store.pause(task="a")
    for n in range(5):
        await kit.store.pause(queue=f"q{n}")
    assert await kit.claimed(limit=1, tasks=["a", "t"]) == [free.id]


@case
async def what_runs_goes_on(kit: Kit) -> None:
    jobs = await kit.add_many({"queue": "q"}, {"queue": "q"})
    lease = await kit.take()
    await kit.store.pause(queue="q")
    assert kit.renew(lease).lost == {}
    assert (await kit.settle(lease, COMPLETE)).state is JobState.COMPLETED
    assert await kit.claim() == []
    await kit.store.resume(queue="q")
    assert await kit.claimed() == [jobs[1].id]


@case
async def a_retry_waits_while_paused(kit: Kit) -> None:
    job = await kit.add(queue="q")
    lease = await kit.take()
    await kit.store.pause(queue="q")
    assert (await kit.fail(lease)).state is JobState.READY
    assert await kit.claim() == []
    await kit.store.resume(queue="q")
    assert await kit.claimed() == [job.id]


@case
async def jobs_are_still_added_and_become_due(kit: Kit) -> None:
    await kit.store.pause(task="t", queue="q")
    jobs = await kit.add_many({}, {"queue": "q"}, {"delay": 1_000_000}, {"task": "x", "queue": "q"})
    await kit.pass_time(1)
    assert [await kit.state(job.id) for job in jobs] == [JobState.READY] * 4
    assert await kit.claim(tasks=["t", "x"], past_heads=True) == []
    await kit.store.resume(task="t", queue="q")
    assert sorted(await kit.claimed(tasks=["t", "x"])) == ids(jobs)[:3]


@case
async def pausing_again_changes_nothing(kit: Kit) -> None:
    await kit.add()
    await kit.store.pause(task="t")
    await kit.store.pause(task="t")
    await kit.store.resume(task="t")
    assert await kit.store.paused() == Paused()
    assert len(await kit.claim()) == 1


@case
async def resuming_what_was_not_paused_is_harmless(kit: Kit) -> None:
    await kit.store.pause(task="a")
    await kit.store.resume(task="x", queue="a")
    await kit.store.resume()
    assert await kit.store.paused() == Paused(tasks=("a",))


@case
async def other_stores_see_the_pause(kit: Kit) -> None:
    await kit.add()
    other = await kit.other()
    await kit.store.pause(task="t")
    assert await other.paused() == Paused(tasks=("t",))
    assert await kit.claim(store=other) == []
    await other.resume(task="t")
    assert len(await kit.claim()) == 1


@case
async def a_pause_is_remembered(kit: Kit) -> None:
    await kit.add_many({}, {"queue": "q", "task": "x"})
    await kit.store.pause(task="t", queue="q")
    await kit.reopen()
    assert await kit.store.paused() == Paused(tasks=("t",), queues=("q",))
    assert await kit.claim(tasks=["t", "x"]) == []
    await kit.store.resume(task="t", queue="q")
    await kit.reopen()
    assert len(await kit.claim(tasks=["t", "x"])) == 2
