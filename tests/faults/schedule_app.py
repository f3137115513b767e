"""The app whose workers fire schedules under a clock the test sets; see `schedule_kit`."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.faults import fail_points
from tests.faults.ledger import record
from tests.faults.shifting import ShiftedClock
from windlass import App, Context
from windlass.engine import scheduler as engine
from windlass.engine.scheduler import Scheduler

LEDGER = os.environ["LEDGER"]

clock = ShiftedClock(os.environ["SHIFT"])
app = App(clock=clock)


@app.task
async def tick(ctx: Context, name: str) -> None:
    record(LEDGER, "tick", name=name, ts=ctx.job.payload["_cron"]["ts"])


@app.task
async def bare(name: str) -> None:
    pass


def tell_rests() -> None:
    """Record when this worker's scheduler finds nothing more to fire, once for each setting of
    the clock: what it did not fire until then, it does not fire at that time."""
    step = Scheduler.step
    told = 0

    async def watched_step(scheduler: Scheduler) -> float | None:
        nonlocal told
        setting = clock.setting
        pause = await step(scheduler)
        if pause and told != setting == clock.setting:
            told = setting
            record(LEDGER, "rest", setting=setting)
        return pause

    Scheduler.step = watched_step  # type: ignore[method-assign,assignment]


def on_scheduled(schedule: Any, instants: Sequence[datetime], **_: Any) -> None:
    shown = [instant.isoformat().replace("+00:00", "Z") for instant in instants]
    record(LEDGER, "won", name=schedule.identifier, instants=shown)


def is_worth_a_line(line: logging.LogRecord) -> bool:
    """What is said about schedules, and warnings; not each of a hundred thousand jobs."""
    return line.levelno > logging.INFO or str(line.msg).startswith("schedule")


async def main() -> None:
    logging.basicConfig(level="INFO")
    logging.getLogger().handlers[0].addFilter(is_worth_a_line)
    engine.PROGRESS_EVERY = 0.3
    tell_rests()
    fail_points.install(Path(os.environ["FAIL_POINT"]), LEDGER)
    app.events.on("cron:scheduled", on_scheduled)
    async with app:
        runner = await app.run()
        await runner.wait()


if __name__ == "__main__":
    asyncio.run(main())
