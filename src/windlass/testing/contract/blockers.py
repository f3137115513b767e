"""Blockers: jobs that wait for chains, and what they do when one ends badly.

A store may leave work of its own to the next claim of any worker (a bell on PostgreSQL), so a case
that looks at what was not released by an end in front of its eyes claims first: `_attend`.
"""

from __future__ import annotations

from itertools import pairwise

from windlass.errors import BlockerReferenceError, ChainNotFoundError
from windlass.model.chain import Chain, ChainState
from windlass.model.job import Job, JobState
from windlass.model.payload import MAX_PAYLOAD
from windlass.store.records import (
    COMPLETE,
    MOST_BLOCKER_TEXT,
    RELEASE,
    ChainFilter,
    Complete,
    Lease,
    Verdict,
    decode_blockers,
)
from windlass.testing.contract.case import Group
from windlass.testing.contract.kit import Kit, ids

case = Group(__name__)
CASES = case.cases

BLOCKED, READY = JobState.BLOCKED, JobState.READY
ENDS = (("failed",), ("cancelled",))


async def _end(kit: Kit, chain: Chain[object], how: str = "completed") -> None:
    """End a chain of the task `b`."""
    if how == "cancelled":
        await kit.store.cancel_chains([chain.id])
        return
    leases = {lease.chain: lease for lease in await kit.claim(tasks=["b"], limit=100)}
    lease = leases.pop(chain.id)
    await kit.store.settle([(other, RELEASE) for other in leases.values()])
    if how == "completed":
        await kit.settle(lease, Complete(f'"{chain.id}"'))
    else:
        await kit.fail(lease, "no", final=True)


async def _attend(kit: Kit) -> None:
    assert await kit.claim(tasks=["nothing of this kind"]) == []


async def _starts(kit: Kit, count: int) -> list[Chain[object]]:
    return list(await kit.store.start_chains([kit.new_chain("b") for _ in range(count)]))


def _refs(chains: list[Chain[object]]) -> tuple[int, ...]:
    return tuple(chain.id for chain in chains)


# ── waiting ──


@case
async def a_job_waits_for_a_chain(kit: Kit) -> None:
    [chain] = await _starts(kit, 1)
    job = await kit.add(blockers=(chain.id,))
    assert (job.state, job.blockers_open, job.blockers_total) == (BLOCKED, 1, 1)
    assert await kit.claim() == []
    assert await kit.get(job.id) == job
    await _end(kit, chain)
    job = await kit.get(job.id)
    assert (job.state, job.blockers_open, job.blockers_total) == (READY, 0, 1)
    assert await kit.claimed() == [job.id]


@case
async def it_waits_for_the_end_and_not_for_a_step(kit: Kit) -> None:
    [chain] = await _starts(kit, 1)
    job = await kit.add(blockers=(chain.id,))
    await kit.go_on(await kit.take(tasks=["b"]), "b")
    assert await kit.state(job.id) is BLOCKED
    await kit.settle(await kit.take(tasks=["b"]), COMPLETE)
    assert await kit.state(job.id) is READY


@case.each(("012",), ("210",), ("120",))
async def the_last_of_several_releases_it(kit: Kit, order: str) -> None:
    chains = await _starts(kit, 3)
    job = await kit.add(blockers=_refs(chains))
    for left, place in zip((2, 1, 0), order, strict=True):
        await _end(kit, chains[int(place)])
        assert (await kit.get(job.id)).blockers_open == left
        assert await kit.state(job.id) is (BLOCKED if left else READY)


@case
async def several_that_end_in_one_batch_release_it_once(kit: Kit) -> None:
    chains = await _starts(kit, 3)
    job = await kit.add(blockers=_refs(chains))
    leases = await kit.claim(tasks=["b"])
    await kit.store.settle([(lease, COMPLETE) for lease in leases])
    assert (await kit.get(job.id)).blockers_open == 0
    assert await kit.claimed() == [job.id]
    assert await kit.claim() == []


@case
async def one_end_releases_many(kit: Kit) -> None:
    [chain] = await _starts(kit, 1)
    jobs = await kit.add_many(*({"blockers": (chain.id,)} for _ in range(20)))
    await _end(kit, chain)
    assert await kit.claimed(limit=50) == ids(jobs)


@case
async def a_chain_that_has_completed_is_met_at_once(kit: Kit) -> None:
    chains = await _starts(kit, 2)
    await _end(kit, chains[0])
    job = await kit.add(blockers=_refs(chains))
    assert (job.state, job.blockers_open, job.blockers_total) == (BLOCKED, 1, 2)
    await _end(kit, chains[1])
    other = await kit.add(blockers=_refs(chains))
    assert (other.state, other.blockers_open, other.blockers_total) == (READY, 0, 2)
    assert await kit.claimed() == [job.id, other.id]


