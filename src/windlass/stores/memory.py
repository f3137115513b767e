"""The reference store: the shortest code that passes the contract suite.

It lives in one process and forgets everything with it, so it is for tests and for reading. Every
verb takes one lock, works on plain rows and releases it, which makes each verb atomic. Its rules
are the rules; the SQL stores only find the same rows faster.
"""

from __future__ import annotations

import copy
import itertools
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from msgspec.structs import replace

from windlass.clock import SYSTEM, Clock
from windlass.errors import ConfigError, LeaseLostError, StoreClosedError
from windlass.model import payload as payloads
from windlass.model.cron import Schedule
from windlass.model.job import DEFAULT_TENANT, Job, JobState
from windlass.store import rules
from windlass.store.hints import Due, Hints, ignore_due
from windlass.store.port import MOST_STRANDED, Joined, Lifeline, Listening, Transaction
from windlass.store.records import (
    CANCELLED_KEPT,
    Capabilities,
    ClaimRequest,
    JobFilter,
    Lease,
    LostReason,
    NewJob,
    Note,
    Outcome,
    Paused,
    PausedName,
    Reaped,
    Release,
    Renewal,
    Row,
    Settled,
    Verdict,
    WorkerInfo,
    lease_of,
    paused_in,
    sees,
)
from windlass.store.rules import micros
from windlass.store.schedules import Fired, FireVerdict, KnownSchedule


