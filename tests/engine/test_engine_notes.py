"""What a job says of itself is stored before its outcome, however quickly it ends."""

from __future__ import annotations

import asyncio

import pytest

from tests.engine.engine_kit import Bench, virtual
from windlass import Context, SyncContext
from windlass.errors import StoreClosedError


@virtual
async def test_everything_a_quick_job_says_is_kept(bench: Bench) -> None:
    @bench.app.task(keep=60)
    async def talk(ctx: Context) -> None:
        for number in range(5):
            ctx.log(f"line {number}")
            ctx.progress(number / 10)
        await asyncio.sleep(0)
        ctx.log("last")

    await bench.start()
    jobs = [await talk.aenqueue() for _ in range(20)]
    done = [await bench.app.client.wait_for(job.id, timeout=5) for job in jobs]
    lines = ("line 0", "line 1", "line 2", "line 3", "line 4", "last")
    assert {job.log for job in done} == {lines}
    assert {job.progress.fraction for job in done if job.progress} == {0.4}


@virtual
async def test_a_plain_function_talks_too(bench: Bench) -> None:
    @bench.app.task(keep=60)
    def talk(ctx: SyncContext) -> None:
        ctx.log("one")
        ctx.log("two")

    await bench.start()
    job = await talk.aenqueue()
    done = await bench.app.client.wait_for(job.id, timeout=5)
    assert done.log == ("one", "two")


@virtual
async def test_a_worker_whose_store_is_closed_ends(bench: Bench) -> None:
    @bench.app.task
    async def idle() -> None: ...

    fatal: list[BaseException] = []
    bench.app.events.on("worker:fatalError", lambda worker, error, job_error: fatal.append(error))
    bench.app.store = bench.ledger
    runner = await bench.app.run(handle_signals=False)
    await bench.ledger.close()
    with pytest.raises(StoreClosedError):
        await runner.wait()
    assert len(fatal) == 1
