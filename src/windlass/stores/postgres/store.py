"""The store: each verb of the port as one call of one SQL function."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import msgspec
import psycopg
from psycopg import errors

from windlass.clock import SYSTEM, Clock, to_datetime
from windlass.errors import StoreUnavailableError
from windlass.model.chain import KEEP_CHAINS, KEEP_FAILED_CHAINS
from windlass.model.cron import Schedule
from windlass.model.job import DEFAULT_TENANT, Job, JobState
from windlass.store import rules
from windlass.store.findings import Finding
from windlass.store.hints import Due, ignore_due
from windlass.store.port import MOST_STRANDED, Joined, Listening, Transaction
from windlass.store.records import (
    CANCELLED_KEPT,
    MAX_LOG,
    Capabilities,
    ClaimRequest,
    Complete,
    Fail,
    JobFilter,
    Lease,
    NewJob,
    Note,
    Outcome,
    Paused,
    PausedName,
    Reaped,
    Row,
    Settled,
    Verdict,
    WorkerInfo,
    paused_in,
)
from windlass.store.schedules import Fired, FireVerdict, KnownSchedule, decode_known, encode
from windlass.stores.migrations import Migrate
from windlass.stores.postgres import find, schema
from windlass.stores.postgres.adding import Adding
from windlass.stores.postgres.calls import Calls
from windlass.stores.postgres.chain_verbs import ChainVerbs
from windlass.stores.postgres.claims import Claims
from windlass.stores.postgres.figures import FigureVerbs
from windlass.stores.postgres.job_ending import JobEnding
from windlass.stores.postgres.joined import PostgresJoined
from windlass.stores.postgres.known_workers import KnownWorkers
from windlass.stores.postgres.lifeline import PostgresLifeline
from windlass.stores.postgres.marks import TimerMark
from windlass.stores.postgres.reaping import Reaping
from windlass.stores.postgres.refusals import told_plainly
from windlass.stores.postgres.rendering import channel, quoted
from windlass.stores.postgres.server_verbs import ServerVerbs
from windlass.stores.postgres.settlements import is_linked, is_posted
from windlass.stores.postgres.settling import Settling
from windlass.stores.postgres.waking import Waking
from windlass.stores.postgres.wire import encode_jobs
from windlass.stores.postgres_connections.connection import CALL_LIMIT
from windlass.stores.postgres_connections.failures import one_line
from windlass.stores.postgres_connections.handlers import Borrowed, HandlerConnections
from windlass.stores.postgres_connections.transaction import open_transaction

_row = msgspec.json.Decoder(Row).decode
_rows = msgspec.json.Decoder(list[Row]).decode


class PostgresStore(ChainVerbs, ServerVerbs, FigureVerbs):
    """Jobs in one schema of one PostgreSQL database.

    `url` is anything libpq takes. `pool` is the caller's own psycopg pool instead. `listen=False`
    relies on polling alone; `prepared_statements=False` is for transaction poolers: nothing then
    depends on the session.
    """

    capabilities = Capabilities(
        shared=True,
        durable=True,
        transactions=True,
        sql=True,
        roster=True,
        examination=True,
        chains=True,
        server=True,
        figures=True,
    )

    def __init__(
        self,
        url: str = "",
        *,
        pool: Any = None,
        schema_name: str = "windlass",
        clock: Clock = SYSTEM,
        migrate: Migrate = "auto",
        max_pool_size: int = 10,
        listen: bool = True,
        prepared_statements: bool = True,
    ) -> None:
        self.schema = schema.check_name(schema_name)
        self._name = quoted(schema_name)
        self._migrate = migrate
        self._pool_size = max_pool_size
        self._handlers = HandlerConnections(url, pool, max_pool_size, prepared_statements)
        self._address = self._handlers.address
        self._calls = Calls(self._address, self._handlers.borrow_for_store, self._name, clock)
        self._adding = Adding(self._calls)
        self._reaping = Reaping(self._calls, schema_name, clock)
        self._workers = KnownWorkers(clock)
        self._waking = Waking(
            self._calls,
            self._address,
            channel(schema_name),
            listens=listen,
            expect_new=self._workers.expect_new,
            on_migration=self._reaping.look_at_version_next,
        )
        self._settling = Settling(self._calls, self._workers)
        self.claims = Claims(self._calls, self._workers, self._settling, self._waking.hint)
        self._timer = TimerMark(clock)
        self._lifelines: list[PostgresLifeline] = []

    # ── life ──

    async def open(self) -> None:
        if self._calls.is_open:
            return
        await asyncio.to_thread(self._prepare_schema)
        if self._calls.is_open:
            return  # two have opened it at once
        self._calls.open()
        self._adding.open()
        self._handlers.open()
        self._waking.start()

    def _prepare_schema(self) -> None:
        """On a connection whose server knows no limit: a migration may take long."""
        with contextlib.closing(self._address.connect(limit=None)) as connection:
            connection.limit = CALL_LIMIT
            try:
                schema.prepare(connection, self.schema, self._migrate)
            except errors.InsufficientPrivilege as error:
                raise StoreUnavailableError(
                    f"this role may not use or install the schema {self.schema!r}:"
                    f" {one_line(error)}; let its owner run `windlass migrate` and give grants"
                    " (docs/postgres.md)"
                ) from error
            except psycopg.Error as error:
                raise StoreUnavailableError(
                    f"cannot install the schema {self.schema!r}: {one_line(error)}",
                    is_temporary=isinstance(
                        error, psycopg.OperationalError | psycopg.InterfaceError
                    ),
                ) from error

    async def close(self) -> None:
        """Calls that are under way are answered first."""
        if not self._calls.is_open:
            return
        lifelines, self._lifelines = self._lifelines, []
        parts = [
            *self._waking.stop(),
            *lifelines,
            *self._adding.stop(),
            *self._calls.stop(),
            self._handlers,
        ]

        def close_all() -> None:
            for part in parts:
                part.close()

        await asyncio.to_thread(close_all)

    async def now(self) -> int:
        [now] = await self._calls.row(
            "SELECT {schema}._micros(coalesce(%s, pg_catalog.clock_timestamp()))", self._calls.now
        )
        return int(now)

    def subscribe(
        self,
        hint: Callable[[], None],
        listening: Listening = lambda error: None,
        due: Due = ignore_due,
    ) -> Callable[[], None]:
        return self._waking.subscribe(hint, listening, due)

    # ── calls ──

    async def _changed_of(
        self, function: str, ids: Sequence[int], tenant: str | None, *values: Any
    ) -> list[Job]:
        """Call a function that changes those of these jobs that are the tenant's."""
        of_tenant = "{schema}._of_tenant(%s::bigint[], %s)"
        changed = await self._changed(function, list(ids), tenant, *values, first=of_tenant)
        return in_order(changed, ids)

    async def _changed(self, function: str, *values: Any, first: str = "%s") -> list[Job]:
        """Call a function that returns the jobs it changed; `now` is its last argument, and `first`
        its first one, which may take several values."""
        others = len(values) + 1 - first.count("%s")
        places = ", ".join([first, *["%s"] * others])
        statement = (
            "SELECT pg_catalog.json_agg({schema}._row(j, w.name))::text"  # noqa: S608
            f" FROM {{schema}}.{function}({places}) AS j"
            " LEFT JOIN {schema}._workers AS w ON w.id = j.worker"
        )
        with told_plainly():
            [text] = await self._calls.patient_row(statement, *values, self._calls.now)
        self._waking.hint()
        changed = [] if text is None else [row.job() for row in _rows(text)]
        self._waking.hint_scheduled(changed)
        return changed

    @property
    def statements(self) -> int:
        """How many calls this store has made since it was opened."""
        return self._calls.statements

    # ── producers ──

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Job]:
        self._calls.refuse_closed()
        if not jobs:
            return []
        new = await self._adding.add(jobs)
        if any(job.state is not JobState.SCHEDULED for job in new):
            self._waking.hint_here()
        self._waking.hint_scheduled(new)
        return new

    def joined(self, connection: Any) -> Joined:
        return PostgresJoined(connection, self._name, lambda: self._calls.now)

    # ── workers ──

    async def claim(self, request: ClaimRequest) -> list[Lease]:
        rules.refuse_conditions(request)
        if found := await self.claims.resolve(request.worker, request.lease):
            return found
        await self._reaping.begin_watch()
        return await self.claims.claim(request)

    async def settle(self, settlements: Sequence[tuple[Lease, Outcome]]) -> list[Settled]:
        self._calls.refuse_closed()
        if not settlements:
            return []
        answers = await self._settling.settle(settlements)
        if any(
            lease.queue
            or not isinstance(outcome, Complete)
            or is_linked(lease, outcome)
            or is_posted(lease, outcome)
            for lease, outcome in settlements
        ):
            # A queue that goes on sends no NOTIFY: workers of this process go on with it.
            self._waking.hint()
            for (_, outcome), answer in zip(settlements, answers, strict=True):
                if answer.state is JobState.SCHEDULED and isinstance(outcome, Fail):
                    self._waking.hint_due(outcome.delay if outcome.run_at is None else None)
                elif isinstance(outcome, Complete):
                    self._hint_links(outcome)
            if any(lease.chain is not None for lease, _ in settlements):
                self._waking.hint_due_here()  # jobs that wait for their chains may be due later
        return answers

    def _hint_links(self, outcome: Complete) -> None:
        """When jobs are due with which a chain goes on or starts."""
        for new in (outcome.next, *(start.job for start in outcome.starts)):
            if new is not None and (new.delay or new.run_at is not None):
                self._waking.hint_due(new.delay / 1e6 if new.run_at is None else None)

    async def expire(self, leases: Sequence[Lease], max_resets: int) -> list[Settled]:
        self._calls.refuse_closed()
        answers = await self._settling.expire(leases, max_resets) if leases else []
        self._waking.hint_here()
        return answers

    async def note(self, lease: Lease, note: Note) -> Verdict:
        [verdict] = await self._calls.row(
            "SELECT {schema}._note(%s, %s, %s, %s::json, %s::json, %s, %s)",
            lease.job_id,
            lease.token,
            lease.chain,
            note.progress,
            note.entry,
            MAX_LOG,
            self._calls.now,
        )
        return Verdict(verdict)

    def lifeline(self) -> PostgresLifeline:
        self._calls.refuse_closed()
        lifeline = PostgresLifeline(self._address, self._name, lambda: self._calls.now)
        self._lifelines = [*(it for it in self._lifelines if not it.is_closed), lifeline]
        return lifeline

    def connection(self) -> Borrowed:
        self._calls.refuse_closed()
        return self._handlers.borrow()

    def transaction(self, lease: Lease) -> AbstractContextManager[Transaction]:
        self._calls.refuse_closed()
        ending = JobEnding(self._name, lease, lambda: self._calls.now)
        return open_transaction(self._handlers.lend(), self._address, ending)

    async def retire(self, worker: str) -> None:
        # A claim whose caller was cancelled may not be over yet, and would sign on again.
        await self.claims.ended(worker)
        await self._calls.row("SELECT {schema}._retire(%s, %s)", worker, self._calls.now)
        self._workers.forget(worker)
        self._waking.hint_here()

    # ── upkeep ──

    async def reap(self, limit: int, max_resets: int) -> Reaped:
        reaped = await self._reaping.reap(limit, max_resets)
        if reaped.requeued:
            self._waking.hint_here()
        return reaped

    async def promote(self, limit: int) -> int:
        start = self._timer.start()
        count, reached, entries = await self._calls.row(
            "SELECT count, reached, entries FROM {schema}._promote(%s::integer, %s::bigint[], %s)",
            limit,
            [start.run_at, start.job_id],
            self._calls.now,
        )
        self._timer.promoted(start, count, reached, entries)
        if count:
            self._waking.hint_here()
        return int(count)

    async def next_due(self) -> float | None:
        """Where it looked after a mark only, not later than the next look from the very start."""
        start = self._timer.start()
        due, place, entries = await self._calls.row(
            "SELECT due, place, entries FROM {schema}._next_due(%s::bigint[], %s)",
            [start.run_at, start.job_id],
            self._calls.now,
        )
        self._timer.found(start, place, entries)
        if start.began is None:
            pause = self._timer.pause
            due = pause if due is None else min(due, pause)
        return None if due is None else max(0.0, float(due))

    async def prune(
        self,
        limit: int,
        keep_chains: float = KEEP_CHAINS,
        keep_failed_chains: float = KEEP_FAILED_CHAINS,
    ) -> int:
        [count] = await self._calls.row(
            "SELECT {schema}._prune(%s::integer, %s::float8, %s::float8, %s::float8, %s)",
            limit,
            CANCELLED_KEPT,
            keep_chains,
            keep_failed_chains,
            self._calls.now,
        )
        return int(count)

    # ── schedules ──

    async def register(
        self, wanted: Sequence[Schedule], tenant: str = DEFAULT_TENANT
    ) -> list[KnownSchedule]:
        pairs = [(schedule.identifier, encode(schedule)) for schedule in wanted]
        text = msgspec.json.encode(pairs).decode()
        [found] = await self._calls.patient_row(
            "SELECT {schema}._register_schedules(%s, %s::json, %s)", tenant, text, self._calls.now
        )
        by_identifier = {known.identifier: known for known in decode_known(found or "[]")}
        return [by_identifier[schedule.identifier] for schedule in wanted]

    async def fire(
        self,
        identifier: str,
        expected: int,
        until: int,
        jobs: Sequence[NewJob],
        tenant: str = DEFAULT_TENANT,
    ) -> Fired:
        is_keyed = any(job.key is not None or job.blockers for job in jobs)
        call = self._calls.patient_row if is_keyed else self._calls.row
        with told_plainly():
            verdict, floor_at = await call(
                "SELECT verdict, floor_micros FROM {schema}._fire(%s, %s, %s, %s, %s, %s, %s)",
                tenant,
                identifier,
                to_datetime(expected),
                to_datetime(until),
                encode_jobs(jobs),
                is_keyed,
                self._calls.now,
            )
        self._waking.hint_here()
        if any(job.delay or (job.run_at or 0) > until for job in jobs):
            self._waking.hint_due(None)
        return Fired(FireVerdict(verdict), floor_at)

    async def schedules(self, tenant: str | None = None) -> list[KnownSchedule]:
        [text] = await self._calls.row(
            "SELECT pg_catalog.json_agg({schema}._schedule_row(s)"
            ' ORDER BY s.tenant COLLATE "C", s.identifier COLLATE "C")::text'
            " FROM {schema}._schedules AS s WHERE %s::text IS NULL OR s.tenant = %s",
            tenant,
            tenant,
        )
        return decode_known(text or "[]")

    async def pause_schedule(
        self, identifier: str, tenant: str = DEFAULT_TENANT
    ) -> KnownSchedule | None:
        return await self._change_schedule("_pause_schedule", identifier, tenant)

    async def resume_schedule(
        self, identifier: str, tenant: str = DEFAULT_TENANT
    ) -> KnownSchedule | None:
        return await self._change_schedule("_resume_schedule", identifier, tenant)

    async def forget_schedule(
        self, identifier: str, tenant: str = DEFAULT_TENANT
    ) -> KnownSchedule | None:
        return await self._change_schedule("_forget_schedule", identifier, tenant)

    async def _change_schedule(
        self, function: str, identifier: str, tenant: str
    ) -> KnownSchedule | None:
        [text] = await self._calls.patient_row(
            "SELECT pg_catalog.json_agg({schema}._schedule_row(s))::text"  # noqa: S608
            f" FROM {{schema}}.{function}(%s, %s, %s) AS s",
            tenant,
            identifier,
            self._calls.now,
        )
        return None if text is None else decode_known(text)[0]

    # ── operators ──

    async def examine(self) -> list[Finding]:
        from windlass.stores.postgres.examine import examine

        return await asyncio.to_thread(
            examine,
            self._address,
            self.schema,
            listens=self._waking.listens,
            pool_size=self._pool_size,
        )

    async def get(self, job_id: int, tenant: str | None = None) -> Job | None:
        return _only(await self.find(JobFilter(ids=(job_id,), limit=1, tenant=tenant)))

    async def get_by_key(self, key: str, tenant: str = DEFAULT_TENANT) -> Job | None:
        [text] = await self._calls.row(
            "SELECT pg_catalog.json_agg({schema}._row(j, w.name))::text FROM {schema}._jobs AS j"
            " LEFT JOIN {schema}._workers AS w ON w.id = j.worker"
            " WHERE j.key = %s AND j.tenant = %s AND j.state <> 'cancelled'",
            key,
            tenant,
        )
        return None if text is None else _only([row.job() for row in _rows(text)])

    async def find(self, wanted: JobFilter) -> list[Job]:
        statement, values = find.query(self._name, wanted)
        found = await self._calls.rows(statement, *values)
        return [_row(text).job() for [text] in found]

    async def counts(self, tenant: str | None = None) -> dict[JobState, int]:
        found = await self._calls.rows(*find.counts(tenant))
        return dict.fromkeys(JobState, 0) | {JobState(name): count for name, count in found}

    async def cancel(self, ids: Sequence[int], tenant: str | None = None) -> list[Job]:
        return await self._changed_of("_cancel_jobs", ids, tenant)

    async def complete(self, ids: Sequence[int], tenant: str | None = None) -> list[Job]:
        return await self._changed_of("_complete_jobs", ids, tenant)

    async def fail(self, ids: Sequence[int], reason: str, tenant: str | None = None) -> list[Job]:
        return await self._changed_of("_fail_jobs", ids, tenant, reason)

    async def reschedule(
        self,
        ids: Sequence[int],
        run_at: int | None = None,
        priority: int | None = None,
        attempts: int | None = None,
        max_attempts: int | None = None,
        tenant: str | None = None,
    ) -> list[Job]:
        when = None if run_at is None else to_datetime(run_at)
        return await self._changed_of(
            "_reschedule_jobs", ids, tenant, when, priority, attempts, max_attempts
        )

    async def retry(self, ids: Sequence[int], tenant: str | None = None) -> list[Job]:
        return await self._changed_of("_retry_jobs", ids, tenant)

    async def delete(self, ids: Sequence[int], tenant: str | None = None) -> list[Job]:
        [text] = await self._calls.patient_row(
            "SELECT {schema}._delete_jobs(%s::bigint[], %s)", list(ids), tenant
        )
        self._waking.hint()
        return in_order([row.job() for row in _rows(text)], ids)

    async def remove(self, key: str, tenant: str = DEFAULT_TENANT) -> Job | None:
        return _only(await self._changed("_remove_job", tenant, key))

    async def unlock(self, workers: Sequence[str], max_resets: int) -> list[Job]:
        return await self._changed("_unlock", list(workers), max_resets)

    async def pause(
        self, *, task: str | None = None, queue: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> None:
        for kind, name in (("task", task), ("queue", queue)):
            if name is not None:
                statement = "SELECT {schema}._pause(%s, %s, %s)"
                await self._calls.patient_row(statement, tenant, kind, name)

    async def resume(
        self, *, task: str | None = None, queue: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> None:
        for kind, name in (("task", task), ("queue", queue)):
            if name is not None:
                statement = "SELECT {schema}._resume(%s, %s, %s)"
                await self._calls.patient_row(statement, tenant, kind, name)
        self._waking.hint_here()

    async def paused(self, tenant: str | None = None) -> Paused:
        found = await self._calls.rows("SELECT tenant, kind, name FROM {schema}._paused")
        return paused_in(tenant, [PausedName(*names) for names in found])

    async def workers(self, tenant: str | None = None) -> list[WorkerInfo]:
        found = await self._calls.rows(find.WORKERS, *[tenant] * find.WORKERS.count("%s"))
        return [WorkerInfo(id=name, expires_at=end, running=held) for name, end, held in found]

    async def introduce(
        self, worker: str, tasks: Sequence[str], tenants: Sequence[str] | None = None
    ) -> bool:
        [is_known] = await self._calls.row(
            "SELECT {schema}._introduce(%s, %s::text[], %s::text[])",
            worker,
            sorted(tasks),
            None if tenants is None else sorted(tenants),
        )
        return bool(is_known)

    async def stranded(self) -> list[str]:
        [tasks] = await self._calls.row(
            "SELECT {schema}._stranded(%s::integer, %s)", MOST_STRANDED, self._calls.now
        )
        return sorted(tasks)

    async def delete_failed(self, limit: int, tenant: str | None = None) -> int:
        [count] = await self._calls.row(
            "SELECT {schema}._delete_failed(%s::integer, %s)", limit, tenant
        )
        return int(count)


def _only(jobs: Sequence[Job]) -> Job | None:
    return jobs[0] if jobs else None


def in_order(jobs: Sequence[Job], ids: Sequence[int]) -> list[Job]:
    """Jobs in the order their ids were given."""
    place = {job_id: number for number, job_id in reversed(list(enumerate(ids)))}
    return sorted(jobs, key=lambda job: place[job.id])
