"""The app the fault tests run in worker processes; everything it does goes to the ledger."""

from __future__ import annotations

import asyncio
import logging
import os
import time

from tests.faults.ledger import record
from windlass import App, Context

LEDGER = os.environ.get("LEDGER", "ledger.jsonl")

app = App()


def _start(ctx: Context) -> None:
    job = ctx.job
    record(LEDGER, "start", job=job.id, delivery=job.deliveries, attempt=job.attempts)


def _end(ctx: Context) -> None:
    record(LEDGER, "end", job=ctx.job.id, delivery=ctx.job.deliveries)


@app.task
async def nap(ctx: Context, seconds: float) -> None:
    _start(ctx)
    await asyncio.sleep(seconds)
    _end(ctx)


@app.task
async def block(ctx: Context, seconds: float) -> None:
    """Blocks the event loop, which no handler should do."""
    _start(ctx)
    time.sleep(seconds)
    _end(ctx)


@app.task(queue="line")
async def one_at_a_time(ctx: Context, n: int) -> None:
    _start(ctx)
    await asyncio.sleep(0)
    _end(ctx)


@app.task
async def die(ctx: Context) -> None:
    _start(ctx)
    os._exit(9)


@app.task
async def quick(n: int) -> None:
    pass


async def main() -> None:
    app.events.on("gracefulShutdown", lambda signal: record(LEDGER, "signal", name=signal))
    logging.basicConfig(level="WARNING")
    async with app:
        runner = await app.run()
        record(LEDGER, "ready")
        await runner.wait()
        record(LEDGER, "stopped")


if __name__ == "__main__":
    asyncio.run(main())
