"""What operators do to chains: complete, cancel, retry and delete them."""

from __future__ import annotations

from collections.abc import Awaitable

from windlass.errors import BlockerReferenceError, ChainClosedError, ChainNotFoundError
from windlass.model.chain import Chain, ChainState
from windlass.model.job import JobState
from windlass.store.records import (
    CANCEL,
    COMPLETE,
    ChainFilter,
    Complete,
    LostReason,
    Verdict,
)
from windlass.testing.contract.case import Group
from windlass.testing.contract.kit import Kit, ids

case = Group(__name__)
CASES = case.cases

OPEN, COMPLETED = ChainState.OPEN, ChainState.COMPLETED
FAILED, CANCELLED = ChainState.FAILED, ChainState.CANCELLED

STATES = (
    ("blocked",),
    ("scheduled",),
    ("ready",),
    ("queued",),
    ("running",),
    ("failed",),
    ("cancelled",),
)


async def _chain(kit: Kit, state: str, **options: object) -> Chain[object]:
    """A chain whose current job, its second, is in this state."""
    blockers: tuple[int, ...] = ()
    if state == "blocked":
        blockers = ((await kit.start("blocker")).id,)
    if state == "queued":
        await kit.add("first", queue="q")
        await kit.take(tasks=["first"])
    chain = await kit.start("t", **options)
    await kit.go_on(
        await kit.take(),
        "t",
        blockers=blockers,
        delay=60_000_000 if state == "scheduled" else 0,
        queue="q" if state == "queued" else None,
    )
    if state == "running":
        await kit.take()
    elif state == "failed":
        await kit.fail(await kit.take(), final=True)
    elif state == "cancelled":
        await kit.store.cancel_chains([chain.id])
    return await kit.chain(chain.id)


async def _raises(kind: type[Exception], attempt: Awaitable[object]) -> Exception:
    try:
        await attempt
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was to be raised")


# ── completion by hand ──


@case.each(*STATES)
async def a_chain_is_completed_by_hand(kit: Kit, state: str) -> None:
    chain = await _chain(kit, state)
    waiting = await kit.add("waits", blockers=(chain.id,), on_blocker_failure="wait")
    kit.clock.advance(1)
    done = await kit.store.complete_chain(chain.id, Complete('{"approved":true}'))
    assert (done.state, done.output, done.length) == (COMPLETED, {"approved": True}, 2)
    assert (done.finished_at, done.error) == (kit.at(), None)
    assert await kit.chain(chain.id) == done
    assert await kit.claim() == []
    await kit.claim(tasks=["nothing of this kind"])
    assert await kit.claimed(tasks=["waits"]) == [waiting.id]


@case.each(*STATES)
async def a_chain_goes_on_by_hand(kit: Kit, state: str) -> None:
    chain = await _chain(kit, state, key="k")
    on = await kit.store.complete_chain(chain.id, Complete(next=kit.new("ship", payload="[1]")))
    assert (on.state, on.length, on.error, on.finished_at) == (OPEN, 3, None, None)
    assert on.job is not None
    assert (on.job.task, on.job.step) == ("ship", 2)
    assert await kit.claim() == []
    lease = await kit.take(tasks=["ship"])
    assert (lease.chain, lease.step, lease.payload) == (chain.id, 2, "[1]")
    assert (await kit.start(key="k")).id == chain.id
    await kit.settle(lease, COMPLETE)
    assert (await kit.chain(chain.id)).state is COMPLETED


@case
async def a_running_job_is_told_and_its_answer_is_lost(kit: Kit) -> None:
    chain = await kit.start()
    lease = await kit.take()
    await kit.store.complete_chain(chain.id, Complete(next=kit.new("u")))
    assert kit.check(lease).lost == {lease.job_id: LostReason.ALREADY_COMPLETED}
    assert kit.renew(lease).lost == {lease.job_id: LostReason.ALREADY_COMPLETED}
    assert (await kit.go_on(lease, "v")).verdict is Verdict.LOST
    assert (await kit.chain(chain.id)).length == 2
    assert len(await kit.claim(tasks=["u", "v"])) == 1


@case
async def a_queue_goes_on_after_completion_by_hand(kit: Kit) -> None:
    chain = await kit.start(queue="q")
    behind = await kit.add(queue="q")
    await kit.take()
    await kit.store.complete_chain(chain.id, COMPLETE)
    assert await kit.claimed() == [behind.id]


@case
async def a_job_that_is_kept_is_kept_by_hand(kit: Kit) -> None:
    chain = await kit.start(keep=60.0)
    await kit.store.complete_chain(chain.id, Complete("1"))
    job = await kit.get(chain.id)
    assert (job.state, job.output, job.chain) == (JobState.COMPLETED, 1, chain.id)


