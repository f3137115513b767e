"""Bare SQL: not a system but the limit, the statements that `windlass bench` calls that.

One table, batches of 500, one connection for each process; no retries, leases, keys or queues.
"""

from __future__ import annotations

import asyncio
import select
import time
from collections.abc import Callable
from typing import Any

from benchmarks.systems.base import Seen, System, python_command, python_versions

BATCH = 500
SCHEMA = "bare"
NOTIFY = (
    f"""
    CREATE FUNCTION {SCHEMA}.tell() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN PERFORM pg_notify('{SCHEMA}', ''); RETURN NULL; END $$
    """,
    f"CREATE TRIGGER tell AFTER INSERT ON {SCHEMA}.bare_jobs EXECUTE FUNCTION {SCHEMA}.tell()",
    f"LISTEN {SCHEMA}",
)
"""What a worker does that waits for jobs: only where latency is measured."""


class Side:
    def __init__(self, url: str, options: dict[str, Any]) -> None:
        from windlass.cli.bench.limit_postgres import PostgresLimit
        from windlass.cli.bench.site import Address

        self._address = Address(url, SCHEMA, "full")
        self._limit = PostgresLimit(self._address)
        self._stopping = False

    async def install(self) -> None:
        import psycopg

        with psycopg.connect(self._address.url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {SCHEMA}")
        self._limit.create()
        self._limit.close()

    async def open(self, callers: int) -> None: ...

    async def add_bulk(self, first: int, count: int, size: int) -> None:
        from windlass.cli.bench.limit import payloads

        last = first + count
        for start in range(first, last, size):
            self._limit.add(payloads(start, min(size, last - start)))

    async def add_one(self, number: int) -> None:
        self._limit.add_one(f'{{"id":{number}}}')

    async def close(self) -> None:
        self._limit.close()

    async def work(self, seen: Seen | None, ready: Callable[[], None]) -> None:
        if seen is None:
            ready()
            await asyncio.to_thread(self._work)
        else:
            await asyncio.to_thread(self._work_when_told, seen, ready)
        self._limit.close()

    def _work(self) -> None:
        while not self._stopping:
            if not self._limit.work(BATCH):
                time.sleep(0.0005)

    def _work_when_told(self, seen: Seen, ready: Callable[[], None]) -> None:
        """Nothing is between the notification and the claim: one connection has both.

        A notification may also come with the answer to a statement, and then psycopg reads it: the
        handler is told of it, and the socket will not show it. So each claim begins after the last
        notification was taken note of, and claims go on until one finds no job.
        """
        connection = self._limit.connection
        is_told = False

        def hear(_: object) -> None:
            nonlocal is_told
            is_told = True

        connection.add_notify_handler(hear)
        for statement in NOTIFY:
            connection.execute(statement)
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        ready()
        while not self._stopping:
            if not is_told and not poll.poll(100):
                continue
            connection.pgconn.consume_input()
            while connection.pgconn.notifies():
                pass
            is_told = False
            while self._limit.work(1, lambda payload: seen(payload["id"])):
                pass

    async def stop(self) -> None:
        self._stopping = True


SYSTEM = System(
    name="bare SQL",
    settings=f"the limit: one table, `INSERT … SELECT unnest`, claim, delete in batches of {BATCH}",
    remaining=f"SELECT count(*) FROM {SCHEMA}.bare_jobs",
    command=python_command("bare"),
    versions=python_versions("psycopg"),
    rate=100_000,
    bulk=(BATCH,),
    bulk_rate=120_000,
)
