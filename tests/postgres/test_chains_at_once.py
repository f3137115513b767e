"""Chains under transactions that overlap: each order is forced, by connections that hold their
transaction open around a verb. No job that waits may hang, or be released twice, and nothing waits
for a user's transaction."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import psycopg
import pytest

from tests.patience import PATIENCE
from tests.postgres.cluster import Cluster, Schema, fresh_schema
from windlass.errors import (
    ChainClosedError,
    LeaseLostError,
    StoreBusyError,
    StoreError,
    ValidationError,
)
from windlass.model.chain import Chain, ChainState
from windlass.model.job import Job, JobState
from windlass.model.names import OnBlockerFailure
from windlass.store.records import (
    COMPLETE,
    RELEASE,
    ChainFilter,
    ClaimRequest,
    Complete,
    Fail,
    JobFilter,
    Lease,
    NewChain,
    NewJob,
    Outcome,
    Settled,
    Verdict,
)
from windlass.stores.postgres import PostgresStore
from windlass.stores.postgres.rendering import TOLD_AT_ONCE, TOLD_EACH
from windlass.stores.postgres.settlements import Settlements

READY, BLOCKED, FAILED = JobState.READY, JobState.BLOCKED, JobState.FAILED
FAIL = Fail("no", final=True)


class Stage:
    """A store, and connections of others to the same schema."""

    def __init__(self, schema: Schema, store: PostgresStore) -> None:
        self.schema = schema
        self.store = store

    @contextmanager
    def other(self) -> Iterator[psycopg.Connection[Any]]:
        """A transaction that stays open until it is ended by hand."""
        with psycopg.connect(self.schema.url) as connection:
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            yield connection
            connection.rollback()

    def settle_in(
        self, connection: psycopg.Connection[Any], lease: Lease, outcome: Outcome
    ) -> Settled:
        """As a handler's own transaction does it."""
        settlements = Settlements([(lease, outcome)])
        calls = settlements.calls(f'"{self.schema.name}"')
        values = settlements.values(True, None, waits=True)
        found = connection.execute(f"SELECT {calls}".encode(), values)
        return settlements.answers(found.fetchone() or ())[0]

    def call_in(self, connection: psycopg.Connection[Any], call: str, *values: Any) -> None:
        connection.execute(f"SELECT {self.schema.name}.{call}".encode(), values)

    def lock_in(self, connection: psycopg.Connection[Any], job_id: int) -> None:
        connection.execute(
            f"SELECT FROM {self.schema.name}._jobs WHERE id = {job_id} FOR UPDATE".encode()
        )

    async def chains(self, count: int = 1, **options: Any) -> list[Chain[Any]]:
        new = [NewChain(job=NewJob("b", **options)) for _ in range(count)]
        return await self.store.start_chains(new)

    async def take(self, *tasks: str, limit: int = 1_000) -> dict[int, Lease]:
        """What is given out, by chain (or job)."""
        leases = await self.store.claim(
            ClaimRequest("w", tasks or ("b",), limit, lease=600.0, suspects=10)
        )
        return {lease.chain or lease.job_id: lease for lease in leases}

    async def attend(self) -> None:
        """A claim of another worker, which answers bells."""
        assert await self.store.claim(ClaimRequest("v", ("nothing",), 1)) == []

    async def state(self, job: Job | Chain[Any]) -> JobState | None:
        found = await self.store.get(job.id)
        return None if found is None else found.state

    async def chain_state(self, chain: Chain[Any]) -> ChainState | None:
        found = await self.store.get_chain(chain.id)
        return None if found is None else found.state

    async def is_claimed_once(self, *jobs: Job) -> None:
        """All of them, and nothing else."""
        taken: Counter[int] = Counter()
        async with asyncio.timeout(PATIENCE):
            while (leases := await self.take("t")) or len(taken) < len(jobs):
                taken.update(lease.job_id for lease in leases.values())
                await self.store.settle([(lease, COMPLETE) for lease in leases.values()])
        assert taken == Counter(job.id for job in jobs)

    def bells(self) -> int:
        with psycopg.connect(self.schema.url) as connection:
            found = connection.execute(
                f"SELECT count(*) FROM {self.schema.name}._bells".encode()
            ).fetchone()
        return 0 if found is None else int(found[0])

    def waiting(self) -> int:
        """How many calls wait for a lock."""
        with psycopg.connect(self.schema.url) as connection:
            found = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                " AND query LIKE %s",
                [f"%{self.schema.name}%"],
            ).fetchone()
        return 0 if found is None else int(found[0])

    async def until_waiting(self, call: asyncio.Future[Any]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not call.done() and not self.waiting():
                await asyncio.sleep(0.005)
        assert not call.done(), "it did not wait"


@asynccontextmanager
async def staged(schema: Schema) -> AsyncIterator[Stage]:
    store = PostgresStore(schema.url, schema_name=schema.name, listen=False)
    await store.open()
    try:
        yield Stage(schema, store)
    finally:
        await store.close()


Scenario = Callable[[Stage], Awaitable[None]]


@pytest.fixture
def play(pg18: Cluster) -> Iterator[Callable[[Scenario], None]]:
    with fresh_schema(pg18) as schema:

        def run(scenario: Scenario) -> None:
            async def whole() -> None:
                async with staged(schema) as stage:
                    await scenario(stage)

            asyncio.run(whole())

        yield run


Play = Callable[[Scenario], None]


# ── ends and ends ──


@pytest.mark.parametrize("first_commits", [True, False], ids=["commit", "rollback"])
@pytest.mark.parametrize("outcome", [Complete("1"), FAIL], ids=["complete", "fail"])
def test_two_ends_that_overlap(play: Play, outcome: Outcome, first_commits: bool) -> None:
    """The first has counted down, and is not committed, when the second ends."""

    async def scenario(stage: Stage) -> None:
        one, two = await stage.chains(2)
        [job] = await stage.store.enqueue([NewJob("t", blockers=(one.id, two.id))])
        leases = await stage.take()
        with stage.other() as user:
            assert stage.settle_in(user, leases[one.id], outcome).verdict is Verdict.APPLIED
            await stage.store.settle([(leases[two.id], COMPLETE)])
            assert await stage.state(job) is BLOCKED
            await stage.attend()
            assert await stage.state(job) is BLOCKED
            assert stage.bells() > 0
            user.commit() if first_commits else user.rollback()
        if not first_commits:
            await stage.attend()
            assert (await stage.store.get(job.id) or job).blockers_open == 1
            await stage.store.settle([(leases[one.id], outcome)])
        if isinstance(outcome, Fail):
            await stage.attend()
            assert await stage.state(job) is FAILED
        else:
            await stage.is_claimed_once(job)
        await stage.attend()
        assert stage.bells() == 0

    play(scenario)


def test_ends_in_transactions_of_many_handlers(play: Play) -> None:
    """All blockers of a job end in transactions that are all open at once."""

    async def scenario(stage: Stage) -> None:
        chains = await stage.chains(6)
        [job] = await stage.store.enqueue([NewJob("t", blockers=tuple(c.id for c in chains))])
        leases = await stage.take()
        users = [psycopg.connect(stage.schema.url) for _ in chains]
        try:
            for chain, user in zip(chains, users, strict=True):
                assert stage.settle_in(user, leases[chain.id], COMPLETE).verdict == "applied"
            for user in users[::-1]:
                await stage.attend()
                assert await stage.state(job) is BLOCKED
                user.commit()
        finally:
            for user in users:
                user.close()
        await stage.is_claimed_once(job)

    play(scenario)


@pytest.mark.parametrize("count", [2, 3 * TOLD_EACH + 7])
def test_the_end_of_a_chain_reaches_all_that_wait_for_it(play: Play, count: int) -> None:
    """Also those that are told later, and those that are locked meanwhile."""

    async def scenario(stage: Stage) -> None:
        [chain] = await stage.chains()
        jobs = await stage.store.enqueue([NewJob("t", blockers=(chain.id,))] * count)
        leases = await stage.take()
        with stage.other() as user:
            stage.lock_in(user, jobs[0].id)
            stage.lock_in(user, jobs[-1].id)
            await stage.store.settle([(leases[chain.id], COMPLETE)])
            await stage.is_claimed_once(*jobs[1:-1])
            user.rollback()
        await stage.is_claimed_once(jobs[0], jobs[-1])
        await stage.attend()
        assert stage.bells() == 0

    play(scenario)


def test_the_ends_of_many_chains_reach_all_that_wait_for_them(play: Play) -> None:
    """One batch ends chains for which more jobs wait than one call tells."""

    async def scenario(stage: Stage) -> None:
        chains = await stage.chains(40)
        each = TOLD_AT_ONCE // 40 + 20
        jobs = await stage.store.enqueue(
            [NewJob("t", blockers=(chain.id,)) for chain in chains for _ in range(each)]
        )
        leases = await stage.take()
        await stage.store.settle([(lease, COMPLETE) for lease in leases.values()])
        await stage.is_claimed_once(*jobs)
        await stage.attend()
        assert stage.bells() == 0

    play(scenario)


def test_a_failure_reaches_all_that_wait_for_it_and_for_them(play: Play) -> None:
    """More than one call tells, over three levels, beside jobs that are locked."""
    count = TOLD_EACH + 300

    async def scenario(stage: Stage) -> None:
        store = stage.store
        [chain] = await stage.chains()
        middle = await store.start_chains([NewChain(job=NewJob("t", blockers=(chain.id,)))] * count)
        last = await store.enqueue([NewJob("t", blockers=(each.id,)) for each in middle])
        leases = await stage.take()
        with stage.other() as user:
            stage.lock_in(user, middle[5].id)
            stage.lock_in(user, last[7].id)
            await store.settle([(leases[chain.id], FAIL)])
            for _ in range(4):
                await stage.attend()
            left = await store.find(JobFilter(states=(BLOCKED,), limit=2 * count))
            assert sorted(job.id for job in left) == sorted([middle[5].id, last[5].id, last[7].id])
            user.rollback()
        async with asyncio.timeout(PATIENCE):
            while (await store.counts())[BLOCKED]:
                await stage.attend()
        assert (await store.counts())[FAILED] == 2 * count + 1
        [dead] = await store.find(JobFilter(ids=(last[5].id,)))
        assert f"chain {middle[5].id}" in (dead.last_error or "")
        opened = await store.find_chains(ChainFilter(states=(ChainState.OPEN,)))
        assert opened == []

    play(scenario)


def test_a_deleted_chain_releases_all_that_waited_for_it(play: Play) -> None:
    """More than one call tells, and the chain is not there any more when the others do."""

    async def scenario(stage: Stage) -> None:
        [chain] = await stage.chains()
        new = NewJob("t", blockers=(chain.id,), on_blocker_failure="wait")
        jobs = await stage.store.enqueue([new] * (2 * TOLD_EACH + 5))
        await stage.store.settle([((await stage.take())[chain.id], FAIL)])
        await stage.attend()
        assert len(await stage.store.delete_chains([chain.id])) == 1
        await stage.is_claimed_once(*jobs)

    play(scenario)


def test_jobs_that_go_on_waiting_are_told_once(play: Play) -> None:
    """They stay as they are, however many calls it takes; and no bell rings for ever."""

    async def scenario(stage: Stage) -> None:
        chains = await stage.chains(9)
        each = TOLD_AT_ONCE // 9 + 200
        await stage.store.enqueue(
            [
                NewJob("t", blockers=(chain.id,), on_blocker_failure="wait")
                for chain in chains
                for _ in range(each)
            ]
        )
        leases = await stage.take()
        await stage.store.settle([(lease, FAIL) for lease in leases.values()])
        for _ in range(10):
            await stage.attend()
        assert stage.bells() == 0
        assert (await stage.store.counts())[BLOCKED] == 9 * each

    play(scenario)


# ── ends and starts that name them ──


@pytest.mark.parametrize("outcome", [Complete("1"), FAIL], ids=["complete", "fail"])
@pytest.mark.parametrize("kind", ["job", "chain", "keyed", "continuation"])
def test_a_start_that_is_open_while_the_chain_ends(play: Play, kind: str, outcome: Outcome) -> None:
    async def scenario(stage: Stage) -> None:
        store = stage.store
        [chain] = await stage.chains()
        leases = await stage.take()
        [going] = await store.enqueue([NewJob("before")])
        before = (await stage.take("before"))[going.id]
        with stage.other() as user:
            joined = store.joined(user)
            new = NewJob("t", blockers=(chain.id,), on_blocker_failure="run")
            if kind == "job":
                [job] = joined.enqueue([new])
            elif kind == "keyed":
                [job] = joined.enqueue([NewJob("t", blockers=(chain.id,), key="k")])
            elif kind == "chain":
                [started] = joined.start_chains([NewChain(job=new)])
                assert started.job is not None
                job = started.job
            else:
                assert stage.settle_in(user, before, Complete(next=new)).verdict == "applied"
            await store.settle([(leases[chain.id], outcome)])
            await stage.attend()
            user.commit()
        await stage.attend()
        if kind == "continuation":
            [job] = await store.find(JobFilter(task="t"))
        if kind == "keyed" and isinstance(outcome, Fail):
            assert await stage.state(job) is FAILED
        else:
            await stage.is_claimed_once(job)
        assert stage.bells() == 0

    play(scenario)


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
def test_a_start_while_the_end_of_the_chain_is_open(play: Play, commits: bool) -> None:
    async def scenario(stage: Stage) -> None:
        store = stage.store
        [chain] = await stage.chains()
        lease = (await stage.take())[chain.id]
        with stage.other() as user:
            assert stage.settle_in(user, lease, COMPLETE).verdict == "applied"
            jobs = await store.enqueue([NewJob("t", blockers=(chain.id,))] * 3)
            await stage.attend()  # it is not known whether the chain ends: the bells stay
            assert await stage.take("t") == {}
            assert stage.bells() > 0
            user.commit() if commits else user.rollback()
        if not commits:
            await stage.attend()
            assert stage.bells() == 0
            assert await stage.state(jobs[0]) is BLOCKED
            await store.settle([(lease, COMPLETE)])
        await stage.is_claimed_once(*jobs)

    play(scenario)


def test_a_start_and_an_end_that_do_not_see_each_other(play: Play) -> None:
    """The start has looked at the chain, the end has looked for jobs, and both are open."""

    async def scenario(stage: Stage) -> None:
        [chain] = await stage.chains()
        lease = (await stage.take())[chain.id]
        with stage.other() as starter, stage.other() as ender:
            [job] = stage.store.joined(starter).enqueue([NewJob("t", blockers=(chain.id,))])
            assert stage.settle_in(ender, lease, COMPLETE).verdict == "applied"
            starter.commit()
            await stage.attend()
            assert await stage.state(job) is BLOCKED
            ender.commit()
        await stage.is_claimed_once(job)

    play(scenario)


def test_a_job_with_many_blockers_whose_ends_are_open(play: Play) -> None:
    """A look at all of them leaves a bell for each that is ending, and no other."""

    async def scenario(stage: Stage) -> None:
        chains = await stage.chains(50)
        leases = await stage.take()
        with stage.other() as user:
            for chain in chains[:3]:
                stage.settle_in(user, leases[chain.id], COMPLETE)
            [job] = await stage.store.enqueue([NewJob("t", blockers=tuple(c.id for c in chains))])
            await stage.attend()
            assert stage.bells() == 3
            user.commit()
        await stage.attend()
        assert stage.bells() == 0
        assert ((await stage.store.get(job.id)) or job).blockers_open == 47
        await stage.store.settle([(leases[chain.id], COMPLETE) for chain in chains[3:]])
        await stage.is_claimed_once(job)

    play(scenario)


# ── retries ──


def test_a_start_behind_a_failed_chain_that_is_being_retried(play: Play) -> None:
    """It sees the chain failed, and fails, and the retry does not see it. It waits again then."""

    async def scenario(stage: Stage) -> None:
        store = stage.store
        [chain] = await stage.chains()
        await store.settle([((await stage.take())[chain.id], FAIL)])
        with stage.other() as operator:
            stage.call_in(operator, "_retry_chains(%s, NULL)", [chain.id])
            [job] = await store.enqueue([NewJob("t", blockers=(chain.id,))])
            second = (await store.start_chains([NewChain(job=NewJob("u", blockers=(chain.id,)))]))[
                0
            ]
            assert await stage.state(job) is await stage.state(second) is FAILED
            await stage.attend()
            operator.commit()
        await stage.attend()
        assert await stage.state(job) is await stage.state(second) is BLOCKED
        assert await stage.chain_state(second) is ChainState.OPEN
        await store.settle([((await stage.take())[chain.id], COMPLETE)])
        await stage.is_claimed_once(job)
        assert len(await stage.take("u")) == 1

    play(scenario)


def test_a_retry_of_a_chain_while_jobs_that_failed_with_it_are_locked(play: Play) -> None:
    async def scenario(stage: Stage) -> None:
        store = stage.store
        [chain] = await stage.chains()
        [job] = await store.enqueue([NewJob("t", blockers=(chain.id,))])
        [second] = await store.start_chains([NewChain(job=NewJob("u", blockers=(chain.id,)))])
        [third] = await store.enqueue([NewJob("v", blockers=(second.id,))])
        await store.settle([((await stage.take())[chain.id], FAIL)])
        with stage.other() as user:
            for each in (job, second):
                stage.lock_in(user, each.id)
            await store.retry_chains([chain.id])
            await stage.attend()
            assert await stage.state(job) is await stage.state(third) is FAILED
            user.rollback()
        for _ in range(2):
            await stage.attend()
        assert {await stage.state(each) for each in (job, second, third)} == {BLOCKED}
        await store.settle([((await stage.take())[chain.id], COMPLETE)])
        await stage.is_claimed_once(job)
        await store.settle([((await stage.take("u"))[second.id], COMPLETE)])
        assert len(await stage.take("v")) == 1

    play(scenario)


def test_a_retry_of_a_job_while_a_chain_it_waits_for_ends(play: Play) -> None:
    async def scenario(stage: Stage) -> None:
        store = stage.store
        one, two = await stage.chains(2)
        [job] = await store.enqueue([NewJob("t", blockers=(one.id, two.id))])
        await store.cancel([job.id])
        leases = await stage.take()
        with stage.other() as operator:
            stage.call_in(operator, "_retry_jobs(%s)", [job.id])
            await store.settle([(leases[one.id], COMPLETE)])
            operator.commit()
        await stage.attend()
        assert ((await store.get(job.id)) or job).blockers_open == 1
        await store.settle([(leases[two.id], COMPLETE)])
        await stage.is_claimed_once(job)

    play(scenario)


def test_a_key_that_is_taken_while_what_failed_is_put_back(play: Play) -> None:
    """A claim that puts a chain back does not wait for a user who is taking its key."""

    async def scenario(stage: Stage) -> None:
        store = stage.store
        [chain] = await stage.chains()
        keyed = NewChain(job=NewJob("t", blockers=(chain.id,)), key="k")
        [second] = await store.start_chains([keyed])
        await store.settle([((await stage.take())[chain.id], FAIL)])
        with stage.other() as locker, stage.other() as user:
            stage.lock_in(locker, second.id)
            await store.retry_chains([chain.id])  # leaves a bell for the job that is locked
            [rival] = store.joined(user).start_chains([NewChain(job=NewJob("x"), key="k")])
            locker.rollback()
            await stage.attend()
            assert await stage.state(second) is FAILED
            user.commit()
        await stage.attend()
        seen = await store.get_chain(second.id)
        assert seen is not None
        assert seen.state is ChainState.FAILED
        assert str(rival.id) in (seen.error or "")
        assert stage.bells() == 0

    play(scenario)


def test_a_chain_that_is_retried_and_completes_before_a_failed_job_has_looked(play: Play) -> None:
    async def scenario(stage: Stage) -> None:
        store = stage.store
        [chain] = await stage.chains()
        await store.settle([((await stage.take())[chain.id], FAIL)])
        with stage.other() as operator:
            stage.call_in(operator, "_retry_chains(%s, NULL)", [chain.id])
            [job] = await store.enqueue([NewJob("t", blockers=(chain.id,))])
            operator.commit()
        with stage.other() as user:
            stage.lock_in(user, job.id)
            await store.settle([((await stage.take())[chain.id], COMPLETE)])
            user.rollback()
        await stage.is_claimed_once(job)

    play(scenario)


def test_a_job_that_failed_with_its_chain_stays_so_when_that_is_completed(play: Play) -> None:
    """Completed by hand, the chain was never opened: the job is for its operator to retry."""

    async def scenario(stage: Stage) -> None:
        store = stage.store
        [chain] = await stage.chains()
        await store.settle([((await stage.take())[chain.id], FAIL)])
        [job] = await store.enqueue([NewJob("t", blockers=(chain.id,))])
        await store.complete_chain(chain.id, COMPLETE)
        await stage.attend()
        assert await stage.state(job) is FAILED
        assert stage.bells() == 0

    play(scenario)


# ── deletes, cancels, completions by hand, reaps ──


def test_a_delete_while_a_job_that_waits_is_locked(play: Play) -> None:
    async def scenario(stage: Stage) -> None:
        store = stage.store
        [chain] = await stage.chains()
        new = NewJob("t", blockers=(chain.id,), on_blocker_failure="wait")
        [job] = await store.enqueue([new])
        await store.settle([((await stage.take())[chain.id], FAIL)])
        with stage.other() as user:
            stage.lock_in(user, job.id)
            assert len(await store.delete_chains([chain.id])) == 1
            await stage.attend()
            assert await stage.state(job) is BLOCKED
            user.rollback()
        await stage.is_claimed_once(job)

    play(scenario)


def test_a_start_that_names_a_chain_which_is_deleted_meanwhile(play: Play) -> None:
    async def scenario(stage: Stage) -> None:
        store = stage.store
        [chain] = await stage.chains()
        with stage.other() as user:
            [job] = store.joined(user).enqueue([NewJob("t", blockers=(chain.id,))])
            assert len(await store.delete_chains([chain.id])) == 1
            user.commit()
        await stage.is_claimed_once(job)

    play(scenario)


def test_a_delete_waits_for_a_completion_and_is_refused_then(play: Play) -> None:
    """What the operator was about to delete has gone on, and is deleted as it is then."""

    async def scenario(stage: Stage) -> None:
        store = stage.store
        [chain] = await stage.chains()
        lease = (await stage.take())[chain.id]
        with stage.other() as user:
            stage.settle_in(user, lease, Complete(next=NewJob("b")))
            deleting = asyncio.ensure_future(store.delete_chains([chain.id]))
            await stage.until_waiting(deleting)
            user.commit()
        assert [gone.id for gone in await deleting] == [chain.id]
        assert await store.find(JobFilter()) == []

    play(scenario)


@pytest.mark.parametrize("verb", ["cancel", "complete"])
def test_an_operator_waits_for_an_end_and_is_told(play: Play, verb: str) -> None:
    async def scenario(stage: Stage) -> None:
        store = stage.store
        [chain] = await stage.chains()
        [job] = await store.enqueue([NewJob("t", blockers=(chain.id,))])
        lease = (await stage.take())[chain.id]
        with stage.other() as user:
            stage.settle_in(user, lease, Complete('"by the handler"'))
            call: asyncio.Future[Any] = asyncio.ensure_future(
                store.cancel_chains([chain.id])
                if verb == "cancel"
                else store.complete_chain(chain.id, Complete("2"))
            )
            await stage.until_waiting(call)
            user.commit()
        with pytest.raises(ChainClosedError):
            await call
        assert ((await store.get_chain(chain.id)) or chain).output == "by the handler"
        await stage.is_claimed_once(job)

    play(scenario)


def test_completion_by_hand_while_the_handlers_transaction_is_open(play: Play) -> None:
    """The handler comes second: its transaction is rolled back."""

    async def scenario(stage: Stage) -> None:
        store = stage.store
        [chain] = await stage.chains()
        lease = (await stage.take())[chain.id]
        done = threading.Event()

        def handle() -> None:
            with store.transaction(lease) as tx:
                tx.execute("CREATE TABLE IF NOT EXISTS own (n int)")
                assert done.wait(PATIENCE)
                tx.complete(Complete('"by the handler"'))

        handling = asyncio.ensure_future(asyncio.to_thread(handle))
        await store.complete_chain(chain.id, Complete('"by hand"'))
        done.set()
        with pytest.raises(LeaseLostError):
            await handling
        assert ((await store.get_chain(chain.id)) or chain).output == "by hand"

    play(scenario)


def test_a_reap_that_fails_a_chain_while_a_job_that_waits_is_locked(play: Play) -> None:
    async def scenario(stage: Stage) -> None:
        store = stage.store
        [chain] = await stage.chains()
        [job] = await store.enqueue([NewJob("t", blockers=(chain.id,))])
        for _ in range(2):
            assert len(await stage.take()) == 1
            with stage.other() as user:
                stage.lock_in(user, job.id)
                await store.unlock(["w"], 1)
                user.rollback()
        await stage.attend()
        assert await stage.chain_state(chain) is ChainState.FAILED
        assert await stage.state(job) is FAILED

    play(scenario)


def test_a_cancel_that_comes_between_the_claim_and_the_next_job(play: Play) -> None:
    """Asked to stop while it completes: it waits for the end, and finds the next job."""

    async def scenario(stage: Stage) -> None:
        store = stage.store
        [chain] = await stage.chains()
        lease = (await stage.take())[chain.id]
        with stage.other() as user:
            stage.settle_in(user, lease, Complete(next=NewJob("b")))
            cancelling = asyncio.ensure_future(store.cancel_chains([chain.id]))
            await stage.until_waiting(cancelling)
            user.commit()
        [seen] = await cancelling
        assert (seen.state, seen.length) == (ChainState.CANCELLED, 2)
        assert await stage.take() == {}

    play(scenario)


# ── keys ──


@pytest.mark.parametrize("steps", [0, 4])
def test_twenty_starts_with_one_key(pg18: Cluster, steps: int) -> None:
    """Also when the chain is at its fifth job."""
    count = 20

    async def scenario(schema: Schema) -> None:
        async with staged(schema) as stage:
            there: list[Chain[Any]] = []
            if steps:
                there = await stage.store.start_chains([NewChain(job=NewJob("b"), key="k")])
            for _ in range(steps):
                [lease] = (await stage.take()).values()
                await stage.store.settle([(lease, Complete(next=NewJob("b")))])
            line = threading.Barrier(count)

            def start(_: int) -> tuple[int, bool]:
                with psycopg.connect(schema.url) as connection:
                    line.wait()
                    joined = stage.store.joined(connection)
                    [chain] = joined.start_chains([NewChain(job=NewJob("b"), key="k")])
                    return chain.id, chain.deduplicated

            def all_of_them() -> list[tuple[int, bool]]:
                with ThreadPoolExecutor(count) as pool:
                    return list(pool.map(start, range(count)))

            told = await asyncio.to_thread(all_of_them)
            assert len({chain_id for chain_id, _ in told}) == 1
            assert [new for _, new in told].count(False) == (0 if there else 1)
            [chain] = await stage.store.find_chains(ChainFilter())
            assert (chain.id, chain.length) == (told[0][0], steps + 1)

    with fresh_schema(pg18) as schema:
        asyncio.run(scenario(schema))


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
def test_a_start_waits_for_a_transaction_that_has_its_key(play: Play, commits: bool) -> None:
    async def scenario(stage: Stage) -> None:
        store = stage.store
        with stage.other() as user:
            [first] = store.joined(user).start_chains([NewChain(job=NewJob("b"), key="k")])
            starting = asyncio.ensure_future(
                store.start_chains([NewChain(job=NewJob("b"), key="k")])
            )
            others = await store.start_chains(
                [NewChain(job=NewJob("b"), key="another"), NewChain(job=NewJob("b"))]
            )
            assert len(others) == 2
            await stage.until_waiting(starting)
            user.commit() if commits else user.rollback()
        [chain] = await starting
        assert (chain.id == first.id, chain.deduplicated) == (commits, commits)

    play(scenario)


def test_a_window_counts_a_chain_that_began_and_ended_in_between(play: Play) -> None:
    """The start has looked for the key and found nothing, and waits; meanwhile a chain with this
    key comes and goes."""

    async def scenario(stage: Stage) -> None:
        store, window = stage.store, 3_600_000_000
        new = NewChain(job=NewJob("b"), key="k", key_window=window)
        with stage.other() as user:
            [first] = store.joined(user).start_chains([new])
            starting = asyncio.ensure_future(store.start_chains([new]))
            await stage.until_waiting(starting)
            stage.call_in(user, "_complete_chain(%s, '1', NULL, NULL, '{}', NULL)", first.id)
            user.commit()
        [chain] = await starting
        assert (chain.id, chain.deduplicated, chain.output) == (first.id, True, 1)
        assert len(await store.find_chains(ChainFilter())) == 1

    play(scenario)


def test_a_completion_whose_chains_key_a_user_holds_does_not_wait(play: Play) -> None:
    """It is answered as busy; what is settled with it is not held up."""

    async def scenario(stage: Stage) -> None:
        store = stage.store
        chains = await stage.chains(3)
        leases = await stage.take()
        starts = Complete(starts=(NewChain(job=NewJob("x"), key="k"),))
        with stage.other() as user:
            [held] = store.joined(user).start_chains([NewChain(job=NewJob("x"), key="k")])
            answers = await store.settle(
                [
                    (leases[chains[0].id], starts),
                    (leases[chains[1].id], Complete(next=NewJob("b"))),
                    (leases[chains[2].id], COMPLETE),
                ]
            )
            verdicts = [answer.verdict.value for answer in answers]
            assert verdicts == ["busy", "applied", "applied"]
            assert await stage.chain_state(chains[0]) is ChainState.OPEN
            user.commit()
        [answer] = await store.settle([(leases[chains[0].id], starts)])
        assert answer.verdict is Verdict.APPLIED
        keyed = [chain for chain in await store.find_chains(ChainFilter()) if chain.key]
        assert [chain.id for chain in keyed] == [held.id]

    play(scenario)


# ── cycles ──


def test_two_chains_that_would_wait_for_each_other(play: Play) -> None:
    """Neither sees what the other is about to write: the second is told to ask again."""

    async def scenario(stage: Stage) -> None:
        one, two = await stage.chains(2)
        leases = await stage.take()
        with stage.other() as user:
            on = Complete(next=NewJob("t", blockers=(two.id,)))
            assert stage.settle_in(user, leases[one.id], on).verdict is Verdict.APPLIED
            back = Complete(next=NewJob("t", blockers=(one.id,)))
            [answer] = await stage.store.settle([(leases[two.id], back)])
            assert answer.verdict is Verdict.BUSY
            # What names nothing that is open goes on, and so does another tenant's.
            [answer] = await stage.store.settle([(leases[two.id], RELEASE)])
            user.commit()
        lease = (await stage.take())[two.id]
        [answer] = await stage.store.settle([(lease, back)])
        assert answer.verdict is Verdict.REFUSED
        [answer] = await stage.store.settle([(lease, COMPLETE)])
        assert answer.verdict is Verdict.APPLIED
        assert len(await stage.take("t")) == 1

    play(scenario)


def test_a_cycle_in_a_handlers_transaction_undoes_it(play: Play) -> None:
    async def scenario(stage: Stage) -> None:
        store = stage.store
        [chain] = await stage.chains()
        lease = (await stage.take())[chain.id]

        def handle() -> None:
            with store.transaction(lease) as tx:
                tx.execute("CREATE TABLE own (n int)")
                try:
                    tx.complete(Complete(next=NewJob("t", blockers=(chain.id,))))
                except ValidationError as error:
                    assert error.field == "blockers"  # and the handler goes on as if nothing was

        await asyncio.to_thread(handle)
        with stage.other() as user:
            found = user.execute("SELECT to_regclass('own')").fetchone()
        assert found == (None,)
        assert (await store.settle([(lease, COMPLETE)]))[0].verdict is Verdict.APPLIED

    play(scenario)


# ── what must not wait ──


def test_the_chain_of_a_job_that_a_claim_has_locked(play: Play) -> None:
    """A claim that answers bells locks chains for a moment. An end that meets this is busy, and
    what is settled with it is not held up."""

    async def scenario(stage: Stage) -> None:
        store = stage.store
        chains = await stage.chains(4)
        leases = await stage.take()
        with stage.other() as claim:
            claim.execute(
                f"SELECT FROM {stage.schema.name}._chains WHERE id = ANY (%s) FOR SHARE".encode(),
                [[chains[0].id, chains[1].id]],
            )
            answers = await store.settle(
                [
                    (leases[chains[0].id], COMPLETE),
                    (leases[chains[1].id], FAIL),
                    (leases[chains[2].id], COMPLETE),
                    (leases[chains[3].id], FAIL),
                ]
            )
            verdicts = [answer.verdict.value for answer in answers]
            assert verdicts == ["busy", "busy", "applied", "applied"]
            claim.rollback()
        again = await store.settle([(leases[chains[0].id], COMPLETE), (leases[chains[1].id], FAIL)])
        assert [answer.verdict.value for answer in again] == ["applied", "applied"]

    play(scenario)


def test_open_starts_hold_up_neither_workers_nor_others(play: Play) -> None:
    """A user's transaction that has started chains of all kinds holds nothing that they need."""

    async def scenario(stage: Stage) -> None:
        store = stage.store
        chains = await stage.chains(3)
        leases = await stage.take()
        refs = tuple(chain.id for chain in chains)
        with stage.other() as user:
            joined = store.joined(user)
            joined.enqueue([NewJob("t", blockers=refs)])
            joined.start_chains(
                [NewChain(job=NewJob("t", blockers=refs), key="k"), NewChain(job=NewJob("t"))]
            )
            async with asyncio.timeout(PATIENCE):
                await store.settle([(leases[chains[0].id], Complete(next=NewJob("b")))])
                await store.settle([(leases[chains[1].id], FAIL)])
                await store.settle([(leases[chains[2].id], COMPLETE)])
                await store.start_chains([NewChain(job=NewJob("b"), key="other")])
                assert len(await stage.take()) == 2
                await store.retry_chains([chains[1].id])
                assert await store.prune(100, 0.0, 1000.0) >= 0
            assert stage.waiting() == 0
            user.rollback()

    play(scenario)


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_ends_need_a_look_after_the_lock(play: Play, isolation: str) -> None:
    """With one snapshot for all it would miss jobs that were added meanwhile: it is refused."""

    async def scenario(stage: Stage) -> None:
        [chain] = await stage.chains()
        with psycopg.connect(stage.schema.url) as user:
            user.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}".encode())
            with pytest.raises(psycopg.Error, match="cannot be claimed or changed") as caught:
                stage.call_in(user, "complete_chain(%s)", chain.id)
            assert caught.value.sqlstate == "WLISO"

    play(scenario)


