"""The reference store: the shortest code that passes the contract suite.

It lives in one process and forgets everything with it, so it is for tests and for reading. Every
verb takes one lock, works on plain rows and releases it, which makes each verb atomic. Its rules
are the rules; the SQL stores only find the same rows faster.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from msgspec.structs import replace

from windlass.clock import SYSTEM, Clock
from windlass.errors import ConfigError, LeaseLostError, StoreClosedError, ValidationError
from windlass.model import payload as payloads
from windlass.model.chain import KEEP_CHAINS, KEEP_FAILED_CHAINS, Chain, ChainState
from windlass.model.cron import Schedule
from windlass.model.job import DEFAULT_TENANT, Job, JobState
from windlass.model.names import RESERVED
from windlass.store import rules
from windlass.store.chaining import Chaining, Started
from windlass.store.hints import Due, Hints, ignore_due
from windlass.store.port import MOST_STRANDED, Joined, Lifeline, Listening, Transaction
from windlass.store.records import (
    CANCELLED_KEPT,
    COMPLETE,
    Capabilities,
    ChainFilter,
    ChainRow,
    ClaimRequest,
    Complete,
    JobFilter,
    Lease,
    LostReason,
    NewChain,
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
    deleted_chain,
    encode_blockers,
    lease_of,
    paused_in,
    sees,
)
from windlass.store.rules import micros
from windlass.store.schedules import Fired, FireVerdict, KnownSchedule
from windlass.store.server import (
    REQUESTS_KEPT,
    ClaimScope,
    Request,
    Requested,
    Token,
)
from windlass.stores.memory_book import MemoryBook
from windlass.stores.memory_figures import MemoryFigures, is_of_group


class MemoryStore(MemoryFigures):
    """All jobs in dictionaries, under one lock."""

    capabilities = Capabilities(
        shared=False,
        durable=False,
        transactions=True,
        sql=False,
        roster=True,
        chains=True,
        server=True,
        figures=True,
    )
    chaining = Chaining

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._use(MemoryBook())
        self._workers: dict[str, int] = {}
        """When each worker's lease ends, in microseconds of the monotonic clock, as do the leases
        of single jobs: so they end when they should, however the wall clock is set."""
        self._introduced: dict[str, _Introduction] = {}
        self._paused: set[PausedName] = set()
        self._schedules: dict[tuple[str, str], KnownSchedule] = {}
        """By tenant and identifier."""
        self._access: dict[str, Token] = {}
        """Tokens of the server, by name."""
        self._secrets: dict[tuple[str, str], str] = {}
        self._requests: dict[tuple[str, str], _Remembered] = {}
        """By tenant and key."""
        self._rates = {}
        self._tokens = itertools.count(1)
        self._hints = Hints()
        self._closed = False

    def _use(self, book: MemoryBook) -> None:
        self._book = book
        self._rows, self._history, self._ids = book.rows, book.history, book.ids

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
        """After a change: to claim, and to be ready for jobs that are scheduled, of these or of
        those that chains have brought about."""
        self._hints.ready()
        is_scheduled, self._book.has_scheduled = self._book.has_scheduled, False
        if is_scheduled or any(job.state is JobState.SCHEDULED for job in jobs):
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
        self._chaining(now).require(jobs)
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
                self._chaining(now).block(existing, new.blockers)
                return existing
            rules.supersede(existing, now)
        row = rules.new_row(new, now, next(self._ids) if job_id is None else job_id)
        self._rows[row.id] = row
        self._chaining(now).block(row, new.blockers)
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
            chosen = itertools.islice(self._choose(request), request.limit)
            return [self._deliver(row, request) for row in chosen]

    def _choose(self, request: ClaimRequest) -> Iterator[Row]:
        """What a claim takes, in its order."""
        busy = {r.place for r in self._rows.values() if r.state is JobState.RUNNING}
        holding = {r.place for r in self._rows.values() if r.holds}
        suspects = request.suspects
        for row in sorted(self._claimable(request), key=lambda row: row.order):
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
            yield row

    def _claimable(self, request: ClaimRequest) -> Iterable[Row]:
        for row in self._rows.values():
            if (
                row.state is JobState.READY
                and _is_asked_for(row.task, request.tasks)
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
        lease = lease_of(row)
        if row.blockers_total:
            lease.blockers = encode_blockers(self._named_by(row))
        return lease

    async def settle(self, settlements: Sequence[tuple[Lease, Outcome]]) -> list[Settled]:
        with self._lock:
            now = self._start()
            answers = [self._settle(lease, outcome, now) for lease, outcome in settlements]
        self._hint()
        if any(answer.state is JobState.SCHEDULED for answer in answers):
            self._hint_due()
        return answers

    def _settle(self, lease: Lease, outcome: Outcome, now: int) -> Settled:
        row = self._owned(lease)
        if row is None:
            return Settled(self._refusal(lease), self._end_by(lease))
        if isinstance(outcome, Complete):
            reason = self._chaining(now).refusal(row, outcome)
            if reason is not None:
                return Settled(Verdict.REFUSED, reason=reason)
        self._end(row, outcome, now)
        return Settled(Verdict.APPLIED, row.state)

    def _owned(self, lease: Lease) -> Row | None:
        row = self._rows.get(lease.job_id)
        if row is None or row.state is not JobState.RUNNING or row.token != lease.token:
            return None
        return row

    def _end(self, row: Row, outcome: Outcome, now: int) -> None:
        token, is_cancelled = row.token, bool(row.cancel_requested)
        rules.end(row, outcome, now)
        if row.state.is_final:
            completion = outcome if isinstance(outcome, Complete) else COMPLETE
            self._ended(row, now, completion, token=token, is_cancelled=is_cancelled)

    def _ended(
        self,
        row: Row,
        now: int,
        completion: Complete = COMPLETE,
        *,
        token: int | None = None,
        is_cancelled: bool = False,
        is_removed: bool = False,
    ) -> None:
        """Every job that ends passes here, whichever verb ends it. A completed job leaves, for the
        history if it is to be kept; a removed one leaves for good. `completion`, `token` and
        `is_cancelled` are for `Chaining.ended`."""
        if is_removed:
            self._book.delete_job(row)
            return
        self._book.write_job(row)
        self._chaining(now).ended(row, completion, token=token, is_cancelled=is_cancelled)

    def _chaining(self, now: int) -> Chaining:
        return self.chaining(self._book, now)

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
        return Verdict.LOST if known or self._knows_chain(lease) else Verdict.MISSING

    def _knows_chain(self, lease: Lease) -> bool:
        return lease.chain is not None and self._book.chain(lease.chain) is not None

    def _end_by(self, lease: Lease) -> JobState | None:
        """COMPLETED where it was this very delivery that completed its chain."""
        chain = None if lease.chain is None else self._book.chain(lease.chain)
        return None if chain is None else chain.end_by(lease.token)

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
            if self._knows_chain(lease):  # an operator has completed the job
                return LostReason.ALREADY_COMPLETED
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
            if any(map(_goes_on, steps)):
                self._foreseen(lease, steps)  # raises where it would be refused
            self._carry_out(lease, steps)
        self._hint()

    def _foreseen(self, lease: Lease, steps: Sequence[_Step]) -> MemoryStore:
        """This store after these steps, as a copy."""
        scratch = MemoryStore(self._clock)
        scratch.chaining = self.chaining
        scratch._use(self._book.copy())
        scratch._carry_out(lease, steps)
        return scratch

    def _carry_out(self, lease: Lease, steps: Sequence[_Step]) -> list[Row | Started]:
        """In the order in which they were asked for; what was added."""
        added: list[Row | Started] = []
        for step in steps:
            if not isinstance(step, _Addition):
                answer = self._settle(lease, step, self._clock.now())
                if answer.reason is not None:
                    raise ValidationError(answer.reason, field="blockers")
            elif isinstance(step.new, NewJob):
                added.append(self._put(step.new, step.asked_at, step.job_id))
            else:
                chaining = self._chaining(step.asked_at)
                added.append(chaining.start(step.new, job_id=step.job_id))
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
                self._ended(row, now)
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

    async def prune(
        self,
        limit: int,
        keep_chains: float = KEEP_CHAINS,
        keep_failed_chains: float = KEEP_FAILED_CHAINS,
    ) -> int:
        with self._lock:
            now = self._start()
            stale = now - micros(CANCELLED_KEPT)
            old = [
                *(r for r in self._history.values() if (r.expires_at or 0) <= now),
                *(
                    row
                    for row in self._rows.values()
                    if row.state is JobState.CANCELLED and (row.finished_at or 0) <= stale
                ),
            ][:limit]
            for row in old:
                self._book.delete_job(row)
            chains = self._old_chains(now, micros(keep_chains), micros(keep_failed_chains))
            forgotten = chains[: limit - len(old)]
            for chain in forgotten:
                self._book.delete_chain(chain)
            pruned = len(old) + len(forgotten)
            requests = [place for place, it in self._requests.items() if it.is_old(now)]
            for place in requests[: limit - pruned]:
                del self._requests[place]
            return pruned + len(requests[: limit - pruned])

    def _old_chains(self, now: int, completed: int, failed: int) -> list[ChainRow]:
        """Chains that ended long enough ago, and that no open job names."""
        named = {
            it.chain
            for job_id, blockers in self._book.named.items()
            for it in blockers
            if job_id in self._rows and not self._rows[job_id].state.is_final
        }
        keeps = {ChainState.COMPLETED: completed}
        return [
            chain
            for chain in self._book.chains.values()
            if chain.finished_at is not None
            and chain.finished_at + max(chain.key_window, keeps.get(chain.state, failed)) <= now
            and chain.id not in named
        ]

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
                and (wanted.fingerprint is None or is_of_group(wanted.fingerprint, row))
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

        with self._lock:
            if attempts is not None:
                self._check_retry(ids, tenant)
            return self._change("reschedule", ids, tenant, change)

    async def retry(self, ids: Sequence[int], tenant: str | None = None) -> list[Job]:
        with self._lock:
            self._check_retry(ids, tenant)
            return self._change("retry", ids, tenant, rules.run_again)

    def _check_retry(self, ids: Sequence[int], tenant: str | None) -> None:
        """Refuse all if one of these jobs has ended and may not be brought back."""
        known = [self._rows[job_id] for job_id in ids if job_id in self._rows]
        over = [row for row in known if row.state.is_final and sees(tenant, row)]
        self._chaining(self._start()).check_retry(over)

    async def delete(self, ids: Sequence[int], tenant: str | None = None) -> list[Job]:
        with self._lock:
            now = self._start()
            found = [
                self._rows.get(job_id) or self._history.get(job_id) for job_id in dict.fromkeys(ids)
            ]
            rows = [row for row in found if row and sees(tenant, row) and self._may_delete(row)]
            for row in rows:
                self._ended(row, now, is_removed=True)
        self._hint()
        return [row.job() for row in rows]

    def _may_delete(self, row: Row) -> bool:
        chain = None if row.chain is None else self._book.chain(row.chain)
        is_open = chain is not None and chain.state is ChainState.OPEN
        return row.state in rules.TOUCHED_BY["delete"] and not is_open

    async def remove(self, key: str, tenant: str = DEFAULT_TENANT) -> Job | None:
        with self._lock:
            now = self._start()
            row = self._keyed(key, tenant)
            if row is None:
                return None
            if row.state is JobState.RUNNING:
                rules.supersede(row, now)
                return row.job()
            self._ended(row, now, is_removed=True)
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
            chosen = []
            for job_id in dict.fromkeys(ids):
                row = self._rows.get(job_id)
                if row is not None and sees(tenant, row) and self._may_touch(verb, row):
                    chosen.append((row, row.state))
                    change(row, now)
            # All are changed before one hears of another's end.
            for row, before in chosen:
                if row.state.is_final and row.state is not before:
                    self._ended(row, now)
            back = [row for row, before in chosen if before.is_final and not row.state.is_final]
            self._chaining(now).brought_back(back)
            changed = [row.job() for row, _ in chosen]
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

    # ── chains ──

    async def start_chains(self, chains: Sequence[NewChain]) -> list[Chain[Any]]:
        with self._lock:
            now = self._start()
            started = self._start_all(chains, now)
            answers = [self._seen(chain, is_duplicate) for chain, is_duplicate in started]
        self._hint([chain.job for chain in answers if chain.job is not None])
        return answers

    def _start_all(self, chains: Sequence[NewChain], now: int) -> list[Started]:
        for new in chains:
            payloads.decode(new.job.payload)
        chaining = self._chaining(now)
        chaining.require([new.job for new in chains])
        return [chaining.start(new) for new in chains]

    def _seen(self, chain: ChainRow, is_duplicate: bool = False) -> Chain[Any]:
        """A chain with its current job, or its last one where that is kept."""
        jobs = self._book.chain_jobs(chain.id)
        last = jobs[-1] if jobs else None
        if last is not None and last.state is JobState.COMPLETED:
            is_last = chain.state is ChainState.COMPLETED and last.step == chain.length - 1
            last = last if is_last else None
        return chain.chain(None if last is None else last.job(), deduplicated=is_duplicate)

    async def get_chain(self, chain_id: int, tenant: str | None = None) -> Chain[Any] | None:
        with self._lock:
            chain = self._book.chain(chain_id)
            return self._seen(chain) if chain is not None and sees(tenant, chain) else None

    async def find_chains(self, wanted: ChainFilter) -> list[Chain[Any]]:
        with self._lock:
            chosen = [
                chain
                for chain in sorted(self._book.chains.values(), key=lambda it: -it.id)
                if (wanted.after is None or chain.id < wanted.after)
                and sees(wanted.tenant, chain)
                and (wanted.states is None or chain.state in wanted.states)
                and (wanted.task is None or chain.task == wanted.task)
            ]
            return [self._seen(chain) for chain in chosen[: wanted.limit]]

    async def chain_jobs(self, chain_id: int, tenant: str | None = None) -> list[Job]:
        with self._lock:
            rows = self._book.chain_jobs(chain_id)
            return [row.job() for row in rows if sees(tenant, row)]

    async def blocked_jobs(self, chain_id: int, tenant: str | None = None) -> list[Job]:
        with self._lock:
            waiting = [it.job for it in self._book.naming(chain_id) if it.state == "open"]
            rows = [self._rows[job_id] for job_id in dict.fromkeys(waiting) if job_id in self._rows]
            blocked = [row for row in rows if row.state is JobState.BLOCKED and sees(tenant, row)]
            return [row.job() for row in reversed(blocked)]

    async def blockers(self, job_id: int, tenant: str | None = None) -> list[Chain[Any]]:
        with self._lock:
            row = self._rows.get(job_id) or self._history.get(job_id)
            return [it.chain() for it in self._named_by(row)] if row and sees(tenant, row) else []

    def _named_by(self, row: Row) -> list[ChainRow]:
        return [
            self._book.chain(it.chain) or deleted_chain(it.chain, row.tenant, row.updated_at)
            for it in self._book.blockers(row.id)
        ]

    async def complete_chain(
        self,
        chain_id: int,
        completion: Complete,
        inherits: Sequence[str] = (),
        tenant: str | None = None,
    ) -> Chain[Any]:
        with self._lock:
            chaining = self._chaining(self._start())
            [chain] = chaining.find([chain_id], tenant)
            chaining.complete(chain, completion, inherits)
            answer = self._seen(chain)
        self._hint([] if answer.job is None else [answer.job])
        return answer

    async def cancel_chains(
        self, ids: Sequence[int], tenant: str | None = None
    ) -> list[Chain[Any]]:
        with self._lock:
            chaining = self._chaining(self._start())
            chains = chaining.find(ids, tenant)
            chaining.cancel(chains)
            answers = [self._seen(chain) for chain in chains]
        self._hint()
        return answers

    async def retry_chains(self, ids: Sequence[int], tenant: str | None = None) -> list[Chain[Any]]:
        with self._lock:
            chaining = self._chaining(self._start())
            chains = chaining.retry(chaining.find(ids, tenant))
            answers = [self._seen(chain) for chain in chains]
        self._hint()
        return answers

    async def delete_chains(
        self, ids: Sequence[int], cascade: bool = False, tenant: str | None = None
    ) -> list[Chain[Any]]:
        with self._lock:
            chaining = self._chaining(self._start())
            deleted = chaining.delete(ids, tenant, cascade=cascade)
        self._hint()
        return [chain.chain() for chain in deleted]

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
            now = self._start()
            rows = [row for row in self._rows.values() if sees(tenant, row)]
            failed = [row for row in rows if row.state is JobState.FAILED][:limit]
            for row in failed:
                self._ended(row, now, is_removed=True)
            return len(failed)

    # ── for servers ──

    async def add_token(self, token: Token) -> bool:
        with self._lock:
            return self._access.setdefault(token.name, token) is token

    async def find_token(self, digest: str) -> Token | None:
        with self._lock:
            return next((it for it in self._access.values() if it.digest == digest), None)

    async def tokens(self) -> list[Token]:
        with self._lock:
            return [self._access[name] for name in sorted(self._access)]

    async def revoke_token(self, name: str) -> Token | None:
        with self._lock:
            token = self._access.get(name)
            if token is not None and token.revoked_at is None:
                token = self._access[name] = replace(token, revoked_at=self._start())
            return token

    async def secret(self, name: str, fresh: str, tenant: str = DEFAULT_TENANT) -> str:
        with self._lock:
            return self._secrets.setdefault((tenant, name), fresh)

    async def replace_secret(self, name: str, fresh: str, tenant: str = DEFAULT_TENANT) -> None:
        with self._lock:
            self._secrets[tenant, name] = fresh

    async def enqueue_once(self, requests: Sequence[Request]) -> list[Requested]:
        with self._lock:
            now = self._start()
            new: dict[tuple[str, str], Request] = {}
            for request in requests:
                for job in request.jobs:
                    payloads.decode(job.payload)
                if self._remembered(request, now) is None:
                    new.setdefault((request.tenant, request.key), request)
            self._chaining(now).require([job for it in new.values() for job in it.jobs])
            answers = [self._request(request, now) for request in requests]
            answers = [replace(it, jobs=self._jobs_now(it.ids)) for it in answers]
        self._hint([job for it in answers if it.is_new for job in it.jobs if job is not None])
        return answers

    def _remembered(self, request: Request, now: int) -> _Remembered | None:
        known = self._requests.get((request.tenant, request.key))
        return None if known is None or known.is_old(now) else known

    def _request(self, request: Request, now: int) -> Requested:
        known = self._remembered(request, now)
        if known is not None:
            is_same = known.digest == request.digest
            return Requested(known.ids) if is_same else Requested(is_conflict=True)
        ids = tuple([self._add(new, now).id for new in request.jobs])
        self._requests[request.tenant, request.key] = _Remembered(request.digest, ids, now)
        return Requested(ids, is_new=True)

    def _jobs_now(self, ids: Sequence[int]) -> tuple[Job | None, ...]:
        found = [self._rows.get(job_id) or self._history.get(job_id) for job_id in ids]
        return tuple([None if row is None else row.job() for row in found])

    async def move(self, lease: Lease, worker: str, seconds: float) -> Verdict:
        with self._lock:
            self._start()
            self._beat(worker, seconds)
            row = self._owned(lease)
            if row is None:
                return self._refusal(lease)
            row.worker = worker
            return Verdict.APPLIED

    async def claimable(self, scopes: Sequence[ClaimScope]) -> list[bool]:
        with self._lock:
            self._start()
            return [self._may_claim(scope) for scope in scopes]

    def _may_claim(self, scope: ClaimScope) -> bool:
        request = ClaimRequest("", scope.tasks, 1, scope.tenants, suspects=1)
        return next(self._choose(request), None) is not None


def _is_asked_for(task: str, tasks: Sequence[str] | None) -> bool:
    return not task.startswith(RESERVED) if tasks is None else task in tasks


def _named(tenant: str, task: str | None, queue: str | None) -> set[PausedName]:
    names = (("task", task), ("queue", queue))
    return {PausedName(tenant, kind, name) for kind, name in names if name is not None}


class _Introduction(NamedTuple):
    """Which tasks a worker runs, and for which tenants (None for all)."""

    tasks: frozenset[str]
    tenants: frozenset[str] | None


_ANYTHING = _Introduction(frozenset(), None)
"""What a worker runs that was not introduced: for all that is known, every tenant's jobs."""


