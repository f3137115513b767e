"""Adding jobs inside a transaction of the caller's own, whatever library it belongs to.

One SQL function does the work and answers with one text, so each library needs only its way of
running one statement, and no codec or row factory of the connection matters. Commit and rollback
stay with the caller; without an open transaction the library's own autocommit rules hold. Libraries
are recognised by their classes and never imported here.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, NoReturn

import msgspec
import psycopg
from psycopg import errors
from psycopg.rows import tuple_row

from windlass.errors import (
    ConfigError,
    OutcomeUnknownError,
    StoreError,
    StoreUnavailableError,
    WindlassError,
)
from windlass.model.job import Job
from windlass.model.payload import decode
from windlass.store.fresh import fresh_jobs
from windlass.store.records import NewJob, Row
from windlass.stores.postgres.wire import encode_jobs, encode_plain, list_of_payloads
from windlass.stores.postgres_connections.failures import one_line, translate

Values = tuple[str, bool, str | None]
Blocking = Callable[[Any, str, Values], str]
Awaited = Callable[[Any, str, Values], Awaitable[str]]

_WHERE = "the connection's database"


class PostgresJoined:
    """Enqueues where the caller's transaction is. `schema` is quoted."""

    def __init__(self, connection: Any, schema: str, now: Callable[[], datetime | None]) -> None:
        self._now = now
        self._schema = schema
        self._connection, self._blocking, self._awaited = _way(connection)

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Job]:
        if self._blocking is None:
            raise ConfigError(
                f"the connection ({_kind(self._connection)}) is async: await it, with"
                " `await app.client.using(connection).add_job(…)` or"
                " `await task.using(connection=connection).aenqueue(…)`"
            )
        _refuse_closed(self._connection)
        if not jobs:
            return []
        try:
            answer = self._blocking(self._connection, self._schema, self._values(jobs))
        except Exception as error:  # of a library that is not imported here
            _raise_translated(error)
        return _jobs(jobs, answer)

    async def aenqueue(self, jobs: Sequence[NewJob]) -> list[Job]:
        if self._awaited is None:
            if _belongs_to_its_thread(self._connection):
                return self.enqueue(jobs)
            # It may wait for a key that another transaction holds; the event loop should not.
            return await _in_a_thread(lambda: self.enqueue(jobs), self._connection)
        _refuse_closed(self._connection)
        if not jobs:
            return []
        try:
            answer = await self._awaited(self._connection, self._schema, self._values(jobs))
        except Exception as error:  # of a library that is not imported here
            _raise_translated(error)
        return _jobs(jobs, answer)

    def _values(self, jobs: Sequence[NewJob]) -> Values:
        now = self._now()
        is_keyed = any(job.key is not None for job in jobs)
        text = encode_jobs(jobs) if is_keyed else encode_plain(jobs)
        return text, is_keyed, None if now is None else now.isoformat()


class _Answer(msgspec.Struct):
    """What `_enqueue` says."""

    at_micros: int
    ids: list[int]
    jobs: str | None


_answer = msgspec.json.Decoder(_Answer).decode
_rows = msgspec.json.Decoder(list[Row]).decode


def _jobs(new: Sequence[NewJob], text: str) -> list[Job]:
    answer = _answer(text)
    if answer.jobs is not None:
        return [row.job() for row in _rows(answer.jobs)]
    payloads = decode(list_of_payloads(new))
    return fresh_jobs(new, payloads, answer.at_micros, answer.ids)


async def _in_a_thread(enqueue: Callable[[], list[Job]], connection: Any) -> list[Job]:
    """Run it in a thread of its own: those of the loop may all be waiting for this transaction.

    When this ends, even by cancellation, the connection is the caller's again: nothing runs on it.
    """
    threads = ThreadPoolExecutor(2, thread_name_prefix="windlass-joined")
    loop = asyncio.get_running_loop()
    work = loop.run_in_executor(threads, enqueue)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        parts: set[asyncio.Future[Any]] = {work}
        if isinstance(connection, psycopg.Connection) and not work.done():
            parts.add(loop.run_in_executor(threads, connection.cancel))
        while not all(part.done() for part in parts):
            try:
                await asyncio.wait(parts)
            except asyncio.CancelledError:
                continue  # raised below, when the threads have ended
        for part in parts:
            part.exception()
        raise
    finally:
        threads.shutdown(wait=False)