@pytest.mark.parametrize("level", ["REPEATABLE_READ", "SERIALIZABLE"])
def test_starts_need_no_look_after_the_lock(play: Play, level: str) -> None:
    """They lock nothing, and ring a bell: an old snapshot does no harm."""

    async def scenario(stage: Stage) -> None:
        store = stage.store
        lost, ending, free = await stage.chains(3)
        leases = await stage.take()
        await store.settle([(leases[lost.id], FAIL)])
        with psycopg.connect(stage.schema.url) as user:
            user.isolation_level = psycopg.IsolationLevel[level]
            user.execute("SELECT 1")
            joined = store.joined(user)
            [failed] = joined.start_chains([NewChain(job=NewJob("t", blockers=(lost.id,)))])
            behind = NewJob("t", blockers=(failed.id, free.id))
            [second] = joined.start_chains([NewChain(job=behind, key="k")])
            assert (failed.state, second.state) == (ChainState.FAILED, ChainState.FAILED)
            await store.settle([(leases[ending.id], COMPLETE)])
            [job] = joined.enqueue([NewJob("t", blockers=(ending.id,))])
            assert job.state is BLOCKED  # its snapshot is from before
            user.commit()
        await stage.is_claimed_once(job)

    play(scenario)


# ── all of it together ──


