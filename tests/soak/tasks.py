"""The app of the worker processes: each handler tells the ledger when it starts and how it ends.

Jobs carry a number `n`, which the ledger knows them by. What is measured rather than checked (cost,
delays of probes) goes to a second, much shorter file, which the sampler reads during the run.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.faults.ledger import record
from tests.soak.tether import end_with_parent
from windlass import App, Context, Retry
from windlass.errors import StoreError
from windlass.tasks.context import SyncContext

LEDGER = os.environ.get("LEDGER", "ledger.jsonl")
FIGURES = os.environ.get("FIGURES", "figures.jsonl")
PLANT = os.environ.get("SOAK_PLANT", "")
"""A leak on purpose, which the rig must find: "descriptors" or "memory"."""
COST_EVERY = float(os.environ.get("SOAK_COST_EVERY", "0"))
"""Seconds between two notes of what jobs cost this worker; 0 is never."""

STEPS = 100
"""SQLite's instructions are counted in portions of this size."""

app = App()

_mark = "%s" if app.settings.url.startswith("postgres") else "?"
_INSERT_EFFECT = f"INSERT INTO effects (job, n) VALUES ({_mark}, {_mark})"
_leaked: list[Any] = []


class Meter:
    """Counts what SQLite executes on the connections of this process."""

    def __init__(self) -> None:
        self.instructions = 0

    def install(self) -> None:
        """Watch every connection that is opened from now on."""
        connect = sqlite3.connect

        def watched(*args: Any, **options: Any) -> sqlite3.Connection:
            connection: sqlite3.Connection = connect(*args, **options)
            connection.set_progress_handler(self._count, STEPS)
            return connection

        sqlite3.connect = watched  # type: ignore[assignment]

    def _count(self) -> int:
        self.instructions += STEPS
        return 0


meter = Meter()


class Wanted(Exception):
    """What handlers raise that are meant to fail."""


@contextmanager
def told(ctx: Context, n: int) -> Iterator[None]:
    """Tell the ledger of a delivery: its start, and its end whatever it is."""
    job = ctx.job
    who = {"job": job.id, "delivery": job.deliveries, "n": n, "task": job.task}
    if job.queue is not None:
        who["queue"] = job.queue
    record(LEDGER, "start", attempt=job.attempts, key=job.key, **who)
    how = "stopped"
    try:
        yield
        how = "done"
    except Exception:
        how = "error"
        raise
    finally:
        record(LEDGER, "end", how=how, **who)


@app.task
async def quick(ctx: Context, n: int) -> None:
    with told(ctx, n):
        if PLANT == "descriptors" and n % 5 == 0:
            _leaked.append(os.open("/dev/null", os.O_RDONLY))
        if PLANT == "memory":
            _leaked.append(b"x" * 50_000)


@app.task
async def nap(ctx: Context, n: int, seconds: float) -> None:
    with told(ctx, n):
        await asyncio.sleep(seconds)


@app.task
async def later(ctx: Context, n: int) -> None:
    with told(ctx, n):
        pass


@app.task
async def in_line(ctx: Context, n: int) -> None:
    with told(ctx, n):
        await asyncio.sleep(0.002)


@app.task
async def keyed(ctx: Context, n: int) -> None:
    with told(ctx, n):
        await asyncio.sleep(0.01)


@app.task(retry=Retry.fixed(0.3), max_attempts=1000)
async def flaky(ctx: Context, n: int) -> None:
    """Fails the first time."""
    with told(ctx, n):
        if ctx.job.attempts == 1:
            raise Wanted(f"{n}")


@app.task(retry=Retry.fixed(0.3), max_attempts=2)
async def hopeless(ctx: Context, n: int) -> None:
    with told(ctx, n):
        raise Wanted(f"{n}")


@app.task(keep=5.0)
async def kept(ctx: Context, n: int) -> dict[str, int]:
    """Its outcome is kept for a short time, with progress and log."""
    with told(ctx, n):
        ctx.progress(0.5, f"half of {n}")
        ctx.log({"n": n})
        await asyncio.sleep(0.005)
        ctx.progress(1.0)
    return {"n": n}


