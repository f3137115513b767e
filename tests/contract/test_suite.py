"""The suite's own machinery: the clock, the registry, the kit, and how a case is run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext

import pytest

from windlass.clock import Clock
from windlass.store.port import Store
from windlass.stores.memory import MemoryStore
from windlass.testing import contract
from windlass.testing.clock import START, FakeClock
from windlass.testing.contract.case import Group


def test_the_clock_stands_until_it_is_moved() -> None:
    clock = FakeClock()
    assert (clock.now(), clock.monotonic()) == (START, clock.monotonic())


def test_advance_moves_both_clocks() -> None:
    clock = FakeClock()
    ticks = clock.monotonic()
    clock.advance(1.5)
    assert (clock.now() - START, clock.monotonic() - ticks) == (1_500_000, 1.5)


def test_advance_does_not_go_back() -> None:
    clock = FakeClock()
    with pytest.raises(ValueError, match="jump"):
        clock.advance(-0.1)
    assert clock.now() == START


@pytest.mark.parametrize("seconds", [3600.0, -3600.0])
def test_jump_moves_the_wall_clock_only(seconds: float) -> None:
    clock = FakeClock()
    ticks = clock.monotonic()
    clock.jump(seconds)
    assert (clock.now() - START, clock.monotonic()) == (seconds * 1e6, ticks)


def test_threads_share_a_clock() -> None:
    clock = FakeClock()

    def tick() -> None:
        for _ in range(1000):
            clock.advance(0.001)

    threads = [threading.Thread(target=tick) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert clock.now() == START + 4_000_000


def test_a_case_is_named_after_its_module_and_function() -> None:
    group = Group("some.where.keys")

    @group
    async def first(kit: contract.Kit) -> None: ...

    @group.each(("a", "b"), ("c", "d"))
    async def family(kit: contract.Kit, one: str, two: str) -> None: ...

    assert [str(case) for case in group.cases] == [
        "keys.first",
        "keys.family[a-b]",
        "keys.family[c-d]",
    ]


def test_two_cases_cannot_share_a_name() -> None:
    group = Group("keys")

    async def twin(kit: contract.Kit) -> None: ...

    group(twin)
    with pytest.raises(ValueError, match="twin"):
        group(twin)


def test_a_wrong_store_is_told_by_an_assertion() -> None:
    class Forgetful(MemoryStore):
        async def promote(self, limit: int) -> int:
            return 0

    [case] = [c for c in contract.cases() if c.name == "a_due_job_is_promoted_on_the_microsecond"]
    with pytest.raises(AssertionError):
        contract.run(case, lambda clock: nullcontext(lambda: Forgetful(clock)))


def test_a_factory_may_be_an_async_context() -> None:
    steps: list[str] = []

    @asynccontextmanager
    async def fresh(clock: Clock) -> AsyncIterator[Callable[[], Store]]:
        steps.append("made")
        yield lambda: MemoryStore(clock)
        steps.append("dropped")

    group = Group("life")

    @group
    async def works(kit: contract.Kit) -> None:
        steps.append((await kit.add()).task)

    contract.run(group.cases[0], fresh)
    assert steps == ["made", "t", "dropped"]


def test_what_was_opened_is_closed() -> None:
    closed: list[Store] = []

    class Watched(MemoryStore):
        async def close(self) -> None:
            closed.append(self)
            await super().close()

    store = Watched()
    group = Group("life")

    @group
    async def fails(kit: contract.Kit) -> None:
        raise AssertionError("on purpose")

    with pytest.raises(AssertionError, match="on purpose"):
        contract.run(group.cases[0], lambda clock: nullcontext(lambda: store))
    assert closed == [store]


def test_a_store_that_is_not_shared_is_made_once() -> None:
    async def twice() -> None:
        kit = contract.Kit(MemoryStore, FakeClock())
        await kit.open()
        store = kit.store
        assert await kit.other() is store
        await kit.reopen()
        assert kit.store is store
        await kit.close()

    asyncio.run(twice())
