"""Few claims for many wants, and nothing lost on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.server.streams.desk import run
from windlass.errors import StoreClosedError, StoreUnavailableError
from windlass.model.job import JobState
from windlass.server.streams import dispatcher as module
from windlass.server.streams.dispatcher import Dispatcher, Want
from windlass.server.streams.settlements import Settlements
from windlass.store.port import Store
from windlass.store.records import COMPLETE, ClaimRequest, Lease, NewJob
from windlass.store.server import ClaimScope
from windlass.stores.memory import MemoryStore
from windlass.testing import VirtualClock, run_virtual

ANY = ClaimScope()


class Counting(MemoryStore):
    """Counts what it is asked, and can wait before it answers."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.claims: list[ClaimRequest] = []
        self.looks: list[int] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.fails = 0

    async def claim(self, request: ClaimRequest) -> list[Lease]:
        self.claims.append(request)
        if self.fails:
            self.fails -= 1
            raise StoreUnavailableError("away")
        leases = await super().claim(request)
        await self.gate.wait()
        return leases

    async def claimable(self, scopes: Sequence[ClaimScope]) -> list[bool]:
        self.looks.append(len(scopes))
        return await super().claimable(scopes)


class Taker:
    """A want that remembers what it was given."""

    def __init__(self, worker: str, scope: ClaimScope = ANY, count: int = 1) -> None:
        self.leases: list[Lease] = []
        self.got = asyncio.Event()
        self.is_able = True
        self.want = Want(scope, worker, 30.0, count, self._give, lambda: self.is_able)

    def _give(self, leases: list[Lease]) -> None:
        assert not self.got.is_set(), "a want is given something once"
        self.leases = leases
        self.got.set()


@asynccontextmanager
async def dispatching(
    store: Counting, poll: float = 3_600.0
) -> AsyncIterator[tuple[Dispatcher, Settlements]]:
    await store.open()
    settlements = Settlements(store)
    dispatcher = Dispatcher(store, settlements, poll)
    dispatcher.start()
    try:
        yield dispatcher, settlements
    finally:
        await dispatcher.close()
        await settlements.close()
        await store.close()


def jobs(count: int, **more: Any) -> list[NewJob]:
    return [NewJob("mail", **more) for _ in range(count)]


async def settled_down(dispatcher: Dispatcher) -> None:
    """Until nothing is under way."""
    for _ in range(200):
        await asyncio.sleep(0)
    while any(group.task is not None for group in dispatcher._groups.values()):
        await asyncio.sleep(0)


def test_one_job_for_fifty_idle_streams_costs_three_claims_at_most() -> None:
    async def body(clock: VirtualClock) -> None:
        store = Counting(clock=clock)
        async with dispatching(store) as (dispatcher, settlements):
            takers = [Taker(f"w{at}") for at in range(50)]
            for taker in takers:
                dispatcher.add(taker.want)
            await asyncio.sleep(60)
            await store.enqueue(jobs(1))
            await asyncio.sleep(60)
            [lease] = [lease for taker in takers for lease in taker.leases]
            await settlements.settle(lease, COMPLETE)
            dispatcher.add(Taker("w0").want)
            await asyncio.sleep(60)
            assert len(store.claims) <= 3

    run_virtual(body)


def test_idle_streams_cost_the_poll_alone() -> None:
    async def body(clock: VirtualClock) -> None:
        store = Counting(clock=clock)
        async with dispatching(store, poll=2.0) as (dispatcher, _):
            for group in range(20):
                for worker in range(10):
                    scope = ClaimScope(tasks=(f"t{group}",))
                    dispatcher.add(Taker(f"w{worker}", scope).want)
            await asyncio.sleep(1)
            assert len(store.claims) == 20
            await asyncio.sleep(100)
            assert len(store.claims) == 20
            assert 40 <= len(store.looks) <= 55
            assert set(store.looks) == {20}

    run_virtual(body)