@case
async def a_chain_named_twice_counts_once(kit: Kit) -> None:
    one, two = await _starts(kit, 2)
    job = await kit.add(blockers=(one.id, two.id, one.id))
    assert (job.blockers_open, job.blockers_total) == (2, 2)
    await _end(kit, one)
    assert (await kit.get(job.id)).blockers_open == 1
    await _end(kit, two)
    lease = await kit.take()
    assert [chain.id for chain in await _seen(kit, lease)] == [one.id, two.id, one.id]


@case
async def a_chain_waits_too(kit: Kit) -> None:
    [first] = await _starts(kit, 1)
    chain = await kit.start(blockers=(first.id,))
    assert chain.job is not None
    assert (chain.state, chain.job.state) == (ChainState.OPEN, BLOCKED)
    third = await kit.add("u", blockers=(chain.id,))
    await _end(kit, first)
    await kit.settle(await kit.take(), COMPLETE)
    assert await kit.claimed(tasks=["u"]) == [third.id]


@case
async def a_plain_job_that_waited_goes_on(kit: Kit) -> None:
    [chain] = await _starts(kit, 1)
    job = await kit.add(blockers=(chain.id,))
    await _end(kit, chain)
    await kit.go_on(await kit.take())
    assert (await kit.chain(job.id)).length == 2


@case.each(("job",), ("chain",))
async def an_unknown_chain_is_refused_before_anything_is_stored(kit: Kit, kind: str) -> None:
    [chain] = await _starts(kit, 1)
    plain = await kit.add("u")
    for unknown in (plain.id, 999_999):
        try:
            if kind == "job":
                await kit.add_many({}, {"blockers": (chain.id, unknown)})
            else:
                new = [kit.new_chain(), kit.new_chain(blockers=(chain.id, unknown))]
                await kit.store.start_chains(new)
        except ChainNotFoundError as error:
            assert error.ids == (unknown,)
        else:
            raise AssertionError("an unknown chain was taken")
    assert await kit.ids() == sorted([chain.id, plain.id])


@case
async def a_chain_of_another_tenant_is_unknown(kit: Kit) -> None:
    chain = await kit.start("b", tenant="acme")
    for tenant in ("", "other"):
        try:
            await kit.add(tenant=tenant, blockers=(chain.id,))
        except ChainNotFoundError:
            continue
        raise AssertionError("another tenant's chain was taken")
    assert (await kit.add(tenant="acme", blockers=(chain.id,))).state is BLOCKED


@case
async def waiting_survives_the_process(kit: Kit) -> None:
    [chain] = await _starts(kit, 1)
    job = await kit.add(blockers=(chain.id,))
    await kit.reopen()
    await _end(kit, chain)
    await kit.reopen()
    assert await kit.claimed() == [job.id]


# ── release ──


@case
async def a_released_job_is_due_when_it_is_released(kit: Kit) -> None:
    [chain] = await _starts(kit, 1)
    waited = await kit.add(blockers=(chain.id,))
    kit.clock.advance(10)
    ready = await kit.add()
    kit.clock.advance(10)
    await _end(kit, chain)
    assert (await kit.get(waited.id)).run_at == kit.at()
    assert await kit.claimed() == [ready.id, waited.id]


@case
async def a_later_run_at_survives_the_release(kit: Kit) -> None:
    [chain] = await _starts(kit, 1)
    job = await kit.add(blockers=(chain.id,), delay=60_000_000)
    assert job.state is BLOCKED
    kit.clock.advance(10)
    await _end(kit, chain)
    seen = await kit.get(job.id)
    assert (seen.state, seen.run_at) == (JobState.SCHEDULED, kit.at(50))
    await kit.pass_time(50)
    assert await kit.claimed() == [job.id]


@case
async def a_run_at_that_passes_meanwhile_releases_nothing(kit: Kit) -> None:
    [chain] = await _starts(kit, 1)
    job = await kit.add(blockers=(chain.id,), delay=10_000_000)
    await kit.pass_time(60)
    assert await kit.state(job.id) is BLOCKED
    assert await kit.store.next_due() is None
    await _end(kit, chain)
    assert await kit.claimed() == [job.id]


@case
async def priorities_and_queues_apply_after_the_release(kit: Kit) -> None:
    [chain] = await _starts(kit, 1)
    jobs = await kit.add_many(
        {"queue": "q", "blockers": (chain.id,)},
        {"queue": "q"},
        {"priority": -1, "blockers": (chain.id,)},
    )
    [lease] = await kit.claim()
    assert lease.job_id == jobs[1].id
    await _end(kit, chain)
    assert await kit.claimed() == [jobs[2].id]
    await kit.settle(lease, COMPLETE)
    assert await kit.claimed() == [jobs[0].id]