@case
async def the_next_job_inherits_what_it_is_told_to(kit: Kit) -> None:
    chain = await kit.start(priority=4, meta='{"trace":"x"}', keep=60.0, tenant="acme")
    await kit.store.complete_chain(
        chain.id, Complete(next=kit.new("u")), ("priority", "meta", "keep")
    )
    [job] = await kit.jobs(task="u")
    assert (job.priority, job.meta, job.keep, job.tenant) == (4, {"trace": "x"}, 60.0, "acme")
    await kit.store.complete_chain(chain.id, Complete(next=kit.new("v", priority=1)), ("keep",))
    [job] = await kit.jobs(task="v")
    assert (job.priority, job.meta, job.keep) == (1, None, 60.0)


@case
async def by_hand_it_may_wait_for_other_chains(kit: Kit) -> None:
    other = await kit.start("b")
    chain = await kit.start()
    next_job = kit.new("u", blockers=(other.id,))
    on = await kit.store.complete_chain(chain.id, Complete(next=next_job))
    assert on.job is not None
    assert on.job.state is JobState.BLOCKED
    await kit.settle(await kit.take(tasks=["b"]), COMPLETE)
    assert len(await kit.claim(tasks=["u"])) == 1


@case
async def by_hand_it_cannot_wait_for_itself_or_for_nothing(kit: Kit) -> None:
    chain = await kit.start()
    other = await kit.start("u", blockers=(chain.id,))
    for blocker, kind in (
        (chain.id, BlockerReferenceError),
        (other.id, BlockerReferenceError),
        (999_999, ChainNotFoundError),
    ):
        completion = Complete(next=kit.new(blockers=(blocker,)))
        await _raises(kind, kit.store.complete_chain(chain.id, completion))
    assert (await kit.chain(chain.id)).length == 1
    assert len(await kit.claim()) == 1


@case
async def a_completed_chain_is_closed(kit: Kit) -> None:
    chain = await kit.start()
    await kit.settle(await kit.take(), Complete("1"))
    error = await _raises(ChainClosedError, kit.store.complete_chain(chain.id, Complete("2")))
    assert str(chain.id) in str(error)
    assert (await kit.chain(chain.id)).output == 1


@case
async def a_chain_whose_job_is_gone_is_completed_by_hand(kit: Kit) -> None:
    chains = await kit.store.start_chains([kit.new_chain(), kit.new_chain()])
    for lease in await kit.claim():
        await kit.fail(lease, final=True)
    await kit.store.delete_failed(10)
    done = await kit.store.complete_chain(chains[0].id, Complete("1"))
    assert (done.state, done.output, done.error) == (COMPLETED, 1, None)
    on = await kit.store.complete_chain(chains[1].id, Complete(next=kit.new("u")))
    assert (on.state, on.length) == (OPEN, 2)


# ── deleting single jobs ──


@case
async def jobs_of_an_open_chain_are_not_deleted_alone(kit: Kit) -> None:
    chain = await kit.start(keep=600.0)
    await kit.go_on(await kit.take(), delay=60_000_000)
    current = (await kit.chain(chain.id)).job
    assert current is not None and current.id != chain.id
    assert await kit.store.delete([chain.id, current.id]) == []
    assert ids(await kit.store.chain_jobs(chain.id)) == [chain.id, current.id]


@case.each(("completed",), ("failed",), ("cancelled",))
async def jobs_of_a_chain_that_has_ended_are_deleted(kit: Kit, how: str) -> None:
    chain = await kit.start(keep=600.0)
    await kit.go_on(await kit.take(), keep=600.0)
    last = await kit.take()
    if how == "cancelled":
        await kit.store.cancel_chains([chain.id])
        await kit.settle(last, CANCEL)
    elif how == "failed":
        await kit.fail(last, final=True)
    else:
        await kit.settle(last, Complete("7"))
    before = await kit.chain(chain.id)
    deleted = await kit.store.delete([chain.id, last.job_id])
    assert [(job.id, job.state.value) for job in deleted] == [
        (chain.id, "completed"),
        (last.job_id, how),
    ]
    after = await kit.chain(chain.id)
    assert after.job is None
    assert (after.state, after.output, after.error) == (before.state, before.output, before.error)
    assert await kit.store.chain_jobs(chain.id) == []


@case
async def a_blocked_job_is_deleted(kit: Kit) -> None:
    chain = await kit.start(tenant="acme")
    waiting = await kit.add(tenant="acme", blockers=(chain.id,))
    assert await kit.store.delete([waiting.id], "other") == []
    assert ids(await kit.store.delete([waiting.id], "acme")) == [waiting.id]
    assert await kit.store.blocked_jobs(chain.id) == []
    assert await kit.store.blockers(waiting.id) == []
    await kit.settle(await kit.take(), COMPLETE)
    assert await kit.claim() == []


