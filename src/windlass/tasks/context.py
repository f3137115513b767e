"""What a handler is given beside its payload; in a tasks folder it is called `helpers`."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from contextvars import ContextVar
from datetime import timedelta
from typing import Any, Protocol, TypeVar

from windlass.errors import ValidationError, WindlassError
from windlass.model import payload as payloads
from windlass.model.job import Job, JobSpec, Progress
from windlass.model.names import check_seconds
from windlass.observe.logs import Scoped, scoped
from windlass.store.fetched import fetched, named
from windlass.store.port import Transaction, WorkStore
from windlass.store.records import Complete, Lease, Note
from windlass.tasks.abort import Abort
from windlass.tasks.awaited import AwaitedConnection, OwnThread

T = TypeVar("T")

MAX_ENTRY = 16 * 1024


class Producer(Protocol):
    """Whoever can add jobs: the app's client."""

    def add_job(self, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Job]: ...

    def add_jobs(self, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, list[Job]]: ...


class Delivery(Protocol):
    """The engine's side of a running job."""

    lease: Lease
    keep: float | None
    """How long the job is kept where it says nothing itself."""

    @property
    def abort(self) -> Abort: ...

    def note(self, note: Note) -> None: ...

    def extend(self, seconds: float) -> None: ...

    def begin_commit(self) -> None: ...

    def commit_failed(self) -> None: ...


class Surroundings(Protocol):
    """What all jobs of one worker share."""

    @property
    def store(self) -> WorkStore: ...

    @property
    def producer(self) -> Producer: ...

    @property
    def state(self) -> Any: ...

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    @property
    def worker_id(self) -> str: ...

    @property
    def logger(self) -> logging.Logger: ...