@case
async def a_paused_task_stays_paused_after_the_release(kit: Kit) -> None:
    [chain] = await _starts(kit, 1)
    job = await kit.add(blockers=(chain.id,))
    await kit.store.pause(task="t")
    await _end(kit, chain)
    assert await kit.claim() == []
    await kit.store.resume(task="t")
    assert await kit.claimed() == [job.id]


# ── what a job sees of them ──


async def _seen(kit: Kit, lease: Lease) -> list[Chain[object]]:
    """What the handler is shown: the lease has it, or the store is asked."""
    if lease.blockers is not None:
        return list(decode_blockers(lease.blockers))
    return list(await kit.store.blockers(lease.job_id))


@case
async def outputs_come_in_the_order_given(kit: Kit) -> None:
    chains = await _starts(kit, 3)
    await kit.add(blockers=_refs(chains[::-1]))
    for chain in chains:
        await _end(kit, chain)
    lease = await kit.take()
    assert lease.blockers is not None
    assert lease.blockers_total == 3
    found = await _seen(kit, lease)
    assert [chain.id for chain in found] == [chain.id for chain in chains[::-1]]
    assert [chain.output for chain in found] == [str(chain.id) for chain in chains[::-1]]
    assert {chain.state for chain in found} == {ChainState.COMPLETED}
    assert [it.id for it in await kit.store.blockers(lease.job_id)] == [it.id for it in found]


@case
async def a_job_without_blockers_has_none(kit: Kit) -> None:
    job = await kit.add()
    assert (job.blockers_open, job.blockers_total) == (0, 0)
    assert (await kit.take()).blockers is None
    assert await kit.store.blockers(job.id) == []


@case
async def outputs_that_are_too_long_are_asked_for(kit: Kit) -> None:
    text = "x" * (MAX_PAYLOAD - 2)
    count = MOST_BLOCKER_TEXT // MAX_PAYLOAD + 1
    chains = await _starts(kit, count)
    await kit.add(blockers=_refs(chains))
    leases = await kit.claim(tasks=["b"])
    await kit.store.settle([(lease, Complete(f'"{text}"')) for lease in leases])
    lease = await kit.take()
    assert lease.blockers is None
    assert lease.blockers_total == count
    assert [chain.output for chain in await kit.store.blockers(lease.job_id)] == [text] * count


@case
async def a_second_delivery_sees_them_again(kit: Kit) -> None:
    [chain] = await _starts(kit, 1)
    await kit.add(blockers=(chain.id,))
    await _end(kit, chain)
    await kit.settle(await kit.take(), RELEASE)
    assert [it.id for it in await _seen(kit, await kit.take())] == [chain.id]


@case
async def a_chain_that_an_open_job_names_is_not_forgotten(kit: Kit) -> None:
    one, two = await _starts(kit, 2)
    job = await kit.add(blockers=(one.id, two.id))
    await _end(kit, one)
    kit.clock.advance(1_000)
    await kit.store.prune(100, 10.0, 10.0)
    assert (await kit.chain(one.id)).state is ChainState.COMPLETED
    await _end(kit, two)
    lease = await kit.take()
    assert (lease.job_id, len(await _seen(kit, lease))) == (job.id, 2)
    await kit.settle(lease, COMPLETE)
    kit.clock.advance(2_000)
    await kit.store.prune(100, 10.0, 10.0)
    kit.clock.advance(2_000)
    await kit.store.prune(100, 10.0, 10.0)
    assert await kit.store.find_chains(ChainFilter()) == []


@case
async def the_jobs_that_wait_for_a_chain_are_listed(kit: Kit) -> None:
    one, two = await _starts(kit, 2)
    first = await kit.add(blockers=(one.id, two.id))
    second = await kit.add(blockers=(one.id,))
    assert ids(await kit.store.blocked_jobs(one.id)) == [second.id, first.id]
    assert ids(await kit.store.blocked_jobs(two.id)) == [first.id]
    assert await kit.store.blocked_jobs(one.id, "other") == []
    await _end(kit, one)
    assert await kit.store.blocked_jobs(one.id) == []
    assert ids(await kit.store.blocked_jobs(two.id)) == [first.id]


# ── fan-out and fan-in in one completion ──


