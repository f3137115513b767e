"""The store: each verb of the port as one call of one SQL function."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

import msgspec
import psycopg
from psycopg import errors

from windlass.clock import SYSTEM, Clock, to_datetime
from windlass.errors import (
    OutcomeUnknownError,
    StoreBusyError,
    StoreClosedError,
    StoreError,
    StoreUnavailableError,
)
from windlass.model.cron import Schedule
from windlass.model.job import Job, JobState
from windlass.model.payload import decode
from windlass.store import rules
from windlass.store.findings import Finding
from windlass.store.fresh import fresh_jobs
from windlass.store.hints import Due, Hints, ignore_due
from windlass.store.port import MOST_STRANDED, Joined, Listening, Transaction
from windlass.store.records import (
    CANCELLED_KEPT,
    MAX_LOG,
    RELEASE,
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
    Reaped,
    Row,
    Settled,
    Verdict,
    WorkerInfo,
)
from windlass.store.rules import micros
from windlass.store.schedules import Fired, FireVerdict, KnownSchedule, decode_known, encode
from windlass.stores.migrations import Migrate
from windlass.stores.postgres import find, schema
from windlass.stores.postgres.batches import Batches
from windlass.stores.postgres.clock_watch import ClockWatch
from windlass.stores.postgres.gather import Gather
from windlass.stores.postgres.job_ending import JobEnding
from windlass.stores.postgres.joined import PostgresJoined
from windlass.stores.postgres.keyed import KeyedAdds
from windlass.stores.postgres.lifeline import PostgresLifeline
from windlass.stores.postgres.listener import Listener
from windlass.stores.postgres.marks import ClaimMarks, Start, TimerMark
from windlass.stores.postgres.rendering import channel, quoted
from windlass.stores.postgres.wire import (
    CLAIM,
    Claimed,
    Settlements,
    claim_values,
    decode_leases,
    encode_jobs,
    encode_plain,
    list_of_payloads,
)
from windlass.stores.postgres_connections.call_threads import CallThreads, fetch_row, fetch_rows
from windlass.stores.postgres_connections.connection import CALL_LIMIT
from windlass.stores.postgres_connections.failures import one_line
from windlass.stores.postgres_connections.handlers import Borrowed, HandlerConnections
from windlass.stores.postgres_connections.loop_calls import LoopCalls
from windlass.stores.postgres_connections.stock import Stock
from windlass.stores.postgres_connections.transaction import open_transaction
from windlass.stores.postgres_connections.under_way import UnderWay

_rows = msgspec.json.Decoder(list[Row]).decode
_ids = msgspec.json.Decoder(list[int]).decode

_MOST_REFUSALS = 20
_REFUSED_PAUSE = 0.002
_ORPHANS_EVERY = 12
_VERSION_EVERY = 2
"""Reaps between looks for jobs whose worker has no row, and at the schema's version."""
_BUSY_PAUSES = (0.01, 0.02, 0.04, 0.08)
_LEAST_BATCH = 20
"""From so many jobs on, one lease for all of them costs less than one for each."""


_ENQUEUE = (
    "SELECT at_micros::text, pg_catalog.array_to_json(ids)::text"
    " FROM {schema}._enqueue($1::text, false, $2::text::timestamptz)"
)

_ENQUEUE_KEYED = (
    "SELECT added.jobs FROM (SELECT pg_catalog.set_config('lock_timeout', %s, true)) AS s (wait)"
    " CROSS JOIN LATERAL {schema}._enqueue("
    "CASE WHEN s.wait IS NOT NULL THEN %s::text END, true, %s) AS added"
)
"""The limit is set before jobs are added, because what is added depends on its being set."""

Settlement = tuple[Lease, Outcome]