class _Remembered(NamedTuple):
    """A request under its key: what it asked for, the jobs it stands for, and since when."""

    digest: str
    ids: tuple[int, ...]
    asked_at: int

    def is_old(self, now: int) -> bool:
        return self.asked_at + micros(REQUESTS_KEPT) <= now


class _Addition(NamedTuple):
    """A job or a chain that waits for a commit, when it was asked for, and the id it gets if it is
    new."""

    new: NewJob | NewChain
    asked_at: int
    job_id: int


_Step = _Addition | Outcome


def _goes_on(step: _Step) -> bool:
    """Whether it is a completion that may be refused."""
    return isinstance(step, Complete) and (step.next is not None or bool(step.starts))


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
        if _goes_on(outcome):
            with self.store._lock:
                self.store._foreseen(self._lease, [*self._steps, outcome])
        self._has_ended = True
        self._steps.append(outcome)

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Job]:
        """Add jobs when the block ends; they are answered as they would be stored now."""
        _, added = self._add(jobs, jobs)
        return [row.job() for row in added if isinstance(row, Row)]

    async def aenqueue(self, jobs: Sequence[NewJob]) -> list[Job]:
        return self.enqueue(jobs)

    def start_chains(self, chains: Sequence[NewChain]) -> list[Chain[Any]]:
        """The same for chains."""
        scratch, added = self._add(chains, [new.job for new in chains])
        return [scratch._seen(*it) for it in added if isinstance(it, Started)]

    async def astart_chains(self, chains: Sequence[NewChain]) -> list[Chain[Any]]:
        return self.start_chains(chains)

    def _add(
        self, asked: Sequence[NewJob | NewChain], jobs: Sequence[NewJob]
    ) -> tuple[MemoryStore, list[Row | Started]]:
        """What is asked for, on a store as it will be if nothing else changes meanwhile."""
        if not self._is_open:
            raise ConfigError("this transaction has ended; add the job without it")
        for new in jobs:
            payloads.decode(new.payload)
        with self.store._lock:
            now = self.store._start()
            scratch = self.store._foreseen(self._lease, self._steps)
            scratch._chaining(now).require(jobs)
            steps = [_Addition(new, now, next(self.store._ids)) for new in asked]
            added = scratch._carry_out(self._lease, steps)
            self._steps += steps
        return scratch, added


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