@case
async def a_completion_fans_out_and_in(kit: Kit) -> None:
    job = await kit.add()
    starts = tuple(kit.new_chain("b", payload=f"[{n}]") for n in range(3))
    outcome = Complete(next=kit.new("merge", blockers=(-1, -2, -3)), starts=starts)
    await kit.settle(await kit.take(), outcome)
    chain = await kit.chain(job.id)
    assert chain.job is not None
    assert (chain.job.state, chain.job.blockers_open) == (BLOCKED, 3)
    leases = await kit.claim(tasks=["b"])
    assert [lease.payload for lease in leases] == ["[0]", "[1]", "[2]"]
    for lease in leases:
        await kit.settle(lease, Complete(lease.payload))
    merge = await kit.take(tasks=["merge"])
    assert (merge.chain, merge.step) == (job.id, 1)
    assert [it.output for it in await _seen(kit, merge)] == [[0], [1], [2]]


@case
async def a_chain_that_starts_may_wait_for_one_before_it(kit: Kit) -> None:
    await kit.add()
    starts = (kit.new_chain("b"), kit.new_chain("u", blockers=(-1,)))
    await kit.settle(await kit.take(), Complete(starts=starts))
    assert await kit.claim(tasks=["u"]) == []
    await kit.settle(await kit.take(tasks=["b"]), COMPLETE)
    assert len(await kit.claim(tasks=["u"])) == 1


@case
async def a_continuation_waits_for_chains_that_were_there(kit: Kit) -> None:
    one, two = await _starts(kit, 2)
    await _end(kit, one)
    chain = await kit.start()
    await kit.go_on(await kit.take(), blockers=(one.id, two.id))
    assert await kit.claim() == []
    await _end(kit, two)
    assert (await kit.take()).chain == chain.id


@case
async def chains_that_end_before_the_next_job_is_there_count(kit: Kit) -> None:
    """All in one batch: the end of a chain, and a continuation that names it."""
    [chain] = await _starts(kit, 1)
    await kit.add()
    one, two = await kit.take(tasks=["b"]), await kit.take()
    await kit.store.settle(
        [(two, Complete(next=kit.new("u", blockers=(chain.id,)))), (one, COMPLETE)]
    )
    await _attend(kit)
    assert len(await kit.claim(tasks=["u"])) == 1


# ── no cycles ──


@case
async def a_continuation_cannot_wait_for_its_own_chain(kit: Kit) -> None:
    chain = await kit.start()
    lease = await kit.take()
    answer = await kit.go_on(lease, blockers=(chain.id,))
    assert answer.verdict is Verdict.REFUSED
    assert str(chain.id) in (answer.reason or "")
    assert (await kit.settle(lease, COMPLETE)).verdict is Verdict.APPLIED


@case
async def a_cycle_over_others_is_refused(kit: Kit) -> None:
    """The first chain would wait for the third, which waits for the second, which waits for it."""
    first = await kit.start()
    second = await kit.start("u", blockers=(first.id,))
    third = await kit.start("u", blockers=(second.id,))
    lease = await kit.take()
    assert (await kit.go_on(lease, blockers=(third.id,))).verdict is Verdict.REFUSED
    child = (kit.new_chain("v", blockers=(third.id,)),)
    outcome = Complete(next=kit.new(blockers=(-1,)), starts=child)
    assert (await kit.settle(lease, outcome)).verdict is Verdict.REFUSED
    assert await kit.claim(tasks=["v"]) == []
    alone = Complete(starts=child)
    assert (await kit.settle(lease, alone)).verdict is Verdict.APPLIED
    assert len(await kit.claim(tasks=["u"])) == 1


@case
async def a_cycle_that_a_retry_would_make_is_refused(kit: Kit) -> None:
    first = await kit.start()
    second = await kit.start("u", blockers=(first.id,))
    await kit.fail(await kit.take(), final=True)
    assert (await kit.chain(second.id)).state is ChainState.FAILED
    await kit.store.reschedule([first.id], attempts=0)
    await _attend(kit)
    lease = await kit.take()
    outcome = await kit.go_on(lease, blockers=(second.id,), on_blocker_failure="wait")
    assert outcome.verdict is Verdict.REFUSED


@case
async def a_cycle_through_a_key_that_two_chains_share_is_refused(kit: Kit) -> None:
    """The second of them is the first, which waits for the chain that would wait for it."""
    chain = await kit.start()
    lease = await kit.take()
    starts = (kit.new_chain("u", key="k", blockers=(chain.id,)), kit.new_chain("u", key="k"))
    outcome = Complete(next=kit.new(blockers=(-2,)), starts=starts)
    assert (await kit.settle(lease, outcome)).verdict is Verdict.REFUSED
    assert (await kit.settle(lease, Complete(starts=starts))).verdict is Verdict.APPLIED
    assert len(await kit.claim(tasks=["u"])) == 1


