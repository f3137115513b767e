"""Keys of chains: at most one open chain for each, however far it has gone on."""

from __future__ import annotations

from windlass.errors import ChainClosedError
from windlass.model.chain import ChainState
from windlass.model.job import JobState
from windlass.store.records import COMPLETE, ChainFilter, Complete
from windlass.testing.contract.case import Group
from windlass.testing.contract.kit import Kit

case = Group(__name__)
CASES = case.cases


@case
async def a_second_start_gets_the_open_chain(kit: Kit) -> None:
    chain = await kit.start(key="k", payload="[1]")
    assert (chain.key, chain.deduplicated) == ("k", False)
    again = await kit.start("u", key="k", payload="[2]", priority=7)
    assert (again.id, again.deduplicated) == (chain.id, True)
    assert (again.task, again.payload, again.key) == ("t", [1], "k")
    assert len(await kit.ids()) == 1


@case
async def also_when_it_has_gone_on(kit: Kit) -> None:
    chain = await kit.start(key="k")
    for _ in range(4):
        await kit.go_on(await kit.take())
    again = await kit.start(key="k")
    assert (again.id, again.deduplicated, again.length) == (chain.id, True, 5)
    assert len(await kit.ids()) == 1


@case
async def the_job_itself_has_no_key(kit: Kit) -> None:
    chain = await kit.start(key="k")
    assert (await kit.get(chain.id)).key is None
    assert await kit.store.get_by_key("k") is None
    job = await kit.add(key="k")
    assert job.id != chain.id
    assert await kit.store.remove("k") is not None
    assert (await kit.chain(chain.id)).state is ChainState.OPEN


@case.each(("completed",), ("failed",), ("cancelled",))
async def an_ended_chain_leaves_its_key(kit: Kit, how: str) -> None:
    chain = await kit.start(key="k")
    if how == "completed":
        await kit.settle(await kit.take(), COMPLETE)
    elif how == "failed":
        await kit.fail(await kit.take(), final=True)
    else:
        await kit.store.cancel_chains([chain.id])
    again = await kit.start(key="k")
    assert again.id != chain.id
    assert not again.deduplicated


@case
async def a_window_counts_chains_that_have_ended(kit: Kit) -> None:
    chain = await kit.start(key="k", key_window=60.0)
    await kit.settle(await kit.take(), Complete("1"))
    kit.clock.advance(59)
    again = await kit.start(key="k", key_window=60.0)
    assert (again.id, again.deduplicated, again.output) == (chain.id, True, 1)
    shorter = await kit.start(key="k", key_window=30.0)
    assert shorter.id != chain.id


@case
async def after_the_window_the_key_is_free(kit: Kit) -> None:
    chain = await kit.start(key="k", key_window=60.0)
    await kit.settle(await kit.take(), COMPLETE)
    kit.clock.advance(60)
    again = await kit.start(key="k", key_window=60.0)
    assert (again.id != chain.id, again.deduplicated) == (True, False)


@case
async def a_window_makes_a_chain_stay(kit: Kit) -> None:
    chain = await kit.start(key="k", key_window=1_000.0)
    await kit.settle(await kit.take(), COMPLETE)
    kit.clock.advance(999)
    await kit.store.prune(100, 10.0, 10.0)
    assert (await kit.chain(chain.id)).key == "k"
    kit.clock.advance(1)
    assert await kit.store.prune(100, 10.0, 10.0) == 1


@case
async def of_several_in_one_call_the_first_wins(kit: Kit) -> None:
    new = [kit.new_chain(key="k", payload="[1]"), kit.new_chain(key="k", payload="[2]")]
    first, second, third = await kit.store.start_chains([*new, kit.new_chain()])
    assert (first.deduplicated, second.deduplicated, third.deduplicated) == (False, True, False)
    assert (second.id, second.payload) == (first.id, [1])
    assert len(await kit.ids()) == 2


@case
async def keys_of_two_tenants_never_meet(kit: Kit) -> None:
    chains = [await kit.start(key="k", tenant=tenant) for tenant in ("", "acme", "other")]
    assert len({chain.id for chain in chains}) == 3
    assert (await kit.start(key="k", tenant="acme")).id == chains[1].id


@case
async def a_chain_starts_its_successor_with_its_own_key(kit: Kit) -> None:
    chain = await kit.start(key="k", key_window=60.0)
    start = kit.new_chain(key="k", key_window=60.0, delay=10_000_000)
    await kit.settle(await kit.take(), Complete("1", starts=(start,)))
    [successor, first] = await kit.store.find_chains(ChainFilter())
    assert (first.id, first.state) == (chain.id, ChainState.COMPLETED)
    assert (successor.state, successor.key) == (ChainState.OPEN, "k")
    assert (await kit.start(key="k")).id == successor.id


@case
async def a_chain_that_goes_on_keeps_its_key_from_its_children(kit: Kit) -> None:
    chain = await kit.start(key="k")
    outcome = Complete(next=kit.new(), starts=(kit.new_chain("u", key="k"),))
    await kit.settle(await kit.take(), outcome)
    assert [it.id for it in await kit.store.find_chains(ChainFilter())] == [chain.id]
    assert await kit.claim(tasks=["u"]) == []


