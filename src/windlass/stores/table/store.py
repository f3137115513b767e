"""The store: the engine's verbs on a user's table."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from datetime import datetime
from types import TracebackType
from typing import Any, Generic, TypeVar

import psycopg
from psycopg import conninfo, sql
from psycopg.rows import tuple_row

from windlass.clock import SYSTEM, Clock, to_datetime
from windlass.errors import (
    ConfigError,
    LeaseLostError,
    StoreBusyError,
    StoreClosedError,
    StoreError,
)
from windlass.model import payload as payloads
from windlass.model.chain import KEEP_CHAINS, KEEP_FAILED_CHAINS
from windlass.model.job import DEFAULT_TENANT, Job, JobState
from windlass.model.retry import Retry
from windlass.observe.urls import without_password
from windlass.store.defaults import WorkDefaults
from windlass.store.hints import Due, Hints, ignore_due
from windlass.store.port import Lifeline, Listening, Transaction
from windlass.store.records import (
    RELEASE,
    Capabilities,
    ClaimRequest,
    JobFilter,
    Lease,
    Note,
    Outcome,
    Reaped,
    Settled,
    Verdict,
)
from windlass.stores.postgres_connections.call_threads import CallThreads, fetch_rows
from windlass.stores.postgres_connections.failures import one_line
from windlass.stores.postgres_connections.handlers import Borrowed, HandlerConnections
from windlass.stores.postgres_connections.transaction import open_transaction
from windlass.stores.postgres_connections.under_way import UnderWay
from windlass.stores.table import setup
from windlass.stores.table.faults import TableCallThreads, is_of_a_row
from windlass.stores.table.lifeline import TableLifeline
from windlass.stores.table.names import parse_relation
from windlass.stores.table.options import Fragment, TableOptions
from windlass.stores.table.outcomes import RowEnding, settle_values, settled
from windlass.stores.table.records import Row, RowLease
from windlass.stores.table.statements import Statements

R = TypeVar("R")

_BUSY_LIMIT = 2.0
_BUSY_PAUSE = 0.05
_logger = logging.getLogger("windlass")


Found = dict[int, Row | Exception]
"""What was read of each row, or why it could not be."""


_RETIRE_PAUSES = (0.01, 0.02, 0.04, 0.08)
"""Seconds between the tries of a worker that retires. Rows that stay locked are for resetters."""


class TableStore(Generic[R]):
    """Rows of a user's table, as records of type R.

    `place` is a PostgreSQL URL (or anything libpq takes), a psycopg pool, or an open psycopg
    connection whose address is then used; the connection itself is left alone.
    """

    capabilities = Capabilities(shared=True, durable=True, transactions=True, sql=True)

    def __init__(
        self,
        place: Any,
        options: TableOptions[R],
        *,
        clock: Clock = SYSTEM,
        max_pool_size: int = 10,
        prepared_statements: bool = True,
    ) -> None:
        self.options = options
        self.table = parse_relation(options.table_name, "table_name")
        self.view = (
            None if options.view_name is None else parse_relation(options.view_name, "view_name")
        )
        self._clock = clock
        url, pool = _address(place)
        self._handlers = HandlerConnections(url, pool, max_pool_size, prepared_statements)
        self._threads: CallThreads | None = None
        self._statements: Statements
        self._hints = Hints()
        self._lifelines: list[TableLifeline] = []
        self._under_way = UnderWay()

    def __repr__(self) -> str:
        return f"<windlass.TableStore {self.table.text} in {self._handlers.address.name}>"

    @property
    def defaults(self) -> WorkDefaults:
        """How a worker works on this table: no row is taken before a handler is free for it."""
        options = self.options
        return WorkDefaults(
            tasks=(options.name,),
            lease=options.stall,
            renew_every=options.beat,
            retry=Retry.fixed(options.delay),
            max_attempts=options.max_num_retries + 1,
            max_resets=options.max_num_resets,
            prefetch=0,
        )

    # ── life ──

    async def open(self) -> None:
        """Connect, and check the table against the options.

        ConfigError says everything that does not fit, and how to mend it; what is only unwise is
        logged.
        """
        if self._threads is not None:
            return
        threads = TableCallThreads(
            self._handlers.address, self._handlers.borrow_for_store, self.table.text
        )
        try:
            examined = await threads.run(lambda it: setup.examine(it, self.options))
            for warning in (*self.options.warnings, *examined.warnings):
                _logger.warning("%s: %s", self.options.name, warning)
            examined.refuse_problems(self.table.text)
            statements = examined.statements
            await threads.run(lambda it: setup.try_out(it, statements, self.options))
        except BaseException:
            await asyncio.to_thread(threads.close)
            raise
        if self._threads is not None:
            await asyncio.to_thread(threads.close)
            return
        self._threads, self._statements = threads, statements
        self._handlers.open()

    async def close(self) -> None:
        threads, self._threads = self._threads, None
        for lifeline in self._lifelines:
            await asyncio.to_thread(lifeline.close)
        self._lifelines.clear()
        if threads is not None:
            await asyncio.to_thread(threads.close)
            await asyncio.to_thread(self._handlers.close)

    async def __aenter__(self) -> TableStore[R]:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def _open_threads(self) -> CallThreads:
        if self._threads is None:
            raise StoreClosedError("this store is not open; write `async with TableStore(…)`")
        return self._threads

    @property
    def _now(self) -> datetime | None:
        """NULL for the server's own clock, which decides; tests bring one of their own."""
        return None if self._clock is SYSTEM else to_datetime(self._clock.now())

    async def now(self) -> int:
        [now] = await self._open_threads().row(
            "SELECT (extract(epoch FROM coalesce(%s, clock_timestamp())) * 1000000)::bigint",
            [self._now],
        )
        return int(now)

    def subscribe(
        self,
        hint: Callable[[], None],
        listening: Listening = lambda error: None,
        due: Due = ignore_due,
    ) -> Callable[[], None]:
        stop = self._hints.subscribe(hint, due)
        listening(None)
        return stop

    def hint(self) -> None:
        """Tell the workers of this process that there may be something new."""
        self._hints.ready()

    # ── workers ──

    async def claim(self, request: ClaimRequest) -> list[Lease]:
        is_ours = request.tasks is None or self.options.name in request.tasks
        is_ours = is_ours and (request.tenants is None or DEFAULT_TENANT in request.tenants)
        if not is_ours or request.limit < 1:
            return []
        call = self._open_threads().submit(self._claim_now, request)
        self._under_way.add(call, request.worker)
        try:
            return await asyncio.shield(asyncio.wrap_future(call))
        except asyncio.CancelledError:
            call.add_done_callback(lambda done: self._hand_back(done, request.worker))
            raise

    def _claim_now(self, request: ClaimRequest) -> list[Lease]:
        claim = self._statements.claim(request.limit, request.worker, request.conditions, self._now)

        def take(
            connection: psycopg.Connection[Any], read: Callable[..., Found]
        ) -> tuple[list[Any], Found]:
            with connection.transaction():
                taken = fetch_rows(connection, claim)
                found = read(connection, [row[0] for row in taken]) if taken else {}
                if missing := [row[0] for row in taken if row[0] not in found]:
                    raise ConfigError(
                        f"view {self.options.view_name} does not show row {missing[0]} once it is"
                        " processing; let the view show rows of every state"
                    )
                return taken, found

        def take_readable(connection: psycopg.Connection[Any]) -> tuple[list[Any], Found]:
            try:
                return take(connection, self._read)
            except Exception as error:  # a loader of the user's may raise anything
                if not is_of_a_row(error):
                    raise
            return take(connection, self._read_one_by_one)

        taken, found = self._open_threads().call(take_readable)
        by_id = {row[0]: row for row in taken}
        return [self._lease(request.worker, by_id[id_], row) for id_, row in found.items()]

    def _read(self, connection: psycopg.Connection[Any], ids: Sequence[int]) -> Found:
        with connection.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(self._statements.records(ids))
            names = tuple(column.name for column in cursor.description or ())[1:]
            return {row[0]: Row(names, row[1:]) for row in cursor.fetchall()}

    def _read_one_by_one(self, connection: psycopg.Connection[Any], ids: Sequence[int]) -> Found:
        found: Found = {}
        for id_, _ in fetch_rows(connection, self._statements.records(ids, bare=True)):
            try:
                with connection.transaction():
                    found |= self._read(connection, [id_])
            except Exception as error:  # a loader of the user's may raise anything
                if not is_of_a_row(error):
                    raise
                found[id_] = error
        return found

    def _lease(self, worker: str, taken: Sequence[Any], row: Row | Exception) -> RowLease:
        id_, token, failures, resets, queued = taken
        options = self.options
        return RowLease(
            job_id=id_,
            token=token,
            worker=worker,
            task=options.name,
            payload=payloads.EMPTY,
            attempts=failures + 1,
            deliveries=failures + resets + 1,
            max_attempts=options.max_num_retries + 1,
            priority=0,
            run_at=queued or token,
            key=None,
            queue=None,
            flags=None,
            revision=0,
            resets=resets,
            suspect=False,
            keep=None,
            created_at=queued or token,
            updated_at=token,
            last_error=None,
            row=row,
            options=options,
        )

    def _hand_back(self, call: Future[list[Lease]], worker: str) -> None:
        """Release the jobs of a claim whose caller was cancelled: no slot will run them."""
        if call.cancelled() or call.exception() is not None or self._threads is None:
            return
        released: list[tuple[Lease, Outcome]] = [(lease, RELEASE) for lease in call.result()]
        if released:
            with contextlib.suppress(StoreError):
                self._under_way.add(self._threads.submit(self._settle_now, released), worker)

    async def settle(self, settlements: Sequence[tuple[Lease, Outcome]]) -> list[Settled]:
        threads = self._open_threads()
        if not settlements:
            return []
        return await asyncio.wrap_future(threads.submit(self._settle_now, settlements))

    def _settle_now(self, settlements: Sequence[tuple[Lease, Outcome]]) -> list[Settled]:
        values = settle_values(settlements, self._now)
        rows = self._open_threads().call(
            lambda connection: fetch_rows(connection, self._statements.settle, values)
        )
        words = dict(rows)
        return [settled(words[place]) for place in range(len(settlements))]

    async def note(self, lease: Lease, note: Note) -> Verdict:
        """An entry goes to `execution_logs`; progress has no column, and is not kept."""
        if note.entry is None or self._statements.log is None:
            return Verdict.APPLIED
        verdict, _ = await self._log(self._statements.log, lease, note.entry)
        return verdict

    async def _log(
        self, statement: sql.Composed | None, lease: Lease, entry: str, number: int | None = None
    ) -> tuple[Verdict, int]:
        """What became of it, and the number of the entry."""
        may_log = self._statements.may_log
        if statement is None or may_log is None:
            raise ConfigError(
                f"{self.table.text} has no column for execution logs;"
                " `windlass doctor --table` says how to add it"
            )
        values = {
            "id": lease.job_id,
            "token": lease.token,
            "worker": lease.worker,
            "entry": entry,
            "number": number,
        }
        threads = self._open_threads()
        if rows := await threads.rows(statement, values):
            return Verdict.APPLIED, rows[0][0]
        if not (rows := await threads.rows(may_log, values)):
            return Verdict.MISSING, 0
        return (Verdict.BUSY if rows[0][0] else Verdict.LOST), 0

    async def add_execution_log_entry(self, ctx: Any, entry: Any) -> int:
        """Append to the logs of the record that `ctx` works on; the number of the entry.

        LeaseLostError if it is no longer ours, StoreBusyError if a transaction, perhaps the
        handler's own, holds the record. `ctx.log(entry)` does the same without waiting.
        """
        return await self._logged(self._statements.log, ctx, entry)

    async def update_execution_log_entry(self, ctx: Any, number: int, entry: Any) -> None:
        """Write an entry anew; LeaseLostError if there is none of that number or it is not ours."""
        await self._logged(self._statements.relog, ctx, entry, number)

    async def _logged(
        self, statement: sql.Composed | None, ctx: Any, entry: Any, number: int | None = None
    ) -> int:
        text = payloads.encode_value(entry, field="entry")
        lease: Lease = ctx._delivery.lease
        patience = _Patience()
        verdict = Verdict.BUSY
        while verdict is Verdict.BUSY:
            verdict, written = await self._log(statement, lease, text, number)
            if verdict is Verdict.BUSY and not await patience.may_ask_again():
                raise StoreBusyError(
                    f"an open transaction holds record {lease.job_id}; nothing was logged"
                )
        if verdict is not Verdict.APPLIED:
            raise LeaseLostError(
                f"record {lease.job_id} is no longer held by this delivery, or has no such entry"
            )
        return written

    def lifeline(self) -> Lifeline:
        self._open_threads()
        lifeline = TableLifeline(self._handlers.address, self._statements, lambda: self._now)
        self._lifelines = [*(it for it in self._lifelines if not it.is_closed), lifeline]
        return lifeline

    def connection(self) -> Borrowed:
        self._open_threads()
        return self._handlers.borrow()

    def transaction(self, lease: Lease) -> AbstractContextManager[Transaction]:
        self._open_threads()
        address = self._handlers.address
        ending = RowEnding(self._statements, lease, address.name, lambda: self._now)
        return open_transaction(self._handlers.lend(), address, ending)

    async def retire(self, worker: str) -> None:
        await self._under_way.ended(worker)
        statement, has_rows = self._statements.retire, self._statements.has_rows
        if statement is None or has_rows is None:
            return
        # A rival's claim may have locked a row for a moment, on its way to rows that it may take.
        for pause in (*_RETIRE_PAUSES, None):
            values = {"worker": worker, "now": self._now}
            await self._open_threads().run(
                lambda connection: connection.execute(statement, values).rowcount  # noqa: B023
            )
            [is_left] = await self._open_threads().row(has_rows, values)
            if not is_left or pause is None:
                return
            await asyncio.sleep(pause)

    # ── upkeep ──

    async def reap(self, limit: int, max_resets: int) -> Reaped:
        """Rows that were canceled are ended too."""
        values = {
            "ids": None,
            "limit": limit,
            "most": max_resets,
            "stall": self.options.stall,
            "message": self.options.reset_failure_message,
            "now": self._now,
        }
        rows = await self._open_threads().run(lambda connection: self._reset(connection, values))
        if rows:
            self.hint()
        return Reaped(
            requeued=tuple(id_ for id_, state in rows if state == "queued"),
            ended=tuple(id_ for id_, state in rows if state != "queued"),
        )

    def _reset(self, connection: psycopg.Connection[Any], values: dict[str, Any]) -> list[Any]:
        """One row that refuses to be changed does not keep the others from it."""
        try:
            return fetch_rows(connection, self._statements.reset, values)
        except psycopg.Error as error:
            if not is_of_a_row(error):
                raise
        done: list[Any] = []
        bad: list[tuple[int, str]] = []
        for [id_] in fetch_rows(connection, self._statements.to_reset, values):
            try:
                done += fetch_rows(connection, self._statements.reset, {**values, "ids": [id_]})
            except psycopg.Error as error:
                if not is_of_a_row(error):
                    raise
                bad.append((id_, one_line(error)))
        if bad:
            _logger.warning(
                "%s: %d rows of dead workers cannot be taken back, the first of them %d: %s",
                self.options.name,
                len(bad),
                *bad[0],
            )
        return done

    async def promote(self, limit: int) -> int:
        """Rows need no promotion: a claim looks at `process_after` itself."""
        self._open_threads()
        return 0

    async def next_due(self) -> float | None:
        """No worker is told when a row becomes due: workers look every `interval`."""
        self._open_threads()
        return None

    async def prune(
        self,
        limit: int,
        keep_chains: float = KEEP_CHAINS,
        keep_failed_chains: float = KEEP_FAILED_CHAINS,
    ) -> int:
        """What is finished is the user's to keep or to delete."""
        self._open_threads()
        return 0

    # ── operators ──

    async def get(self, job_id: int, tenant: str | None = None) -> Job | None:
        """A row as a job; its own columns are not in it."""
        jobs = await self.find(JobFilter(ids=(job_id,), limit=1, tenant=tenant))
        return jobs[0] if jobs else None

    async def find(self, wanted: JobFilter, conditions: Sequence[Fragment] = ()) -> list[Job]:
        """Rows as jobs, page by page, the newest first; the next page is `after` the last id.

        A row that waits is `scheduled` until its time has come, then `ready`; one that errored is
        `failed` where retries are off; one in a state that is not ours is `blocked`. `conditions`
        are in your own columns, as in the options; `queue`, `key` and tenants are of other stores,
        and find nothing.
        """
        threads = self._open_threads()
        if (
            wanted.task not in (None, self.options.name)
            or wanted.queue
            or wanted.key
            or wanted.tenant
        ):
            return []
        rows = await threads.rows(self._statements.jobs(wanted, conditions, self._now))
        return [self._job(row) for row in rows]

    def _job(self, row: Sequence[Any]) -> Job:
        id_, word, failures, resets, queued, after, finished, message, worker, log = row
        state = JobState(word)
        created_at = to_datetime(queued or 0)
        finished_at = None if finished is None else to_datetime(finished)
        begun = 1 if state in (JobState.RUNNING, JobState.COMPLETED) else 0
        return Job(
            id=id_,
            task=self.options.name,
            payload={},
            state=state,
            priority=0,
            run_at=created_at if after is None else to_datetime(after),
            attempts=failures + begun,
            max_attempts=self.options.max_num_retries + 1,
            last_error=message,
            key=None,
            queue=None,
            flags=None,
            revision=0,
            created_at=created_at,
            updated_at=finished_at or created_at,
            locked_by=worker if state is JobState.RUNNING else None,
            log=tuple(log or ()),
            resets=resets,
            deliveries=failures + resets + begun,
            finished_at=finished_at if state.is_final else None,
        )

    async def cancel(self, ids: Sequence[int]) -> list[int]:
        """Cancel waiting rows, and ask running ones to stop, which takes a column `cancel`; the
        ids of both.

        StoreBusyError names the rows that a transaction has locked; the others are cancelled.
        """
        threads = self._open_threads()
        patience = _Patience()
        changed: list[int] = []
        left = list(ids)
        while True:
            values = {"ids": left, "now": self._now}
            rows = await threads.rows(self._statements.cancel, values)
            changed += [id_ for id_, is_done in rows if is_done]
            left = [id_ for id_, is_done in rows if not is_done]
            if not left:
                return changed
            if not await patience.may_ask_again():
                held = ", ".join(map(str, left))
                raise StoreBusyError(f"not cancelled, since open transactions hold them: {held}")

    async def counts(self) -> dict[str, int]:
        """How many rows that the view shows are in each state; it reads the whole table."""
        return dict(await self._open_threads().rows(self._statements.count))

    async def queued_count(self) -> int:
        """Rows that wait: queued, and errored where they are tried again."""
        counts = await self.counts()
        errored = counts.get("errored", 0) if self.options.max_num_retries else 0
        return counts.get("queued", 0) + errored

    async def max_duration_in_queue(self) -> float:
        """Seconds for which the longest waiting row has been due; 0 if none is."""
        [seconds] = await self._open_threads().row(self._statements.oldest, {"now": self._now})
        return max(0.0, float(seconds or 0.0))


class _Patience:
    """For a row that a transaction has locked: ask again for a while, and keep no thread of
    the store waiting."""

    def __init__(self) -> None:
        self._end = asyncio.get_running_loop().time() + _BUSY_LIMIT

    async def may_ask_again(self) -> bool:
        if asyncio.get_running_loop().time() >= self._end:
            return False
        await asyncio.sleep(_BUSY_PAUSE)
        return True


def _address(place: Any) -> tuple[str, Any]:
    if isinstance(place, str):
        scheme = place.partition("://")[0]
        if "://" in place and scheme not in ("postgresql", "postgres"):
            raise ConfigError(
                f"{without_password(place)!r} is no PostgreSQL address; a table of your own is"
                " served in PostgreSQL only"
            )
        return place, None
    if isinstance(place, psycopg.Connection | psycopg.AsyncConnection):
        given = place.info.get_parameters()
        return conninfo.make_conninfo(**given, password=place.info.password), None
    return "", place