@case
async def a_cycle_over_one_batch_is_refused(kit: Kit) -> None:
    """Two chains go on in one call, each to wait for the other: the second cannot."""
    one, two = await kit.store.start_chains([kit.new_chain(), kit.new_chain()])
    leases = {lease.chain: lease for lease in await kit.claim()}
    answers = await kit.store.settle(
        [
            (leases[one.id], Complete(next=kit.new(blockers=(two.id,)))),
            (leases[two.id], Complete(next=kit.new(blockers=(one.id,)))),
        ]
    )
    assert [answer.verdict for answer in answers] == [Verdict.APPLIED, Verdict.REFUSED]
    await kit.settle(leases[two.id], COMPLETE)
    assert (await kit.take()).chain == one.id


@case
async def no_chain_has_the_id_zero(kit: Kit) -> None:
    await kit.add()
    lease = await kit.take()
    for starts in ((), (kit.new_chain("u"),)):
        bad = Complete(next=kit.new(blockers=(0,)), starts=starts)
        assert (await kit.settle(lease, bad)).verdict is Verdict.REFUSED
    assert (await kit.settle(lease, COMPLETE)).verdict is Verdict.APPLIED
    assert await kit.ids() == []


# ── a chain that ends badly ──


@case.each(*ENDS)
async def a_job_fails_with_the_chain_it_waits_for(kit: Kit, how: str) -> None:
    one, two = await _starts(kit, 2)
    job = await kit.add(blockers=(one.id, two.id))
    await _end(kit, one, how)
    await _attend(kit)
    seen = await kit.get(job.id)
    assert (seen.state, seen.attempts) == (JobState.FAILED, 0)
    assert f"chain {one.id}" in (seen.last_error or "")
    assert seen.finished_at == kit.at()
    await _end(kit, two)
    assert await kit.claim() == []


@case.each(*ENDS)
async def a_job_may_run_all_the_same(kit: Kit, how: str) -> None:
    one, two = await _starts(kit, 2)
    await kit.add(blockers=(one.id, two.id), on_blocker_failure="run")
    await _end(kit, one, how)
    await _attend(kit)
    assert await kit.claim() == []
    await _end(kit, two)
    found = await _seen(kit, await kit.take())
    assert [chain.state.value for chain in found] == [how, "completed"]


@case.each(*ENDS)
async def a_job_may_go_on_waiting(kit: Kit, how: str) -> None:
    [chain] = await _starts(kit, 1)
    job = await kit.add(blockers=(chain.id,), on_blocker_failure="wait")
    await _end(kit, chain, how)
    await _attend(kit)
    assert await kit.state(job.id) is BLOCKED
    assert ids(await kit.store.blocked_jobs(chain.id)) == [job.id]
    await kit.store.retry_chains([chain.id])
    await _end(kit, chain)
    assert await kit.claimed() == [job.id]


@case
async def a_job_that_waits_is_released_by_completion_by_hand(kit: Kit) -> None:
    [chain] = await _starts(kit, 1)
    job = await kit.add(blockers=(chain.id,), on_blocker_failure="wait")
    await _end(kit, chain, "failed")
    await kit.store.complete_chain(chain.id, Complete("1"))
    await _attend(kit)
    assert await kit.claimed() == [job.id]


@case.each(("fail",), ("run",), ("wait",))
async def a_chain_that_has_failed_can_be_named(kit: Kit, choice: str) -> None:
    [chain] = await _starts(kit, 1)
    await _end(kit, chain, "failed")
    job = await kit.add(blockers=(chain.id,), on_blocker_failure=choice)
    await _attend(kit)
    expected = {"fail": JobState.FAILED, "run": READY, "wait": BLOCKED}
    assert await kit.state(job.id) is expected[choice]


@case
async def a_chain_that_starts_behind_a_failed_one_fails(kit: Kit) -> None:
    [chain] = await _starts(kit, 1)
    await _end(kit, chain, "failed")
    second = await kit.start(blockers=(chain.id,))
    third = await kit.start(blockers=(second.id,))
    await _attend(kit)
    await _attend(kit)
    for failed in (second, third):
        seen = await kit.chain(failed.id)
        assert seen.state is ChainState.FAILED
    assert f"chain {second.id}" in (seen.error or "")


@case
async def a_failure_goes_along_the_line(kit: Kit) -> None:
    [chain] = await _starts(kit, 1)
    line = [chain]
    for _ in range(30):
        line.append(await kit.start(blockers=(line[-1].id,)))
    await _end(kit, chain, "failed")
    for _ in range(40):
        await _attend(kit)
    for before, after in pairwise(line):
        seen = await kit.chain(after.id)
        assert seen.state is ChainState.FAILED
        assert f"chain {before.id}" in (seen.error or "")


