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
from typing import Any, NoReturn, TypeVar

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
from windlass.model.chain import Chain
from windlass.model.job import Job
from windlass.model.payload import decode
from windlass.store.fresh import fresh_chains, fresh_jobs
from windlass.store.records import NewChain, NewJob, Row
from windlass.stores.postgres.links import (
    decode_chains,
    encode_linked,
    encode_starts,
    needs_telling,
)
from windlass.stores.postgres.refusals import refused
from windlass.stores.postgres.wire import encode_jobs, encode_plain, list_of_payloads
from windlass.stores.postgres_connections.failures import one_line, translate

Values = tuple[str, bool, str | None]
"""What is to be added, whether whole rows are to be told, and the instant."""
Blocking = Callable[[Any, str, Values], str]
Awaited = Callable[[Any, str, Values], Awaitable[str]]
T = TypeVar("T")

_WHERE = "the connection's database"


class PostgresJoined:
    """Enqueues, and starts chains, where the caller's transaction is. `schema` is quoted."""

    def __init__(self, connection: Any, schema: str, now: Callable[[], datetime | None]) -> None:
        self._now = now
        self._schema = schema
        self._connection, self._blocking, self._awaited = _way(connection)

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Job]:
        answer = self._call("_enqueue", self._jobs(jobs))
        return [] if answer is None else _jobs(jobs, answer)

    async def aenqueue(self, jobs: Sequence[NewJob]) -> list[Job]:
        answer = await self._acall("_enqueue", self._jobs(jobs))
        return [] if answer is None else _jobs(jobs, answer)

    def start_chains(self, chains: Sequence[NewChain]) -> list[Chain[Any]]:
        answer = self._call("_start_chains", self._chains(chains))
        return [] if answer is None else _chains(chains, answer)

    async def astart_chains(self, chains: Sequence[NewChain]) -> list[Chain[Any]]:
        answer = await self._acall("_start_chains", self._chains(chains))
        return [] if answer is None else _chains(chains, answer)

    def _jobs(self, jobs: Sequence[NewJob]) -> Values | None:
        if not jobs:
            return None
        if any(job.key is not None for job in jobs):
            return encode_jobs(jobs), True, self._now_text
        if any(job.blockers for job in jobs):
            return encode_linked(jobs), True, self._now_text
        return encode_plain(jobs), False, self._now_text

    def _chains(self, chains: Sequence[NewChain]) -> Values | None:
        if not chains:
            return None
        return encode_starts(chains), needs_telling(chains), self._now_text

    @property
    def _now_text(self) -> str | None:
        now = self._now()
        return None if now is None else now.isoformat()

    def _call(self, function: str, values: Values | None) -> str | None:
        """What the function says; None where there is nothing to add."""
        if self._blocking is None:
            raise ConfigError(
                f"the connection ({_kind(self._connection)}) is async: await it, with"
                " `await app.client.using(connection).add_job(…)` or"
                " `await task.using(connection=connection).aenqueue(…)`"
            )
        _refuse_closed(self._connection)
        if values is None:
            return None
        try:
            return self._blocking(self._connection, f"{self._schema}.{function}", values)
        except Exception as error:  # of a library that is not imported here
            _raise_translated(error)

    async def _acall(self, function: str, values: Values | None) -> str | None:
        if self._awaited is None:
            if _belongs_to_its_thread(self._connection):
                return self._call(function, values)
            # It may wait for a key that another transaction holds; the event loop should not.
            return await _in_a_thread(lambda: self._call(function, values), self._connection)
        _refuse_closed(self._connection)
        if values is None:
            return None
        try:
            return await self._awaited(self._connection, f"{self._schema}.{function}", values)
        except Exception as error:  # of a library that is not imported here
            _raise_translated(error)


class _Answer(msgspec.Struct):
    """What `_enqueue` and `_start_chains` say."""

    at_micros: int
    ids: list[int]
    jobs: str | None = None
    chains: str | None = None
    is_new: list[bool] | None = None


