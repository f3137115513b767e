"""Competing threads, each with its own event loop and, where it can, its own store.

Every case ends after a fixed number of operations; what may vary is only who wins.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from windlass.model.job import JobState
from windlass.store.port import Store
from windlass.store.records import (
    COMPLETE,
    RELEASE,
    ClaimRequest,
    Fail,
    Lease,
    Outcome,
    Settled,
    Verdict,
)
from windlass.testing.contract.case import Group
from windlass.testing.contract.kit import Kit, ids

case = Group(__name__)
CASES = case.cases

Result = TypeVar("Result")
RIVALS = 4
PATIENCE = 60.0
"""Seconds to wait for a rival; only a store that hangs makes it pass."""


async def compete(
    kit: Kit, work: Callable[[int, Store], Coroutine[Any, Any, Result]], rivals: int = RIVALS
) -> list[Result]:
    """Run `work(number, store)` in that many threads, let go at the same moment."""
    gate = threading.Barrier(rivals)

    async def start(number: int, store: Store) -> Result:
        gate.wait()
        return await work(number, store)

    stores = [await kit.other() for _ in range(rivals)]
    return await asyncio.gather(
        *(
            asyncio.to_thread(asyncio.run, start(number, store))
            for number, store in enumerate(stores)
        )
    )


async def settle_all(store: Store, settlements: Sequence[tuple[Lease, Outcome]]) -> list[Settled]:
    """Settle, and ask again for what a rival's transaction holds at the moment."""
    answers = list(await store.settle(settlements))
    end = asyncio.get_running_loop().time() + PATIENCE
    while busy := [n for n, answer in enumerate(answers) if answer.verdict is Verdict.BUSY]:
        assert asyncio.get_running_loop().time() < end, "a job is held for ever"
        again = await store.settle([settlements[n] for n in busy])
        for n, answer in zip(busy, again, strict=True):
            answers[n] = answer
    return answers


def _claim(store: Store, worker: str, limit: int = 3) -> Awaitable[list[Lease]]:
    return store.claim(ClaimRequest(worker=worker, tasks=("t",), limit=limit, suspects=limit))


@case
async def every_added_job_is_there_once(kit: Kit) -> None:
    async def produce(number: int, store: Store) -> list[int]:
        added: list[int] = []
        for step in range(10):
            added += ids(await store.enqueue([kit.new(payload=f"[{number},{step}]")] * 3))
        return added

    added = [job_id for part in await compete(kit, produce) for job_id in part]
    assert await kit.ids(limit=1000) == sorted(set(added))
    assert len(added) == RIVALS * 30


@case
async def ids_ascend_within_each_bulk(kit: Kit) -> None:
    async def produce(number: int, store: Store) -> None:
        for _ in range(5):
            jobs = await store.enqueue([kit.new(payload=str(n)) for n in range(20)])
            assert ids(jobs) == sorted(ids(jobs))
            assert [job.payload for job in jobs] == list(range(20))

    await compete(kit, produce)


@case
async def many_calls_at_once_on_one_store(kit: Kit) -> None:
    added = await asyncio.gather(*(kit.add(payload=str(n)) for n in range(50)))
    assert [job.payload for job in added] == list(range(50))
    leases = [
        lease for part in await asyncio.gather(*(kit.claim(5) for _ in range(10))) for lease in part
    ]
    assert sorted(lease.job_id for lease in leases) == sorted(ids(added))
    answers = await asyncio.gather(*(kit.settle(lease, COMPLETE) for lease in leases))
    assert all(answer.verdict is Verdict.APPLIED for answer in answers)


@case
async def one_store_serves_several_event_loops(kit: Kit) -> None:
    def produce(number: int) -> list[int]:
        return [asyncio.run(kit.store.enqueue([kit.new()]))[0].id for _ in range(5)]

    parts = await asyncio.gather(*(asyncio.to_thread(produce, n) for n in range(3)))
    assert await kit.ids() == sorted(job_id for part in parts for job_id in part)


@case.each(("replace",), ("preserve_run_at",), ("unsafe_dedupe",))
async def one_open_job_per_key(kit: Kit, mode: str) -> None:
    async def produce(number: int, store: Store) -> set[int]:
        seen = set()
        for step in range(15):
            [job] = await store.enqueue(
                [kit.new(key="k", key_mode=mode, payload=f"[{number},{step}]")]
            )
            seen.add(job.id)
        return seen

    seen = set().union(*await compete(kit, produce))
    assert len(seen) == 1
    assert await kit.ids() == list(seen)
    assert (await kit.get(seen.pop())).revision == RIVALS * 15 - 1