@case
async def a_failure_stops_where_a_job_would_run(kit: Kit) -> None:
    [chain] = await _starts(kit, 1)
    second = await kit.start(blockers=(chain.id,), on_blocker_failure="run")
    third = await kit.start("u", blockers=(second.id,))
    await _end(kit, chain, "failed")
    await _attend(kit)
    await kit.settle(await kit.take(), COMPLETE)
    assert (await kit.take(tasks=["u"])).chain == third.id


# ── brought back ──


async def _line(kit: Kit) -> tuple[Chain[object], Job, Chain[object], Job]:
    """A failed chain, a job and a chain that failed because of it, and a job behind that one."""
    [chain] = await _starts(kit, 1)
    job = await kit.add("t", blockers=(chain.id,))
    second = await kit.start("u", blockers=(chain.id,))
    last = await kit.add("v", blockers=(second.id,))
    await _end(kit, chain, "failed")
    for _ in range(3):
        await _attend(kit)
    for job_id in (job.id, second.id, last.id):
        assert await kit.state(job_id) is JobState.FAILED
    return chain, job, second, last


@case.each(("chain",), ("job",), ("reschedule",))
async def a_retry_puts_back_what_failed_because_of_it(kit: Kit, verb: str) -> None:
    chain, job, second, last = await _line(kit)
    if verb == "chain":
        [opened] = await kit.store.retry_chains([chain.id])
        assert (opened.id, opened.state) == (chain.id, ChainState.OPEN)
    elif verb == "job":
        assert ids(await kit.store.retry([chain.id])) == [chain.id]
    else:
        await kit.store.reschedule([chain.id], attempts=0)
    for _ in range(3):
        await _attend(kit)
    for job_id in (job.id, second.id, last.id):
        seen = await kit.get(job_id)
        assert (seen.state, seen.last_error, seen.finished_at) == (BLOCKED, None, None)
        assert seen.blockers_open == 1
    opened = await kit.chain(second.id)
    assert (opened.state, opened.error, opened.finished_at) == (ChainState.OPEN, None, None)
    await _end(kit, chain)
    assert await kit.claimed() == [job.id]
    await kit.settle(await kit.take(tasks=["u"]), COMPLETE)
    assert await kit.claimed(tasks=["v"]) == [last.id]


@case
async def a_retry_puts_back_nothing_that_failed_by_itself(kit: Kit) -> None:
    one, two = await _starts(kit, 2)
    job = await kit.add(blockers=(one.id,))
    await _end(kit, one)
    await kit.fail(await kit.take(), "its own", final=True)
    other = await kit.add(blockers=(two.id,))
    await kit.store.fail([other.id], "by hand")
    await _end(kit, two, "failed")
    await kit.store.retry_chains([two.id])
    await _attend(kit)
    assert await kit.state(job.id) is JobState.FAILED
    assert (await kit.get(other.id)).last_error == "by hand"


@case
async def two_failed_chains_must_both_be_retried(kit: Kit) -> None:
    one, two = await _starts(kit, 2)
    job = await kit.add(blockers=(one.id, two.id))
    await _end(kit, one, "failed")
    await _end(kit, two, "failed")
    await kit.store.retry_chains([one.id])
    await _attend(kit)
    seen = await kit.get(job.id)
    assert seen.state is JobState.FAILED
    assert f"chain {two.id}" in (seen.last_error or "")
    await kit.store.retry_chains([two.id])
    await _attend(kit)
    assert (await kit.get(job.id)).blockers_open == 2
    await _end(kit, one)
    await _end(kit, two)
    assert await kit.claimed() == [job.id]


@case
async def a_chain_that_stays_failed_names_the_other_one(kit: Kit) -> None:
    one, two = await _starts(kit, 2)
    chain = await kit.start(blockers=(one.id, two.id))
    await _end(kit, one, "failed")
    await _end(kit, two, "failed")
    kit.clock.advance(1)
    await kit.store.retry_chains([one.id])
    await _attend(kit)
    seen = await kit.chain(chain.id)
    assert seen.state is ChainState.FAILED
    assert f"chain {two.id}" in (seen.error or "")
    assert seen.finished_at == kit.at()


