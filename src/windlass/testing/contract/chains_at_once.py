"""Chains under competing threads, each with its own store where it can.

Every case ends after a fixed number of operations; what may vary is only who wins.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from windlass.errors import BlockerReferenceError, ChainClosedError, ChainNotFoundError
from windlass.model.chain import ChainState
from windlass.model.job import JobState
from windlass.store.port import Store
from windlass.store.records import (
    COMPLETE,
    ChainFilter,
    ClaimRequest,
    Complete,
    Fail,
    Verdict,
)
from windlass.testing.contract.case import Group
from windlass.testing.contract.concurrency import PATIENCE, RIVALS, compete, settle_all
from windlass.testing.contract.kit import Kit

case = Group(__name__)
CASES = case.cases


async def _drain(kit: Kit, *tasks: str) -> Counter[int]:
    """Complete what can be claimed until nothing is left or open; how often each job ran."""
    ran: Counter[int] = Counter()
    end = asyncio.get_running_loop().time() + PATIENCE
    while True:
        leases = await kit.claim(tasks=tasks, limit=100)
        ran.update(lease.job_id for lease in leases)
        await settle_all(kit.store, [(lease, COMPLETE) for lease in leases])
        counts = await kit.store.counts()
        if not leases and not counts[JobState.READY] and not counts[JobState.BLOCKED]:
            return ran
        assert asyncio.get_running_loop().time() < end, "a job waits for ever"


@case
async def ends_of_all_blockers_at_once_release_a_job_once(kit: Kit) -> None:
    rounds = 6
    chains = await kit.store.start_chains([kit.new_chain("b") for _ in range(rounds * RIVALS)])
    groups = [chains[n * RIVALS : (n + 1) * RIVALS] for n in range(rounds)]
    jobs = await kit.add_many(*({"blockers": tuple(c.id for c in group)} for group in groups))
    leases = {lease.job_id: lease for lease in await kit.claim(tasks=["b"], limit=100)}

    async def end(number: int, store: Store) -> None:
        for group in groups:
            await settle_all(store, [(leases[group[number].id], COMPLETE)])

    await compete(kit, end)
    assert await _drain(kit, "t") == Counter(job.id for job in jobs)


@case
async def starts_that_name_chains_that_end_meanwhile(kit: Kit) -> None:
    count = 20
    chains = await kit.store.start_chains([kit.new_chain("b") for _ in range(count)])
    leases = await kit.claim(tasks=["b"], limit=count)

    async def work(number: int, store: Store) -> list[int]:
        added: list[int] = []
        for lease, chain in zip(leases, chains, strict=True):
            if number % 2:
                [job] = await store.enqueue([kit.new(blockers=(chain.id,))])
                added.append(job.id)
            elif number == 0:
                await settle_all(store, [(lease, COMPLETE)])
        return added

    added = [job for jobs in await compete(kit, work) for job in jobs]
    assert await _drain(kit, "t") == Counter(added)


@case
async def one_key_started_at_once_is_one_chain(kit: Kit) -> None:
    async def start(number: int, store: Store) -> list[tuple[int, bool]]:
        started = []
        for step in range(5):
            [chain] = await store.start_chains([kit.new_chain(key=f"k{step}")])
            started.append((chain.id, chain.deduplicated))
        return started

    answers = await compete(kit, start)
    for step in range(5):
        told = [answer[step] for answer in answers]
        assert len({chain for chain, _ in told}) == 1
        assert Counter(duplicate for _, duplicate in told) == {True: RIVALS - 1, False: 1}
    assert len(await kit.store.find_chains(ChainFilter())) == 5


@case
async def one_key_started_while_the_chain_goes_on(kit: Kit) -> None:
    chain = await kit.start("b", key="k")

    async def work(number: int, store: Store) -> list[int]:
        if number == 0:
            for _ in range(5):
                request = ClaimRequest(worker="w", tasks=("b",), limit=1)
                [lease] = await store.claim(request)
                await settle_all(store, [(lease, Complete(next=kit.new("b")))])
            return []
        return [(await store.start_chains([kit.new_chain("b", key="k")]))[0].id for _ in range(8)]

    answers = await compete(kit, work)
    assert {found for answer in answers for found in answer} == {chain.id}
    assert (await kit.chain(chain.id)).length == 6


@case
async def each_delivery_goes_on_once(kit: Kit) -> None:
    count = 12
    chains = await kit.store.start_chains([kit.new_chain("b") for _ in range(count)])
    leases = await kit.claim(tasks=["b"], limit=count)

    async def go_on(number: int, store: Store) -> list[Verdict]:
        outcomes = [(lease, Complete(next=kit.new(payload=f"[{number}]"))) for lease in leases]
        return [answer.verdict for answer in await settle_all(store, outcomes)]

    answers = await compete(kit, go_on)
    for place, chain in enumerate(chains):
        verdicts = [answer[place] for answer in answers]
        assert verdicts.count(Verdict.APPLIED) == 1
        assert (await kit.chain(chain.id)).length == 2
    assert len(await kit.ids()) == count


@case
async def completion_by_hand_and_by_the_worker_is_one(kit: Kit) -> None:
    count = 10
    chains = await kit.store.start_chains([kit.new_chain("b") for _ in range(count)])
    leases = {lease.job_id: lease for lease in await kit.claim(tasks=["b"], limit=count)}

    async def end(number: int, store: Store) -> list[bool]:
        applied = []
        for chain in chains:
            if number % 2:
                [answer] = await settle_all(store, [(leases[chain.id], Complete("1"))])
                applied.append(answer.verdict is Verdict.APPLIED)
            else:
                applied.append(await _by_hand(store, chain.id))
        return applied

    answers = await compete(kit, end)
    for place, chain in enumerate(chains):
        assert [answer[place] for answer in answers].count(True) == 1
        assert (await kit.chain(chain.id)).state is ChainState.COMPLETED


async def _by_hand(store: Store, chain_id: int) -> bool:
    try:
        await store.complete_chain(chain_id, Complete("2"))
    except ChainClosedError:
        return False
    return True


@case
async def retries_and_ends_leave_nothing_stuck(kit: Kit) -> None:
    """Chains fail and are retried while jobs are added that name them."""
    count = 8
    chains = await kit.store.start_chains([kit.new_chain("b") for _ in range(count)])
    leases = {lease.job_id: lease for lease in await kit.claim(tasks=["b"], limit=count)}
    jobs = await kit.add_many(*({"blockers": (chain.id,)} for chain in chains))

    async def work(number: int, store: Store) -> list[int]:
        added: list[int] = []
        for chain in chains:
            if number == 0:
                await settle_all(store, [(leases[chain.id], Fail("no", final=True))])
            elif number == 1:
                await store.retry_chains([chain.id])
            else:
                new = kit.new(blockers=(chain.id,), on_blocker_failure="wait")
                added += [job.id for job in await store.enqueue([new])]
        return added

    answers = await compete(kit, work)
    added = [job for answer in answers for job in answer]
    await kit.claim(tasks=["nothing of this kind"])
    await kit.store.retry_chains([chain.id for chain in chains])
    assert await _drain(kit, "t", "b") == Counter(
        [*added, *(job.id for job in jobs), *(chain.id for chain in chains)]
    )


@case
async def a_delete_and_a_start_that_names_the_chain(kit: Kit) -> None:
    """Either the chain is gone and cannot be named, or it is named and cannot be deleted."""
    count = 12
    chains = await kit.store.start_chains([kit.new_chain("b") for _ in range(count)])

    async def work(number: int, store: Store) -> list[bool]:
        done: list[bool] = []
        for chain in chains:
            try:
                if number == 0:
                    deleted = await store.delete_chains([chain.id])
                    done.append(bool(deleted))
                elif number == 1:
                    await store.enqueue([kit.new(blockers=(chain.id,))])
                    done.append(True)
            except (BlockerReferenceError, ChainNotFoundError):
                done.append(False)
        return done

    answers = await compete(kit, work, 2)
    named = answers[1].count(True)
    ran = await _drain(kit, "t", "b")
    assert len(ran) >= named
    assert await kit.store.find_chains(ChainFilter(states=(ChainState.OPEN,))) == []
