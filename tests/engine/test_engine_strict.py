"""A strict queue in a running worker: what fails is tried until it is done, and the rest waits."""

from __future__ import annotations

import asyncio

from tests.engine.engine_kit import Bench, virtual
from windlass import JobState, Retry
from windlass.testing import drain


def _ledger(bench: Bench, *, failures: dict[int, int], strict: bool = True) -> None:
    """A task that notes each entry; an entry fails as often as `failures` says before."""

    @bench.app.task(queue="ledger", strict=strict, retry=Retry.fixed(10), max_attempts=3)
    async def book(n: int) -> None:
        bench.seen.append(n)
        if failures.get(n, 0) > 0:
            failures[n] -= 1
            raise ConnectionError("not now")

    @bench.app.task
    async def free() -> None:
        bench.seen.append("free")


@virtual
async def test_the_order_is_kept_through_retries(bench: Bench) -> None:
    _ledger(bench, failures={1: 2})
    for n in range(3):
        await bench.add("book", {"n": n})
    await bench.start()
    await asyncio.sleep(1)
    await bench.add("free")
    await bench.add("book", {"n": 3}, priority=-5)
    await asyncio.sleep(60)
    assert bench.seen == [0, 1, "free", 1, 1, 3, 2]
    assert await bench.app.client.list_jobs() == []


@virtual
async def test_without_strict_the_others_go_on(bench: Bench) -> None:
    _ledger(bench, failures={1: 2}, strict=False)
    for n in range(3):
        await bench.add("book", {"n": n})
    await bench.start()
    await asyncio.sleep(60)
    assert bench.seen == [0, 1, 2, 1, 1]


@virtual
async def test_failed_for_good_it_holds_until_an_operator_decides(bench: Bench) -> None:
    _ledger(bench, failures={0: 5})
    first, *_ = [await bench.add("book", {"n": n}) for n in range(2)]
    await bench.start()
    await asyncio.sleep(3_000)
    assert bench.seen == [0, 0, 0]
    assert (await bench.get(first)).state is JobState.FAILED
    await bench.app.client.retry_jobs([first.id])
    await asyncio.sleep(3)
    assert bench.seen == [0] * 4, "its retry goes first, and it still holds"
    await bench.app.client.complete_jobs([first.id])
    await asyncio.sleep(3)
    assert bench.seen == [0, 0, 0, 0, 1]


@virtual
async def test_one_tenants_strict_queue_holds_up_no_others(bench: Bench) -> None:
    _ledger(bench, failures={0: 1})
    acme = bench.app.client.for_tenant("acme")
    for client in (acme, bench.app.client):
        for n in (0, 1):
            await client.add_job("book", {"n": n + (10 if client is acme else 0)})
    await bench.start()
    await asyncio.sleep(3)
    assert sorted(bench.seen) == [0, 10, 11]
    await asyncio.sleep(10)
    assert sorted(bench.seen) == [0, 0, 1, 10, 11]


@virtual
async def test_a_worker_that_stops_while_it_holds_leaves_the_hold(bench: Bench) -> None:
    _ledger(bench, failures={0: 1})
    for n in range(2):
        await bench.add("book", {"n": n})
    runner = await bench.start()
    await asyncio.sleep(1)
    await runner.stop()
    await bench.start()
    await asyncio.sleep(5)
    assert bench.seen == [0]
    await asyncio.sleep(10)
    assert bench.seen == [0, 0, 1]


@virtual
async def test_a_drain_ends_though_a_queue_is_held(bench: Bench) -> None:
    _ledger(bench, failures={0: 1})
    for n in range(2):
        await bench.add("book", {"n": n})
    assert len(await drain(bench.app)) == 1
    assert len(await drain(bench.app, include_scheduled=True)) == 2
    assert bench.seen == [0, 0, 1]