@pytest.mark.parametrize("seed", range(2))
def test_nothing_hangs_and_nothing_runs_twice(pg18: Cluster, seed: int) -> None:
    """Enders, starters and operators at once, with transactions that stay open for a while."""
    print(f"seed {seed}")
    rounds, enders, starters = 60, 4, 3

    with fresh_schema(pg18) as schema:
        asyncio.run(_storm(schema, seed, rounds, enders, starters))


async def _storm(schema: Schema, seed: int, rounds: int, enders: int, starters: int) -> None:
    async with staged(schema) as stage:
        chains = await stage.chains(rounds)
        leases = await stage.take()
        todo = list(leases.values())
        lock = threading.Lock()
        added: list[int] = []
        failed: list[int] = []

        def end(number: int) -> None:
            dice = random.Random(f"end {seed} {number}")
            with psycopg.connect(schema.url) as connection:
                while True:
                    with lock:
                        if not todo:
                            return
                        mine = [todo.pop() for _ in range(min(len(todo), dice.randint(1, 3)))]
                    for lease in mine:
                        outcome = FAIL if dice.random() < 0.2 else Complete("1")
                        while stage.settle_in(connection, lease, outcome).verdict == "busy":
                            connection.commit()
                        if isinstance(outcome, Fail):
                            with lock:
                                failed.append(lease.job_id)
                    connection.execute("SELECT pg_sleep(%s)", [dice.random() * 0.01])
                    connection.commit()

        def start(number: int) -> None:
            dice = random.Random(f"start {seed} {number}")
            with psycopg.connect(schema.url) as connection:
                joined = stage.store.joined(connection)
                for _ in range(rounds):
                    named = dice.sample([chain.id for chain in chains], dice.randint(1, 4))
                    choices: tuple[OnBlockerFailure | None, ...] = ("run", "wait", None)
                    choice = dice.choice(choices)
                    new = NewJob("t", blockers=tuple(named), on_blocker_failure=choice)
                    [job] = joined.enqueue([new])
                    connection.execute("SELECT pg_sleep(%s)", [dice.random() * 0.005])
                    if dice.random() < 0.1:
                        connection.rollback()
                    else:
                        connection.commit()
                        with lock:
                            added.append(job.id)

        def run_all() -> None:
            with ThreadPoolExecutor(enders + starters) as pool:
                work = [pool.submit(end, n) for n in range(enders)]
                work += [pool.submit(start, n) for n in range(starters)]
                for each in work:
                    each.result()

        working = asyncio.ensure_future(asyncio.to_thread(run_all))
        ran: Counter[int] = Counter()

        async def drain() -> int:
            # A job that began a moment after the end that released it is due a moment later.
            await stage.store.promote(1_000)
            taken = await stage.take("t", "b")
            ran.update(lease.job_id for lease in taken.values())
            await _settle_all(stage, [(lease, COMPLETE) for lease in taken.values()])
            return len(taken)

        while not working.done():
            await drain()
        await working
        # What failed is retried, and then everything comes to its end.
        async with asyncio.timeout(PATIENCE):
            while True:
                await stage.store.retry_chains(failed)
                count = await drain()
                counts = await stage.store.counts()
                left = sum(counts[state] for state in (READY, BLOCKED, JobState.SCHEDULED))
                if not count and not left and not stage.bells():
                    break
        assert ran == Counter([*added, *failed])
        assert stage.bells() == 0


async def _settle_all(stage: Stage, settlements: Sequence[tuple[Lease, Outcome]]) -> None:
    left = list(settlements)
    while left:
        try:
            answers = await stage.store.settle(left)
        except StoreBusyError:
            continue
        except StoreError as error:
            raise AssertionError(f"a settlement failed: {error}") from error
        left = [
            pair
            for pair, answer in zip(left, answers, strict=True)
            if answer.verdict is Verdict.BUSY
        ]
