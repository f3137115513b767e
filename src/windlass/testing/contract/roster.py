"""Which workers run which tasks: jobs of tasks that no live worker runs are found."""

from __future__ import annotations

from windlass.store.records import COMPLETE
from windlass.testing.contract.case import Group
from windlass.testing.contract.kit import Kit

case = Group(__name__)
CASES = case.cases


@case
async def a_queue_says_that_it_keeps_a_roster(kit: Kit) -> None:
    assert kit.store.capabilities.roster, "workers would introduce themselves to no one"


@case
async def a_stranger_cannot_be_introduced(kit: Kit) -> None:
    assert not await kit.store.introduce("w", ["t"])
    kit.renew(worker="w")
    assert await kit.store.introduce("w", ["t"])
    assert await kit.store.introduce("w", ["t"]), "again, as it was"
    await kit.store.retire("w")
    assert not await kit.store.introduce("w", ["t"])


@case
async def tasks_that_no_live_worker_runs_are_told(kit: Kit) -> None:
    for task in ("c", "a", "b", "t", "a", "d"):
        await kit.add(task=task)
    for worker, tasks in (("w", ["t", "x"]), ("v", ["b"])):
        kit.renew(worker=worker)
        assert await kit.store.introduce(worker, tasks)
    assert await kit.store.stranded() == ["a", "c", "d"]
    await kit.store.introduce("v", ["a", "c"])
    assert await kit.store.stranded() == ["b", "d"]


@case
async def only_ready_jobs_are_stranded(kit: Kit) -> None:
    await kit.add(task="later", run_at=kit.micros(60))
    await kit.add(task="running")
    failed = await kit.add(task="failed")
    await kit.claim(worker="other", tasks=["running"])
    await kit.store.introduce("other", ["running"])
    await kit.store.fail([failed.id], "no")
    assert await kit.store.stranded() == []
    await kit.crash()
    assert await kit.store.stranded() == ["running"], "a suspect is ready too"


@case
async def a_dead_worker_runs_nothing(kit: Kit) -> None:
    await kit.add(task="a")
    kit.renew(worker="w", lease=10.0)
    await kit.store.introduce("w", ["a"])
    assert await kit.store.stranded() == []
    kit.clock.advance(10)
    assert await kit.store.stranded() == ["a"]
    kit.renew(worker="w", lease=10.0)
    assert await kit.store.stranded() == [], "it is back, and known"


@case
async def who_is_not_introduced_may_run_anything(kit: Kit) -> None:
    await kit.add(task="a")
    kit.renew(worker="w")
    await kit.store.introduce("w", ["t"])
    kit.renew(worker="silent", lease=10.0)
    assert await kit.store.stranded() == []
    kit.clock.advance(10)
    assert await kit.store.stranded() == ["a"], "nor the dead"


@case
async def paused_tasks_are_not_stranded(kit: Kit) -> None:
    await kit.add(task="a")
    await kit.add(task="b")
    await kit.store.pause(task="a")
    assert await kit.store.stranded() == ["b"]
    await kit.store.resume(task="a")
    assert await kit.store.stranded() == ["a", "b"]


@case
async def jobs_of_serial_queues_are_stranded_too(kit: Kit) -> None:
    """The first, those behind it, and those of a queue that is paused: all of them are ready."""
    await kit.add(task="t", queue="q")
    await kit.add(task="behind", queue="q")
    await kit.add(task="paused", queue="r")
    await kit.store.pause(queue="r")
    assert await kit.store.stranded() == ["behind", "paused", "t"]
    lease = await kit.take()
    await kit.store.introduce("w", ["t"])
    assert await kit.store.stranded() == ["behind", "paused"]
    await kit.settle(lease, COMPLETE)
    assert await kit.store.stranded() == ["behind", "paused"]


@case
async def a_claim_and_a_renewal_keep_the_introduction(kit: Kit) -> None:
    await kit.add(task="a")
    kit.renew(worker="w")
    await kit.store.introduce("w", ["a"])
    await kit.claim(worker="w", tasks=["t"])
    kit.renew(worker="w")
    assert await kit.store.stranded() == []


@case.each(("retire",), ("unlock",), ("reap",))
async def a_worker_that_comes_back_must_be_introduced_again(kit: Kit, end: str) -> None:
    await kit.add(task="b")
    await kit.reap()  # from its first look on a store may count leases
    kit.renew(worker="w")
    await kit.store.introduce("w", ["a"])
    assert await kit.store.stranded() == ["b"]
    if end == "retire":
        await kit.store.retire("w")
    elif end == "unlock":
        await kit.store.unlock(["w"], 5)
    else:
        await kit.crash()
    kit.renew(worker="w")
    assert await kit.store.stranded() == []
