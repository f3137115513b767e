"""Outcomes are written together, again where they must, and each is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.server.streams.desk import run
from windlass.errors import (
    OutcomeUnknownError,
    StoreClosedError,
    StoreError,
    StoreUnavailableError,
)
from windlass.model.job import JobState
from windlass.server.streams import settlements as module
from windlass.server.streams.settlements import Settlements
from windlass.store.records import (
    COMPLETE,
    RELEASE,
    ClaimRequest,
    Lease,
    NewJob,
    Outcome,
    Settled,
    Verdict,
)
from windlass.stores.memory import MemoryStore
from windlass.testing import VirtualClock, run_virtual


class Scripted(MemoryStore):
    """Does something else first, as often as the script says."""

    def __init__(self, *script: Any, **options: Any) -> None:
        super().__init__(**options)
        self.script = list(script)
        self.sizes: list[int] = []

    async def settle(self, settlements: Sequence[tuple[Lease, Outcome]]) -> list[Settled]:
        self.sizes.append(len(settlements))
        await asyncio.sleep(0)
        step = self.script.pop(0) if self.script else None
        match step:
            case "busy":
                return [Settled(Verdict.BUSY)] * len(settlements)
            case "happened":
                await super().settle(settlements)
                raise OutcomeUnknownError("the answer was lost")
            case Exception():
                raise step
        return await super().settle(settlements)


async def leases_of(store: MemoryStore, count: int) -> list[Lease]:
    await store.enqueue([NewJob("mail") for _ in range(count)])
    return await store.claim(ClaimRequest("w", None, count))


def test_while_one_write_is_in_flight_the_next_gathers() -> None:
    async def body() -> None:
        store = Scripted()
        settlements = Settlements(store)
        leases = await leases_of(store, 100)
        answers = await asyncio.gather(*(settlements.settle(one, COMPLETE) for one in leases))
        assert {answer.verdict for answer in answers} == {Verdict.APPLIED}
        assert sum(store.sizes) == 100
        assert len(store.sizes) <= 2

    run(body)


def test_a_write_takes_a_thousand_at_once() -> None:
    async def body() -> None:
        store = Scripted()
        settlements = Settlements(store)
        leases = await leases_of(store, 2_500)
        answers = await settlements.submit([(lease, COMPLETE) for lease in leases])
        assert len(answers) == 2_500
        assert store.sizes == [1_000, 1_000, 500]

    run(body)


def test_what_is_locked_is_asked_for_again() -> None:
    async def body(clock: VirtualClock) -> None:
        store = Scripted("busy", "busy", clock=clock)
        settlements = Settlements(store)
        [lease] = await leases_of(store, 1)
        assert (await settlements.settle(lease, COMPLETE)).verdict is Verdict.APPLIED
        assert len(store.sizes) == 3

    run_virtual(body)


@pytest.mark.parametrize("outcome", [COMPLETE, RELEASE])
def test_an_answer_that_was_lost_is_found_out(outcome: Outcome) -> None:
    async def body(clock: VirtualClock) -> None:
        store = Scripted("happened", StoreUnavailableError("away"), clock=clock)
        settlements = Settlements(store)
        [lease] = await leases_of(store, 1)
        assert (await settlements.settle(lease, outcome)).verdict is Verdict.APPLIED

    run_virtual(body)


def test_what_the_database_will_not_have_is_refused_alone() -> None:
    async def body() -> None:
        store = Scripted(*[StoreError("no: see db.example")] * 3)
        settlements = Settlements(store)
        leases = await leases_of(store, 4)
        answers = await settlements.submit([(lease, COMPLETE) for lease in leases])
        assert [answer.verdict for answer in answers] == ["refused", *["applied"] * 3]
        assert answers[0].reason is not None
        assert "refused" in answers[0].reason and "db.example" not in answers[0].reason

    run(body)


def test_a_closed_store_answers_with_an_error() -> None:
    async def body() -> None:
        store = Scripted(StoreClosedError("closed"))
        settlements = Settlements(store)
        leases = await leases_of(store, 2)
        with pytest.raises(StoreClosedError):
            await settlements.settle(leases[0], COMPLETE)
        assert (await settlements.settle(leases[1], COMPLETE)).state is JobState.COMPLETED
        await settlements.close()

    run(body)


class Away(MemoryStore):
    """Takes nothing before it is back."""

    def __init__(self) -> None:
        super().__init__()
        self.is_back = asyncio.Event()
        self.settled: list[Outcome] = []

    async def settle(self, settlements: Sequence[tuple[Lease, Outcome]]) -> list[Settled]:
        await self.is_back.wait()
        self.settled += [outcome for _, outcome in settlements]
        return await super().settle(settlements)


def test_what_waits_is_bounded_and_forgotten_with_its_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 3)

    async def body() -> None:
        store = Away()
        settlements = Settlements(store)
        one, two, three, four = await leases_of(store, 4)
        first = settlements.submit([(one, COMPLETE)])
        await asyncio.sleep(0)
        gone = settlements.submit([(two, COMPLETE)])
        back = settlements.submit([(three, RELEASE)])
        with pytest.raises(StoreUnavailableError, match="3 outcomes wait"):
            await settlements.submit([(four, COMPLETE)])
        gone.cancel()
        back.cancel()
        last = settlements.submit([(four, COMPLETE)])
        store.is_back.set()
        await asyncio.gather(first, last)
        assert store.settled == [COMPLETE, RELEASE, COMPLETE]
        assert settlements._size == 0

    run(body)


def test_those_who_wait_are_told_when_the_database_is_given_up() -> None:
    async def body() -> None:
        store = Away()
        settlements = Settlements(store)
        one, two = await leases_of(store, 2)
        first = settlements.submit([(one, COMPLETE)])
        await asyncio.sleep(0)
        second = settlements.submit([(two, COMPLETE)])
        settlements.give_up()
        for asked in (first, second):
            with pytest.raises(StoreUnavailableError, match="does not answer"):
                await asked
        store.is_back.set()
        await settlements.close()

    run(body)