_answer = msgspec.json.Decoder(_Answer).decode
_rows = msgspec.json.Decoder(list[Row]).decode


def _jobs(new: Sequence[NewJob], text: str) -> list[Job]:
    answer = _answer(text)
    if answer.jobs is not None:
        return [row.job() for row in _rows(answer.jobs)]
    payloads = decode(list_of_payloads(new))
    return fresh_jobs(new, payloads, answer.at_micros, answer.ids)


def _chains(new: Sequence[NewChain], text: str) -> list[Chain[Any]]:
    answer = _answer(text)
    if answer.chains is not None:
        return decode_chains(answer.chains, is_new=answer.is_new)
    payloads = decode(list_of_payloads([chain.job for chain in new]))
    return fresh_chains(new, payloads, answer.at_micros, answer.ids)


async def _in_a_thread(call: Callable[[], T], connection: Any) -> T:
    """Run it in a thread of its own: those of the loop may all be waiting for this transaction.

    When this ends, even by cancellation, the connection is the caller's again: nothing runs on it.
    """
    threads = ThreadPoolExecutor(2, thread_name_prefix="windlass-joined")
    loop = asyncio.get_running_loop()
    work = loop.run_in_executor(threads, call)
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


def _statement(function: str, jobs: str, told: str, now: str) -> str:
    return (
        f"SELECT CAST(pg_catalog.row_to_json(added) AS text) FROM {function}("  # noqa: S608
        f"CAST({jobs} AS text), CAST({told} AS boolean),"
        f" CAST(CAST({now} AS text) AS timestamptz)) AS added"
    )


def _percent(function: str) -> bytes:
    return _statement(function, "%s", "%s", "%s").encode()


def _psycopg(connection: Any, function: str, values: Values) -> str:
    # A plain cursor, since the connection's own kind may have another syntax.
    with psycopg.Cursor(connection, row_factory=tuple_row) as cursor:
        return _first(cursor.execute(_percent(function), values).fetchone())


async def _async_psycopg(connection: Any, function: str, values: Values) -> str:
    async with psycopg.AsyncCursor(connection, row_factory=tuple_row) as cursor:
        await cursor.execute(_percent(function), values)
        return _first(await cursor.fetchone())


def _django(connection: Any, function: str, values: Values) -> str:
    with connection.cursor() as cursor:
        cursor.execute(_percent(function).decode(), values)
        return _first(cursor.fetchone())


async def _asyncpg(connection: Any, function: str, values: Values) -> str:
    text: str = await connection.fetchval(_statement(function, "$1", "$2", "$3"), *values)
    return text


def _sqlalchemy(connection: Any, function: str, values: Values) -> str:
    text: str = connection.execute(*_text(function, values)).scalar_one()
    return text


async def _async_sqlalchemy(connection: Any, function: str, values: Values) -> str:
    text: str = (await connection.execute(*_text(function, values))).scalar_one()
    return text


def _text(function: str, values: Values) -> tuple[Any, dict[str, Any]]:
    text = sys.modules["sqlalchemy"].text
    escaped = function.replace(":", "\\:")
    return (
        text(_statement(escaped, ":windlass_jobs", ":windlass_told", ":windlass_now")),
        dict(zip(("windlass_jobs", "windlass_told", "windlass_now"), values, strict=True)),
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


def _translated_state(state: str, error: psycopg.Error) -> WindlassError:
    text = one_line(error)
    refusal = refused(state, text)
    if refusal is not None:
        return refusal
    if state.startswith("08"):
        return OutcomeUnknownError(
            f"lost the connection to {_WHERE} in the middle of a call: {text}"
        )
    if state.startswith("40"):
        return StoreError(
            f"{_WHERE} gave this transaction up ({text}): roll it back and do it again"
        )
    return translate(error, _WHERE)