@case.each(("job",), ("chain",), ("reschedule",))
async def a_retry_behind_a_failed_chain_is_refused(kit: Kit, verb: str) -> None:
    chain, job, second, _ = await _line(kit)
    plain = await kit.add("w")
    await kit.fail(await kit.take(tasks=["w"]), final=True)
    try:
        if verb == "job":
            await kit.store.retry([plain.id, job.id])
        elif verb == "chain":
            await kit.store.retry_chains([second.id])
        else:
            await kit.store.reschedule([job.id], attempts=0)
    except BlockerReferenceError as error:
        assert error.references == (chain.id,)
        assert f"chain {chain.id}" in str(error)
    else:
        raise AssertionError("it would fail at once")
    assert await kit.state(plain.id) is JobState.FAILED


@case
async def both_may_be_retried_at_once(kit: Kit) -> None:
    chain, _, second, _ = await _line(kit)
    changed = await kit.store.retry_chains([second.id, chain.id])
    assert {it.id for it in changed} == {second.id, chain.id}
    await _attend(kit)
    assert await kit.state(second.id) is BLOCKED
    await _end(kit, chain)
    assert len(await kit.claim(tasks=["u"])) == 1


@case
async def a_chain_whose_job_is_gone_is_not_retried_with_others(kit: Kit) -> None:
    """It cannot be open again, so a chain that waits for it would wait for ever."""
    [gone] = await _starts(kit, 1)
    await _end(kit, gone, "failed")
    await kit.store.delete_failed(10)
    second = await kit.start(blockers=(gone.id,))
    await _attend(kit)
    for chosen in ([second.id, gone.id], [gone.id, second.id]):
        try:
            await kit.store.retry_chains(chosen)
        except BlockerReferenceError as error:
            assert error.references == (gone.id,)
        else:
            raise AssertionError("it would wait for ever")
    assert (await kit.chain(second.id)).state is ChainState.FAILED


@case
async def a_job_that_failed_runs_when_its_chain_was_completed_by_hand(kit: Kit) -> None:
    chain, job, second, last = await _line(kit)
    await kit.store.complete_chain(chain.id, Complete('"by hand"'))
    await _attend(kit)
    assert await kit.state(job.id) is JobState.FAILED
    await kit.store.retry([job.id])
    lease = await kit.take()
    assert [it.output for it in await _seen(kit, lease)] == ["by hand"]
    await kit.store.retry_chains([second.id])
    await kit.settle(await kit.take(tasks=["u"]), COMPLETE)
    assert await kit.claimed(tasks=["v"]) == [last.id]


@case
async def a_cancelled_job_waits_again_when_it_is_retried(kit: Kit) -> None:
    one, two = await _starts(kit, 2)
    job = await kit.add(blockers=(one.id, two.id))
    await kit.store.cancel([job.id])
    await _end(kit, one)
    await kit.store.retry([job.id])
    await _attend(kit)
    seen = await kit.get(job.id)
    assert (seen.state, seen.blockers_open) == (BLOCKED, 1)
    await _end(kit, two)
    assert await kit.claimed() == [job.id]


@case
async def a_job_that_ran_is_retried_without_waiting(kit: Kit) -> None:
    [chain] = await _starts(kit, 1)
    job = await kit.add(blockers=(chain.id,))
    await _end(kit, chain)
    await kit.fail(await kit.take(), final=True)
    await kit.store.retry([job.id])
    lease = await kit.take()
    assert (lease.job_id, [it.id for it in await _seen(kit, lease)]) == (job.id, [chain.id])


# ── what operators do to a blocked job ──


@case
async def a_blocked_job_is_ended_by_operators(kit: Kit) -> None:
    [chain] = await _starts(kit, 1)
    jobs = await kit.add_many(*({"blockers": (chain.id,), "key": f"k{n}"} for n in range(4)))
    cancelled, completed, failed, removed = jobs
    assert ids(await kit.store.cancel([cancelled.id])) == [cancelled.id]
    assert ids(await kit.store.complete([completed.id])) == [completed.id]
    assert ids(await kit.store.fail([failed.id], "no")) == [failed.id]
    assert (await kit.store.remove("k3") or cancelled).id == removed.id
    await _end(kit, chain)
    await _attend(kit)
    assert await kit.claim() == []
    assert await kit.state(cancelled.id) is JobState.CANCELLED
    assert await kit.state(failed.id) is JobState.FAILED
    assert await kit.state(completed.id) is await kit.state(removed.id) is None


