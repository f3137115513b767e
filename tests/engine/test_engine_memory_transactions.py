"""`ctx.transaction()` on the store in memory: settlement and jobs together, without SQL."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.engine.engine_kit import Bench, virtual, wait_until
from windlass import Context, JobState
from windlass.errors import ConfigError, LeaseLostError
from windlass.model.job import JobSpec
from windlass.store.records import COMPLETE, ClaimRequest, Lease, NewJob
from windlass.stores.memory import MemoryStore
from windlass.testing import FakeClock


async def claimed(store: MemoryStore, **options: Any) -> Lease:
    await store.enqueue([NewJob("t", **options)])
    [lease] = await store.claim(ClaimRequest(worker="w", tasks=("t",), limit=1))
    return lease


@virtual
async def test_a_handler_completes_and_adds_in_one_step(bench: Bench) -> None:
    @bench.app.task(keep=60)
    async def t(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            first = await ctx.add_job("later", {"n": 1}, delay=60)
            [second] = await ctx.add_jobs([JobSpec("later", {"n": 2}, delay=60)])
            bench.seen += [await bench.ledger.get(job.id) for job in (first, second)]
            await tx.complete("done")
        bench.seen += [(await bench.get(job)) == job for job in (first, second)]

    job = await t.aenqueue()
    await bench.start()
    done = await bench.app.client.wait_for(job.id)
    await wait_until(lambda: len(bench.seen) == 4)  # the handler goes on after its commit
    assert (done.output, bench.seen) == ("done", [None, None, True, True])


@virtual
async def test_a_handler_that_raises_has_written_nothing(bench: Bench) -> None:
    @bench.app.task(max_attempts=1)
    async def t(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            await ctx.add_job("later")
            await tx.complete()
            raise ValueError("no")

    job = await t.aenqueue()
    await bench.start()
    await bench.idle()
    assert (await bench.get(job)).state is JobState.FAILED
    assert await bench.app.client.list_jobs(task="later") == []


@virtual
async def test_sql_in_a_transaction_is_one_clear_error(bench: Bench) -> None:
    @bench.app.task(max_attempts=1)
    async def t(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            await tx.execute("select 1")

    job = await t.aenqueue()
    await bench.start()
    await bench.idle()
    assert "memory:// has no SQL; use a sqlite:///" in ((await bench.get(job)).last_error or "")


def test_a_lease_lost_before_the_end_of_the_block_undoes_everything() -> None:
    async def body() -> None:
        clock = FakeClock()
        store = MemoryStore(clock)
        lease = await claimed(store)
        with pytest.raises(LeaseLostError, match="nothing of its transaction was written"):
            with store.transaction(lease) as tx:
                store.joined(tx.connection).enqueue([NewJob("later")])
                tx.complete(COMPLETE)
                clock.advance(30)
                await store.reap(10, 5)
        counts = await store.counts()
        assert (counts[JobState.READY], sum(counts.values())) == (1, 1)

    asyncio.run(body())


def test_jobs_with_one_key_are_answered_as_they_will_be() -> None:
    async def body() -> None:
        store = MemoryStore(FakeClock())
        lease = await claimed(store, key="running")
        [waiting] = await store.enqueue([NewJob("u", key="waiting")])
        with store.transaction(lease) as tx:
            jobs = store.joined(tx.connection).enqueue(
                [
                    NewJob("u", key="running", priority=1),
                    NewJob("u", key="waiting", priority=2),
                    NewJob("u", key="waiting", key_mode="unsafe_dedupe"),
                    NewJob("u", key="new", priority=3),
                    NewJob("u", key="new", priority=4),
                ]
            )
            assert await store.get(waiting.id) == waiting
        assert jobs[1].id == jobs[2].id == waiting.id
        assert jobs[3].id == jobs[4].id
        for job in (jobs[0], jobs[2], jobs[4]):
            assert await store.get(job.id) == job

    asyncio.run(body())


def test_a_transaction_that_has_ended_takes_no_job() -> None:
    async def body() -> None:
        store = MemoryStore(FakeClock())
        lease = await claimed(store)
        with store.transaction(lease) as tx:
            pass
        with pytest.raises(ConfigError, match="has ended"):
            await store.joined(tx.connection).aenqueue([NewJob("later")])
        with pytest.raises(ConfigError, match="no transactions to join"):
            MemoryStore(FakeClock()).joined(tx.connection)

    asyncio.run(body())