@case
async def a_running_job_is_superseded_once(kit: Kit) -> None:
    async def produce(number: int, store: Store) -> int:
        [job] = await store.enqueue([kit.new(key="k", payload=str(number))])
        return job.id

    for _ in range(5):
        old = await kit.add(key="k")
        lease = await kit.take()
        new = set(await compete(kit, produce))
        assert len(new) == 1 and old.id not in new
        await kit.settle(lease, COMPLETE)
        await kit.settle(await kit.take(), COMPLETE)


@case
async def no_request_by_key_is_lost(kit: Kit) -> None:
    """Producers replace while workers claim: the last payload of each key runs, and runs last."""
    ran: list[tuple[str | None, int]] = []
    last = 14

    async def work(number: int, store: Store) -> None:
        if number < 2:
            for step in range(last + 1):
                [job] = await store.enqueue([kit.new(key=f"k{number}", payload=str(step))])
                assert job.payload == step
        else:
            for _ in range(25):
                await run_some(store, f"w{number}")

    async def run_some(store: Store, worker: str) -> bool:
        leases = await _claim(store, worker)
        ran.extend((lease.key, int(lease.payload)) for lease in leases)
        await settle_all(store, [(lease, COMPLETE) for lease in leases])
        return bool(leases)

    await compete(kit, work)
    while await run_some(kit.store, "last"):
        pass
    for key in ("k0", "k1"):
        steps = [step for name, step in ran if name == key]
        assert max(steps) == last
        assert len(steps) == len(set(steps))
    assert await kit.ids() == []


@case
async def keys_taken_in_opposite_orders(kit: Kit) -> None:
    words = [f"k{n}" for n in range(8)]

    async def produce(number: int, store: Store) -> None:
        for _ in range(8):
            order = words if number % 2 else words[::-1]
            await store.enqueue([kit.new(key=word) for word in order])

    await compete(kit, produce)
    assert len(await kit.ids()) == len(words)


@case
async def a_job_is_claimed_by_one(kit: Kit) -> None:
    jobs = await kit.store.enqueue([kit.new()] * 120)

    async def claim(number: int, store: Store) -> list[int]:
        given: list[int] = []
        while leases := await _claim(store, f"w{number}", 7):
            given += [lease.job_id for lease in leases]
        return given

    given = [job_id for part in await compete(kit, claim) for job_id in part]
    assert sorted(given) == ids(jobs)


@case
async def a_queue_runs_one_at_a_time(kit: Kit) -> None:
    """Each job is held until a rival has asked for work too, so an overlap cannot hide."""
    jobs = await kit.store.enqueue([kit.new(queue=f"q{n % 2}") for n in range(30)])
    changed = threading.Condition()
    claims = 0
    running: Counter[str] = Counter()
    overlaps: list[str] = []
    ran: list[Lease] = []

    def wait_for_a_rival() -> None:
        before = claims
        changed.wait_for(lambda: overlaps or claims > before, PATIENCE)

    async def work(number: int, store: Store) -> None:
        nonlocal claims
        while not overlaps and len(ran) < len(jobs):
            leases = await _claim(store, f"w{number}")
            with changed:
                claims += 1
                running.update(lease.queue or "" for lease in leases)
                overlaps.extend(name for name, count in running.items() if count > 1)
                changed.notify_all()
            for lease in leases:
                with changed:
                    wait_for_a_rival()
                    running[lease.queue or ""] -= 1
                    ran.append(lease)
                await settle_all(store, [(lease, COMPLETE)])

    await compete(kit, work, rivals=3)
    assert overlaps == []
    for first, queue in enumerate(("q0", "q1")):
        order = [lease.job_id for lease in ran if lease.queue == queue]
        assert order == ids(jobs)[first::2]


@case
async def a_delivery_is_settled_once(kit: Kit) -> None:
    await kit.store.enqueue([kit.new()] * 10)
    leases = await kit.claim()

    async def settle(number: int, store: Store) -> list[Verdict]:
        return [(await settle_all(store, [(lease, COMPLETE)]))[0].verdict for lease in leases]

    for verdicts in zip(*await compete(kit, settle), strict=True):
        assert Counter(verdicts) == {Verdict.APPLIED: 1, Verdict.MISSING: RIVALS - 1}


@case
async def a_late_settle_and_the_reaper_agree(kit: Kit) -> None:
    for _ in range(10):
        await kit.store.enqueue([kit.new()] * 4)
        leases = await kit.claim()
        kit.clock.advance(30)
        applied: list[int] = []
        requeued: list[int] = []

        async def work(
            number: int,
            store: Store,
            leases: list[Lease] = leases,
            applied: list[int] = applied,
            requeued: list[int] = requeued,
        ) -> None:
            if number == 0:
                for lease in leases:
                    [answer] = await settle_all(store, [(lease, COMPLETE)])
                    if answer.verdict is Verdict.APPLIED:
                        applied.append(lease.job_id)
            else:
                requeued.extend((await store.reap(2, 5)).requeued)

        await compete(kit, work, rivals=2)
        assert not set(applied) & set(requeued)
        held = await kit.ids(states=(JobState.RUNNING, JobState.READY))
        assert sorted(applied) == sorted({lease.job_id for lease in leases} - set(held))
        assert set(requeued) <= set(held)
        await kit.reap()
        await kit.store.complete(held)


