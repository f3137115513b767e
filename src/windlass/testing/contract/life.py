"""Opening, closing, the database's clock, hints."""

from __future__ import annotations

import asyncio
import threading

from windlass.errors import StoreClosedError
from windlass.model.cron import Schedule
from windlass.store.hints import SOON
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


SCHEDULES = ("enqueue", "replace", "reschedule", "retry", "fire")
"""Whatever gives a job a time to come."""


async def _schedule(kit: Kit, verb: str, seconds: float) -> list[float | None]:
    """What subscribers hear when a job is given a time that many seconds from now."""
    heard: list[float | None] = []
    if verb == "fire":
        [known] = await kit.store.register(
            [Schedule(identifier="s", task="t", pattern="* * * * *")]
        )
        kit.clock.advance(1.0)
    elif verb != "enqueue":
        job = await kit.add(key="k")
    lease = await kit.take() if verb == "retry" else None
    stop = kit.store.subscribe(lambda: None, due=heard.append)
    match verb:
        case "enqueue":
            await kit.add(run_at=kit.micros(seconds))
        case "replace":
            await kit.add(key="k", delay=round(seconds * 1e6))
        case "reschedule":
            await kit.store.reschedule([job.id], run_at=kit.micros(seconds))
        case "retry" if lease is not None:
            await kit.fail(lease, delay=seconds)
        case "fire":
            news = [kit.new(run_at=kit.micros(seconds))]
            await kit.store.fire("s", known.floor_at, kit.micros(), news)
    await kit.store.counts()  # a hint to this process comes before the answer to a later call
    stop()
    return heard


@case.each(*((verb,) for verb in SCHEDULES))
async def a_job_that_is_due_soon_is_told_of(kit: Kit, verb: str) -> None:
    heard = await _schedule(kit, verb, SOON)
    assert heard
    assert all(seconds is None or seconds == SOON for seconds in heard)


@case.each(*((verb,) for verb in SCHEDULES))
async def a_job_that_is_far_off_is_not_told_of(kit: Kit, verb: str) -> None:
    """A store that does not know the time may say so at any time, as it may give any hint."""
    heard = await _schedule(kit, verb, SOON + 0.001)
    assert [seconds for seconds in heard if seconds is not None] == []


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
