"""What really happened, by the true time, and whether it was right.

The ledger hears of everything the store does from `LedgerStore`, and of everything handlers do from
`handlers.py`. It knows the true time, so no clock that jumps can mislead it. The codes of what it
finds are those of the promises (P) and invariants (I) in question.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.simulation.chain_ledger import ChainLedger, LedgerChaining, value_of
from tests.simulation.plan import LEASE, Act
from windlass.clock import Clock
from windlass.model.chain import Chain
from windlass.model.cron import Schedule
from windlass.model.job import DEFAULT_TENANT, Job, JobState
from windlass.store.chaining import Chaining
from windlass.store.records import (
    COMPLETE,
    Cancel,
    ClaimRequest,
    Complete,
    Fail,
    Lease,
    NewJob,
    Outcome,
    Reaped,
    Release,
    Renewal,
    Row,
    Settled,
    Verdict,
)
from windlass.store.schedules import Fired, FireVerdict, KnownSchedule
from windlass.stores.memory import MemoryStore, _Step
from windlass.tasks.abort import Abort, AbortReason

MARGIN = min(LEASE / 5, 5.0)
_SETTLED = ("settle", "commit")
_BIT = 1e-4
"""What two ways to add up floats may differ by."""

LOST = (
    AbortReason.TAKEN_BY_ANOTHER_WORKER,
    AbortReason.ALREADY_COMPLETED,
    AbortReason.NOT_FOUND,
)

_BY_ANSWER: dict[str, type] = {
    "return": Complete,
    "raise": Fail,
    "poison": Fail,
    "abandon": Release,
    "cancelled": Release,
}
"""What is to be settled where a handler was not told to stop."""
_BY_REASON: dict[AbortReason, type] = {AbortReason.CANCELLED: Cancel, AbortReason.TIMEOUT: Fail}
"""What is to be settled where one was, and stopped; for other reasons the job goes back."""

_EXPECTED_ERRORS = (
    "stopping job %d: its lease could not be renewed",
    "ended %d jobs whose workers died",
    "failed for good",
    "some outcomes could not be written",
    "%d handlers refuse to stop",
    "a listener of %s raised",
)
"""What workers may log as errors in a run with faults."""


class Worker(Protocol):
    """One life of a worker, as the ledger sees it."""

    id: str
    is_dead: bool
    is_stopping: bool

    @property
    def renewed_at(self) -> float: ...


@dataclass(eq=False)
class Grant:
    """One delivery, as the store knows it."""

    job_id: int
    number: int
    worker: str
    queue: tuple[str, str] | None
    """It belongs to a tenant."""
    own_until: float
    """The end of a lease of its own, by the true time."""
    ended_at: float | None = None
    how: str = ""
    """settle, commit, retire, reap, unlock or by hand."""
    outcome: Outcome | None = None
    is_cancel_asked: bool = False
    is_refused: bool = False
    """What its handler asked for could not be stored."""


@dataclass(eq=False)
class Run:
    """One delivery, as its handler knows it."""

    grant: Grant
    worker: Worker
    act: Act
    started_at: float
    is_thread: bool
    timeout: float | None
    told: AbortReason | None = None
    answer: str = ""
    """How the handler ended: return, raise, poison, abandon, cancelled."""
    commit: str = ""
    """Of a transaction that completes the job: begun, answered or unknown."""
    starts: int = 0
    """Chains without keys that it starts if it completes."""

    @property
    def is_obedient(self) -> bool:
        return not self.is_thread and self.act[0] != "stubborn"

    def __str__(self) -> str:
        return f"delivery {self.grant.number} of job {self.grant.job_id} on {self.worker.id}"


@dataclass
class Ledger:
    """Everything that is remembered of one run."""

    time: Callable[[], float]
    violations: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    grants: dict[tuple[int, int], Grant] = field(default_factory=dict)
    runs: dict[tuple[int, int], Run] = field(default_factory=dict)
    active: list[Run] = field(default_factory=list)
    beats: dict[str, float] = field(default_factory=dict)
    """When the lease of each worker ends, by the true time."""
    workers: dict[str, Worker] = field(default_factory=dict)
    served: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The tenants of workers that do not serve all, by the worker's name."""
    tenants: dict[int, str] = field(default_factory=dict)
    """Of each job."""
    added: dict[int, int] = field(default_factory=dict)
    """The job that each request made or changed."""
    acknowledged: dict[int, int] = field(default_factory=dict)
    unknown: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    created: list[int] = field(default_factory=list)
    gone: dict[int, str] = field(default_factory=dict)
    """Why a job is no longer in the store."""
    children: Counter[int] = field(default_factory=Counter)
    """Jobs that were added in a transaction that was to complete the job."""
    bare: set[int] = field(default_factory=set)
    """Jobs whose handlers say nothing to the ledger."""
    hostile: set[int] = field(default_factory=set)
    """Jobs whose payloads cannot be decoded."""
    fired: Counter[int] = field(default_factory=Counter)
    first_floor: int | None = None

    def __post_init__(self) -> None:
        self.chains = ChainLedger(self.violate)

    def note(self, who: str, text: str) -> None:
        self.trace.append(f"{self.time() - 1_000:9.4f} {who:<8} {text}")

    def violate(self, code: str, text: str) -> None:
        self.note("!", f"{code}: {text}")
        self.violations.append(f"{code}: {text}")

    # ── handlers ──

    def begin(
        self, lease: Lease, worker: Worker, act: Act, *, is_thread: bool, timeout: float | None
    ) -> Run | None:
        if worker.is_dead:
            return None
        key = (lease.job_id, lease.deliveries)
        grant = self.grants.get(key)
        self.note(worker.id, f"start job {lease.job_id} delivery {lease.deliveries} {act}")
        if grant is None or grant.worker != worker.id:
            self.violate("I3", f"job {lease.job_id} was started by {worker.id}, which has no claim")
            return None
        run = Run(grant, worker, act, self.time(), is_thread, timeout)
        if key in self.runs:
            self.violate("I3", f"{run} was started twice")
        for other in self.active:
            if other.grant.job_id == grant.job_id:
                self._overlap(other, run, "I4")
            elif grant.queue is not None and other.grant.queue == grant.queue:
                self._overlap(other, run, "I8")
        self.runs[key] = run
        self.active.append(run)
        return run

    def _overlap(self, older: Run, run: Run, code: str) -> None:
        """Whether a handler may still run while another one of its job, or queue, begins."""
        grant = older.grant
        if run.grant.how == "unlock":
            pass  # an operator took it from a worker that lives, and that did not know yet
        elif grant.ended_at is None:
            self.violate(code, f"{run} began while {older} holds its lease")
        elif grant.how in ("unlock", "commit", "by hand"):
            pass  # an operator said so; or it had completed, and only tidies up
        elif older.told is None:
            self.violate(code, f"{run} began while {older} runs ({grant.how}), and was not told")
        elif older.is_obedient and not older.worker.is_stopping:
            self.violate(code, f"{run} began while {older} was still being stopped")

    def told(self, run: Run, reason: AbortReason) -> None:
        """A handler is told to stop: was there a reason?"""
        if run.worker.is_dead or run.told is not None:
            return
        run.told = reason
        grant, now = run.grant, self.time()
        self.note(run.worker.id, f"stop job {grant.job_id} delivery {grant.number}: {reason}")
        if reason in LOST:
            if grant.ended_at is None:
                self.violate("P5", f"{run} was told {reason} while it held its lease")
        elif reason is AbortReason.CANCELLED:
            if not grant.is_cancel_asked:
                self.violate("P5", f"{run} was cancelled, which was asked of another delivery")
        elif reason is AbortReason.ERROR:
            if now < run.worker.renewed_at + LEASE - MARGIN - _BIT:
                self.violate("P5", f"{run} was told that its lease ran out, which it did not")
        elif reason is AbortReason.TIMEOUT:
            if run.timeout is None or now < run.started_at + run.timeout - _BIT:
                self.violate("P5", f"{run} was told of a timeout too early")
        elif reason is AbortReason.SHUTDOWN and not run.worker.is_stopping:
            self.violate("P9", f"{run} was told of a shutdown that is none")

    def end(self, run: Run | None, answer: str) -> None:
        if run is None or run.worker.is_dead or run not in self.active:
            return
        self.active.remove(run)
        run.answer = answer
        grant = run.grant
        self.note(run.worker.id, f"end job {grant.job_id} delivery {grant.number}: {answer}")
        if answer == "cancelled" and run.told is None and not run.worker.is_stopping:
            self.violate("P5", f"{run} was cancelled without a reason")
        if run.told in LOST and grant.how == "commit" and run.commit in ("begun", "answered"):
            self.violate("P6", f"{run} was told {run.told} after it had completed by itself")

    def die(self, worker: Worker) -> None:
        self.active = [run for run in self.active if run.worker is not worker]

    # ── the store ──

    def stored(self, new: NewJob, row: Row, is_keyed: bool) -> None:
        """A request made a job, or changed one by its key, or made a chain."""
        if row.id not in self.created:
            self.created.append(row.id)
        self.tenants[row.id] = row.tenant
        if new.task == "bare":
            self.bare.add(row.id)
        value = value_of(new.payload)
        self.chains.stored(value)
        if "written_by" in value:
            self.children[value["written_by"]] += 1
        parent = value.get("added_by")
        if parent is not None and row.tenant != self.tenants[parent]:
            self.violate("P12", f"job {parent} added job {row.id} to another tenant")
        request = value.get("n")
        if request is None:
            return
        if request in self.added and not is_keyed:
            self.violate("I1", f"request {request} was stored twice")
        self.added[request] = row.id
        self.note("store", f"request {request} is job {row.id} ({new.task})")

    def granted(self, lease: Lease, own_until: float) -> None:
        key = (lease.job_id, lease.deliveries)
        if key in self.grants:
            self.violate("I3", f"delivery {lease.deliveries} of job {lease.job_id} was used twice")
        queue = None if lease.queue is None else (lease.tenant, lease.queue)
        if queue is not None:
            for grant in self.grants.values():
                if grant.queue == queue and grant.ended_at is None:
                    self.violate("I8", f"queue {lease.queue} was given out twice")
        served = self.served.get(lease.worker.partition(".")[0])
        if self.tenants[lease.job_id] not in (served or (lease.tenant,)):
            self.violate("P12", f"{lease.worker} was given job {lease.job_id} of another tenant")
        self.grants[key] = Grant(lease.job_id, lease.deliveries, lease.worker, queue, own_until)
        self.note(lease.worker, f"claimed job {lease.job_id} delivery {lease.deliveries}")

    def ended(self, row: Row, how: str, outcome: Outcome | None) -> None:
        grant = self.grants[row.id, row.deliveries]
        if grant.ended_at is not None:
            self.violate("I2", f"delivery {row.deliveries} of job {row.id} ended twice")
        grant.ended_at, grant.how, grant.outcome = self.time(), how, outcome
        said = "" if outcome is None else f" {type(outcome).__name__}"
        self.note(grant.worker, f"ended job {row.id} delivery {row.deliveries}: {how}{said}")
        run = self.runs.get((row.id, row.deliveries))
        if how == "settle":
            self._check_outcome(grant, run)
        elif how == "reap":
            self._check_reaped(grant, run)

    def _check_outcome(self, grant: Grant, run: Run | None) -> None:
        """Whether what was written is what the handler did."""
        outcome = grant.outcome
        if run is None:
            if isinstance(outcome, Complete) and grant.job_id not in self.bare:
                self.violate("I2", f"job {grant.job_id} was completed, and never ran")
            return
        if run.told is None:
            wanted = Fail if grant.is_refused else _BY_ANSWER.get(run.answer, type(None))
        elif run.answer == "cancelled":
            wanted = _BY_REASON.get(run.told, Release)
        else:
            return
        if not isinstance(outcome, wanted):
            said = type(outcome).__name__
            self.violate("I2", f"{run} ended with {run.answer or 'nothing'}, settled as {said}")

    def _check_reaped(self, grant: Grant, run: Run | None) -> None:
        left = max(self.beats.get(grant.worker, 0.0), grant.own_until) - self.time()
        if left > _BIT:
            self.violate(
                "I4",
                f"job {grant.job_id} was taken from {grant.worker}, whose lease holds for another"
                f" {left:.3f} s",
            )
        elif run is not None and run in self.active and run.told is None:
            self.violate("P5", f"{run} was not told to stop before its lease ended")

    def logged(self, worker: str, record: logging.LogRecord) -> None:
        text = record.getMessage()
        self.note(worker, f"{record.levelname.lower()}: {text}")
        is_expected = record.levelno < logging.ERROR or str(record.msg).startswith(_EXPECTED_ERRORS)
        if not is_expected:
            trace = f": {record.exc_info[1]!r}" if record.exc_info else ""
            self.violate("I12", f"{worker} logged {text!r}{trace}")

    # ── at the end ──

    def check_requests(self) -> None:
        for request in self.acknowledged:
            if request not in self.added:
                self.violate("I1", f"request {request} was acknowledged, and is not there")
        for request in self.added:
            if request in self.refused:
                self.violate("I1", f"request {request} was refused, and is there")

    def check_jobs(self, store: MemoryStore) -> None:
        rows = {**store._rows, **store._history}
        for job_id in self.created:
            row = rows.get(job_id)
            if row is None and job_id not in self.gone:
                self.violate("I1", f"job {job_id} is gone without an end")
            if row is not None and not row.state.is_final:
                self.violate("I1", f"job {job_id} is {row.state} after the drain")
        committed = [g for g in self.grants.values() if g.how == "commit" and g.outcome is not None]
        for grant in committed:
            if self.children[grant.job_id] != 1:
                count = self.children[grant.job_id]
                self.violate("I6", f"job {grant.job_id} completed with {count} jobs of its own")
        for job_id, count in self.children.items():
            if job_id not in {grant.job_id for grant in committed}:
                self.violate("I6", f"job {job_id} left {count} jobs, and did not complete")
        for grant in self.grants.values():
            if grant.ended_at is None:
                self.violate("I10", f"job {grant.job_id} is still held by {grant.worker}")
        for run in self.active:
            self.violate("P9", f"{run} still runs")

    def check_chains(self, store: MemoryStore) -> None:
        starts = {delivery: run.starts for delivery, run in self.runs.items()}
        self.chains.check(self.grants, starts)
        self.chains.check_ends(store._book)

    def check_counter(self, worker: str, completed: int) -> None:
        settled = [g for g in self.grants.values() if g.worker == worker and g.how in _SETTLED]
        if completed != len(settled):
            self.violate("I11", f"{worker} counted {completed} settlements of {len(settled)}")

    def check_killers(self, max_resets: int) -> None:
        killed = Counter(run.grant.job_id for run in self.runs.values() if run.act[0] == "kill")
        for job_id, count in killed.items():
            if count > max_resets + 1:
                self.violate("P10", f"job {job_id} was let kill {count} workers")

    def check_schedule(self, known: KnownSchedule | None, now: int, *, is_paused: bool) -> None:
        for instant, count in self.fired.items():
            if count > 1:
                self.violate("I9", f"instant {instant} was fired {count} times")
        if known is None or self.first_floor is None or is_paused:
            return
        table = known.schedule.timetable
        missed = set(table.between(self.first_floor, known.floor_at)) - set(self.fired)
        if missed:
            self.violate("I9", f"instants {sorted(missed)} were passed over")


