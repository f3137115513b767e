"""The Context: what a handler gets beside its payload. In a tasks folder it is called `helpers`."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Coroutine, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, Unpack, overload

from msgspec.structs import replace

from windlass.errors import ConfigError, ValidationError, WindlassError
from windlass.model import payload as payloads
from windlass.model.chain import Chain, ChainPlace
from windlass.model.job import Job, JobOptions, JobSpec, JsonText, Progress
from windlass.model.names import check_seconds
from windlass.observe.logs import Scoped, scoped
from windlass.store.fetched import fetched, named
from windlass.store.port import WorkStore
from windlass.store.records import NewChain, NewJob, Note, decode_blockers
from windlass.tasks.abort import Abort
from windlass.tasks.connection import DatabaseConnection
from windlass.tasks.continuing import (
    Continuation,
    StartedChain,
    asked,
    inherit,
    payloads_of_others,
)
from windlass.tasks.tenancy import inherit_tenant
from windlass.tasks.transaction import Completable, JobTransaction

if TYPE_CHECKING:
    from windlass.tasks.task import BoundTask, Task

T = TypeVar("T")
P = ParamSpec("P")

MAX_ENTRY = 16 * 1024


class Producer(Protocol):
    """What adds jobs for a handler: the app's client."""

    def add_job(self, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Job]: ...

    def add_jobs(self, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, list[Job]]: ...

    def prepare_next(
        self, spec: JobSpec, meta: JsonText | None = None
    ) -> tuple[NewJob, tuple[str, ...]]:
        """Check the next job of a chain; what it inherits from the one before, which has `meta`."""

    def prepare_chain(self, spec: JobSpec) -> NewChain: ...