class MemoryStore:
    """All jobs in dictionaries, under one lock."""

    capabilities = Capabilities(
        shared=False, durable=False, transactions=True, sql=False, roster=True
    )

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._rows: dict[int, Row] = {}
        self._history: dict[int, Row] = {}
        self._workers: dict[str, int] = {}
        """When each worker's lease ends, in microseconds of the monotonic clock, as do the leases
        of single jobs: so they end when they should, however the wall clock is set."""
        self._introduced: dict[str, _Introduction] = {}
        self._paused: set[PausedName] = set()
        self._schedules: dict[tuple[str, str], KnownSchedule] = {}
        """By tenant and identifier."""
        self._ids = itertools.count(1)
        self._tokens = itertools.count(1)
        self._hints = Hints()
        self._closed = False

    # ── life ──

    async def open(self) -> None:
        self._closed = False

    async def close(self) -> None:
        self._closed = True

    async def now(self) -> int:
        return self._clock.now()

    def subscribe(
        self,
        hint: Callable[[], None],
        listening: Listening = lambda error: None,
        due: Due = ignore_due,
    ) -> Callable[[], None]:
        stop = self._hints.subscribe(hint, due)
        listening(None)
        return stop

    def _hint(self, jobs: Iterable[Job | Row] = ()) -> None:
        """After a change: to claim, and to be ready for those of `jobs` that are scheduled."""
        self._hints.ready()
        if any(job.state is JobState.SCHEDULED for job in jobs):
            self._hint_due()

    def _hint_due(self) -> None:
        """When the next job is due."""
        with self._lock:
            seconds = self._until_due()
        if seconds is not None:
            self._hints.due(seconds)

    def _start(self) -> int:
        if self._closed:
            raise StoreClosedError("this store was closed")
        return self._clock.now()

    def _ticks(self) -> int:
        """The monotonic clock, by which leases are counted."""
        return micros(self._clock.monotonic())

    # ── producers ──

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Job]:
        with self._lock:
            added = [row.job() for row in self._add_all(jobs, self._start())]
        if any(job.state is not JobState.SCHEDULED for job in added):
            self._hint(added)
        elif added:
            self._hint_due()
        return added

    def _add_all(self, jobs: Sequence[NewJob], now: int) -> list[Row]:
        for new in jobs:
            payloads.decode(new.payload)  # what cannot be read back is refused before any row
        return [self._add(new, now) for new in jobs]

    def _add(self, new: NewJob, now: int) -> Row:
        return self._put(new, now)

    def _put(self, new: NewJob, now: int, job_id: int | None = None) -> Row:
        """`job_id` is what a new row is to have as its id, where one was promised."""
        existing = self._keyed(new.key, new.tenant) if new.key is not None else None
        if existing is not None:
            if new.key_mode == "unsafe_dedupe":
                rules.request_again(existing, now)
                return existing
            if existing.state is not JobState.RUNNING:
                self._replace(existing, new, now)
                return existing
            rules.supersede(existing, now)
        row = rules.new_row(new, now, next(self._ids) if job_id is None else job_id)
        self._rows[row.id] = row
        return row

    def _replace(self, row: Row, new: NewJob, now: int) -> None:
        rules.replace(row, new, now)

    def _keyed(self, key: str, tenant: str) -> Row | None:
        for row in self._rows.values():
            if (row.key, row.tenant) == (key, tenant) and row.state is not JobState.CANCELLED:
                return row
        return None

    def joined(self, connection: Any) -> Joined:
        if isinstance(connection, MemoryTransaction) and connection.store is self:
            return connection
        raise ConfigError(
            "memory:// has no transactions to join except ctx.transaction(); use a sqlite:/// or"
            " postgresql:// URL"
        )

    # ── workers ──

    async def claim(self, request: ClaimRequest) -> list[Lease]:
        rules.refuse_conditions(request)
        with self._lock:
            self._start()
            self._beat(request.worker, request.lease)
            busy = {r.place for r in self._rows.values() if r.state is JobState.RUNNING}
            holding = {r.place for r in self._rows.values() if r.holds}
            suspects = request.suspects
            leases: list[Lease] = []
            for row in sorted(self._claimable(request), key=lambda row: row.order):
                if len(leases) == request.limit:
                    break
                if row.place is not None and row.place in busy:
                    continue
                if row.place in holding and not row.holds:
                    continue
                if row.suspect:
                    if suspects == 0:
                        busy.add(row.place)  # it keeps its place before the rest of its queue
                        continue
                    suspects -= 1
                busy.add(row.place)
                leases.append(self._deliver(row, request))
            return leases

    def _claimable(self, request: ClaimRequest) -> Iterable[Row]:
        for row in self._rows.values():
            if (
                row.state is JobState.READY
                and (request.tasks is None or row.task in request.tasks)
                and (request.tenants is None or row.tenant in request.tenants)
                and PausedName(row.tenant, "task", row.task) not in self._paused
                and PausedName(row.tenant, "queue", row.queue or "") not in self._paused
                and not set(row.flags or ()) & set(request.forbidden_flags)
            ):
                yield row

    def _deliver(self, row: Row, request: ClaimRequest) -> Lease:
        row.state = JobState.RUNNING
        row.token = next(self._tokens)
        row.worker = request.worker
        row.attempts += 1
        row.deliveries += 1
        longer = request.longer_leases.get(row.task)
        row.lease_until = None if longer is None else self._ticks() + micros(longer)
        return lease_of(row)

    async def settle(self, settlements: Sequence[tuple[Lease, Outcome]]) -> list[Settled]:
        with self._lock:
            now = self._start()
            answers = [self._settle(lease, outcome, now) for lease, outcome in settlements]
        self._hints.ready()
        if any(answer.state is JobState.SCHEDULED for answer in answers):
            self._hint_due()
        return answers

    def _settle(self, lease: Lease, outcome: Outcome, now: int) -> Settled:
        row = self._owned(lease)
        if row is None:
            return Settled(self._refusal(lease))
        self._end(row, outcome, now)
        return Settled(Verdict.APPLIED, row.state)

    def _owned(self, lease: Lease) -> Row | None:
        row = self._rows.get(lease.job_id)
        if row is None or row.state is not JobState.RUNNING or row.token != lease.token:
            return None
        return row

    def _end(self, row: Row, outcome: Outcome, now: int) -> None:
        rules.end(row, outcome, now)
        if row.state.is_final:
            self._ended(row)

    def _ended(self, row: Row, *, is_removed: bool = False) -> None:
        """Every job that ends passes here, whichever verb ends it. A completed job leaves, for the
        history if it is to be kept; a removed one leaves for good."""
        if is_removed or row.state is JobState.COMPLETED:
            del self._rows[row.id]
        if row.expires_at is not None:
            self._history[row.id] = row

    async def note(self, lease: Lease, note: Note) -> Verdict:
        with self._lock:
            now = self._start()
            row = self._owned(lease)
            if row is None:
                return self._refusal(lease)
            if note.progress is not None:
                row.progress = note.progress
            if note.entry is not None:
                row.log = rules.add_to_log(row.log, note.entry)
            row.updated_at = now
            return Verdict.APPLIED

    def _refusal(self, lease: Lease) -> Verdict:
        known = lease.job_id in self._rows or lease.job_id in self._history
        return Verdict.LOST if known else Verdict.MISSING

    # ── leases ──

    def lifeline(self) -> Lifeline:
        return _Lifeline(self)

    def renew(
        self,
        worker: str,
        lease: float,
        leases: Sequence[Lease],
        extend: Sequence[tuple[Lease, float]] = (),
    ) -> Renewal:
        with self._lock:
            self._start()
            self._beat(worker, lease)
            for held, seconds in extend:
                row = self._owned(held)
                if row is not None:
                    row.lease_until = max(row.lease_until or 0, self._ticks() + micros(seconds))
            return self.check(worker, leases)

    def check(self, worker: str, leases: Sequence[Lease]) -> Renewal:
        with self._lock:
            lost = {
                lease.job_id: self._why_lost(lease) for lease in leases if not self._owned(lease)
            }
            cancel = frozenset(
                lease.job_id
                for lease in leases
                if (row := self._owned(lease)) is not None and row.cancel_requested
            )
            return Renewal(lost=lost, cancel=cancel)

    def _why_lost(self, lease: Lease) -> LostReason:
        if lease.job_id in self._history:
            return LostReason.ALREADY_COMPLETED
        row = self._rows.get(lease.job_id)
        if row is None:
            return LostReason.NOT_FOUND
        if row.state.is_final:
            return LostReason.ALREADY_COMPLETED
        return LostReason.TAKEN_BY_ANOTHER_WORKER

    def _beat(self, worker: str, lease: float) -> None:
        self._workers[worker] = self._ticks() + micros(lease)

    def _forget(self, worker: str) -> None:
        self._workers.pop(worker, None)
        self._introduced.pop(worker, None)

    async def retire(self, worker: str) -> None:
        with self._lock:
            now = self._start()
            for row in [row for row in self._rows.values() if row.worker == worker]:
                self._end(row, Release(), now)
            self._forget(worker)
        self._hint()

    def connection(self) -> AbstractContextManager[Any]:
        raise ConfigError(_NO_SQL)

    def transaction(self, lease: Lease) -> AbstractContextManager[Transaction]:
        return MemoryTransaction(self, lease)

    def _commit(self, lease: Lease, steps: Sequence[_Step]) -> None:
        """What a transaction has gathered, all of it or (the lease was lost) nothing."""
        with self._lock:
            self._start()
            ends = any(not isinstance(step, _Addition) for step in steps)
            if ends and self._owned(lease) is None:
                raise _lost(lease, self._refusal(lease))
            self._carry_out(lease, steps)
        self._hint()

    def _carry_out(self, lease: Lease, steps: Sequence[_Step]) -> list[Row]:
        """In the order in which they were asked for; the rows of the jobs that were added."""
        added = []
        for step in steps:
            if isinstance(step, _Addition):
                added.append(self._put(step.new, step.asked_at, step.job_id))
            else:
                self._settle(lease, step, self._clock.now())
        return added

    # ── upkeep ──

    async def reap(self, limit: int, max_resets: int) -> Reaped:
        with self._lock:
            now, ticks = self._start(), self._ticks()
            expired = [
                row
                for row in self._rows.values()
                if row.state is JobState.RUNNING
                and self._workers.get(row.worker or "", 0) <= ticks
                and (row.lease_until or 0) <= ticks
            ]
            reaped = self._take_back(expired[:limit], max_resets, now)
            held = {row.worker for row in self._rows.values() if row.worker is not None}
            for worker, end in list(self._workers.items()):
                if end <= ticks and worker not in held:
                    self._forget(worker)
        if reaped.total:
            self._hint()
        return reaped

    def _take_back(self, rows: Sequence[Row], max_resets: int, now: int) -> Reaped:
        requeued: list[int] = []
        ended: list[int] = []
        for row in rows:
            rules.take_back(row, max_resets, now)
            (requeued if row.state is JobState.READY else ended).append(row.id)
            if row.state.is_final:
                self._ended(row)
        return Reaped(requeued=tuple(requeued), ended=tuple(ended))

    async def expire(self, leases: Sequence[Lease], max_resets: int) -> list[Settled]:
        with self._lock:
            now = self._start()
            answers = []
            for lease in leases:
                row = self._owned(lease)
                if row is None:
                    answers.append(Settled(self._refusal(lease)))
                else:
                    self._take_back([row], max_resets, now)
                    answers.append(Settled(Verdict.APPLIED, row.state))
        self._hint()
        return answers

    async def promote(self, limit: int) -> int:
        with self._lock:
            now = self._start()
            due = [row for row in self._scheduled() if row.run_at <= now][:limit]
            for row in due:
                row.state = JobState.READY
        if due:
            self._hint()
        return len(due)

    async def next_due(self) -> float | None:
        with self._lock:
            return self._until_due()

    def _until_due(self) -> float | None:
        now = self._start()
        scheduled = self._scheduled()
        return max(0.0, (scheduled[0].run_at - now) / 1e6) if scheduled else None

    def _scheduled(self) -> list[Row]:
        rows = [row for row in self._rows.values() if row.state is JobState.SCHEDULED]
        return sorted(rows, key=lambda row: (row.run_at, row.id))

    async def prune(self, limit: int) -> int:
        with self._lock:
            now = self._start()
            old = [r.id for r in self._history.values() if (r.expires_at or 0) <= now]
            stale = now - micros(CANCELLED_KEPT)
            gone = [
                row.id
                for row in self._rows.values()
                if row.state is JobState.CANCELLED and (row.finished_at or 0) <= stale
            ]
            for job_id in [*old, *gone][:limit]:
                self._history.pop(job_id, None) or self._rows.pop(job_id)
            return min(limit, len(old) + len(gone))

    # ── schedules ──

    async def register(
        self, wanted: Sequence[Schedule], tenant: str = DEFAULT_TENANT
    ) -> list[KnownSchedule]:
        with self._lock:
            now = self._start()
            for schedule in wanted:
                known = self._schedules.get((tenant, schedule.identifier))
                self._schedules[tenant, schedule.identifier] = (
                    KnownSchedule(
                        schedule, known_since=now, seen_at=now, floor_at=now, tenant=tenant
                    )
                    if known is None
                    else replace(known, schedule=schedule, seen_at=now)
                )
            return [self._schedules[tenant, schedule.identifier] for schedule in wanted]

    async def fire(
        self,
        identifier: str,
        expected: int,
        until: int,
        jobs: Sequence[NewJob],
        tenant: str = DEFAULT_TENANT,
    ) -> Fired:
        with self._lock:
            now = self._start()
            known = self._schedules.get((tenant, identifier))
            if known is None:
                return Fired(FireVerdict.MISSING)
            if known.paused_at is not None:
                return Fired(FireVerdict.PAUSED, known.floor_at)
            if known.floor_at != expected or until <= expected:
                return Fired(FireVerdict.LOST, known.floor_at)
            if until > now:
                return Fired(FireVerdict.EARLY, known.floor_at)
            added = self._add_all(jobs, now)
            known = replace(known, floor_at=until, last_at=until)
            self._schedules[tenant, identifier] = known
        self._hint(added)
        return Fired(FireVerdict.APPLIED, until)

    async def schedules(self, tenant: str | None = None) -> list[KnownSchedule]:
        with self._lock:
            ordered = [self._schedules[place] for place in sorted(self._schedules)]
            return [known for known in ordered if tenant is None or known.tenant == tenant]

    async def pause_schedule(
        self, identifier: str, tenant: str = DEFAULT_TENANT
    ) -> KnownSchedule | None:
        with self._lock:
            now = self._start()
            known = self._schedules.get((tenant, identifier))
            if known is not None and known.paused_at is None:
                known = self._schedules[tenant, identifier] = replace(known, paused_at=now)
            return known

    async def resume_schedule(
        self, identifier: str, tenant: str = DEFAULT_TENANT
    ) -> KnownSchedule | None:
        with self._lock:
            now = self._start()
            known = self._schedules.get((tenant, identifier))
            if known is not None and known.paused_at is not None:
                floor_at = max(known.floor_at, now)
                known = replace(known, paused_at=None, floor_at=floor_at)
                self._schedules[tenant, identifier] = known
            return known

    async def forget_schedule(
        self, identifier: str, tenant: str = DEFAULT_TENANT
    ) -> KnownSchedule | None:
        with self._lock:
            self._start()
            return self._schedules.pop((tenant, identifier), None)

    # ── operators ──

    async def get(self, job_id: int, tenant: str | None = None) -> Job | None:
        with self._lock:
            row = self._rows.get(job_id) or self._history.get(job_id)
            return row.job() if row and sees(tenant, row) else None

    async def get_by_key(self, key: str, tenant: str = DEFAULT_TENANT) -> Job | None:
        with self._lock:
            row = self._keyed(key, tenant)
            return row.job() if row else None

    async def find(self, wanted: JobFilter) -> list[Job]:
        with self._lock:
            rows = [*self._rows.values(), *self._history.values()]
            chosen = [
                row
                for row in sorted(rows, key=lambda row: row.id, reverse=True)
                if (wanted.after is None or row.id < wanted.after)
                and sees(wanted.tenant, row)
                and (wanted.states is None or row.state in wanted.states)
                and (wanted.task is None or row.task == wanted.task)
                and (wanted.queue is None or row.queue == wanted.queue)
                and (wanted.key is None or row.key == wanted.key)
                and (wanted.ids is None or row.id in wanted.ids)
            ]
            return [row.job() for row in chosen[: wanted.limit]]

    async def counts(self, tenant: str | None = None) -> dict[JobState, int]:
        with self._lock:
            rows = [*self._rows.values(), *self._history.values()]
            states = [row.state for row in rows if sees(tenant, row)]
            return {state: states.count(state) for state in JobState}

    async def cancel(self, ids: Sequence[int], tenant: str | None = None) -> list[Job]:
        return self._change("cancel", ids, tenant, rules.cancel)

    async def complete(self, ids: Sequence[int], tenant: str | None = None) -> list[Job]:
        def change(row: Row, now: int) -> None:
            rules.complete(row, None, now)

        return self._change("complete", ids, tenant, change)

    async def fail(self, ids: Sequence[int], reason: str, tenant: str | None = None) -> list[Job]:
        def change(row: Row, now: int) -> None:
            rules.give_up(row, reason, now)

        return self._change("fail", ids, tenant, change)

    async def reschedule(
        self,
        ids: Sequence[int],
        run_at: int | None = None,
        priority: int | None = None,
        attempts: int | None = None,
        max_attempts: int | None = None,
        tenant: str | None = None,
    ) -> list[Job]:
        def change(row: Row, now: int) -> None:
            rules.reschedule(
                row,
                now,
                run_at=run_at,
                priority=priority,
                attempts=attempts,
                max_attempts=max_attempts,
            )

        return self._change("reschedule", ids, tenant, change)

    async def retry(self, ids: Sequence[int], tenant: str | None = None) -> list[Job]:
        return self._change("retry", ids, tenant, rules.run_again)

    async def remove(self, key: str, tenant: str = DEFAULT_TENANT) -> Job | None:
        with self._lock:
            now = self._start()
            row = self._keyed(key, tenant)
            if row is None:
                return None
            if row.state is JobState.RUNNING:
                rules.supersede(row, now)
                return row.job()
            self._ended(row, is_removed=True)
        self._hint()
        return row.job()

    async def unlock(self, workers: Sequence[str], max_resets: int) -> list[Job]:
        with self._lock:
            now = self._start()
            rows = [row for row in self._rows.values() if row.worker in workers]
            self._take_back(rows, max_resets, now)
            for worker in workers:
                self._forget(worker)
            jobs = [row.job() for row in rows]
        self._hint()
        return jobs

    def _change(
        self,
        verb: str,
        ids: Sequence[int],
        tenant: str | None,
        change: Callable[[Row, int], None],
    ) -> list[Job]:
        with self._lock:
            now = self._start()
            changed = []
            for job_id in dict.fromkeys(ids):
                row = self._rows.get(job_id)
                if row is not None and sees(tenant, row) and self._may_touch(verb, row):
                    before = row.state
                    change(row, now)
                    if row.state.is_final and row.state is not before:
                        self._ended(row)
                    changed.append(row.job())
        self._hint(changed)
        return changed

    def _may_touch(self, verb: str, row: Row) -> bool:
        """A cancelled job can be brought back only while no other has its key."""
        is_free = (
            row.state is not JobState.CANCELLED
            or row.key is None
            or self._keyed(row.key, row.tenant) is None
        )
        return row.state in rules.TOUCHED_BY[verb] and is_free

    async def pause(
        self, *, task: str | None = None, queue: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> None:
        with self._lock:
            self._paused |= _named(tenant, task, queue)

    async def resume(
        self, *, task: str | None = None, queue: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> None:
        with self._lock:
            self._paused -= _named(tenant, task, queue)
        self._hint()

    async def paused(self, tenant: str | None = None) -> Paused:
        with self._lock:
            return paused_in(tenant, self._paused)

    async def workers(self, tenant: str | None = None) -> list[WorkerInfo]:
        with self._lock:
            held = [row.worker for row in self._rows.values() if sees(tenant, row)]
            now, ticks = self._clock.now(), self._ticks()
            return [
                WorkerInfo(id=worker, expires_at=now + end - ticks, running=held.count(worker))
                for worker, end in sorted(self._workers.items())
                if tenant is None or self._serves(worker, tenant)
            ]

    def _serves(self, worker: str, tenant: str) -> bool:
        introduced = self._introduced.get(worker, _ANYTHING)
        return introduced.tenants is None or tenant in introduced.tenants

    async def introduce(
        self, worker: str, tasks: Sequence[str], tenants: Sequence[str] | None = None
    ) -> bool:
        with self._lock:
            if worker in self._workers:
                named = None if tenants is None else frozenset(tenants)
                self._introduced[worker] = _Introduction(frozenset(tasks), named)
            return worker in self._workers

    async def stranded(self) -> list[str]:
        with self._lock:
            alive = [worker for worker, end in self._workers.items() if end > self._ticks()]
            if not self._introduced.keys() >= set(alive):
                return []
            stranded = {
                row.task
                for row in self._rows.values()
                if row.state is JobState.READY
                and PausedName(row.tenant, "task", row.task) not in self._paused
                and not any(
                    row.task in self._introduced[worker].tasks and self._serves(worker, row.tenant)
                    for worker in alive
                )
            }
            return sorted(stranded)[:MOST_STRANDED]

    async def delete_failed(self, limit: int, tenant: str | None = None) -> int:
        with self._lock:
            rows = [row for row in self._rows.values() if sees(tenant, row)]
            failed = [row for row in rows if row.state is JobState.FAILED][:limit]
            for row in failed:
                self._ended(row, is_removed=True)
            return len(failed)


def _named(tenant: str, task: str | None, queue: str | None) -> set[PausedName]:
    names = (("task", task), ("queue", queue))
    return {PausedName(tenant, kind, name) for kind, name in names if name is not None}


class _Introduction(NamedTuple):
    """Which tasks a worker runs, and for which tenants (None for all)."""

    tasks: frozenset[str]
    tenants: frozenset[str] | None


_ANYTHING = _Introduction(frozenset(), None)
"""What a worker runs that was not introduced: for all that is known, every tenant's jobs."""


class _Addition(NamedTuple):
    """A job that waits for a commit, when it was asked for, and the id it gets if it is new."""

    new: NewJob
    asked_at: int
    job_id: int


_Step = _Addition | Outcome


class MemoryTransaction:
    """Gathers a settlement and jobs, which nothing outside sees before the block ends.

    Nothing is locked meanwhile. So the lease is looked at twice, when `complete` is called and
    when the block ends, and a keyed job meets its key as it is when the block ends.
    """

    def __init__(self, store: MemoryStore, lease: Lease) -> None:
        self.store = store
        self._lease = lease
        self._steps: list[_Step] = []
        self._has_ended = False
        self._lost: Verdict | None = None
        self._is_open = False

    def __enter__(self) -> MemoryTransaction:
        self.store._start()
        self._is_open = True
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._is_open = False
        if kind is None and self._lost is None:
            self.store._commit(self._lease, self._steps)

    @property
    def connection(self) -> MemoryTransaction:
        """Good for `client.using(connection)` alone: there is no SQL here."""
        return self

    def interrupt(self) -> None:
        """Nothing here takes time."""

    def execute(self, sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[Any]:
        raise ConfigError(_NO_SQL)

    def complete(self, outcome: Outcome) -> None:
        with self.store._lock:
            self.store._start()
            if self._has_ended:
                self._lost = Verdict.LOST
            elif self.store._owned(self._lease) is None:
                self._lost = self.store._refusal(self._lease)
        if self._lost is not None:
            raise _lost(self._lease, self._lost)
        self._has_ended = True
        self._steps.append(outcome)

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Job]:
        """Add jobs when the block ends; they are answered as they would be stored now."""
        if not self._is_open:
            raise ConfigError("this transaction has ended; add the job without it")
        for new in jobs:
            payloads.decode(new.payload)
        with self.store._lock:
            now = self.store._start()
            self._steps += [_Addition(new, now, next(self.store._ids)) for new in jobs]
            added = self._foresee()
        return added[len(added) - len(jobs) :]

    async def aenqueue(self, jobs: Sequence[NewJob]) -> list[Job]:
        return self.enqueue(jobs)

    def _foresee(self) -> list[Job]:
        """The jobs that are added, as they will be if nothing changes until the block ends."""
        scratch = MemoryStore(self.store._clock)
        scratch._rows = {job_id: copy.copy(row) for job_id, row in self.store._rows.items()}
        return [row.job() for row in scratch._carry_out(self._lease, self._steps)]


_NO_SQL = "memory:// has no SQL; use a sqlite:/// or postgresql:// URL"


def _lost(lease: Lease, verdict: Verdict) -> LeaseLostError:
    return LeaseLostError(
        f"job {lease.job_id} is no longer held by this delivery ({verdict}); nothing of its"
        " transaction was written"
    )


class _Lifeline:
    """The store's own renewals; there is no connection to close."""

    def __init__(self, store: MemoryStore) -> None:
        self.renew = store.renew
        self.check = store.check

    def close(self) -> None:
        pass