class Context:
    """One delivery, seen from inside its handler.

    `state` is what the app's lifespan yielded.
    """

    _job: Job | None = None
    _logger: Scoped | None = None
    _is_inside = False
    """Whether its handler was given a transaction, in which it cannot open another."""

    def __init__(self, around: Surroundings, delivery: Delivery) -> None:
        self._around = around
        self._delivery = delivery

    @property
    def abort(self) -> Abort:
        """Whether, and why, this job should stop: `.is_set()`, `.reason`, or await it."""
        return self._delivery.abort

    @property
    def job(self) -> Job:
        """The job as it was when claimed; this attempt is already counted."""
        if self._job is None:
            self._job = self._delivery.lease.job
        return self._job

    @property
    def state(self) -> Any:
        return self._around.state

    @property
    def worker_id(self) -> str:
        return self._around.worker_id

    @property
    def logger(self) -> Scoped:
        """A standard logger whose records carry worker, task and job."""
        if self._logger is None:
            lease = self._delivery.lease
            self._logger = scoped(
                self._around.logger,
                "job",
                worker_id=self._around.worker_id,
                task=lease.task,
                job_id=lease.job_id,
            )
        return self._logger

    # ── said in passing: these never wait ──

    def progress(self, fraction: float, note: str = "") -> None:
        """Show how far this job is: 0 to 1, and a few words. Written soon, not at once."""
        if not math.isfinite(fraction) or not 0.0 <= fraction <= 1.0:
            raise ValidationError(
                f"fraction must lie between 0 and 1, not {fraction}", field="fraction"
            )
        progress = Progress(float(fraction), note)
        self._delivery.note(
            Note(progress=payloads.encode_value([progress.fraction, progress.note], field="note"))
        )

    def log(self, entry: Any) -> None:
        """Add one entry (text, or anything JSON, at most 16 KiB) to the job's own log.

        The last 200 entries are kept.
        """
        text = payloads.encode_value(entry, limit=MAX_ENTRY, field="entry")
        self._delivery.note(Note(entry=text))

    def extend(self, seconds: float | timedelta) -> None:
        """Keep this job's lease for at least `seconds` from now, even if renewals fail."""
        self._delivery.extend(check_seconds(seconds, "seconds") or 0.0)

    # ── the database ──

    async def add_job(self, task: str, payload: Any = None, **options: Any) -> Job:
        """Add a job; the arguments of `client.add_job`."""
        return await self._around.producer.add_job(task, payload, **options)

    async def add_jobs(self, specs: Sequence[JobSpec]) -> list[Job]:
        return await self._around.producer.add_jobs(specs)

    def connection(self) -> DatabaseConnection:
        """A connection to the jobs' database; it commits at the end, and rolls back on an error.

        `async with` gives one whose calls are awaited; a plain function uses `with`.
        """
        return DatabaseConnection(self._around.store.connection(), self._delivery.abort)

    async def query(self, sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[Any]:
        """Run one statement on a connection of its own and return its rows.

        A value is had by its place or by its column's name: `row[0]`, `row["id"]`.
        """
        async with self.connection() as connection:
            cursor = await connection.execute(*_statement(sql, values))
            if cursor.description is None:
                return []
            return named(cursor, await cursor.fetchall())

    def transaction(self) -> JobTransaction:
        """Your writes and this job's completion together, or not at all.

        `async with ctx.transaction() as tx:` then `await tx.execute(sql, values)` and
        `await tx.complete(output)`; a plain function uses `with` and no `await`. Jobs added inside
        the block, in whatever way, belong to the transaction too.
        """
        if self._is_inside:
            raise WindlassError("this handler is in its transaction already; use its store")
        return JobTransaction(self._around.store, self._delivery)


class SyncContext(Context):
    """The Context of a plain function: the same names, and what waits simply blocks."""

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if asyncio._get_running_loop() is self._around.loop:
            coroutine.close()
            raise RuntimeError("this Context blocks; on the event loop it would wait for ever")
        return asyncio.run_coroutine_threadsafe(coroutine, self._around.loop).result()

    def add_job(self, task: str, payload: Any = None, **options: Any) -> Job:  # type: ignore[override]
        return self._call(self._around.producer.add_job(task, payload, **options))

    def add_jobs(self, specs: Sequence[JobSpec]) -> list[Job]:  # type: ignore[override]
        return self._call(self._around.producer.add_jobs(specs))

    def query(  # type: ignore[override]
        self, sql: str, values: Sequence[Any] | dict[str, Any] = ()
    ) -> list[Any]:
        with self.connection() as connection:
            return fetched(connection.execute(*_statement(sql, values)))


def _statement(sql: str, values: Sequence[Any] | dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of `execute`; a psycopg statement without values may have bare % signs."""
    return (sql, values) if values else (sql,)


class DatabaseConnection:
    """Both kinds of `with` around one connection of the store's."""

    def __init__(self, opened: AbstractContextManager[Any], abort: Abort) -> None:
        self._opened = opened
        self._abort = abort
        self._thread = OwnThread()
        self._forget: Callable[[], None] = _nothing

    def __enter__(self) -> Any:
        if _is_on_a_loop():
            raise WindlassError("in an async def write `async with ctx.connection()`")
        connection = self._opened.__enter__()
        self._interrupt_on_abort(connection)
        return connection

    def __exit__(self, *error: Any) -> bool | None:
        self._forget()
        return self._opened.__exit__(*error)

    async def __aenter__(self) -> Any:
        if isinstance(self._opened, AbstractAsyncContextManager):
            return await self._opened.__aenter__()
        connection = await _entered(self._opened, self._thread)
        self._interrupt_on_abort(connection)
        return AwaitedConnection(connection, self._thread)

    async def __aexit__(self, *error: Any) -> bool | None:
        ended: bool | None
        if isinstance(self._opened, AbstractAsyncContextManager):
            ended = await self._opened.__aexit__(*error)
            return ended
        self._forget()
        try:
            ended = await self._thread.run(self._opened.__exit__, *error)
            return ended
        finally:
            self._thread.close()

    def _interrupt_on_abort(self, connection: Any) -> None:
        for source in (self._opened, connection):
            interrupt = getattr(source, "interrupt", None)
            if interrupt is not None:
                self._forget = self._abort.call(interrupt)
                return


def _nothing() -> None:
    pass


async def _entered(opened: AbstractContextManager[T], thread: OwnThread) -> T:
    """Enter it in its thread; if the caller is cancelled meanwhile it is left again."""
    try:
        inner: T = await thread.run(opened.__enter__)
    except asyncio.CancelledError:
        thread.afterwards(opened.__exit__, None, None, None)
        thread.close()
        raise
    except BaseException:
        thread.close()
        raise
    return inner


class OpenTransaction:
    """The transaction a handler is inside of; jobs it adds meanwhile belong to it."""

    def __init__(self, store: WorkStore, connection: Any) -> None:
        self.store = store
        self.connection: Any = connection


_inside: ContextVar[OpenTransaction | None] = ContextVar("windlass_transaction", default=None)


def connection_inside(store: WorkStore) -> Any:
    """The connection of the `ctx.transaction()` this code runs in, if it is on `store`.

    Anything else would wait for the write lock that the handler itself holds.
    """
    found = _inside.get()
    return found.connection if found is not None and found.store is store else None


class JobTransaction:
    """Both kinds of `with` around one store transaction.

    From the moment a transaction that completes its job begins to commit, the delivery is told
    so: the commit itself makes the job disappear, and a handler that was cancelled for it, or for
    anything else, while the answer is on its way would not run the code after its block.
    """

    def __init__(self, store: WorkStore, delivery: Delivery) -> None:
        self._store = store
        self._delivery = delivery
        self._opened = store.transaction(delivery.lease)
        self._current: OpenTransaction | None = None
        self._thread = OwnThread()
        self._forget: Callable[[], None] = _nothing
        self._is_unsettled = False
        """Whether the job was to be completed by a commit that has not succeeded."""
        self._sync: SyncTransaction

    def __enter__(self) -> SyncTransaction:
        if _is_on_a_loop():
            raise WindlassError("in an async def write `async with ctx.transaction()`")
        self._begin(self._opened.__enter__())
        return self._sync

    def __exit__(self, *error: Any) -> bool | None:
        self._finish(*error)
        try:
            return self._end(*error)
        finally:
            self._tell_failure()

    async def __aenter__(self) -> AsyncTransaction:
        self._begin(await _entered(self._opened, self._thread))
        return AsyncTransaction(self._sync, self._thread)

    async def __aexit__(self, *error: Any) -> bool | None:
        self._finish(*error)
        try:
            ended: bool | None = await self._thread.run_out(self._end, *error)
            return ended
        finally:
            self._thread.close()
            self._tell_failure()

    def _begin(self, inner: Transaction) -> None:
        self._sync = SyncTransaction(inner, self._delivery.keep)
        self._forget = self._delivery.abort.call(inner.interrupt)
        self._current = OpenTransaction(self._store, inner.connection)
        _inside.set(self._current)

    def _finish(self, *error: Any) -> None:
        """The block has ended; what follows may be the commit that completes the job."""
        self._forget()
        _inside.set(None)
        if self._current is not None:
            self._current.connection = None  # for tasks that were started inside and go on
        if self._sync.is_completing and error[0] is None:
            self._is_unsettled = True
            self._delivery.begin_commit()

    def _end(self, *error: Any) -> bool | None:
        answer = self._opened.__exit__(*error)
        self._is_unsettled = False
        return answer

    def _tell_failure(self) -> None:
        if self._is_unsettled:
            self._delivery.commit_failed()


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class SyncTransaction:
    """The transaction inside a plain function."""

    def __init__(self, inner: Transaction, keep: float | None) -> None:
        self._inner = inner
        self._keep = keep
        self.is_completing = False
        """Whether the job completes when this block commits."""

    @property
    def connection(self) -> Any:
        return self._inner.connection

    def execute(self, sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[Any]:
        """The rows it returns; their values are had by place or by name."""
        return self._inner.execute(sql, values)

    def complete(self, output: Any = None) -> None:
        """Complete the job when this block commits; LeaseLostError if it is no longer ours."""
        text = None if output is None else payloads.encode_value(output, field="output")
        self._inner.complete(Complete(output=text, keep=self._keep))
        self.is_completing = True


class AsyncTransaction:
    """The transaction inside an `async def`."""

    def __init__(self, sync: SyncTransaction, thread: OwnThread) -> None:
        self._sync = sync
        self._thread = thread

    @property
    def connection(self) -> Any:
        return self._sync.connection

    async def execute(self, sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[Any]:
        try:
            rows: list[Any] = await self._thread.run(self._sync.execute, sql, values)
        except asyncio.CancelledError:
            self._sync._inner.interrupt()
            raise
        return rows

    async def complete(self, output: Any = None) -> None:
        """Complete the job when this block commits; LeaseLostError if it is no longer ours."""
        await self._thread.run(self._sync.complete, output)
