"""Fan-ins, for worker processes that are killed: each merge is written down with its job's end."""

from __future__ import annotations

import asyncio
import logging
import os

from tests.faults.ledger import record
from windlass import App, Context, Retry

LEDGER = os.environ.get("LEDGER", "ledger.jsonl")

app = App()


@app.task
async def fan_out(ctx: Context, n: int, parts: int) -> object:
    chains = [ctx.start(part, n=number) for number in range(parts)]
    return ctx.continue_with(merge.using(blockers=chains), n=n)


@app.task
async def part(n: int) -> int:
    return n


@app.task(retry=Retry.fixed(0.1), max_attempts=1000)
async def merge(ctx: Context, n: int) -> None:
    outputs = [blocker.output for blocker in ctx.blockers]
    assert outputs == list(range(len(outputs))), outputs
    async with ctx.transaction() as tx:
        await tx.execute(f"INSERT INTO merged VALUES ({int(n)}, {len(outputs)})")
        await tx.complete()


async def main() -> None:
    logging.basicConfig(level="WARNING")
    async with app:
        runner = await app.run()
        record(LEDGER, "ready")
        await runner.wait()


if __name__ == "__main__":
    asyncio.run(main())
