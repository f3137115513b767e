"""The records that cross the store port, in both directions.

Instants are integers here (microseconds since 1970, UTC) and payloads are JSON text, so that a
batch crosses the port without a Python object per field.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from windlass.clock import to_datetime
from windlass.model import payload as payloads
from windlass.model.job import Job, JobState
from windlass.model.names import DEFAULT_MAX_ATTEMPTS, KeyMode

MAX_LOG = 200
"""Entries kept of a job's log; the oldest go first."""

CANCELLED_KEPT = 7 * 24 * 3600.0
"""Seconds a cancelled job can still be seen."""


class NewJob(msgspec.Struct, frozen=True, gc=False):
    """A validated request to add one job. None means *unset*, never zero.

    The job is due at `run_at`, or `delay` microseconds from the database's now.
    """

    task: str
    payload: str = payloads.EMPTY
    queue: str | None = None
    run_at: int | None = None
    delay: int = 0
    max_attempts: int | None = None
    key: str | None = None
    key_mode: KeyMode = "replace"
    priority: int = 0
    flags: tuple[str, ...] | None = None
    keep: float | None = None


class Lease(msgspec.Struct, array_like=True, gc=False):
    """One delivery of a job to a worker, proved by `token`. The order of fields is the wire's.

    It also carries the job as it was when claimed; `attempts` and `deliveries` already count this
    delivery. Two deliveries of one job never share a token.
    """

    job_id: int
    token: int
    worker: str
    task: str
    payload: str
    attempts: int
    deliveries: int
    max_attempts: int | None
    priority: int
    run_at: int
    key: str | None
    queue: str | None
    flags: tuple[str, ...] | None
    revision: int
    resets: int
    suspect: bool
    keep: float | None
    created_at: int
    updated_at: int
    last_error: str | None

    @property
    def record(self) -> Any:
        """What a generic handler is given: the job, or the row in a store of users' own tables."""
        return self.job

    @property
    def job(self) -> Job:
        """The job as a user sees it while it runs; built anew on each call."""
        return Job(
            id=self.job_id,
            task=self.task,
            payload=payloads.shown(self.payload),
            state=JobState.RUNNING,
            priority=self.priority,
            run_at=to_datetime(self.run_at),
            attempts=self.attempts,
            max_attempts=DEFAULT_MAX_ATTEMPTS if self.max_attempts is None else self.max_attempts,
            last_error=self.last_error,
            key=self.key,
            queue=self.queue,
            flags=self.flags,
            revision=self.revision,
            created_at=to_datetime(self.created_at),
            updated_at=to_datetime(self.updated_at),
            locked_by=self.worker,
            resets=self.resets,
            deliveries=self.deliveries,
            keep=self.keep,
        )


class ClaimRequest(msgspec.Struct, frozen=True):
    """What a worker may be given.

    At most `limit` jobs, of which at most `suspects` are suspects (jobs whose last worker died;
    a claim takes as many as slots are free, and starts them at once). `lease` is the worker's own
    lease in seconds, `longer_leases` the tasks that asked for more. With `past_heads` the store
    also looks behind heads of serial queues that this worker may not run (unknown task, forbidden
    flag).
    `conditions` are what a `pre_dequeue` hook adds, in the store's own terms; most know none.
    """

    worker: str
    tasks: tuple[str, ...]
    limit: int
    suspects: int = 0
    lease: float = 30.0
    longer_leases: dict[str, float] = {}
    forbidden_flags: tuple[str, ...] = ()
    past_heads: bool = False
    conditions: tuple[Any, ...] = ()


# ── how a delivery ended ────────────────────────────────────────────────────────────────────


class Complete(msgspec.Struct, frozen=True):
    """Done. `output` is JSON text; `keep` the seconds to keep it where the job says nothing."""

    output: str | None = None
    keep: float | None = None


class Fail(msgspec.Struct, frozen=True):
    """The attempt is used: again at `run_at`, or else after `delay` seconds, or failed for good.

    The store decides from the row as it is now. `max_attempts` counts where the job has none of
    its own; `final` fails whatever is left; `payload` replaces the job's (partial success).
    """

    error: str
    delay: float = 0.0
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    final: bool = False
    payload: str | None = None
    run_at: int | None = None


class Release(msgspec.Struct, frozen=True):
    """Handed back: ready at once, the attempt given back."""


class Cancel(msgspec.Struct, frozen=True):
    """Stopped because somebody asked: cancelled, and its key is free."""


Outcome = Complete | Fail | Release | Cancel

COMPLETE = Complete()
RELEASE = Release()
CANCEL = Cancel()


class Verdict(StrEnum):
    """What became of one write by a worker."""

    APPLIED = "applied"
    LOST = "lost"
    """The job is there, but this delivery no longer owns it."""
    MISSING = "missing"
    """There is no such job any more."""
    BUSY = "busy"
    """Nothing was written: somebody's open transaction holds the job. Ask again."""


class Settled(msgspec.Struct, frozen=True):
    """The answer to one settlement, and the state the job is in if it was applied."""

    verdict: Verdict
    state: JobState | None = None


class LostReason(StrEnum):
    """Why a lease is no longer held."""

    TAKEN_BY_ANOTHER_WORKER = "taken_by_another_worker"
    ALREADY_COMPLETED = "already_completed"
    NOT_FOUND = "not_found"


class Renewal(msgspec.Struct, frozen=True):
    """The leases among those asked about that are lost, and those whose jobs should stop.

    They are named by job, because one call asks about at most one delivery of a job. The answer
    is about that delivery alone, however late it comes.

    `locked` are those that could not be extended now: somebody's open transaction holds the job.
    """

    lost: dict[int, LostReason] = {}
    cancel: frozenset[int] = frozenset()
    locked: frozenset[int] = frozenset()


class Reaped(msgspec.Struct, frozen=True):
    """Jobs taken back from dead workers: requeued, and ended (failed, or cancelled as asked)."""

    requeued: tuple[int, ...] = ()
    ended: tuple[int, ...] = ()

    @property
    def total(self) -> int:
        return len(self.requeued) + len(self.ended)


# ── for operators ───────────────────────────────────────────────────────────────────────────


class JobFilter(msgspec.Struct, frozen=True):
    """Which jobs to list or change; what is None does not matter. Pages go up by id."""

    states: tuple[JobState, ...] | None = None
    task: str | None = None
    queue: str | None = None
    key: str | None = None
    ids: tuple[int, ...] | None = None
    after: int = 0
    limit: int = 100


class WorkerInfo(msgspec.Struct, frozen=True):
    """A worker the database knows; it is alive while `expires_at` lies in the future."""

    id: str
    expires_at: int
    running: int


class Paused(msgspec.Struct, frozen=True):
    """What is paused: task names and queue names."""

    tasks: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()


class Capabilities(msgspec.Struct, frozen=True):
    """What a store can do beyond the port's common ground.

    `shared`: other processes see the same jobs. `durable`: jobs outlive the process.
    `transactions`: a handler can settle its job and add others in one step. `sql`: handlers and
    callers can write data of their own with them, on connections to the same database.
    """

    shared: bool
    durable: bool
    transactions: bool
    sql: bool


class Note(msgspec.Struct, frozen=True):
    """What a running job says of itself: progress, or one entry for its log (JSON text)."""

    progress: str | None = None
    entry: str | None = None
