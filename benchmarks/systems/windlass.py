"""Windlass, through public calls only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from benchmarks.systems.base import Seen, System, python_command, python_versions

BULK = (500, 2_000)
"""Jobs per call of `aenqueue_many`: as the bare statements have them, and more."""


class Side:
    def __init__(self, url: str, options: dict[str, Any]) -> None:
        from windlass import App

        self._app = App(url, log_level="warning")
        self._stopping = asyncio.Event()

    def _task(self, seen: Seen | None = None) -> Any:
        async def noop(id: int) -> None: ...

        async def stamp(id: int) -> None:
            assert seen is not None
            seen(id)

        return self._app.task(name="noop")(noop if seen is None else stamp)

    async def install(self) -> None:
        await self._app.migrate()
        await self._app.close()

    async def open(self, callers: int) -> None:
        self._noop = self._task()
        await self._app.open()

    async def add_bulk(self, first: int, count: int, size: int) -> None:
        last = first + count
        for start in range(first, last, size):
            batch = range(start, min(start + size, last))
            await self._noop.aenqueue_many({"id": number} for number in batch)

    async def add_one(self, number: int) -> None:
        await self._noop.aenqueue(id=number)

    async def close(self) -> None:
        await self._app.close()

    async def work(self, seen: Seen | None, ready: Callable[[], None]) -> None:
        self._task(seen)
        async with self._app:
            runner = await self._app.run()
            ready()
            await self._stopping.wait()
            await runner.stop()

    async def stop(self) -> None:
        self._stopping.set()


SYSTEM = System(
    name="windlass",
    settings=f"all defaults, uvloop; bulk = `aenqueue_many`, {BULK[1]:,} a call",
    remaining="SELECT count(*) FROM windlass.jobs",
    command=python_command("windlass"),
    versions=python_versions("windlass", "psycopg", "uvloop"),
    rate=50_000,
    bulk=BULK,
    bulk_rate=60_000,
    schema="windlass",
)