class Delivery(Completable, Protocol):
    """The engine's side of a running job."""

    starts: list[NewChain] | None
    """Chains that start when the delivery completes."""
    blockers: Sequence[Chain[Any]] | None
    """The chains its job waited for, where the lease does not have them."""

    def note(self, note: Note) -> None: ...

    def extend(self, seconds: float) -> None: ...


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
    """Whether the engine opened a transaction for this handler, which cannot open another."""

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
                **({} if lease.chain is None else {"chain": lease.chain}),
            )
        return self._logger

    # ── chains ──

    @property
    def chain(self) -> ChainPlace:
        """The chain this job is in, and its place there; a job of no chain would be the first of
        one with its own id."""
        lease = self._delivery.lease
        return ChainPlace(lease.job_id if lease.chain is None else lease.chain, lease.step or 0)

    @property
    def blockers(self) -> Sequence[Chain[Any]]:
        """The chains that this job waited for, in the order given, with their outputs."""
        found = self._delivery.blockers
        if found is None:
            text = self._delivery.lease.blockers
            found = self._delivery.blockers = () if text is None else decode_blockers(text)
        return found

    @overload
    def continue_with(
        self, task: Task[P, Any] | BoundTask[P, Any], /, *args: P.args, **kwargs: P.kwargs
    ) -> Continuation: ...

    @overload
    def continue_with(
        self, task: str, payload: Any = None, /, **options: Unpack[JobOptions]
    ) -> Continuation: ...

    def continue_with(self, task: Any, /, *args: Any, **kwargs: Any) -> Continuation:
        """Return this to complete the job and let its chain go on with another.

        A task and its arguments, `task.using(…)` and its arguments, or a task's name, its payload
        and options. The payload is checked here; nothing is stored before the job completes. The
        next job has this one's tenant, and its priority, meta and keep where it is given none.
        """
        return self._prepare_next(asked(task, args, kwargs, self._delivery))

    @overload
    def start(
        self, task: Task[P, Any] | BoundTask[P, Any], /, *args: P.args, **kwargs: P.kwargs
    ) -> StartedChain: ...

    @overload
    def start(
        self, task: str, payload: Any = None, /, **options: Unpack[JobOptions]
    ) -> StartedChain: ...

    def start(self, task: Any, /, *args: Any, **kwargs: Any) -> StartedChain:
        """Start a chain if and only if this delivery completes; the forms of `continue_with`.

        What is returned is good as a blocker of what this delivery starts later or goes on with.
        """
        return StartedChain(
            self._delivery, self._prepare_start(asked(task, args, kwargs, self._delivery))
        )

    def _prepare_next(self, spec: JobSpec) -> Continuation:
        self._require_chains()
        with payloads_of_others:
            new, inherits = self._around.producer.prepare_next(
                _without_blockers(spec), self._delivery.lease.meta
            )
        new.blockers = self._references(spec)
        delivery = self._delivery
        delivery.may_go_on, delivery.starts = True, delivery.starts or []
        return Continuation(delivery, inherit(new, inherits, delivery.lease))

    def _prepare_start(self, spec: JobSpec) -> int:
        """Its place among the chains of this delivery: -1 is the first."""
        self._require_chains()
        with payloads_of_others:
            new = self._around.producer.prepare_chain(_without_blockers(spec))
        new.job.blockers = self._references(spec)
        new.job.tenant = self._delivery.lease.tenant
        starts = self._delivery.starts = self._delivery.starts or []
        starts.append(new)
        return -len(starts)

    def _references(self, spec: JobSpec) -> tuple[int, ...]:
        """The blockers of a spec from `asked`, in which chains of this delivery are below zero."""
        return tuple(spec.blockers or ())

    def _require_chains(self) -> None:
        if self._delivery.completion is not None:
            raise WindlassError(
                "this job has completed in its transaction, with all that starts or goes on with"
                " it; ask for more before tx.complete(…)"
            )
        if not self._around.store.capabilities.chains:
            raise ConfigError(
                "this store knows no chains; use memory://, sqlite:/// or postgresql://"
            )

    # ── notes and leases: these calls never wait ──

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
        """Add a job, of this job's tenant; the arguments of `client.add_job`."""
        self._inherit_tenant()
        return await self._around.producer.add_job(task, payload, **options)

    async def add_jobs(self, specs: Sequence[JobSpec]) -> list[Job]:
        self._inherit_tenant()
        return await self._around.producer.add_jobs(specs)

    def _inherit_tenant(self) -> None:
        """Also where the call comes from a thread that the job's handler did not begin."""
        if tenant := self._delivery.lease.tenant:
            inherit_tenant(self._around.store, tenant)

    def connection(self) -> DatabaseConnection:
        """A connection to the jobs' database; it commits at the end, and rolls back on an error.

        `async with` gives one whose calls are awaited; a plain function uses `with`.
        """
        return DatabaseConnection(self._around.store.connection(), self._delivery.abort)

    async def query(self, sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[Any]:
        """Run one statement on a connection of its own and return its rows.

        A value is read by its place or by its column's name: `row[0]`, `row["id"]`.
        """
        async with self.connection() as connection:
            cursor = await connection.execute(*_statement(sql, values))
            if cursor.description is None:
                return []
            return named(cursor, await cursor.fetchall())

    def transaction(self) -> JobTransaction:
        """Your writes and this job's completion together, or not at all.

        `async with ctx.transaction() as tx:` then `await tx.execute(sql, values)` and
        `await tx.complete(output)`; a plain function uses `with` and no `await`. Jobs added
        inside the block, by `ctx`, a task or the app's client, join the transaction.
        """
        if self._is_inside:
            raise WindlassError("this handler is in its transaction already; use its store")
        return JobTransaction(self._around.store, self._delivery)


class SyncContext(Context):
    """The Context of a plain function: the same names; calls that are awaited elsewhere block."""

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if asyncio._get_running_loop() is self._around.loop:
            coroutine.close()
            raise RuntimeError("this Context blocks; on the event loop it would wait for ever")
        return asyncio.run_coroutine_threadsafe(coroutine, self._around.loop).result()

    def add_job(self, task: str, payload: Any = None, **options: Any) -> Job:  # type: ignore[override]
        return self._call(Context.add_job(self, task, payload, **options))

    def add_jobs(self, specs: Sequence[JobSpec]) -> list[Job]:  # type: ignore[override]
        return self._call(Context.add_jobs(self, specs))

    def query(  # type: ignore[override]
        self, sql: str, values: Sequence[Any] | dict[str, Any] = ()
    ) -> list[Any]:
        with self.connection() as connection:
            return fetched(connection.execute(*_statement(sql, values)))


def _statement(sql: str, values: Sequence[Any] | dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of `execute`; a psycopg statement without values may have bare % signs."""
    return (sql, values) if values else (sql,)


def _without_blockers(spec: JobSpec) -> JobSpec:
    """As a producer checks it, who knows no chains of this delivery."""
    return spec if spec.blockers is None else replace(spec, blockers=None)
