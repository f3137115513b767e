"""A jobs table of a test's own, in a schema of its own, and what works on it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from tests.patience import PATIENCE
from tests.postgres.cluster import Cluster, fresh_schema
from windlass import Worker, WorkerOptions
from windlass.clock import SYSTEM, Clock
from windlass.store.records import ClaimRequest, Lease
from windlass.table import TableOptions, TableStore, ddl

T = TypeVar("T")

EXTRA = ("size integer NOT NULL DEFAULT 1", "title text NOT NULL DEFAULT 'untitled'")


class Desk:
    """A connection of the test's own to a schema; `url` leads workers to the same one."""

    def __init__(self, url: str, schema: str) -> None:
        self.plain_url = url
        self.schema = schema
        self.url = f"{url}&options=-csearch_path%3D{schema}"
        self.connection: psycopg.Connection[Any] = self.connect()

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(self.url, **{"autocommit": True, **options})

    def ask(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        cursor = self.connection.execute(statement.encode(), values or None)
        return cursor.fetchall() if cursor.description is not None else []

    def one(self, statement: str, *values: Any) -> Any:
        [[value]] = self.ask(statement, *values)
        return value

    def make(self, name: str = "jobs", extra: Sequence[str] = EXTRA) -> None:
        self.ask(ddl(name, extra=extra))

    def add(self, table: str = "jobs", **values: Any) -> int:
        """A row; the column id if the table has it under that name."""
        names = sql.SQL(", ").join(map(sql.Identifier, values))
        places = sql.SQL(", ").join(map(sql.Literal, values.values()))
        into = sql.SQL(table)
        if values:
            statement = sql.SQL("INSERT INTO {} ({}) VALUES ({}) RETURNING *").format(
                into, names, places
            )
        else:
            statement = sql.SQL("INSERT INTO {} DEFAULT VALUES RETURNING *").format(into)
        with self.connection.cursor(row_factory=dict_row) as cursor:
            row = cursor.execute(statement).fetchone()
        assert row is not None
        return int(row.get("id", 0))

    def row(self, id_: int, table: str = "jobs") -> dict[str, Any]:
        with self.connection.cursor(row_factory=dict_row) as cursor:
            row = cursor.execute(f"SELECT * FROM {table} WHERE id = %s".encode(), [id_]).fetchone()
        assert row is not None
        return row

    def states(self, table: str = "jobs") -> list[str]:
        return [state for [state] in self.ask(f"SELECT state::text FROM {table} ORDER BY id")]

    def store(self, place: Any = None, clock: Clock = SYSTEM, **options: Any) -> TableStore[Any]:
        chosen: dict[str, Any] = {"name": "jobs", "table_name": "jobs", **options}
        return TableStore(place or self.url, TableOptions(**chosen), clock=clock)


@contextmanager
def desk_on(cluster: Cluster) -> Iterator[Desk]:
    with fresh_schema(cluster) as schema:
        with psycopg.connect(schema.url, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema.name)))
        desk = Desk(schema.url, schema.name)
        try:
            yield desk
        finally:
            desk.connection.close()


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    async def patient() -> T:
        async with asyncio.timeout(PATIENCE):
            return await coroutine

    return asyncio.run(patient())


def using(store: TableStore[Any], body: Callable[[TableStore[Any]], Awaitable[T]]) -> T:
    """What `body` answers, with the store open."""

    async def whole() -> T:
        async with store:
            return await body(store)

    return run(whole())


def worker(store: TableStore[Any], handler: Any, **options: Any) -> Worker[Any]:
    """One that leaves resets to others."""
    chosen = {"name": "w", "interval": 0.02, "reset_interval": None, **options}
    return Worker(store, handler, WorkerOptions(**chosen))


def work(store: TableStore[Any], handler: Any, jobs: int = 1, **options: Any) -> None:
    """Run a worker that ends after so many records."""

    async def whole(store: TableStore[Any]) -> None:
        one = worker(store, handler, num_total_jobs=jobs, **options)
        await one.start()
        await one.wait()

    using(store, whole)


async def take(
    store: TableStore[Any], limit: int = 10, name: str = "w", conditions: Sequence[Any] = ()
) -> list[Lease]:
    return await store.claim(
        ClaimRequest(
            worker=name, tasks=(store.options.name,), limit=limit, conditions=tuple(conditions)
        )
    )


def taken(store: TableStore[Any], limit: int = 10, conditions: Sequence[Any] = ()) -> list[Any]:
    """The records of one claim."""

    async def whole(store: TableStore[Any]) -> list[Any]:
        return [lease.record for lease in await take(store, limit, conditions=conditions)]

    return using(store, whole)


async def observed(condition: Callable[[], Any], what: str) -> Any:
    """Wait until it holds, while the event loop turns."""
    try:
        async with asyncio.timeout(PATIENCE):
            while not (answer := condition()):
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"waited in vain for {what}") from None
    return answer
