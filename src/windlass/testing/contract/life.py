"""Opening, closing, the database's clock, hints."""

from __future__ import annotations

import asyncio
import threading

from windlass.errors import StoreClosedError
from windlass.testing.contract.case import Group
from windlass.testing.contract.kit import Kit

case = Group(__name__)
CASES = case.cases

PATIENCE = 60.0
"""Seconds a hint may take before it counts as never given."""


@case
async def opening_again_changes_nothing(kit: Kit) -> None:
    job = await kit.add()
    await kit.store.open()
    assert await kit.get(job.id) == job


@case
async def a_second_store_sees_the_same_jobs(kit: Kit) -> None:
    job = await kit.add(payload='{"n":1}', flags=("a",), key="k")
    assert await (await kit.other()).get(job.id) == job


@case
async def now_is_the_clock_given(kit: Kit) -> None:
    before = await kit.store.now()
    assert before == kit.clock.now()
    kit.clock.advance(1.5)
    assert await kit.store.now() == before + 1_500_000


@case
async def a_closed_store_says_so(kit: Kit) -> None:
    store = await kit.other()
    await store.close()
    for verb in (store.enqueue([kit.new()]), store.promote(1), store.reap(1, 1)):
        try:
            await verb
        except StoreClosedError:
            continue
        raise AssertionError("a closed store answered")


@case
async def closing_twice_is_harmless(kit: Kit) -> None:
    store = await kit.other()
    await store.close()
    await store.close()


@case
async def an_enqueue_is_hinted(kit: Kit) -> None:
    hinted = threading.Event()
    stop = kit.store.subscribe(hinted.set)
    await kit.add()
    assert await asyncio.to_thread(hinted.wait, PATIENCE)
    stop()


@case
async def a_hint_may_be_stopped_twice(kit: Kit) -> None:
    heard: list[int] = []
    stop = kit.store.subscribe(lambda: heard.append(1))
    stop()
    stop()
    still = threading.Event()
    kit.store.subscribe(still.set)
    await kit.add()
    assert await asyncio.to_thread(still.wait, PATIENCE)
    assert heard == []
