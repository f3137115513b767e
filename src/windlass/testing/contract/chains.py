"""Chains: jobs that continue one another, and how a chain ends."""

from __future__ import annotations

from typing import Any

from windlass.errors import ConfigError
from windlass.model.chain import ChainState
from windlass.model.job import JobState
from windlass.store.hints import SOON
from windlass.store.records import (
    CANCEL,
    COMPLETE,
    RELEASE,
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


# ── starting ──


@case
async def a_chain_starts_with_a_job_of_its_id(kit: Kit) -> None:
    chain = await kit.start(payload='{"order":7}')
    assert (chain.state, chain.task, chain.payload) == (OPEN, "t", {"order": 7})
    assert (chain.length, chain.output, chain.error, chain.finished_at) == (1, None, None, None)
    assert chain.created_at == kit.at()
    assert not chain.deduplicated
    assert chain.job is not None
    assert (chain.job.id, chain.job.chain, chain.job.step) == (chain.id, chain.id, 0)
    assert await kit.chain(chain.id) == chain
    lease = await kit.take()
    assert (lease.job_id, lease.chain, lease.step) == (chain.id, chain.id, 0)


@case
async def many_start_in_the_order_given(kit: Kit) -> None:
    new = [kit.new_chain(payload=f"[{n}]") for n in range(5)]
    chains = await kit.store.start_chains(new)
    assert [chain.payload for chain in chains] == [[0], [1], [2], [3], [4]]
    assert await kit.claimed() == [chain.id for chain in chains]
    assert await kit.store.start_chains([]) == []


@case
async def the_first_job_has_all_its_options(kit: Kit) -> None:
    chain = await kit.start(delay=60_000_000, priority=3, queue="q", flags=("f",), max_attempts=2)
    job = await kit.get(chain.id)
    assert (job.state, job.run_at) == (JobState.SCHEDULED, kit.at(60))
    assert (job.priority, job.queue, job.flags, job.max_attempts) == (3, "q", ("f",), 2)


@case
async def a_plain_job_is_no_chain(kit: Kit) -> None:
    job = await kit.add()
    assert (job.chain, job.step) == (None, 0)
    assert (await kit.take()).chain is None
    assert await kit.store.get_chain(job.id) is None
    assert await kit.store.chain_jobs(job.id) == []


# ── going on ──


@case
async def a_job_goes_on_with_another(kit: Kit) -> None:
    chain = await kit.start(payload='{"a":1}')
    answer = await kit.go_on(await kit.take(), "u", payload='{"b":2}')
    assert (answer.verdict, answer.state) == (Verdict.APPLIED, JobState.COMPLETED)
    assert await kit.state(chain.id) is None
    seen = await kit.chain(chain.id)
    assert (seen.state, seen.length, seen.task, seen.payload) == (OPEN, 2, "t", {"a": 1})
    assert seen.job is not None
    assert (seen.job.task, seen.job.payload, seen.job.step) == ("u", {"b": 2}, 1)
    lease = await kit.take(tasks=["u"])
    assert (lease.job_id, lease.chain, lease.step) == (seen.job.id, chain.id, 1)
    assert lease.attempts == 1


@case
async def the_last_jobs_output_is_the_chains(kit: Kit) -> None:
    chain = await kit.start()
    await kit.go_on(await kit.take())
    kit.clock.advance(5)
    await kit.settle(await kit.take(), Complete('{"done":true}'))
    seen = await kit.chain(chain.id)
    assert (seen.state, seen.output, seen.length) == (COMPLETED, {"done": True}, 2)
    assert (seen.finished_at, seen.job, seen.error) == (kit.at(), None, None)
    assert await kit.ids() == []


@case
async def an_output_may_be_null(kit: Kit) -> None:
    chain = await kit.start()
    await kit.settle(await kit.take(), COMPLETE)
    seen = await kit.chain(chain.id)
    assert (seen.state, seen.output) == (COMPLETED, None)


@case
async def a_plain_job_that_goes_on_becomes_a_chain(kit: Kit) -> None:
    job = await kit.add(payload='{"a":1}')
    kit.clock.advance(1)
    await kit.go_on(await kit.take())
    chain = await kit.chain(job.id)
    assert (chain.state, chain.length, chain.payload) == (OPEN, 2, {"a": 1})
    assert chain.created_at == job.created_at
    lease = await kit.take()
    assert (lease.chain, lease.step) == (job.id, 1)
    await kit.settle(lease, Complete("1"))
    assert (await kit.chain(job.id)).output == 1


@case
async def the_next_job_has_options_of_its_own(kit: Kit) -> None:
    await kit.start(priority=5, queue="q", meta='{"a":1}')
    lease = await kit.take()
    await kit.go_on(
        lease, priority=2, delay=60_000_000, queue="r", max_attempts=3, meta='{"b":2}', keep=60.0
    )
    [job] = await kit.jobs()
    assert (job.state, job.run_at) == (JobState.SCHEDULED, kit.at(60))
    assert (job.priority, job.queue, job.max_attempts, job.meta) == (2, "r", 3, {"b": 2})
    assert (job.keep, job.attempts, job.key) == (60.0, 0, None)


@case
async def attempts_are_counted_per_job(kit: Kit) -> None:
    chain = await kit.start(max_attempts=2)
    await kit.fail(await kit.take())
    await kit.go_on(await kit.take(), max_attempts=2)
    lease = await kit.take()
    assert lease.attempts == 1
    await kit.fail(lease)
    assert (await kit.chain(chain.id)).state is OPEN
    await kit.fail(await kit.take())
    assert (await kit.chain(chain.id)).state is FAILED


@case
async def a_late_answer_goes_on_with_nothing(kit: Kit) -> None:
    chain = await kit.start()
    lease = await kit.take()
    await kit.settle(lease, RELEASE)
    late = Complete(next=kit.new(), starts=(kit.new_chain(),))
    assert (await kit.settle(lease, late)).verdict is Verdict.LOST
    again = await kit.take()
    assert (await kit.settle(lease, late)).verdict is Verdict.LOST
    assert await kit.ids() == [chain.id]
    assert len(await kit.store.find_chains(_all())) == 1
    assert (await kit.settle(again, COMPLETE)).verdict is Verdict.APPLIED


@case
async def asking_twice_goes_on_once(kit: Kit) -> None:
    chain = await kit.start()
    lease = await kit.take()
    outcome = Complete(next=kit.new(), starts=(kit.new_chain("u"),))
    await kit.settle(lease, outcome)
    assert (await kit.settle(lease, outcome)).verdict is not Verdict.APPLIED
    assert len(await kit.ids()) == 2
    assert (await kit.chain(chain.id)).length == 2


@case
async def a_batch_goes_on_and_ends_and_fails(kit: Kit) -> None:
    chains = await kit.store.start_chains([kit.new_chain() for _ in range(4)])
    plain = await kit.add()
    leases = {lease.job_id: lease for lease in await kit.claim()}
    one, two, three, four = (leases[chain.id] for chain in chains)
    answers = await kit.store.settle(
        [
            (one, Complete(next=kit.new("u"))),
            (leases[plain.id], COMPLETE),
            (two, Complete("2")),
            (three, RELEASE),
            (four, Complete(next=kit.new("u", payload="[4]"), starts=(kit.new_chain("v"),))),
        ]
    )
    assert [answer.verdict for answer in answers] == [Verdict.APPLIED] * 5
    states = [(await kit.chain(chain.id)).state for chain in chains]
    assert states == [OPEN, COMPLETED, OPEN, OPEN]
    assert [lease.chain for lease in await kit.claim(tasks=["u"])] == [chains[0].id, chains[3].id]
    assert len(await kit.claimed(tasks=["v"])) == 1


@case
async def a_loop_goes_on_and_on(kit: Kit) -> None:
    chain = await kit.start()
    for step in range(50):
        lease = await kit.take()
        assert lease.step == step
        await kit.go_on(lease)
    assert (await kit.chain(chain.id)).length == 51
    assert len(await kit.ids()) == 1


@case
async def kept_jobs_of_a_chain_are_listed_in_order(kit: Kit) -> None:
    chain = await kit.start(keep=60.0)
    await kit.settle(await kit.take(), Complete("0", next=kit.new(keep=60.0)))
    await kit.settle(await kit.take(), Complete("1", next=kit.new()))
    jobs = await kit.store.chain_jobs(chain.id)
    assert [(job.step, job.state, job.output) for job in jobs] == [
        (0, JobState.COMPLETED, 0),
        (1, JobState.COMPLETED, 1),
        (2, JobState.READY, None),
    ]
    assert {job.chain for job in jobs} == {chain.id}


@case
async def a_plain_job_that_is_kept_and_goes_on_is_the_first_of_its_chain(kit: Kit) -> None:
    job = await kit.add(keep=60.0)
    await kit.go_on(await kit.take())
    jobs = await kit.store.chain_jobs(job.id)
    assert [(it.id == job.id, it.step, it.chain) for it in jobs] == [
        (True, 0, job.id),
        (False, 1, job.id),
    ]


@case
async def the_last_job_is_the_chains_where_it_is_kept(kit: Kit) -> None:
    chain = await kit.start(keep=60.0)
    await kit.settle(await kit.take(), Complete("1"))
    seen = await kit.chain(chain.id)
    assert seen.job is not None
    assert (seen.job.state, seen.job.output) == (JobState.COMPLETED, 1)


@case
async def an_earlier_job_that_is_kept_longer_is_not_its_last(kit: Kit) -> None:
    chain = await kit.start(keep=60.0)
    await kit.go_on(await kit.take(), keep=10.0)
    await kit.settle(await kit.take(), Complete("1"))
    kit.clock.advance(20)
    await kit.store.prune(100)
    assert len(await kit.store.chain_jobs(chain.id)) == 1
    seen = await kit.chain(chain.id)
    assert (seen.state, seen.job, seen.length) == (COMPLETED, None, 2)


@case
async def a_chain_survives_its_process(kit: Kit) -> None:
    chain = await kit.start()
    await kit.go_on(await kit.take())
    await kit.reopen()
    assert (await kit.chain(chain.id)).length == 2
    assert (await kit.take()).chain == chain.id


# ── chains that start with a completion ──


@case
async def chains_start_with_a_completion(kit: Kit) -> None:
    await kit.add()
    starts = (kit.new_chain("u", payload="[1]"), kit.new_chain("u", payload="[2]"))
    await kit.settle(await kit.take(), Complete(starts=starts))
    leases = await kit.claim(tasks=["u"])
    assert [lease.payload for lease in leases] == ["[1]", "[2]"]
    for lease in leases:
        assert (lease.chain, lease.step) == (lease.job_id, 0)


@case
async def a_job_that_only_starts_chains_is_none_itself(kit: Kit) -> None:
    job = await kit.add()
    await kit.settle(await kit.take(), Complete(starts=(kit.new_chain("u"),)))
    assert await kit.store.get_chain(job.id) is None


@case
async def chains_start_with_the_end_of_another(kit: Kit) -> None:
    chain = await kit.start()
    await kit.settle(await kit.take(), Complete("1", starts=(kit.new_chain("u"),)))
    assert (await kit.chain(chain.id)).state is COMPLETED
    assert len(await kit.claimed(tasks=["u"])) == 1


# ── ends ──


@case
async def a_job_that_fails_for_good_fails_its_chain(kit: Kit) -> None:
    chain = await kit.start()
    await kit.go_on(await kit.take())
    await kit.fail(await kit.take(), "no money", final=True)
    seen = await kit.chain(chain.id)
    assert (seen.state, seen.error, seen.length) == (FAILED, "no money", 2)
    assert (seen.finished_at, seen.output) == (kit.at(), None)
    assert seen.job is not None
    assert seen.job.state is JobState.FAILED


@case
async def a_job_that_is_retried_keeps_its_chain_open(kit: Kit) -> None:
    chain = await kit.start()
    await kit.fail(await kit.take(), delay=10.0)
    seen = await kit.chain(chain.id)
    assert (seen.state, seen.error) == (OPEN, None)


@case
async def a_job_that_kills_its_workers_fails_its_chain(kit: Kit) -> None:
    chain = await kit.start()
    while await kit.state(chain.id) is not JobState.FAILED:
        await kit.take(suspects=1)
        await kit.crash(max_resets=2)
    assert (await kit.chain(chain.id)).state is FAILED


@case
async def a_job_whose_worker_died_goes_on_elsewhere(kit: Kit) -> None:
    chain = await kit.start()
    await kit.take()
    await kit.crash()
    lease = await kit.take(worker="v", suspects=1)
    assert (lease.chain, lease.step) == (chain.id, 0)
    await kit.go_on(lease)
    assert (await kit.chain(chain.id)).length == 2


@case.each(("waiting",), ("running",))
async def cancelling_the_current_job_cancels_its_chain(kit: Kit, state: str) -> None:
    chain = await kit.start()
    lease = await kit.take() if state == "running" else None
    await kit.store.cancel([chain.id])
    if lease is not None:
        assert (await kit.chain(chain.id)).state is OPEN
        await kit.settle(lease, CANCEL)
    seen = await kit.chain(chain.id)
    assert (seen.state, seen.finished_at, seen.error) == (CANCELLED, kit.at(), None)


@case
async def what_a_job_goes_on_with_after_a_cancel_is_cancelled(kit: Kit) -> None:
    chain = await kit.start()
    lease = await kit.take()
    await kit.store.cancel([chain.id])
    assert (await kit.go_on(lease)).state is JobState.COMPLETED
    seen = await kit.chain(chain.id)
    assert (seen.state, seen.length) == (CANCELLED, 2)
    assert seen.job is not None
    assert (seen.job.state, seen.job.step) == (JobState.CANCELLED, 1)
    assert await kit.claim() == []


@case
async def a_job_that_completes_after_a_cancel_completes_its_chain(kit: Kit) -> None:
    chain = await kit.start()
    lease = await kit.take()
    await kit.store.cancel([chain.id])
    await kit.settle(lease, Complete("1"))
    assert (await kit.chain(chain.id)).state is COMPLETED


@case
async def operators_end_a_chain_by_its_job(kit: Kit) -> None:
    first, second = await kit.store.start_chains([kit.new_chain(), kit.new_chain()])
    await kit.store.complete([first.id])
    await kit.store.fail([second.id], "by hand")
    assert (await kit.chain(first.id)).state is COMPLETED
    seen = await kit.chain(second.id)
    assert (seen.state, seen.error) == (FAILED, "by hand")
    await kit.store.complete([second.id])
    assert (await kit.chain(second.id)).state is COMPLETED


@case
async def a_failed_chain_outlives_its_deleted_job(kit: Kit) -> None:
    chain = await kit.start()
    await kit.fail(await kit.take(), "oops", final=True)
    assert await kit.store.delete_failed(10) == 1
    seen = await kit.chain(chain.id)
    assert (seen.state, seen.error, seen.job, seen.length) == (FAILED, "oops", None, 1)
    assert await kit.store.retry_chains([chain.id]) == []


@case
async def rescheduled_with_attempts_a_failed_chain_is_open_again(kit: Kit) -> None:
    chain = await kit.start()
    await kit.fail(await kit.take(), final=True)
    await kit.store.reschedule([chain.id], run_at=kit.micros(60))
    assert (await kit.chain(chain.id)).state is FAILED
    await kit.store.reschedule([chain.id], attempts=0)
    seen = await kit.chain(chain.id)
    assert (seen.state, seen.error, seen.finished_at) == (OPEN, None, None)


# ── what is refused ──


@case
async def a_continuation_with_an_unknown_blocker_is_refused_alone(kit: Kit) -> None:
    one, two = await kit.store.start_chains([kit.new_chain(), kit.new_chain()])
    first, second = await kit.claim()
    bad = Complete(next=kit.new("u", blockers=(999_999,)), starts=(kit.new_chain("v"),))
    answers = await kit.store.settle([(first, bad), (second, Complete(next=kit.new("w")))])
    assert [answer.verdict for answer in answers] == [Verdict.REFUSED, Verdict.APPLIED]
    assert "999999" in (answers[0].reason or "")
    assert await kit.state(first.job_id) is JobState.RUNNING
    assert (await kit.chain(one.id)).length == 1
    assert (await kit.chain(two.id)).length == 2
    assert await kit.claim(tasks=["u", "v"]) == []
    assert (await kit.fail(first)).verdict is Verdict.APPLIED


@case
async def a_chain_that_starts_with_an_unknown_blocker_is_refused(kit: Kit) -> None:
    await kit.add()
    lease = await kit.take()
    bad = Complete(starts=(kit.new_chain("u"), kit.new_chain("u", blockers=(999_999,))))
    assert (await kit.settle(lease, bad)).verdict is Verdict.REFUSED
    assert await kit.claim(tasks=["u"]) == []
    assert (await kit.settle(lease, COMPLETE)).verdict is Verdict.APPLIED


# ── inside a handler's transaction ──


@case
async def a_transaction_goes_on(kit: Kit) -> None:
    chain = await kit.start()
    lease = await kit.take()
    if not kit.store.capabilities.transactions:
        try:
            kit.store.transaction(lease)
        except ConfigError:
            return
        raise AssertionError("the store took what its capabilities say it cannot do")
    with kit.store.transaction(lease) as tx:
        tx.complete(Complete(next=kit.new("u"), starts=(kit.new_chain("v"),)))
    assert (await kit.chain(chain.id)).length == 2
    assert len(await kit.claimed(tasks=["u", "v"])) == 2


@case
async def a_transaction_that_is_undone_goes_on_with_nothing(kit: Kit) -> None:
    chain = await kit.start()
    lease = await kit.take()
    try:
        with kit.store.transaction(lease) as tx:
            tx.complete(Complete(next=kit.new("u"), starts=(kit.new_chain("v"),)))
            raise _Stop
    except (_Stop, ConfigError):
        pass
    assert (await kit.chain(chain.id)).length == 1
    assert await kit.claim(tasks=["u", "v"]) == []
    assert (await kit.settle(lease, COMPLETE)).verdict is Verdict.APPLIED


@case
async def a_transaction_that_is_refused_writes_nothing(kit: Kit) -> None:
    chain = await kit.start()
    lease = await kit.take()
    try:
        with kit.store.transaction(lease) as tx:
            kit.store.joined(tx.connection).enqueue([kit.new("u")])
            tx.complete(Complete(next=kit.new("u", blockers=(999_999,))))
    except ValueError as error:  # a ValidationError, or a ConfigError where there are none
        assert isinstance(error, ConfigError) or "999999" in str(error)
    else:
        raise AssertionError("an unknown blocker was taken")
    assert (await kit.chain(chain.id)).length == 1
    assert await kit.claim(tasks=["u"]) == []


@case
async def a_chain_starts_inside_a_transaction(kit: Kit) -> None:
    await kit.add()
    lease = await kit.take()
    if not kit.store.capabilities.transactions:
        return
    for is_undone in (True, False):
        try:
            with kit.store.transaction(lease) as tx:
                joined = kit.store.joined(tx.connection)
                [chain] = joined.start_chains([kit.new_chain("u", key="k")])
                [again] = joined.start_chains([kit.new_chain("u", key="k")])
                [waiting] = joined.enqueue([kit.new("v", blockers=(chain.id,))])
                assert (again.id, again.deduplicated) == (chain.id, True)
                assert waiting.state is JobState.BLOCKED
                if is_undone:
                    raise _Stop
                tx.complete(COMPLETE)
        except _Stop:
            assert await kit.store.find_chains(_all()) == []
            assert await kit.claim(tasks=["u", "v"]) == []
    lease = await kit.take(tasks=["u", "v"])
    assert lease.chain == chain.id
    await kit.settle(lease, COMPLETE)
    assert await kit.claimed(tasks=["v"]) == [waiting.id]


# ── looking ──


@case
async def lists_are_newest_first(kit: Kit) -> None:
    chains = await kit.store.start_chains([kit.new_chain() for _ in range(5)])
    found = [chain.id for chain in chains][::-1]
    assert [it.id for it in await kit.store.find_chains(_all(limit=2))] == found[:2]
    page = await kit.store.find_chains(_all(limit=2, after=found[1]))
    assert [it.id for it in page] == found[2:4]
    page = await kit.store.find_chains(_all(limit=2, after=found[3]))
    assert [it.id for it in page] == found[4:]


@case
async def lists_are_of_a_state_or_a_task(kit: Kit) -> None:
    one = await kit.start("t")
    two = await kit.start("u")
    await kit.settle(await kit.take(tasks=["t"]), COMPLETE)
    await kit.settle(await kit.take(tasks=["u"]), Complete(next=kit.new("t")))
    completed = await kit.store.find_chains(_all(states=(COMPLETED,)))
    assert [it.id for it in completed] == [one.id]
    both = await kit.store.find_chains(_all(states=(COMPLETED, OPEN)))
    assert [it.id for it in both] == [two.id, one.id]
    first_task = await kit.store.find_chains(_all(task="u"))
    assert [it.id for it in first_task] == [two.id]
    assert await kit.store.find_chains(_all(states=(CANCELLED,))) == []
    assert await kit.store.find_chains(_all(states=())) == []
    twice = await kit.store.find_chains(_all(states=(OPEN, OPEN)))
    assert [it.id for it in twice] == [two.id]


@case
async def a_list_shows_current_jobs(kit: Kit) -> None:
    await kit.start()
    await kit.go_on(await kit.take(), "u")
    [chain] = await kit.store.find_chains(_all())
    assert chain.job is not None
    assert (chain.job.task, chain.length) == ("u", 2)


@case
async def chains_of_another_tenant_are_not_there(kit: Kit) -> None:
    mine = await kit.start(tenant="acme")
    assert mine.tenant == "acme"
    theirs = await kit.start(tenant="other")
    assert await kit.store.get_chain(mine.id, "other") is None
    assert await kit.store.get_chain(mine.id, "acme") == mine
    assert [it.id for it in await kit.store.find_chains(_all(tenant="other"))] == [theirs.id]
    assert await kit.store.chain_jobs(mine.id, "other") == []
    assert ids(await kit.store.chain_jobs(mine.id, "acme")) == [mine.id]


@case
async def jobs_that_go_on_stay_in_their_tenant(kit: Kit) -> None:
    chain = await kit.start(tenant="acme")
    lease = await kit.take()
    starts = (kit.new_chain("u", tenant="acme"),)
    await kit.settle(lease, Complete(next=kit.new("u", tenant="acme"), starts=starts))
    leases = await kit.claim(tasks=["u"], tenants=("acme",))
    assert {lease.tenant for lease in leases} == {"acme"}
    assert len(leases) == 2
    assert (await kit.chain(chain.id)).tenant == "acme"


# ── hints ──


@case.each(("start",), ("next",), ("child",), ("release",), ("by hand",), ("delete",))
async def a_job_that_is_due_soon_is_told_of(kit: Kit, verb: str) -> None:
    """Else a worker would promote it at its next poll, and not when it is due."""
    later: dict[str, Any] = {"run_at": kit.micros(SOON)}
    blocker = await kit.start("b")
    lease = await kit.take(tasks=["b"])
    if verb in ("release", "by hand", "delete"):
        await kit.add(blockers=(blocker.id,), on_blocker_failure="wait", **later)
    if verb == "delete":
        await kit.fail(lease, final=True)
    heard: list[float | None] = []
    stop = kit.store.subscribe(lambda: None, due=heard.append)
    match verb:
        case "start":
            await kit.start(**later)
        case "next":
            await kit.go_on(lease, **later)
        case "child":
            await kit.settle(lease, Complete(starts=(kit.new_chain(**later),)))
        case "release":
            await kit.settle(lease, COMPLETE)
        case "by hand":
            await kit.store.complete_chain(blocker.id, COMPLETE)
        case "delete":
            await kit.store.delete_chains([blocker.id])
    await kit.claim()  # a hint to this process comes before the answer to a later call
    await kit.store.counts()
    stop()
    assert heard
    assert all(seconds is None or seconds == SOON for seconds in heard)


# ── forgetting ──


@case
async def ended_chains_are_forgotten_in_time(kit: Kit) -> None:
    done = await kit.start()
    await kit.settle(await kit.take(), COMPLETE)
    lost = await kit.start()
    await kit.fail(await kit.take(), final=True)
    kit.clock.advance(99)
    await kit.store.prune(100, 100.0, 200.0)
    assert await kit.store.get_chain(done.id) is not None
    kit.clock.advance(1)
    assert await kit.store.prune(100, 100.0, 200.0) == 1
    assert await kit.store.get_chain(done.id) is None
    assert await kit.store.get_chain(lost.id) is not None
    kit.clock.advance(100)
    assert await kit.store.prune(100, 100.0, 200.0) == 1
    assert await kit.store.get_chain(lost.id) is None
    assert await kit.state(lost.id) is JobState.FAILED


@case
async def an_open_chain_is_never_forgotten(kit: Kit) -> None:
    chain = await kit.start()
    kit.clock.advance(1_000_000)
    await kit.store.prune(100, 0.0, 0.0)
    assert (await kit.chain(chain.id)).state is OPEN


@case
async def a_job_whose_chain_is_forgotten_can_be_retried(kit: Kit) -> None:
    chain = await kit.start()
    await kit.fail(await kit.take(), final=True)
    kit.clock.advance(100)
    await kit.store.prune(100, 0.0, 0.0)
    assert await kit.store.get_chain(chain.id) is None
    await kit.store.retry([chain.id])
    assert (await kit.chain(chain.id)).state is OPEN
    await kit.go_on(await kit.take())
    await kit.settle(await kit.take(), Complete("1"))
    assert (await kit.chain(chain.id)).output == 1


@case
async def a_job_is_told_that_its_chain_was_completed_by_hand(kit: Kit) -> None:
    chain = await kit.start()
    lease = await kit.take()
    await kit.store.complete_chain(chain.id, Complete('"by hand"'))
    assert kit.check(lease).lost == {lease.job_id: LostReason.ALREADY_COMPLETED}
    assert (await kit.settle(lease, Complete("1"))).verdict is Verdict.LOST
    assert (await kit.chain(chain.id)).output == "by hand"


@case
async def a_delivery_that_asks_again_learns_whether_it_ended_the_chain(kit: Kit) -> None:
    """Its first answer may have been lost."""
    await kit.store.start_chains([kit.new_chain(), kit.new_chain(keep=60.0), kit.new_chain()])
    own, kept, other = await kit.claim()
    for lease in (own, kept):
        await kit.settle(lease, Complete("1"))
        again = await kit.settle(lease, Complete("1"))
        assert (again.verdict, again.state) == (Verdict.LOST, JobState.COMPLETED)
    await kit.store.complete_chain(other.job_id, Complete("1"))
    late = await kit.settle(other, Complete("1"))
    assert (late.verdict, late.state) == (Verdict.LOST, None)


class _Stop(Exception):
    """What a handler raises in the middle of its transaction."""


def _all(**wanted: object) -> ChainFilter:
    return ChainFilter(**wanted)  # type: ignore[arg-type]
