"""The app the fault tests run in worker processes; everything it does goes to the ledger."""

from __future__ import annotations

import asyncio
import logging
import os

from tests.faults.ledger import record
from windlass import App, Context, Retry
from windlass.tasks.context import SyncContext

LEDGER = os.environ.get("LEDGER", "ledger.jsonl")

app = App()


def _start(ctx: Context) -> None:
    job = ctx.job
    record(LEDGER, "start", job=job.id, delivery=job.deliveries, attempt=job.attempts)


def _end(ctx: Context) -> None:
    record(LEDGER, "end", job=ctx.job.id, delivery=ctx.job.deliveries)


@app.task
async def nap(ctx: Context, seconds: float, again: float | None = None) -> None:
    """Sleep, if it is not the first time for `again` seconds."""
    _start(ctx)
    try:
        await asyncio.sleep(seconds if again is None or ctx.job.deliveries == 1 else again)
    except asyncio.CancelledError:
        record(LEDGER, "told", job=ctx.job.id, delivery=ctx.job.deliveries)
        raise
    _end(ctx)


@app.task(retry=Retry.fixed(0.2), max_attempts=1000)
async def effect(ctx: Context, n: int) -> None:
    """One row and the job's completion, together."""
    _start(ctx)
    async with ctx.transaction() as tx:
        await tx.execute("INSERT INTO effects (job, n) VALUES (%s, %s)", (ctx.job.id, n))
        await tx.complete()
    _end(ctx)


@app.task(retry=Retry.fixed(0.2), max_attempts=1000)
def plain_effect(ctx: SyncContext, n: int) -> None:
    _start(ctx)
    with ctx.transaction() as tx:
        tx.execute("INSERT INTO effects (job, n) VALUES (%s, %s)", (ctx.job.id, n))
        tx.complete()
    _end(ctx)


@app.task
async def in_line(ctx: Context, n: int) -> None:
    record(LEDGER, "start", job=ctx.job.id, delivery=ctx.job.deliveries, queue=ctx.job.queue)
    await asyncio.sleep(0)
    record(LEDGER, "end", job=ctx.job.id, delivery=ctx.job.deliveries, queue=ctx.job.queue)


@app.task
async def keyed(ctx: Context, n: int) -> None:
    record(LEDGER, "start", job=ctx.job.id, delivery=ctx.job.deliveries, key=ctx.job.key, n=n)


@app.task
async def quick(n: int) -> None:
    pass


async def main() -> None:
    app.events.on("gracefulShutdown", lambda signal: record(LEDGER, "signal", name=signal))
    logging.basicConfig(level=os.environ.get("LOG_LEVEL", "WARNING"))
    async with app:
        runner = await app.run()
        record(LEDGER, "ready")
        await runner.wait()
        record(LEDGER, "stopped")


if __name__ == "__main__":
    asyncio.run(main())