@app.task(retry=Retry.fixed(0.3), max_attempts=1000)
async def effect(ctx: Context, n: int) -> None:
    """A row and the job's completion together; every tenth adds a job in the same transaction."""
    with told(ctx, n):
        async with ctx.transaction() as tx:
            await tx.execute(_INSERT_EFFECT, (ctx.job.id, n))
            if n > 0 and n % 10 == 0:
                await ctx.add_job("effect", {"n": -n})
            await tx.complete()


@app.task(retry=Retry.fixed(0.3), max_attempts=1000)
def plain_effect(ctx: SyncContext, n: int) -> None:
    with told(ctx, n):
        with ctx.transaction() as tx:
            tx.execute(_INSERT_EFFECT, (ctx.job.id, n))
            tx.complete()


@app.task
async def fan_out(ctx: Context, n: int) -> object:
    """Three chains, one of which takes two steps, and a job that waits for all of them."""
    with told(ctx, n):
        parts = [ctx.start(part, n=n, left=number // 2) for number in range(3)]
        return ctx.continue_with(merge.using(blockers=parts), n=n)


@app.task
async def part(ctx: Context, n: int, left: int) -> object:
    with told(ctx, n):
        return ctx.continue_with(part, n=n, left=left - 1) if left else n


@app.task(retry=Retry.fixed(0.3), max_attempts=1000)
async def merge(ctx: Context, n: int) -> None:
    """What its blockers returned is written once, with the end of the chain."""
    with told(ctx, n):
        outputs = {chain.output for chain in ctx.blockers}
        if outputs != {n}:
            record(LEDGER, "wrong", job=ctx.job.id, output=sorted(map(str, outputs)))
        async with ctx.transaction() as tx:
            await tx.execute(_INSERT_EFFECT, (ctx.job.id, n))
            await tx.complete()


@app.task
async def idle(ctx: Context, n: int) -> None:
    """Scheduled for much later and ended by an operator: it must never start."""
    with told(ctx, n):
        pass


@app.task
async def probe(sent_at: float) -> None:
    record(FIGURES, "probe", delay=time.monotonic() - sent_at)


@app.cron("* * * * *", id="minute", payload={"name": "minute"})
@app.cron("*/2 * * * *", id="even", payload={"name": "even"}, fill="1h")
@app.cron("* * * * *", id="restless", payload={"name": "restless"})
@app.task
async def tick(ctx: Context, name: str) -> None:
    cron = ctx.job.payload["_cron"]
    who = {"job": ctx.job.id, "delivery": ctx.job.deliveries}
    record(LEDGER, "tick", name=name, ts=cron["ts"], **who)


def cost() -> int:
    """Statements that were sent to PostgreSQL, or instructions that SQLite executed, so far."""
    statements: int | None = getattr(app.store, "statements", None)
    return meter.instructions if statements is None else statements


async def tell_cost(runner: Any) -> None:
    while True:
        record(FIGURES, "cost", cost=cost(), settled=runner.worker.completed)
        await asyncio.sleep(COST_EVERY)


def hear_endings() -> None:
    """Tell the ledger of settlements that were applied and ended their jobs."""

    def tell(event: str) -> None:
        def on_ending(job: Any, **_: Any) -> None:
            record(LEDGER, event, job=job.id, delivery=job.deliveries)

        app.events.on(f"job:{event}", on_ending)

    tell("success")
    tell("failed")


async def open_app() -> None:
    """Wait for a database that is away, as `windlass run` does."""
    while True:
        try:
            return await app.open()
        except StoreError as error:
            if not getattr(error, "is_temporary", False):
                raise
        await asyncio.sleep(0.2)


async def main() -> None:
    end_with_parent()
    logging.basicConfig(level="WARNING")
    hear_endings()
    if COST_EVERY and _mark == "?":
        meter.install()
    await open_app()
    async with app:
        runner = await app.run()
        record(FIGURES, "ready")
        telling = asyncio.create_task(tell_cost(runner)) if COST_EVERY else None
        await runner.wait()
        if telling is not None:
            telling.cancel()


if __name__ == "__main__":
    asyncio.run(main())