class PostgresStore:
    """Jobs in one schema of one PostgreSQL database.

    `url` is anything libpq takes. `pool` is the caller's own psycopg pool instead. `listen=False`
    relies on polling alone; `prepared_statements=False` is for transaction poolers: nothing then
    depends on the session.
    """

    capabilities = Capabilities(shared=True, durable=True, transactions=True, sql=True)

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
        self._clock = clock
        self._migrate = migrate
        self._listen = listen
        self._pool_size = max_pool_size
        self._handlers = HandlerConnections(url, pool, max_pool_size, prepared_statements)
        self._address = self._handlers.address
        self._threads: CallThreads | None = None
        self._patient_threads: CallThreads | None = None
        self._keyed: KeyedAdds | None = None
        self._loop_calls: LoopCalls | None = None
        self._stock: Stock | None = None
        self._local = threading.local()
        self._listener: Listener | None = None
        self._hints = Hints()
        self._listening: list[Listening] = []
        self._lifelines: list[PostgresLifeline] = []
        self._marks: dict[str, ClaimMarks] = {}
        self._timer = TimerMark(clock)
        self._after: dict[str, str] = {}
        self._unresolved: dict[int, str] = {}
        """The bases of claims whose answers were lost, and their workers."""
        self._reaps = 0
        self._watch = ClockWatch(clock)
        self._under_way = UnderWay()
        self._batches = Batches()
        self.least_batch = _LEAST_BATCH
        """How many jobs a claim must take to hold them by one lease."""
        self._locked: set[int] = set()
        """Jobs whose rows an open transaction has locked, so that their outcome was not written."""

    # ── life ──

    async def open(self) -> None:
        if self._threads is not None:
            return
        await asyncio.to_thread(self._prepare_schema)
        if self._threads is not None:
            return  # two have opened it at once
        stock = self._stock = Stock(self._address)
        borrow = self._handlers.borrow_for_store
        self._threads = CallThreads(self._address, borrow, stock=stock)
        self._patient_threads = CallThreads(self._address, borrow, threads=8, stock=stock)
        self._keyed = KeyedAdds(
            CallThreads(self._address, borrow, threads=8, stock=stock),
            CallThreads(self._address, borrow, stock=stock),
            self._add_keyed,
        )
        if borrow is None:
            self._loop_calls = LoopCalls(self._address, stock, self._threads.submit)
        self._handlers.open()
        self._start_listening()

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
        threads, self._threads = self._threads, None
        if threads is None:
            return
        listener, self._listener = self._listener, None
        lifelines, self._lifelines = self._lifelines, []
        rest = (
            self._loop_calls,
            self._keyed,
            self._patient_threads,
            threads,
            self._stock,
            self._handlers,
        )

        def close_all() -> None:
            for part in (listener, *lifelines, *rest):
                if part is not None:
                    part.close()

        await asyncio.to_thread(close_all)

    async def now(self) -> int:
        [now] = await self._row(
            "SELECT {schema}._micros(coalesce(%s, pg_catalog.clock_timestamp()))", self._now
        )
        return int(now)

    def subscribe(
        self,
        hint: Callable[[], None],
        listening: Listening = lambda error: None,
        due: Due = ignore_due,
    ) -> Callable[[], None]:
        unsubscribe = self._hints.subscribe(hint, due)
        self._listening.append(listening)
        if self._listener is not None and self._listener.is_listening:
            listening(None)
        self._start_listening()

        def stop() -> None:
            unsubscribe()
            if listening in self._listening:
                self._listening.remove(listening)

        return stop

    def _start_listening(self) -> None:
        if self._listen and self._listener is None and self._hints and self._threads is not None:
            self._listener = Listener(
                self._address,
                channel(self.schema),
                self._hint,
                self._hints.due,
                self._on_migration,
                self._tell_listening,
            )

    def _tell_listening(self, error: BaseException | None) -> None:
        for listening in tuple(self._listening):
            listening(error)

    def _hint(self) -> None:
        self._expect_new()
        self._hints.ready()

    def _expect_new(self) -> None:
        for marks in tuple(self._marks.values()):
            marks.expect_new()

    def _hint_here(self) -> None:
        """After a write: for workers of this process, when no notification will reach them."""
        self._expect_new()
        if self._listener is None or not self._listener.is_listening:
            self._hint()

    def _on_migration(self) -> None:
        self._reaps = -1  # the next reap looks at the schema's version

    # ── calls ──

    @property
    def _now(self) -> datetime | None:
        """NULL for the server's own clock, which decides; tests bring one of their own."""
        return None if self._clock is SYSTEM else to_datetime(self._clock.now())

    def _open_threads(self) -> CallThreads:
        if self._threads is None:
            raise StoreClosedError("this store is not open; call open() first")
        return self._threads

    def _open_patient_threads(self) -> CallThreads:
        """Threads for calls that may wait for a locked row; workers have their own."""
        self._open_threads()
        assert self._patient_threads is not None
        return self._patient_threads

    def _sql(self, statement: str) -> str:
        return statement.replace("{schema}", self._name)

    async def _row(self, statement: str, *values: Any) -> tuple[Any, ...]:
        return await self._open_threads().row(self._sql(statement), values)

    async def _texts(
        self, statement: str, values: Sequence[str | None], *, changes: bool = False
    ) -> Sequence[str | None]:
        """The row that a statement with $1, $2, … answers with, all texts, without a thread.

        Event loops cannot wait for connections of the caller's own pool; and the threads know what
        to do where `changes` to jobs need another isolation than the session's.
        """
        threads, text = self._open_threads(), self._sql(statement)
        if self._loop_calls is None or (changes and not self._address.is_session_ours):
            return await threads.row(re.sub(r"\$\d+", "%s", text), values)
        return await self._loop_calls.row(text, values)

    async def _changed(self, function: str, *values: Any) -> list[Job]:
        """Call a function that returns the jobs it changed; `now` is its last argument."""
        places = ", ".join(["%s"] * (len(values) + 1))
        statement = self._sql(
            "SELECT pg_catalog.json_agg({schema}._row(j, w.name))::text"  # noqa: S608
            f" FROM {{schema}}.{function}({places}) AS j"
            " LEFT JOIN {schema}._workers AS w ON w.id = j.worker"
        )
        [text] = await self._open_patient_threads().row(statement, [*values, self._now])
        self._hint()
        changed = [] if text is None else [row.job() for row in _rows(text)]
        self._hint_due(changed)
        return changed

    @property
    def statements(self) -> int:
        """How many calls this store has made since it was opened."""
        on_loops = 0 if self._loop_calls is None else self._loop_calls.calls
        return self._open_threads().statements + on_loops

    # ── producers ──

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Job]:
        self._open_threads()
        if not jobs:
            return []
        if any(job.key is not None for job in jobs):
            assert self._keyed is not None
            new = await self._keyed.add(jobs)
        else:
            new = await self._gather().add(jobs)
        if any(job.state is not JobState.SCHEDULED for job in new):
            self._hint_here()
        self._hint_due(new)
        return new

    def _hint_due(self, jobs: Iterable[Job]) -> None:
        """After jobs were written: workers of this process know exactly when they are due."""
        waits = [
            (job.run_at - job.updated_at).total_seconds()
            for job in jobs
            if job.state is JobState.SCHEDULED
        ]
        if waits:
            self._hints.due(min(waits))

    def _gather(self) -> Gather:
        """The one of the running event loop."""
        found: Gather | None = getattr(self._local, "gather", None)
        if found is None or found.loop is not asyncio.get_running_loop():
            found = self._local.gather = Gather(self._add_plain)
        return found

    async def _add_plain(self, jobs: Sequence[NewJob]) -> list[Job]:
        now = self._now
        values = encode_plain(jobs), None if now is None else now.isoformat()
        at, ids = await self._texts(_ENQUEUE, values)
        assert ids is not None
        payloads = decode(list_of_payloads(jobs))
        return fresh_jobs(jobs, payloads, int(at or 0), _ids(ids))

    def _add_keyed(
        self, connection: psycopg.Connection[Any], jobs: Sequence[NewJob], wait: float
    ) -> list[Job]:
        """Waits for no lock longer than so many seconds."""
        statement = self._sql(_ENQUEUE_KEYED)
        values = [f"{wait * 1000:.0f}ms", encode_jobs(jobs), self._now]
        [text] = fetch_row(connection, statement, values)
        return [row.job() for row in _rows(text)]

    def joined(self, connection: Any) -> Joined:
        return PostgresJoined(connection, self._name, lambda: self._now)

    # ── workers ──

    async def claim(self, request: ClaimRequest) -> list[Lease]:
        rules.refuse_conditions(request)
        if found := await self._resolve(request.worker, request.lease):
            return found
        if not self._watch.has_begun:
            await self._open_threads().run(self._begin_watch)
        marks = self._marks.setdefault(request.worker, ClaimMarks(self._clock))
        refusals = 0
        start = marks.start()
        while refusals < _MOST_REFUSALS:
            claimed = await self._claim(request, marks, start)
            if claimed.leases:
                if claimed.is_more and len(claimed.leases) < request.limit:
                    self._hint()  # what comes short for this reason is no sign that all is done
                return claimed.leases
            if claimed.is_more and claimed.next_bell > start.bell:
                # It has heard bells, and there are more. What it left there is for another look.
                start = start.after(claimed.next_bell, claimed.entries)
                continue
            if start.began is not None or marks.pause > 0.0:
                if not claimed.is_more:
                    break
                await asyncio.sleep(_REFUSED_PAUSE)
            refusals += 1
            start = marks.start()
        if start.began is None:
            # What lies before the marks is looked for soon, hint or no hint.
            asyncio.get_running_loop().call_later(marks.pause, self._hint)
        return []

    async def _claim(self, request: ClaimRequest, marks: ClaimMarks, start: Start) -> Claimed:
        base = secrets.randbits(62)
        call = asyncio.ensure_future(self._ask_claim(request, base, start))
        self._under_way.add(call, request.worker)
        try:
            claimed = await asyncio.shield(call)
        except asyncio.CancelledError:
            call.add_done_callback(lambda done: self._hand_back(done, base, request.worker))
            raise
        except OutcomeUnknownError:
            self._unresolved[base] = request.worker
            raise
        if claimed.is_batch:
            self._batches.begin(base, request.worker, claimed.leases)
        self._after[request.worker] = claimed.next_after
        marks.learn(request, claimed.leases, start, bell=claimed.next_bell, entries=claimed.entries)
        return claimed

    async def _ask_claim(self, request: ClaimRequest, base: int, start: Start) -> Claimed:
        ended = self._batches.ended()
        values = claim_values(
            request,
            base,
            after=self._after.get(request.worker, ""),
            start=start,
            least_batch=self.least_batch,
            ended=ended,
            now=self._now,
        )
        claimed = Claimed.decode(await self._texts(CLAIM, values, changes=True))
        self._batches.forget(ended)
        return claimed

    def _hand_back(self, call: asyncio.Future[Claimed], base: int, worker: str) -> None:
        """Release the jobs of a claim whose caller was cancelled: no slot will run them."""
        if call.cancelled() or call.exception() is not None or self._threads is None:
            return
        if leases := call.result().leases:
            self._batches.begin(base, worker, leases)
            released = [(lease, RELEASE) for lease in leases]
            with contextlib.suppress(StoreError):
                self._under_way.add(self._threads.submit(self._settle_now, released), worker)

    async def _resolve(self, worker: str, lease: float) -> list[Lease]:
        """What claims of this worker took whose answers were lost. They are asked about until there
        is an answer, which is final: a claim that has not happened by then cannot any more."""
        mine = [base for base, name in self._unresolved.items() if name == worker]
        if not mine:
            return []
        [text] = await self._row(
            "SELECT {schema}._claimed(%s, %s::float8, %s::bigint[], %s)",
            worker,
            lease,
            mine,
            self._now,
        )
        leases = [] if text is None else decode_leases(text)
        for base in mine:
            self._unresolved.pop(base, None)
            taken = [held for held in leases if held.token - held.job_id == base]
            if taken:
                self._batches.begin(base, worker, taken)
        return leases

    async def settle(self, settlements: Sequence[tuple[Lease, Outcome]]) -> list[Settled]:
        threads = self._open_threads()
        if not settlements:
            return []
        answers = await asyncio.wrap_future(threads.submit(self._settle_now, settlements))
        if any(lease.queue or not isinstance(outcome, Complete) for lease, outcome in settlements):
            self._hint()  # freeing a queue or retrying sends no NOTIFY; this worker goes on with it
            for (_, outcome), answer in zip(settlements, answers, strict=True):
                if answer.state is JobState.SCHEDULED and isinstance(outcome, Fail):
                    self._hints.due(outcome.delay if outcome.run_at is None else None)
        return answers

    def _settle_now(self, settlements: Sequence[Settlement]) -> list[Settled]:
        """Wait a moment for rows that an open transaction has locked. Rows that stay locked are
        answered as busy, and from then on settled with `careful`."""
        ids = {lease.job_id for lease, _ in settlements}
        answers = self._settle_once(settlements, careful=not ids.isdisjoint(self._locked))
        busy = _busy(answers)
        for pause in _BUSY_PAUSES:
            if all(settlements[place][0].job_id in self._locked for place in busy):
                break
            time.sleep(pause)
            again = self._settle_once([settlements[place] for place in busy], careful=True)
            for place, answer in zip(busy, again, strict=True):
                answers[place] = answer
            busy = _busy(answers)
        held = {settlements[place][0].job_id for place in busy}
        self._locked = (self._locked - ids) | held
        self._batches.leave([lease for lease, _ in settlements if lease.job_id not in held])
        return answers

    def _settle_once(self, settlements: Sequence[Settlement], *, careful: bool) -> list[Settled]:
        prepared = Settlements(settlements)
        statement = self._sql(f"SELECT {{schema}}.{Settlements.CALL}")

        def settle(careful: bool) -> list[Settled]:
            values = prepared.values(careful, self._now)
            call = self._open_threads().call
            return prepared.answers(call(lambda it: fetch_row(it, statement, values))[0])

        try:
            return settle(careful)
        except StoreBusyError:
            return settle(True)

    async def note(self, lease: Lease, note: Note) -> Verdict:
        [verdict] = await self._row(
            "SELECT {schema}._note(%s, %s, %s::json, %s::json, %s, %s)",
            lease.job_id,
            lease.token,
            note.progress,
            note.entry,
            MAX_LOG,
            self._now,
        )
        return Verdict(verdict)

    def lifeline(self) -> PostgresLifeline:
        self._open_threads()
        lifeline = PostgresLifeline(self._address, self._name, lambda: self._now)
        self._lifelines = [*(it for it in self._lifelines if not it.is_closed), lifeline]
        return lifeline

    def connection(self) -> Borrowed:
        self._open_threads()
        return self._handlers.borrow()

    def transaction(self, lease: Lease) -> AbstractContextManager[Transaction]:
        self._open_threads()
        ending = JobEnding(self._name, lease, lambda: self._now)
        return open_transaction(self._handlers.lend(), self._address, ending)

    async def retire(self, worker: str) -> None:
        # A claim whose caller was cancelled may not be over yet, and would sign on again.
        await self._under_way.ended(worker)
        await self._row("SELECT {schema}._retire(%s, %s)", worker, self._now)
        self._batches.retire(worker)
        for base in [base for base, name in self._unresolved.items() if name == worker]:
            del self._unresolved[base]
        self._marks.pop(worker, None)
        self._after.pop(worker, None)
        self._hint_here()

    # ── upkeep ──

    async def reap(self, limit: int, max_resets: int) -> Reaped:
        self._reaps += 1
        if self._reaps % _VERSION_EVERY == 0:
            await self._open_threads().run(
                lambda connection: schema.installed(connection, self.schema)
            )
        orphans = self._reaps % _ORPHANS_EVERY == 0
        reaped = await self._open_threads().run(
            lambda connection: self._reap_now(connection, limit, max_resets, orphans)
        )
        if reaped.requeued:
            self._hint_here()
        return reaped

    def _reap_now(
        self, connection: psycopg.Connection[Any], limit: int, max_resets: int, orphans: bool
    ) -> Reaped:
        watch = self._watch
        if not watch.has_begun:
            self._begin_watch(connection)
        sent = self._clock.monotonic()
        requeued, ended, at = fetch_row(
            connection,
            self._sql(
                "SELECT requeued, ended, at_micros"
                " FROM {schema}._reap(%s::integer, %s::integer, %s, %s, %s, %s)"
            ),
            [limit, max_resets, orphans, watch.reckoned, watch.watched_since, self._now],
        )
        by = watch.jump(at, sent, self._clock.monotonic())
        if by is not None:
            fetch_row(
                connection,
                self._sql(
                    "SELECT {schema}._follow_clock(%s, %s, %s::float8,"
                    " %s::bigint * interval '1 microsecond', %s)"
                ),
                [watch.machine, to_datetime(at - micros(sent)), watch.since, by, self._now],
            )
            watch.follow(at, sent)
        return Reaped(requeued=tuple(requeued), ended=tuple(ended))

    def _begin_watch(self, connection: psycopg.Connection[Any]) -> None:
        sent = self._clock.monotonic()
        statement = self._sql(
            "SELECT zero_micros, watched_since FROM {schema}._watch_clock(%s, %s::float8, %s)"
        )
        self._watch.begin(*fetch_row(connection, statement, [self._watch.machine, sent, self._now]))

    async def promote(self, limit: int) -> int:
        start = self._timer.start()
        count, reached, entries = await self._row(
            "SELECT count, reached, entries FROM {schema}._promote(%s::integer, %s::bigint[], %s)",
            limit,
            [start.run_at, start.job_id],
            self._now,
        )
        self._timer.promoted(start, count, reached, entries)
        if count:
            self._hint_here()
        return int(count)

    async def next_due(self) -> float | None:
        """Where it looked after a mark only, not later than the next look from the very start."""
        start = self._timer.start()
        due, place, entries = await self._row(
            "SELECT due, place, entries FROM {schema}._next_due(%s::bigint[], %s)",
            [start.run_at, start.job_id],
            self._now,
        )
        self._timer.found(start, place, entries)
        if start.began is None:
            pause = self._timer.pause
            due = pause if due is None else min(due, pause)
        return None if due is None else max(0.0, float(due))

    async def prune(self, limit: int) -> int:
        [count] = await self._row(
            "SELECT {schema}._prune(%s::integer, %s::float8, %s)", limit, CANCELLED_KEPT, self._now
        )
        return int(count)

    # ── schedules ──

    async def know(self, wanted: Sequence[Schedule]) -> list[KnownSchedule]:
        pairs = [(schedule.identifier, encode(schedule)) for schedule in wanted]
        text = msgspec.json.encode(pairs).decode()
        [found] = await self._open_patient_threads().row(
            self._sql("SELECT {schema}._know(%s::json, %s)"), [text, self._now]
        )
        by_identifier = {known.identifier: known for known in decode_known(found or "[]")}
        return [by_identifier[schedule.identifier] for schedule in wanted]

    async def fire(
        self, identifier: str, expected: int, until: int, jobs: Sequence[NewJob]
    ) -> Fired:
        is_keyed = any(job.key is not None for job in jobs)
        threads = self._open_patient_threads() if is_keyed else self._open_threads()
        verdict, floor_at = await threads.row(
            self._sql("SELECT verdict, floor_micros FROM {schema}._fire(%s, %s, %s, %s, %s, %s)"),
            [
                identifier,
                to_datetime(expected),
                to_datetime(until),
                encode_jobs(jobs),
                is_keyed,
                self._now,
            ],
        )
        self._hint_here()
        if any(job.delay or (job.run_at or 0) > until for job in jobs):
            self._hints.due(None)
        return Fired(FireVerdict(verdict), floor_at)

    async def schedules(self) -> list[KnownSchedule]:
        [text] = await self._row(
            "SELECT pg_catalog.json_agg({schema}._schedule_row(s)"
            ' ORDER BY s.identifier COLLATE "C")::text FROM {schema}._schedules AS s'
        )
        return decode_known(text or "[]")

    async def pause_schedule(self, identifier: str) -> KnownSchedule | None:
        return await self._change_schedule("_pause_schedule", identifier)

    async def resume_schedule(self, identifier: str) -> KnownSchedule | None:
        return await self._change_schedule("_resume_schedule", identifier)

    async def forget_schedule(self, identifier: str) -> KnownSchedule | None:
        return await self._change_schedule("_forget_schedule", identifier)

    async def _change_schedule(self, function: str, identifier: str) -> KnownSchedule | None:
        statement = self._sql(
            "SELECT pg_catalog.json_agg({schema}._schedule_row(s))::text"  # noqa: S608
            f" FROM {{schema}}.{function}(%s, %s) AS s"
        )
        [text] = await self._open_patient_threads().row(statement, [identifier, self._now])
        return None if text is None else decode_known(text)[0]

    # ── operators ──

    async def examine(self) -> list[Finding]:
        from windlass.stores.postgres.examine import examine

        return await asyncio.to_thread(
            examine, self._address, self.schema, listens=self._listen, pool_size=self._pool_size
        )

    async def get(self, job_id: int) -> Job | None:
        return _only(await self.find(JobFilter(ids=(job_id,), limit=1)))

    async def get_by_key(self, key: str) -> Job | None:
        [text] = await self._row(
            "SELECT pg_catalog.json_agg({schema}._row(j, w.name))::text FROM {schema}._jobs AS j"
            " LEFT JOIN {schema}._workers AS w ON w.id = j.worker"
            " WHERE j.key = %s AND j.state <> 'cancelled'",
            key,
        )
        return None if text is None else _only([row.job() for row in _rows(text)])

    async def find(self, wanted: JobFilter) -> list[Job]:
        statement, values = find.query(self._name, wanted)
        found = await self._open_threads().run(
            lambda connection: fetch_rows(connection, statement, values)
        )
        return [_row(text).job() for [text] in found]

    async def counts(self) -> dict[JobState, int]:
        found = await self._open_threads().run(
            lambda connection: fetch_rows(connection, self._sql(find.COUNTS), ())
        )
        return dict.fromkeys(JobState, 0) | {JobState(name): count for name, count in found}

    async def cancel(self, ids: Sequence[int]) -> list[Job]:
        return in_order(await self._changed("_cancel_jobs", list(ids)), ids)

    async def complete(self, ids: Sequence[int]) -> list[Job]:
        return in_order(await self._changed("_complete_jobs", list(ids)), ids)

    async def fail(self, ids: Sequence[int], reason: str) -> list[Job]:
        return in_order(await self._changed("_fail_jobs", list(ids), reason), ids)

    async def reschedule(
        self,
        ids: Sequence[int],
        run_at: int | None = None,
        priority: int | None = None,
        attempts: int | None = None,
        max_attempts: int | None = None,
    ) -> list[Job]:
        when = None if run_at is None else to_datetime(run_at)
        changed = await self._changed(
            "_reschedule_jobs", list(ids), when, priority, attempts, max_attempts
        )
        return in_order(changed, ids)

    async def retry(self, ids: Sequence[int]) -> list[Job]:
        return in_order(await self._changed("_retry_jobs", list(ids)), ids)

    async def remove(self, key: str) -> Job | None:
        return _only(await self._changed("_remove_job", key))

    async def unlock(self, workers: Sequence[str], max_resets: int) -> list[Job]:
        return await self._changed("_unlock", list(workers), max_resets)

    async def pause(self, *, task: str | None = None, queue: str | None = None) -> None:
        for kind, name in (("task", task), ("queue", queue)):
            if name is not None:
                await self._open_patient_threads().row(
                    self._sql("SELECT {schema}._pause(%s, %s)"), [kind, name]
                )

    async def resume(self, *, task: str | None = None, queue: str | None = None) -> None:
        for kind, name in (("task", task), ("queue", queue)):
            if name is not None:
                await self._open_patient_threads().row(
                    self._sql("SELECT {schema}._resume(%s, %s)"), [kind, name]
                )
        self._hint_here()

    async def paused(self) -> Paused:
        found = await self._open_threads().run(
            lambda connection: fetch_rows(
                connection, self._sql("SELECT kind, name FROM {schema}._paused ORDER BY name"), ()
            )
        )
        return Paused(
            tasks=tuple(name for kind, name in found if kind == "task"),
            queues=tuple(name for kind, name in found if kind == "queue"),
        )

    async def workers(self) -> list[WorkerInfo]:
        found = await self._open_threads().run(
            lambda connection: fetch_rows(connection, self._sql(find.WORKERS), ())
        )
        return [WorkerInfo(id=name, expires_at=end, running=held) for name, end, held in found]

    async def introduce(self, worker: str, tasks: Sequence[str]) -> bool:
        [is_known] = await self._row(
            "SELECT {schema}._introduce(%s, %s::text[])", worker, sorted(tasks)
        )
        return bool(is_known)

    async def stranded(self) -> list[str]:
        [tasks] = await self._row(
            "SELECT {schema}._stranded(%s::integer, %s)", MOST_STRANDED, self._now
        )
        return sorted(tasks)

    async def delete_failed(self, limit: int) -> int:
        [count] = await self._row("SELECT {schema}._delete_failed(%s::integer)", limit)
        return int(count)


_row = msgspec.json.Decoder(Row).decode


def _busy(answers: Sequence[Settled]) -> list[int]:
    return [place for place, answer in enumerate(answers) if answer.verdict is Verdict.BUSY]


def _only(jobs: Sequence[Job]) -> Job | None:
    return jobs[0] if jobs else None


def in_order(jobs: Sequence[Job], ids: Sequence[int]) -> list[Job]:
    """Jobs in the order their ids were given."""
    place = {job_id: number for number, job_id in reversed(list(enumerate(ids)))}
    return sorted(jobs, key=lambda job: place[job.id])