@case
async def a_child_that_is_there_already_is_waited_for(kit: Kit) -> None:
    there = await kit.start("b", key="k")
    await kit.add()
    outcome = Complete(next=kit.new(blockers=(-1,)), starts=(kit.new_chain("b", key="k"),))
    await kit.settle(await kit.take(), outcome)
    assert await kit.claim() == []
    lease = await kit.take(tasks=["b"])
    assert lease.chain == there.id
    await kit.settle(lease, COMPLETE)
    assert len(await kit.claim()) == 1


@case
async def a_failed_chain_cannot_be_open_beside_a_newer_one(kit: Kit) -> None:
    chain = await kit.start(key="k")
    await kit.fail(await kit.take(), final=True)
    newer = await kit.start(key="k")
    for attempt in (
        lambda: kit.store.retry_chains([chain.id]),
        lambda: kit.store.retry([chain.id]),
        lambda: kit.store.reschedule([chain.id], attempts=0),
        lambda: kit.store.complete_chain(chain.id, Complete(next=kit.new())),
    ):
        try:
            await attempt()
        except ChainClosedError as error:
            assert str(newer.id) in str(error)
        else:
            raise AssertionError("two open chains would have one key")
    assert await kit.state(chain.id) is JobState.FAILED
    await kit.settle(await kit.take(), COMPLETE)
    assert [it.id for it in await kit.store.retry_chains([chain.id])] == [chain.id]
    assert (await kit.start(key="k")).id == chain.id


@case
async def a_failed_chain_whose_key_is_taken_is_completed_by_hand(kit: Kit) -> None:
    chain = await kit.start(key="k")
    await kit.fail(await kit.take(), final=True)
    await kit.start(key="k")
    assert (await kit.store.complete_chain(chain.id, Complete("1"))).state is ChainState.COMPLETED


@case
async def what_cannot_be_put_back_stays_failed_and_says_so(kit: Kit) -> None:
    blocker = await kit.start("b")
    chain = await kit.start(key="k", blockers=(blocker.id,))
    await kit.fail(await kit.take(tasks=["b"]), final=True)
    newer = await kit.start(key="k")
    assert newer.id != chain.id
    await kit.store.retry_chains([blocker.id])
    await kit.claim(tasks=["nothing of this kind"])
    seen = await kit.chain(chain.id)
    assert seen.state is ChainState.FAILED
    assert str(newer.id) in (seen.error or "")
    assert str(newer.id) in ((await kit.get(chain.id)).last_error or "")


@case.each(("chain",), ("job",), ("reschedule",))
async def two_failed_chains_of_one_key_are_not_opened_together(kit: Kit, verb: str) -> None:
    chains = []
    for _ in range(2):
        chains.append(await kit.start(key="k"))
        await kit.fail(await kit.take(), final=True)
    first, second = (chain.id for chain in chains)
    try:
        if verb == "chain":
            await kit.store.retry_chains([first, second])
        elif verb == "job":
            await kit.store.retry([first, second])
        else:
            await kit.store.reschedule([first, second], attempts=0)
    except ChainClosedError as error:
        assert str(first) in str(error)
    else:
        raise AssertionError("two open chains would have one key")
    assert await kit.state(first) is await kit.state(second) is JobState.FAILED
    assert (await kit.chain(first)).state is ChainState.FAILED
    assert [it.id for it in await kit.store.retry_chains([second])] == [second]


async def _two_behind(kit: Kit) -> tuple[int, int, int]:
    """A failed chain, and two chains of one key that failed because of it."""
    blocker = await kit.start("b")
    first = await kit.start(key="k", blockers=(blocker.id,))
    await kit.fail(await kit.take(tasks=["b"]), final=True)
    await kit.claim(tasks=["nothing of this kind"])
    second = await kit.start(key="k", blockers=(blocker.id,))
    await kit.claim(tasks=["nothing of this kind"])
    for failed in (first, second):
        assert (await kit.chain(failed.id)).state is ChainState.FAILED
    return blocker.id, first.id, second.id


@case
async def of_two_that_could_be_put_back_one_is(kit: Kit) -> None:
    blocker, first, second = await _two_behind(kit)
    await kit.store.retry_chains([blocker])
    await kit.claim(tasks=["nothing of this kind"])
    found = [await kit.chain(chain) for chain in (first, second)]
    found.sort(key=lambda chain: chain.state is ChainState.FAILED)
    assert [chain.state for chain in found] == [ChainState.OPEN, ChainState.FAILED]
    assert str(found[0].id) in (found[1].error or "")
    await kit.settle(await kit.take(tasks=["b"]), COMPLETE)
    assert [lease.chain for lease in await kit.claim()] == [found[0].id]


@case
async def a_chain_that_is_retried_has_its_key_before_others(kit: Kit) -> None:
    blocker, first, second = await _two_behind(kit)
    changed = await kit.store.retry_chains([blocker, second])
    assert {chain.id for chain in changed} == {blocker, second}
    await kit.claim(tasks=["nothing of this kind"])
    assert (await kit.chain(second)).state is ChainState.OPEN
    seen = await kit.chain(first)
    assert seen.state is ChainState.FAILED
    assert str(second) in (seen.error or "")