# ── unknown chains and other tenants ──


@case
async def unknown_chains_change_nothing(kit: Kit) -> None:
    chain = await kit.start()
    job = await kit.add()
    for unknown in (job.id, 999_999):
        await _raises(ChainNotFoundError, kit.store.complete_chain(unknown, COMPLETE))
        await _raises(ChainNotFoundError, kit.store.cancel_chains([chain.id, unknown]))
        await _raises(ChainNotFoundError, kit.store.retry_chains([chain.id, unknown]))
        assert await kit.store.delete_chains([unknown]) == []
    assert (await kit.chain(chain.id)).state is OPEN


@case
async def another_tenants_chain_is_unknown(kit: Kit) -> None:
    chain = await kit.start(tenant="acme")
    await _raises(ChainNotFoundError, kit.store.complete_chain(chain.id, COMPLETE, (), "other"))
    await _raises(ChainNotFoundError, kit.store.cancel_chains([chain.id], ""))
    await _raises(ChainNotFoundError, kit.store.retry_chains([chain.id], "other"))
    assert await kit.store.delete_chains([chain.id], False, "other") == []
    assert (await kit.store.complete_chain(chain.id, COMPLETE, (), "acme")).state is COMPLETED


# ── cancelling ──


@case.each(("blocked",), ("scheduled",), ("ready",), ("queued",))
async def a_chain_is_cancelled(kit: Kit, state: str) -> None:
    chain = await _chain(kit, state)
    [seen] = await kit.store.cancel_chains([chain.id])
    assert (seen.state, seen.finished_at, seen.length) == (CANCELLED, kit.at(), 2)
    assert seen.job is not None
    assert seen.job.state is JobState.CANCELLED
    await kit.pass_time(60)
    assert await kit.claim() == []


@case
async def a_running_chain_is_asked_to_stop(kit: Kit) -> None:
    chain = await kit.start()
    lease = await kit.take()
    [seen] = await kit.store.cancel_chains([chain.id])
    assert seen.state is OPEN
    assert kit.check(lease).cancel == {chain.id}
    await kit.settle(lease, CANCEL)
    assert (await kit.chain(chain.id)).state is CANCELLED


@case.each(("completed",), ("failed",), ("cancelled",))
async def an_ended_chain_cannot_be_cancelled(kit: Kit, how: str) -> None:
    chain = await kit.start()
    other = await kit.start("u")
    if how == "completed":
        await kit.settle(await kit.take(), COMPLETE)
    elif how == "failed":
        await kit.fail(await kit.take(), final=True)
    else:
        await kit.store.cancel_chains([chain.id])
    await _raises(ChainClosedError, kit.store.cancel_chains([other.id, chain.id]))
    assert (await kit.chain(other.id)).state is OPEN


@case
async def chains_that_wait_for_one_another_are_cancelled_together(kit: Kit) -> None:
    for is_reversed in (False, True):
        first = await kit.start("b")
        second = await kit.start("b", blockers=(first.id,))
        chosen = [second.id, first.id] if is_reversed else [first.id, second.id]
        cancelled = await kit.store.cancel_chains(chosen)
        assert [chain.id for chain in cancelled] == chosen
        assert {chain.state for chain in cancelled} == {CANCELLED}


# ── retrying ──


@case.each(("failed",), ("cancelled",))
async def a_retried_chain_is_open_again(kit: Kit, state: str) -> None:
    chain = await _chain(kit, state)
    kit.clock.advance(1)
    [seen] = await kit.store.retry_chains([chain.id])
    assert (seen.state, seen.error, seen.finished_at, seen.length) == (OPEN, None, None, 2)
    assert seen.job is not None
    assert (seen.job.state, seen.job.attempts) == (JobState.READY, 0)
    lease = await kit.take()
    assert (lease.chain, lease.step) == (chain.id, 1)
    await kit.settle(lease, Complete("1"))
    assert (await kit.chain(chain.id)).output == 1


@case
async def open_and_completed_chains_are_not_retried(kit: Kit) -> None:
    done = await kit.start()
    await kit.settle(await kit.take(), Complete("1"))
    open_one = await kit.start()
    failed = await kit.start("u")
    await kit.fail(await kit.take(tasks=["u"]), final=True)
    changed = await kit.store.retry_chains([done.id, open_one.id, failed.id])
    assert [chain.id for chain in changed] == [failed.id]
    assert (await kit.chain(done.id)).state is COMPLETED


# ── deleting ──


@case
async def a_deleted_chain_is_gone_with_its_jobs(kit: Kit) -> None:
    chain = await kit.start(keep=60.0, key="k")
    await kit.go_on(await kit.take())
    [gone] = await kit.store.delete_chains([chain.id])
    assert gone.id == chain.id
    assert await kit.store.get_chain(chain.id) is None
    assert await kit.ids() == []
    assert await kit.claim() == []
    assert (await kit.start(key="k")).deduplicated is False