# ── one way per library ──


def _statement(schema: str, jobs: str, keyed: str, now: str) -> str:
    return (
        f"SELECT CAST(pg_catalog.row_to_json(added) AS text) FROM {schema}._enqueue("  # noqa: S608
        f"CAST({jobs} AS text), CAST({keyed} AS boolean),"
        f" CAST(CAST({now} AS text) AS timestamptz)) AS added"
    )


def _percent(schema: str) -> bytes:
    return _statement(schema, "%s", "%s", "%s").encode()


def _psycopg(connection: Any, schema: str, values: Values) -> str:
    # A plain cursor, since the connection's own kind may have another syntax.
    with psycopg.Cursor(connection, row_factory=tuple_row) as cursor:
        return _first(cursor.execute(_percent(schema), values).fetchone())


async def _async_psycopg(connection: Any, schema: str, values: Values) -> str:
    async with psycopg.AsyncCursor(connection, row_factory=tuple_row) as cursor:
        await cursor.execute(_percent(schema), values)
        return _first(await cursor.fetchone())


def _django(connection: Any, schema: str, values: Values) -> str:
    with connection.cursor() as cursor:
        cursor.execute(_percent(schema).decode(), values)
        return _first(cursor.fetchone())


async def _asyncpg(connection: Any, schema: str, values: Values) -> str:
    text: str = await connection.fetchval(_statement(schema, "$1", "$2", "$3"), *values)
    return text


def _sqlalchemy(connection: Any, schema: str, values: Values) -> str:
    text: str = connection.execute(*_text(schema, values)).scalar_one()
    return text


async def _async_sqlalchemy(connection: Any, schema: str, values: Values) -> str:
    text: str = (await connection.execute(*_text(schema, values))).scalar_one()
    return text


def _text(schema: str, values: Values) -> tuple[Any, dict[str, Any]]:
    text = sys.modules["sqlalchemy"].text
    escaped = schema.replace(":", "\\:")
    return (
        text(_statement(escaped, ":windlass_jobs", ":windlass_keyed", ":windlass_now")),
        dict(zip(("windlass_jobs", "windlass_keyed", "windlass_now"), values, strict=True)),
    )


def _first(row: Any) -> str:
    text: str = row[0]
    return text


# ── whose connection it is ──

_SCOPED = {
    "sqlalchemy.orm.scoping.scoped_session",
    "sqlalchemy.ext.asyncio.scoping.async_scoped_session",
}
_ASYNC_SQLALCHEMY = {
    "sqlalchemy.ext.asyncio.engine.AsyncConnection",
    "sqlalchemy.ext.asyncio.session.AsyncSession",
}
_SQLALCHEMY = {"sqlalchemy.engine.base.Connection", "sqlalchemy.orm.session.Session"}
_ASYNCPG = {"asyncpg.connection.Connection", "asyncpg.pool.PoolConnectionProxy"}
_DJANGO = {
    "django.db.backends.base.base.BaseDatabaseWrapper",
    "django.utils.connection.ConnectionProxy",
}


