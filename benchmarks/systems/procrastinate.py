"""procrastinate: psycopg, one job per fetch, LISTEN/NOTIFY."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from benchmarks.systems.base import Seen, System, python_command, python_versions

BULK = 1_000
"""Jobs per call of `batch_defer_async`."""
CONCURRENCY = 10


class Side:
    def __init__(self, url: str, options: dict[str, Any]) -> None:
        import procrastinate

        self._app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))
        self._stopping = asyncio.Event()

    def _task(self, seen: Seen | None = None) -> Any:
        async def noop(id: int) -> None: ...

        async def stamp(id: int) -> None:
            assert seen is not None
            seen(id)

        return self._app.task(name="noop")(noop if seen is None else stamp)

    async def install(self) -> None:
        async with self._app.open_async():
            await self._app.schema_manager.apply_schema_async()

    async def open(self, callers: int) -> None:
        self._noop = self._task()
        await self._app.open_async()

    async def add_bulk(self, first: int, count: int, size: int) -> None:
        last = first + count
        for start in range(first, last, size):
            batch = range(start, min(start + size, last))
            await self._noop.batch_defer_async(*({"id": number} for number in batch))

    async def add_one(self, number: int) -> None:
        await self._noop.defer_async(id=number)

    async def close(self) -> None:
        await self._app.close_async()

    async def work(self, seen: Seen | None, ready: Callable[[], None]) -> None:
        self._task(seen)
        async with self._app.open_async():
            worker = asyncio.ensure_future(
                self._app.run_worker_async(
                    concurrency=CONCURRENCY,
                    delete_jobs="always",
                    listen_notify=True,
                    install_signal_handlers=False,
                )
            )
            ready()
            stopping = asyncio.ensure_future(self._stopping.wait())
            await asyncio.wait({worker, stopping}, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)

    async def stop(self) -> None:
        self._stopping.set()


SYSTEM = System(
    name="procrastinate",
    settings=(
        f"`concurrency={CONCURRENCY}`, `delete_jobs=always`, LISTEN on, uvloop;"
        f" bulk = `batch_defer_async`, {BULK:,} a call"
    ),
    remaining="SELECT count(*) FROM procrastinate_jobs",
    command=python_command("procrastinate"),
    versions=python_versions("procrastinate", "psycopg", "uvloop"),
    rate=500,
    bulk=(BULK,),
    bulk_rate=8_000,
)