def test_the_wants_of_one_worker_are_one_claim() -> None:
    async def body() -> None:
        store = Counting()
        async with dispatching(store) as (dispatcher, _):
            await store.enqueue(jobs(128))
            takers = [Taker("w") for _ in range(127)] + [Taker("w", count=10)]
            for taker in takers:
                dispatcher.add(taker.want)
            for taker in takers:
                await taker.got.wait()
            assert len({lease.job_id for taker in takers for lease in taker.leases}) == 128
            assert [claim.limit for claim in store.claims][:1] == [137]
            assert store.claims[0].suspects == 128

    run(body)


def test_workers_take_turns() -> None:
    async def body() -> None:
        store = Counting()
        async with dispatching(store) as (dispatcher, _):
            await store.enqueue(jobs(4))
            takers = [Taker(f"w{at % 2}", count=1) for at in range(4)]
            greedy = Taker("greedy", count=1)
            for taker in (*takers, greedy):
                dispatcher.add(taker.want)
            await settled_down(dispatcher)
            assert [claim.worker for claim in store.claims][:2] == ["w0", "w1"]

    run(body)


def test_what_is_claimed_for_a_want_that_is_gone_goes_back_uncharged() -> None:
    async def body() -> None:
        store = Counting()
        async with dispatching(store) as (dispatcher, _):
            [job] = await store.enqueue(jobs(1))
            store.gate.clear()
            gone, other = Taker("gone"), Taker("other")
            dispatcher.add(gone.want)
            while not store.claims:
                await asyncio.sleep(0)
            dispatcher.remove(gone.want)
            resting = asyncio.ensure_future(dispatcher.rest("gone"))
            await asyncio.sleep(0)
            assert not resting.done()
            store.gate.set()
            await resting
            found = await store.get(job.id)
            assert found is not None
            assert (found.state, found.attempts) == (JobState.READY, 0)
            dispatcher.add(other.want)
            await other.got.wait()
            assert not gone.leases
            assert other.leases[0].attempts == 1

    run(body)


def test_a_want_that_cannot_take_is_passed_over_until_it_can() -> None:
    async def body() -> None:
        store = Counting()
        async with dispatching(store) as (dispatcher, _):
            slow, quick = Taker("slow"), Taker("quick")
            slow.is_able = False
            dispatcher.add(slow.want)
            dispatcher.add(quick.want)
            await store.enqueue(jobs(2))
            await quick.got.wait()
            await settled_down(dispatcher)
            assert not slow.leases
            assert all(claim.worker != "slow" for claim in store.claims)
            slow.is_able = True
            dispatcher.look([ANY])
            await slow.got.wait()

    run(body)


def test_a_taker_that_fails_costs_no_job() -> None:
    async def body() -> None:
        store = Counting()
        async with dispatching(store) as (dispatcher, _):

            def fail(leases: list[Lease]) -> None:
                raise RuntimeError("broken")

            broken = Want(ANY, "broken", 30.0, 1, fail, lambda: True)
            good = Taker("good")
            [job] = await store.enqueue(jobs(1))
            dispatcher.add(broken)
            dispatcher.add(good.want)
            await good.got.wait()
            assert (good.leases[0].job_id, good.leases[0].attempts) == (job.id, 1)

    run(body)


def test_claims_that_fail_are_made_again() -> None:
    async def body(clock: VirtualClock) -> None:
        store = Counting(clock=clock)
        async with dispatching(store) as (dispatcher, _):
            store.fails = 4
            await store.enqueue(jobs(1))
            taker = Taker("w")
            dispatcher.add(taker.want)
            await taker.got.wait()
            assert len(store.claims) == 5
            assert 1 < clock.elapsed < 10

    run_virtual(body)


def test_groups_do_not_wait_for_each_other() -> None:
    async def body() -> None:
        store = Counting()
        async with dispatching(store) as (dispatcher, _):
            mail = Taker("w", ClaimScope(tasks=("mail",), tenants=("acme",)))
            post = Taker("w", ClaimScope(tasks=("post",)))
            dispatcher.add(mail.want)
            dispatcher.add(post.want)
            await settled_down(dispatcher)
            assert len(store.claims) == 2
            await store.enqueue([NewJob("post")])
            await post.got.wait()
            await store.enqueue(jobs(1))
            await settled_down(dispatcher)
            assert not mail.leases, "another tenant's job"
            await store.enqueue(jobs(1, tenant="acme"))
            await mail.got.wait()
            assert len(store.claims) == 4
            assert max(store.looks) <= 2

    run(body)