@case
async def a_job_is_reaped_once(kit: Kit) -> None:
    jobs = await kit.store.enqueue([kit.new()] * 40)
    await kit.claim(limit=40)
    kit.clock.advance(30)

    async def reap(number: int, store: Store) -> list[int]:
        taken: list[int] = []
        while part := (await store.reap(5, 5)).requeued:
            taken += part
        return taken

    taken = [job_id for part in await compete(kit, reap) for job_id in part]
    assert sorted(taken) == ids(jobs)


@case
async def a_job_is_promoted_once(kit: Kit) -> None:
    await kit.store.enqueue([kit.new(delay=1_000_000)] * 40)
    kit.clock.advance(1)

    async def promote(number: int, store: Store) -> int:
        return sum([await store.promote(5) for _ in range(10)])

    assert sum(await compete(kit, promote)) == 40


@case
async def a_cancel_and_a_claim_agree(kit: Kit) -> None:
    """Either it is cancelled and no worker has it, or it runs and its worker is asked to stop."""
    jobs = await kit.store.enqueue([kit.new()] * 30)
    given: list[Lease] = []

    async def work(number: int, store: Store) -> None:
        if number == 0:
            for job in jobs:
                await store.cancel([job.id])
        else:
            while leases := await _claim(store, f"w{number}"):
                given.extend(leases)

    await compete(kit, work, rivals=3)
    cancelled = await kit.ids(states=(JobState.CANCELLED,))
    assert sorted([*cancelled, *(lease.job_id for lease in given)]) == ids(jobs)
    assert kit.check(*given).lost == {}
    assert kit.check(*given).cancel == {lease.job_id for lease in given}


@case
async def handing_back_and_claiming_loses_nothing(kit: Kit) -> None:
    jobs = await kit.store.enqueue([kit.new(queue="q" if n % 3 else None) for n in range(12)])

    async def work(number: int, store: Store) -> None:
        for _ in range(10):
            leases = await _claim(store, f"w{number}")
            if number % 2:
                await store.retire(f"w{number}")
            else:
                await settle_all(store, [(lease, RELEASE) for lease in leases])

    await compete(kit, work)
    seen = [await kit.get(job.id) for job in jobs]
    assert [(job.state, job.attempts) for job in seen] == [(JobState.READY, 0)] * 12


@case
async def a_strict_queue_keeps_its_order_through_failures(kit: Kit) -> None:
    """Every job fails once; whichever rival claims, none starts before the one ahead is done."""
    jobs = await kit.store.enqueue([kit.new(queue="q", is_strict=1) for _ in range(12)])
    told: list[tuple[int, str]] = []
    failed: set[int] = set()

    async def work(number: int, store: Store) -> None:
        while sum(word == "completed" for _, word in tuple(told)) < len(jobs):
            for lease in await _claim(store, f"w{number}"):
                is_first = lease.job_id not in failed
                failed.add(lease.job_id)
                told.append((lease.job_id, "failed" if is_first else "completed"))
                await settle_all(store, [(lease, Fail("once") if is_first else COMPLETE)])

    await compete(kit, work, rivals=3)
    assert told == [(job.id, word) for job in jobs for word in ("failed", "completed")]


@case
async def a_task_that_is_paused_for_a_tenant_and_resumed_loses_no_job(kit: Kit) -> None:
    """Claims for all tenants meet the paused jobs while an operator pauses and resumes them."""
    jobs = await kit.store.enqueue(
        [
            kit.new(tenant=("", "acme", "bond")[n % 3], queue=f"q{n}" if n % 4 == 0 else None)
            for n in range(60)
        ]
    )
    taken: Counter[int] = Counter()
    is_over = threading.Event()

    async def operate(store: Store) -> None:
        for _ in range(25):
            await store.pause(task="t", tenant="acme")
            await store.resume(task="t", tenant="acme")
        is_over.set()

    async def work(number: int, store: Store) -> None:
        if number == 0:
            await operate(store)
            return
        while not is_over.is_set() or len(taken) < len(jobs):
            for lease in await _claim(store, f"w{number}", limit=3):
                taken[lease.job_id] += 1
                await settle_all(store, [(lease, COMPLETE)])

    await compete(kit, work)
    assert taken == dict.fromkeys(ids(jobs), 1)
    assert await kit.ids(limit=100) == []
