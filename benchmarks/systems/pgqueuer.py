"""pgqueuer: asyncpg, batches of a configurable size, one connection as its tuning page says."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from benchmarks.systems.base import Seen, System, python_command, python_versions

BULK = 1_000
"""Jobs per call of `enqueue`."""


class Side:
    def __init__(self, url: str, options: dict[str, Any]) -> None:
        self._url = url
        self._batch: int = options["batch_size"]
        self._manager: Any = None

    async def install(self) -> None:
        import asyncpg
        from pgqueuer.db import AsyncpgDriver
        from pgqueuer.queries import Queries

        connection = await asyncpg.connect(self._url)
        await Queries(AsyncpgDriver(connection)).install()
        await connection.close()

    async def open(self, callers: int) -> None:
        import asyncpg
        from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
        from pgqueuer.queries import Queries

        self._connection: Any
        if callers == 1:
            self._connection = await asyncpg.connect(self._url)
            self._queries = Queries(AsyncpgDriver(self._connection))
        else:
            self._connection = await asyncpg.create_pool(self._url, min_size=1, max_size=callers)
            self._queries = Queries(AsyncpgPoolDriver(self._connection))

    async def add_bulk(self, first: int, count: int, size: int) -> None:
        last = first + count
        for start in range(first, last, size):
            batch = range(start, min(start + size, last))
            await self._queries.enqueue(
                ["noop"] * len(batch),
                [b'{"id": %d}' % number for number in batch],
                [0] * len(batch),
            )

    async def add_one(self, number: int) -> None:
        await self._queries.enqueue("noop", b'{"id": %d}' % number)

    async def close(self) -> None:
        await self._connection.close()

    async def work(self, seen: Seen | None, ready: Callable[[], None]) -> None:
        import asyncpg
        from pgqueuer import PgQueuer
        from pgqueuer.db import AsyncpgDriver

        connection = await asyncpg.connect(self._url)
        self._manager = PgQueuer(AsyncpgDriver(connection))

        async def noop(job: Any) -> None: ...

        async def stamp(job: Any) -> None:
            assert seen is not None
            seen(json.loads(job.payload)["id"])

        self._manager.entrypoint("noop")(noop if seen is None else stamp)
        ready()
        await self._manager.run(batch_size=self._batch)
        await connection.close()

    async def stop(self) -> None:
        if self._manager is not None:
            self._manager.shutdown.set()


def _system(name: str, batch: int) -> System:
    return System(
        name=name,
        settings=(
            f"`batch_size={batch}`, one connection, durable tables, uvloop;"
            f" bulk = `enqueue` of lists, {BULK:,} a call"
        ),
        remaining="SELECT count(*) FROM pgqueuer",
        command=python_command("pgqueuer"),
        versions=python_versions("pgqueuer", "asyncpg", "uvloop"),
        rate=12_000,
        bulk=(BULK,),
        bulk_rate=35_000,
        options={"batch_size": batch},
    )


BY_100 = _system("pgqueuer, batch 100", 100)
BY_500 = _system("pgqueuer, batch 500", 500)
