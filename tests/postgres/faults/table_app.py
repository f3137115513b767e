"""What the fault tests of a user's own table run in processes; what it does goes to the ledger."""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.ledger import record as write
from windlass import Context, Resetter, Worker, WorkerOptions, run_all
from windlass.table import TableOptions, TableStore
from windlass.worker import Routine

LEDGER = os.environ.get("LEDGER", "ledger.jsonl")
STALL = 1.0
INTERVAL = 0.3


@dataclass
class Job:
    id: int
    kind: str


class EffectHandler:
    """One row of `effects` and the record's completion, together."""

    transactional = True

    async def handle(self, ctx: Context, store: Any, record: Job) -> None:
        write(LEDGER, "start", job=record.id)
        await store.execute("INSERT INTO effects VALUES (%s)", [record.id])
        match record.kind:
            case "nap":
                await asyncio.sleep(600)
            case "gate":
                while not Path(os.environ["GATE"]).exists():
                    await asyncio.sleep(0.01)

    def post_handle(self, ctx: Context, record: Job) -> None:
        write(LEDGER, "end", job=record.id)


class Ready:
    """A routine like any other: it says when those before it have started."""

    def __init__(self) -> None:
        self._stopping = asyncio.Event()

    async def start(self) -> None:
        write(LEDGER, "ready")

    async def wait(self) -> None:
        await self._stopping.wait()

    async def stop(self) -> None:
        write(LEDGER, "stopping")
        self._stopping.set()

    def hurry(self) -> None:
        pass


async def main() -> None:
    logging.basicConfig(level="WARNING")
    options = TableOptions(
        name="jobs",
        table_name="jobs",
        scan=Job,
        max_num_retries=1000,
        retry_after=0.2,
        stalled_max_age=STALL,
        max_num_resets=1,
    )
    async with TableStore(os.environ["TABLE_URL"], options) as store:
        worker = Worker(
            store,
            EffectHandler(),
            WorkerOptions(
                name="w",
                interval=0.1,
                num_handlers=4,
                reset_interval=None,
                grace=float(os.environ.get("GRACE", "20")),
            ),
        )
        routines: dict[str, Routine] = {"worker": worker, "resetter": Resetter(store, INTERVAL)}
        wanted = os.environ["ROUTINES"].split()
        await run_all(*(routines[name] for name in wanted), Ready())
    write(LEDGER, "stopped")


if __name__ == "__main__":
    asyncio.run(main())