@pytest.mark.parametrize("wants", [1, 3])
def test_closing_hands_back_what_was_just_claimed(wants: int) -> None:
    async def body() -> None:
        store: Any = Counting()
        async with dispatching(store) as (dispatcher, _):
            added = await store.enqueue(jobs(wants))
            store.gate.clear()
            for _ in range(wants):
                dispatcher.add(Taker("w").want)
            while not store.claims:
                await asyncio.sleep(0)
            closing = asyncio.ensure_future(dispatcher.close())
            await asyncio.sleep(0)
            store.gate.set()
            await closing
            port: Store = store
            found = [await port.get(job.id) for job in added]
            assert [(job.state, job.attempts) for job in found if job] == [("ready", 0)] * wants

    run(body)


class Weighing(Counting):
    """Remembers what it was asked to look for."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.asked: list[list[ClaimScope]] = []

    async def claimable(self, scopes: Sequence[ClaimScope]) -> list[bool]:
        self.asked.append(list(scopes))
        return await super().claimable(scopes)


def test_many_names_are_looked_for_in_parts_and_few_do_not_wait_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_NAMES", 10)
    large = [ClaimScope(tuple(f"t{group}-{at}" for at in range(4))) for group in range(9)]
    small = ClaimScope(("mail",))

    async def body(clock: VirtualClock) -> None:
        store = Weighing(clock=clock)
        async with dispatching(store) as (dispatcher, _):
            for scope in large:
                dispatcher.add(Taker("greedy", scope).want)
            taker = Taker("w", small)
            dispatcher.add(taker.want)
            await asyncio.sleep(1)
            store.asked.clear()
            await store.enqueue(jobs(1))
            await taker.got.wait()
            await asyncio.sleep(1)
            assert small in store.asked[0]
            assert all(sum(len(it.tasks or ()) for it in part) <= 10 for part in store.asked)
            assert {scope for part in store.asked for scope in part} == {*large, small}

    run_virtual(body)


def test_looks_that_fail_are_made_again_and_a_closed_store_ends_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Failing(Counting):
        error: Exception | None = None

        async def claimable(self, scopes: Sequence[ClaimScope]) -> list[bool]:
            if self.error is not None:
                self.looks.append(0)
                raise self.error
            return await super().claimable(scopes)

    async def body(clock: VirtualClock) -> None:
        store = Failing(clock=clock)
        async with dispatching(store, poll=2.0) as (dispatcher, _):
            taker, other = Taker("w"), Taker("v", ClaimScope(tasks=("other",)))
            dispatcher.add(taker.want)
            dispatcher.add(other.want)
            await asyncio.sleep(1)
            store.error = StoreUnavailableError("away")
            await asyncio.sleep(20)
            assert 3 <= len(store.looks) <= 12, "it does not ask without a pause"
            store.error = None
            await store.enqueue(jobs(1))
            await taker.got.wait()
            store.error = StoreClosedError("closed")
            await asyncio.sleep(10)
            looks = len(store.looks)
            await asyncio.sleep(10)
            assert len(store.looks) == looks

    run_virtual(body)
    assert "looking for jobs failed, and is tried again: away" in caplog.messages


def test_a_claim_on_a_closed_store_is_not_made_again() -> None:
    class Closed(Counting):
        async def claim(self, request: ClaimRequest) -> list[Lease]:
            self.claims.append(request)
            raise StoreClosedError("closed")

    async def body(clock: VirtualClock) -> None:
        store = Closed(clock=clock)
        async with dispatching(store) as (dispatcher, _):
            dispatcher.add(Taker("w").want)
            await asyncio.sleep(60)
            assert len(store.claims) == 1

    run_virtual(body)