class RecordingAbort(Abort):
    """What a handler looks at, with the ledger looking too."""

    def __init__(self, ledger: Ledger, run: Run) -> None:
        self._ledger = ledger
        self._run = run

    def set(self, reason: AbortReason) -> bool:
        self._ledger.told(self._run, reason)
        return super().set(reason)


class LedgerStore(MemoryStore):
    """The store in memory, and what it does is noted."""

    def __init__(self, clock: Clock, ledger: Ledger) -> None:
        super().__init__(clock)
        self.ledger = ledger
        self._how = "settle"

    def _as(self, how: str) -> _How:
        return _How(self, how)

    def _put(self, new: NewJob, now: int, job_id: int | None = None) -> Row:
        row = super()._put(new, now, job_id)
        ledger = self.ledger
        ledger.stored(new, row, new.key is not None)
        if new.key is not None:
            open_rows = [
                other.id
                for other in self._rows.values()
                if (other.key, other.tenant) == (new.key, new.tenant)
                and other.state is not JobState.CANCELLED
            ]
            if len(open_rows) > 1:
                ledger.violate("I8", f"key {new.key} is held by jobs {open_rows}")
        return row

    def _deliver(self, row: Row, request: ClaimRequest) -> Lease:
        lease = super()._deliver(row, request)
        longer = request.longer_leases.get(row.task)
        self.ledger.granted(lease, 0.0 if longer is None else self.ledger.time() + longer)
        self.ledger.chains.granted(lease, row, self._book)
        return lease

    def _chaining(self, now: int) -> Chaining:
        return LedgerChaining(self._book, now, self.ledger.chains, self.ledger.stored)

    def _settle(self, lease: Lease, outcome: Outcome, now: int) -> Settled:
        answer = super()._settle(lease, outcome, now)
        if answer.verdict is Verdict.REFUSED:
            grant = self.ledger.grants[lease.job_id, lease.deliveries]
            grant.is_refused = True
            self.ledger.note(grant.worker, f"refused job {lease.job_id}: {answer.reason}")
        return answer

    def _beat(self, worker: str, lease: float) -> None:
        super()._beat(worker, lease)
        self.ledger.beats[worker] = self.ledger.time() + lease

    def renew(
        self,
        worker: str,
        lease: float,
        leases: Sequence[Lease],
        extend: Sequence[tuple[Lease, float]] = (),
    ) -> Renewal:
        for held, seconds in extend:
            if self._owned(held) is not None:
                grant = self.ledger.grants[held.job_id, held.deliveries]
                grant.own_until = max(grant.own_until, self.ledger.time() + seconds)
        return super().renew(worker, lease, leases, extend)

    def _end(self, row: Row, outcome: Outcome, now: int) -> None:
        super()._end(row, outcome, now)
        self.ledger.ended(row, self._how, outcome)
        self.ledger.chains.check_waiting(self._book)

    def _ended(self, row: Row, now: int, completion: Complete = COMPLETE, **how: Any) -> None:
        super()._ended(row, now, completion, **how)
        if row.state is JobState.COMPLETED:
            if row.id in self.ledger.gone:
                self.ledger.violate("I2", f"job {row.id} was completed twice")
            self.ledger.gone[row.id] = "completed"

    def _commit(self, lease: Lease, steps: Sequence[_Step]) -> None:
        with self._as("commit"):
            super()._commit(lease, steps)

    async def retire(self, worker: str) -> None:
        with self._as("retire"):
            await super().retire(worker)
        self.ledger.beats.pop(worker, None)

    async def reap(self, limit: int, max_resets: int) -> Reaped:
        with self._as("reap"):
            return await super().reap(limit, max_resets)

    async def unlock(self, workers: Sequence[str], max_resets: int) -> list[Job]:
        with self._as("unlock"):
            return await super().unlock(workers, max_resets)

    def _take_back(self, rows: Sequence[Row], max_resets: int, now: int) -> Reaped:
        for row in rows:
            self.ledger.ended(row, self._how, None)
        return super()._take_back(rows, max_resets, now)

    async def cancel(self, ids: Sequence[int], tenant: str | None = None) -> list[Job]:
        for job_id in ids:
            row = self._rows.get(job_id)
            if row is not None and row.state is JobState.RUNNING:
                self.ledger.grants[row.id, row.deliveries].is_cancel_asked = True
        return await super().cancel(ids, tenant)

    async def complete_chain(self, chain_id: int, *rest: Any) -> Chain[Any]:
        with self._by_hand([chain_id]):
            return await super().complete_chain(chain_id, *rest)

    async def delete_chains(self, ids: Sequence[int], *rest: Any) -> list[Chain[Any]]:
        with self._by_hand([*self._book.chains]):
            return await super().delete_chains(ids, *rest)

    async def cancel_chains(
        self, ids: Sequence[int], tenant: str | None = None
    ) -> list[Chain[Any]]:
        cancelled = await super().cancel_chains(ids, tenant)
        for row in self._rows.values():
            if row.chain in ids and row.state is JobState.RUNNING:
                self.ledger.grants[row.id, row.deliveries].is_cancel_asked = True
        self.ledger.chains.check_waiting(self._book)
        return cancelled

    async def retry_chains(self, ids: Sequence[int], tenant: str | None = None) -> list[Chain[Any]]:
        retried = await super().retry_chains(ids, tenant)
        self.ledger.chains.check_waiting(self._book)
        return retried

    @contextmanager
    def _by_hand(self, chains: Sequence[int]) -> Iterator[None]:
        """Jobs of these chains that run before the block, and not after, ended by it."""
        before = {*self._rows, *self._history}
        running = [
            row
            for row in self._rows.values()
            if row.chain in chains and row.state is JobState.RUNNING
        ]
        yield
        self._left(before, "by hand")
        for row in running:
            if row.id not in self._rows:
                self.ledger.ended(row, "by hand", None)
        self.ledger.chains.check_waiting(self._book)

    async def remove(self, key: str, tenant: str = DEFAULT_TENANT) -> Job | None:
        row = self._keyed(key, tenant)
        if row is not None and row.state is not JobState.RUNNING:
            self.ledger.gone[row.id] = "removed"
        return await super().remove(key, tenant)

    async def prune(self, limit: int, *keeps: float) -> int:
        before = {*self._rows, *self._history}
        pruned = await super().prune(limit, *keeps)
        self._left(before, "pruned")
        return pruned

    async def delete_failed(self, limit: int, tenant: str | None = None) -> int:
        before = {*self._rows, *self._history}
        deleted = await super().delete_failed(limit, tenant)
        self._left(before, "deleted")
        return deleted

    def _left(self, before: set[int], why: str) -> None:
        for job_id in before - {*self._rows, *self._history}:
            self.ledger.gone[job_id] = why

    async def register(
        self, wanted: Sequence[Schedule], tenant: str = DEFAULT_TENANT
    ) -> list[KnownSchedule]:
        known = await super().register(wanted, tenant)
        if self.ledger.first_floor is None:
            self.ledger.first_floor = known[0].floor_at
        return known

    async def fire(
        self,
        identifier: str,
        expected: int,
        until: int,
        jobs: Sequence[NewJob],
        tenant: str = DEFAULT_TENANT,
    ) -> Fired:
        fired = await super().fire(identifier, expected, until, jobs, tenant)
        if fired.verdict is FireVerdict.APPLIED:
            for job in jobs:
                assert job.run_at is not None
                self.ledger.fired[job.run_at] += 1
        return fired


class _How:
    """Notes by which verb deliveries end inside the block."""

    def __init__(self, store: LedgerStore, how: str) -> None:
        self._store = store
        self._how = how

    def __enter__(self) -> None:
        self._before, self._store._how = self._store._how, self._how

    def __exit__(self, *error: object) -> None:
        self._store._how = self._before
