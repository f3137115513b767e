"""The tasks of the demo; its workers run `windlass run windlass.cli.demo.tasks:app`."""

from __future__ import annotations

import asyncio
from typing import Any

from windlass import App, Context, Retry
from windlass.clock import SYSTEM

app = App(keep=600)


@app.task
async def greet(number: int) -> str:
    """A little work."""
    await asyncio.sleep(0.1)
    return f"hello {number}"


@app.task(retry=Retry.fixed(1.0), max_attempts=5)
async def stubborn(ctx: Context) -> str:
    """Fails twice, then gives in."""
    if ctx.job.attempts < 3:
        raise ConnectionError(f"the printer is busy (attempt {ctx.job.attempts})")
    return "printed"


@app.task(queue="till")
async def serve(ctx: Context, customer: int) -> list[float | str]:
    """Only one at a time: says when it began and ended, and who did it."""
    began = SYSTEM.monotonic()
    await asyncio.sleep(0.15)
    return [began, SYSTEM.monotonic(), ctx.worker_id]


@app.task
async def bake(ctx: Context) -> str:
    """Long enough to be killed half-way."""
    await asyncio.sleep(1.5)
    return ctx.worker_id


@app.task
async def water(ctx: Context, _cron: dict[str, Any]) -> list[str | bool]:
    """Runs by the clock: says for which instant, whether that was missed, and who did it."""
    return [_cron["ts"], _cron["backfilled"], ctx.worker_id]