def _way(connection: Any) -> tuple[Any, Blocking | None, Awaited | None]:
    """The connection meant, and how to run a statement on it: blocking, or awaited."""
    if isinstance(connection, psycopg.Connection):
        return connection, _psycopg, None
    if isinstance(connection, psycopg.AsyncConnection):
        return connection, None, _async_psycopg
    kinds = _classes(connection)
    if kinds & _SCOPED:
        # Which session it stands for depends on the calling thread or task, so ask here.
        connection = connection()
        kinds = _classes(connection)
    if kinds & _ASYNCPG:
        return connection, None, _asyncpg
    if kinds & _ASYNC_SQLALCHEMY:
        _refuse_dialect(connection)
        return connection, None, _async_sqlalchemy
    if kinds & _SQLALCHEMY:
        _refuse_dialect(connection)
        return connection, _sqlalchemy, None
    if kinds & _DJANGO:
        if connection.vendor != "postgresql":
            raise _refusal(f"one to {connection.vendor}")
        return connection, _django, None
    raise _refusal(_kind(connection))


def _refuse_dialect(connection: Any) -> None:
    bound = connection.get_bind() if hasattr(connection, "get_bind") else connection
    if bound.dialect.name != "postgresql":
        raise _refusal(f"one to {bound.dialect.name}")


def _refusal(what: str) -> ConfigError:
    return ConfigError(
        "connection= must be an open psycopg, asyncpg, SQLAlchemy or Django connection to the"
        f" jobs' PostgreSQL database, not {what}"
    )


def _classes(thing: Any) -> set[str]:
    return {f"{each.__module__}.{each.__qualname__}" for each in type(thing).__mro__}


def _kind(connection: Any) -> str:
    return f"{type(connection).__module__.partition('.')[0]} {type(connection).__name__}"


def _belongs_to_its_thread(connection: Any) -> bool:
    """Django's connections refuse every other thread, and event loops too."""
    return bool(_classes(connection) & _DJANGO)


# ── what can go wrong ──


def _refuse_closed(connection: Any) -> None:
    """Where that is known, a closed connection is told from one that is lost during the call."""
    closed = getattr(connection, "closed", False)
    if closed is True:
        raise StoreUnavailableError(
            f"the connection ({_kind(connection)}) is closed; nothing was added"
        )


def _raise_translated(error: Exception) -> NoReturn:
    """Raise our word for it; the error itself, if no database has a part in it."""
    translated = _translated(error)
    if translated is None:
        raise error
    raise translated from error


def _translated(error: Exception) -> WindlassError | None:
    text = one_line(error)
    for each in _causes(error):
        if isinstance(each, psycopg.Error):
            return _translated_state(each.sqlstate or "", each)
        state = getattr(each, "sqlstate", None) or getattr(each, "pgcode", None)
        if isinstance(state, str):
            return _translated_state(state, _psycopg_error(state, one_line(each)))
    names = _classes(error)
    if "django.core.exceptions.SynchronousOnlyOperation" in names:
        return ConfigError(
            "Django's connections cannot be used on an event loop: add the job in a function that"
            " runs by sync_to_async, with `app.sync.using(connection)` or `.enqueue(…)`"
        )
    if "sqlalchemy.exc.MissingGreenlet" in names:
        return ConfigError(
            "this SQLAlchemy connection has an async driver: give the AsyncConnection or"
            " AsyncSession itself, or add the job inside its run_sync(…)"
        )
    if any(name.startswith(("asyncpg.", "sqlalchemy.exc.", "django.db.")) for name in names):
        return StoreUnavailableError(f"the connection given cannot be used: {text}")
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, and those it wraps: SQLAlchemy's `orig`, and what it was raised from."""
    each: BaseException | None = error
    while each is not None:
        yield each
        each = getattr(each, "orig", None) or each.__cause__


def _psycopg_error(state: str, text: str) -> psycopg.Error:
    try:
        return errors.lookup(state)(text)
    except KeyError:
        return psycopg.DatabaseError(text)


def _translated_state(state: str, error: psycopg.Error) -> StoreError:
    text = one_line(error)
    if state.startswith("08"):
        return OutcomeUnknownError(
            f"lost the connection to {_WHERE} in the middle of a call: {text}"
        )
    if state.startswith("40"):
        return StoreError(
            f"{_WHERE} gave this transaction up ({text}): roll it back and do it again"
        )
    return translate(error, _WHERE)