@case
async def a_running_job_of_a_deleted_chain_is_told(kit: Kit) -> None:
    chain = await kit.start(queue="q")
    behind = await kit.add(queue="q")
    lease = await kit.take()
    await kit.store.delete_chains([chain.id])
    assert kit.check(lease).lost == {lease.job_id: LostReason.NOT_FOUND}
    assert (await kit.go_on(lease)).verdict in (Verdict.MISSING, Verdict.LOST)
    assert await kit.claimed() == [behind.id]
    assert await kit.store.get_chain(chain.id) is None


@case.each(("open",), ("completed",))
async def a_chain_that_an_open_job_names_is_not_deleted(kit: Kit, state: str) -> None:
    chain, other, free = await kit.store.start_chains(
        [kit.new_chain(), kit.new_chain("b"), kit.new_chain("c")]
    )
    job = await kit.add("u", blockers=(chain.id, other.id))
    if state == "completed":
        await kit.settle(await kit.take(), COMPLETE)
    error = await _raises(BlockerReferenceError, kit.store.delete_chains([free.id, chain.id]))
    assert isinstance(error, BlockerReferenceError)
    assert error.references == (job.id,)
    assert await kit.store.get_chain(chain.id) is not None
    assert await kit.store.get_chain(free.id) is not None
    await kit.store.cancel([job.id])
    assert len(await kit.store.delete_chains([chain.id])) == 1


@case.each(("failed",), ("cancelled",))
async def a_chain_that_ended_badly_is_deleted_and_releases(kit: Kit, how: str) -> None:
    chain = await kit.start()
    waiting = await kit.add("u", blockers=(chain.id,), on_blocker_failure="wait")
    if how == "failed":
        await kit.fail(await kit.take(), final=True)
    else:
        await kit.store.cancel_chains([chain.id])
    assert len(await kit.store.delete_chains([chain.id])) == 1
    await kit.claim(tasks=["nothing of this kind"])
    assert await kit.claimed(tasks=["u"]) == [waiting.id]
    [gone] = await kit.store.blockers(waiting.id)
    assert (gone.id, gone.state, gone.error) == (chain.id, CANCELLED, "this chain was deleted")


@case
async def a_chain_that_waits_is_deleted(kit: Kit) -> None:
    blocker = await kit.start("b")
    chain = await kit.start(blockers=(blocker.id,))
    await kit.store.delete_chains([chain.id])
    assert await kit.store.blocked_jobs(blocker.id) == []
    await kit.settle(await kit.take(tasks=["b"]), COMPLETE)
    assert await kit.claim() == []
    assert len(await kit.store.delete_chains([blocker.id])) == 1


@case
async def both_ends_are_deleted_in_one_call(kit: Kit) -> None:
    blocker = await kit.start("b")
    chain = await kit.start(blockers=(blocker.id,))
    deleted = await kit.store.delete_chains([blocker.id, chain.id])
    assert {it.id for it in deleted} == {blocker.id, chain.id}
    assert await kit.ids() == []


async def _tree(kit: Kit) -> tuple[Chain[object], Chain[object], Chain[object], Chain[object]]:
    """A chain at its second job, which waits for another, which waits for two more."""
    deep = await kit.start("b")
    deeper = await kit.start("b")
    middle = await kit.start("b", blockers=(deep.id, deeper.id))
    top = await kit.start()
    await kit.go_on(await kit.take(), blockers=(middle.id,))
    return top, middle, deep, deeper


@case
async def a_cascade_deletes_blockers_of_all_jobs_that_are_stored(kit: Kit) -> None:
    top, middle, deep, deeper = await _tree(kit)
    free = await kit.start("b")
    deleted = await kit.store.delete_chains([top.id], True)
    assert {it.id for it in deleted} == {top.id, middle.id, deep.id, deeper.id}
    assert [it.id for it in await kit.store.find_chains(ChainFilter())] == [free.id]
    assert await kit.ids() == [free.id]


@case
async def without_a_cascade_blockers_stay(kit: Kit) -> None:
    top, middle, deep, deeper = await _tree(kit)
    await kit.store.delete_chains([top.id])
    found = await kit.store.find_chains(ChainFilter())
    assert {it.id for it in found} == {middle.id, deep.id, deeper.id}


@case
async def a_cascade_spares_what_is_needed_outside(kit: Kit) -> None:
    top, _, _, deeper = await _tree(kit)
    outside = await kit.add("u", blockers=(deeper.id,))
    error = await _raises(BlockerReferenceError, kit.store.delete_chains([top.id], True))
    assert isinstance(error, BlockerReferenceError)
    assert error.references == (outside.id,)
    assert len(await kit.store.find_chains(ChainFilter())) == 4