@case.each(("cancel",), ("fail",), ("complete",))
async def it_is_ended_with_the_chain_it_waits_for(kit: Kit, verb: str) -> None:
    """As it was asked for, in whichever order, and not because of that chain."""
    for is_reversed in (False, True):
        [chain] = await _starts(kit, 1)
        second = await kit.start(blockers=(chain.id,))
        chosen = [second.id, chain.id] if is_reversed else [chain.id, second.id]
        if verb == "cancel":
            changed = await kit.store.cancel(chosen)
        elif verb == "fail":
            changed = await kit.store.fail(chosen, "by hand")
        else:
            changed = await kit.store.complete(chosen)
        await _attend(kit)
        expected = {"cancel": "cancelled", "fail": "failed", "complete": "completed"}[verb]
        assert {job.id for job in changed} == set(chosen)
        assert {job.state.value for job in changed} == {expected}
        for ended in (await kit.chain(chain.id), await kit.chain(second.id)):
            assert ended.state.value == expected
            assert ended.error == ("by hand" if verb == "fail" else None)


@case
async def rescheduled_it_stays_blocked(kit: Kit) -> None:
    [chain] = await _starts(kit, 1)
    job = await kit.add(blockers=(chain.id,))
    [changed] = await kit.store.reschedule([job.id], run_at=kit.micros(-60), priority=3)
    assert (changed.state, changed.priority, changed.run_at) == (BLOCKED, 3, kit.at(-60))
    await _end(kit, chain)
    assert (await kit.get(job.id)).run_at == kit.at()


@case
async def its_key_replaces_its_blockers_too(kit: Kit) -> None:
    one, two = await _starts(kit, 2)
    job = await kit.add(key="k", blockers=(one.id,))
    again = await kit.add(key="k", blockers=(two.id,))
    assert (again.id, again.state, again.blockers_total) == (job.id, BLOCKED, 1)
    await _end(kit, one)
    await _attend(kit)
    assert await kit.state(job.id) is BLOCKED
    free = await kit.add(key="k")
    assert (free.id, free.state, free.blockers_total) == (job.id, READY, 0)
    await _end(kit, two)
    lease = await kit.take()
    assert (lease.job_id, lease.blockers) == (job.id, None)
    assert await kit.claim() == []


@case.each(("replace",), ("unsafe_dedupe",))
async def one_that_is_asked_for_again_keeps_its_blockers(kit: Kit, mode: str) -> None:
    """In the same call, and in a later one."""
    one, two = await _starts(kit, 2)
    again = {"key": "k", "key_mode": "unsafe_dedupe"}
    job, *others = await kit.add_many(
        {"key": "k", "key_mode": mode, "blockers": (one.id,)},
        {**again, "blockers": (two.id,)},
        again,
    )
    others.append(await kit.add(**again, blockers=(two.id,)))
    assert {other.id for other in others} == {job.id}
    seen = await kit.get(job.id)
    assert (seen.state, seen.blockers_total) == (BLOCKED, 1)
    await _end(kit, one)
    await _attend(kit)
    assert await kit.claimed(tasks=("t",)) == [job.id]


@case
async def its_key_gives_a_ready_job_blockers(kit: Kit) -> None:
    [chain] = await _starts(kit, 1)
    job = await kit.add(key="k")
    assert (await kit.add(key="k", blockers=(chain.id,))).state is BLOCKED
    assert await kit.claim() == []
    await _end(kit, chain)
    assert await kit.claimed() == [job.id]


@case
async def counts_and_lists_tell_of_blocked_jobs(kit: Kit) -> None:
    [chain] = await _starts(kit, 1)
    job = await kit.add(blockers=(chain.id,))
    assert (await kit.store.counts())[BLOCKED] == 1
    assert await kit.ids(states=(BLOCKED,)) == [job.id]


@case
async def a_strict_job_that_fails_with_its_chain_holds_its_queue(kit: Kit) -> None:
    [chain] = await _starts(kit, 1)
    held = await kit.add(queue="q", is_strict=1, blockers=(chain.id,))
    behind = await kit.add(queue="q")
    await _end(kit, chain, "failed")
    await _attend(kit)
    assert await kit.claim(past_heads=True) == []
    await kit.store.complete([held.id])
    assert await kit.claimed() == [behind.id]


@case.each(("job",), ("chain",))
async def a_job_that_waits_again_holds_no_queue(kit: Kit, verb: str) -> None:
    """Else what it waits for, in the same queue, could not start, and neither could it."""
    chain = await kit.start("b", queue="q")
    held = await kit.start(queue="q", is_strict=1, blockers=(chain.id,))
    if verb == "job":
        await kit.store.fail([held.id], "by hand")
        await kit.store.retry([held.id])
    else:
        await kit.store.cancel_chains([chain.id])
        await _attend(kit)
        await kit.store.retry_chains([held.id, chain.id])
    await _attend(kit)
    assert await kit.state(held.id) is BLOCKED
    await kit.settle(await kit.take(tasks=["b"]), COMPLETE)
    assert await kit.claimed() == [held.id]
