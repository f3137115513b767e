"""huey on SQLite: one thread, no results. It adds jobs one by one only."""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Callable
from typing import Any

from benchmarks.systems.base import Seen, System, python_command, python_versions


class Side:
    def __init__(self, url: str, options: dict[str, Any]) -> None:
        logging.getLogger("huey").setLevel(logging.ERROR)
        # By name, because it is not in the environment that the types are checked in.
        huey = importlib.import_module("huey")
        self._huey = huey.SqliteHuey(filename=url, results=False, fsync=options["fsync"])
        self._stopping = asyncio.Event()

    def _task(self, seen: Seen | None = None) -> Any:
        def noop(id: int) -> None: ...

        def stamp(id: int) -> None:
            assert seen is not None
            seen(id)

        return self._huey.task(name="noop")(noop if seen is None else stamp)

    async def install(self) -> None:
        """The tables are made when the file is opened."""
        self._huey.storage.close()

    async def open(self, callers: int) -> None:
        self._noop = self._task()

    async def add_bulk(self, first: int, count: int, size: int) -> None:
        for number in range(first, first + count):
            self._noop(number)

    async def add_one(self, number: int) -> None:
        self._noop(number)

    async def close(self) -> None:
        self._huey.storage.close()

    async def work(self, seen: Seen | None, ready: Callable[[], None]) -> None:
        self._task(seen)
        consumer = self._huey.create_consumer(
            workers=1, periodic=False, initial_delay=0.01, max_delay=0.05
        )
        consumer.start()
        ready()
        await self._stopping.wait()
        await asyncio.to_thread(consumer.stop, graceful=True)

    async def stop(self) -> None:
        self._stopping.set()


def _system(name: str, fsync: bool, told: str, rate: int) -> System:
    return System(
        name=name,
        settings=(
            f"SQLite, `fsync={fsync}` ({told}), one thread, `results=False`,"
            " polls every 10 to 50 ms; jobs are added one by one"
        ),
        remaining="SELECT count(*) FROM task",
        command=python_command("huey"),
        versions=python_versions("huey"),
        rate=rate,
        bulk=(1,),
        options={"fsync": fsync},
    )


DURABLE = _system("huey, fsync", True, "as by default: SQLite's own is the same", 3_000)
UNSAFE = _system("huey, no fsync", False, "less durable than the others", 5_000)
