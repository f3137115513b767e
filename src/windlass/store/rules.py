"""What may happen to a job, written once, on one row.

A store that changes rows in Python reads them, applies a rule and writes them back, all under its
write lock; `memory` and `sqlite` do. A store that changes rows in SQL states the same rules there.
Each rule leaves the row as it should be stored; the contract suite says what that is.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, assert_never

import msgspec

from windlass.clock import to_datetime, to_micros
from windlass.errors import ConfigError
from windlass.model import payload as payloads
from windlass.model.job import Job, JobState, Progress
from windlass.model.names import DEFAULT_MAX_ATTEMPTS
from windlass.store.records import (
    MAX_LOG,
    Cancel,
    ClaimRequest,
    Complete,
    Fail,
    NewJob,
    Outcome,
    Release,
)

WAITING = (JobState.SCHEDULED, JobState.READY)

LAST_INSTANT = to_micros(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC))
"""The latest a job can be due; what is asked for later is due then."""

SUPERSEDED = "replaced or removed by its key while it ran, and did not complete"
KILLED = "its worker died {0} times while this job ran (max_resets); it will not run again"


def refuse_conditions(request: ClaimRequest) -> None:
    """For stores that know none: ignoring one would run jobs that somebody wanted left alone."""
    if request.conditions:
        raise ConfigError("this store knows no conditions; let pre_dequeue return True or False")


class Row(msgspec.Struct, array_like=True, gc=False):
    """One job with everything a store knows of it; the order of fields is the wire's.

    Instants are microseconds; `payload`, `output`, `progress` and `log` are JSON text. Flags that
    SQL keeps as 0 and 1 are integers. `expires_at` is set where a finished job is to be kept.
    """

    id: int
    task: str
    payload: str
    state: JobState
    priority: int
    run_at: int
    attempts: int
    deliveries: int
    max_attempts: int | None
    key: str | None
    queue: str | None
    flags: tuple[str, ...] | None
    revision: int
    resets: int
    suspect: int
    superseded: int
    cancel_requested: int
    worker: str | None
    token: int | None
    lease_until: int | None
    keep: float | None
    last_error: str | None
    output: str | None
    progress: str | None
    log: str | None
    created_at: int
    updated_at: int
    finished_at: int | None
    expires_at: int | None = None

    @property
    def order(self) -> tuple[int, int, int]:
        return (self.priority, self.run_at, self.id)

    @property
    def limit(self) -> int:
        return DEFAULT_MAX_ATTEMPTS if self.max_attempts is None else self.max_attempts

    def job(self) -> Job:
        return Job(
            id=self.id,
            task=self.task,
            payload=payloads.shown(self.payload),
            state=self.state,
            priority=self.priority,
            run_at=to_datetime(self.run_at),
            attempts=self.attempts,
            max_attempts=self.limit,
            last_error=self.last_error,
            key=self.key,
            queue=self.queue,
            flags=self.flags,
            revision=self.revision,
            created_at=to_datetime(self.created_at),
            updated_at=to_datetime(self.updated_at),
            locked_by=self.worker,
            output=None if self.output is None else payloads.shown(self.output),
            progress=_progress(self.progress),
            log=_log(self.log),
            resets=self.resets,
            deliveries=self.deliveries,
            keep=self.keep,
            finished_at=None if self.finished_at is None else to_datetime(self.finished_at),
        )


def _progress(text: str | None) -> Progress | None:
    """What is no progress, because another program wrote it, is none."""
    match None if text is None else payloads.shown(text):
        case [int() | float() as fraction, str() as note]:
            return Progress(fraction, note)
        case _:
            return None


def _log(text: str | None) -> tuple[Any, ...]:
    entries = () if text is None else payloads.shown(text)
    return tuple(entries) if isinstance(entries, list) else ()


def micros(seconds: float) -> int:
    return round(seconds * 1e6)


def due(new: NewJob, now: int) -> int:
    return min(LAST_INSTANT, now + new.delay if new.run_at is None else new.run_at)


def waiting_state(run_at: int, now: int) -> JobState:
    return JobState.READY if run_at <= now else JobState.SCHEDULED


# ── adding ──


def new_row(new: NewJob, now: int, job_id: int = 0) -> Row:
    run_at = due(new, now)
    return Row(
        id=job_id,
        task=new.task,
        payload=new.payload,
        state=waiting_state(run_at, now),
        priority=new.priority,
        run_at=run_at,
        attempts=0,
        deliveries=0,
        max_attempts=new.max_attempts,
        key=new.key,
        queue=new.queue,
        flags=new.flags,
        revision=0,
        resets=0,
        suspect=0,
        superseded=0,
        cancel_requested=0,
        worker=None,
        token=None,
        lease_until=None,
        keep=new.keep,
        last_error=None,
        output=None,
        progress=None,
        log=None,
        created_at=now,
        updated_at=now,
        finished_at=None,
    )


def joined(old: str, new: str) -> str:
    """What a key's payload becomes: two arrays are joined, anything else gives way to the new."""
    first, second = old.strip(), new.strip()
    if not (first.startswith("[") and second.startswith("[")):
        return new
    parts = [part for part in (first[1:-1].strip(), second[1:-1].strip()) if part]
    return f"[{','.join(parts)}]"


def replace(row: Row, new: NewJob, now: int) -> None:
    """What adding a job again under its key does to one that does not run."""
    failed_before = row.state is JobState.FAILED or row.attempts > 0
    if failed_before or new.key_mode == "replace":
        row.run_at = due(new, now)
    row.task, row.queue = new.task, new.queue
    row.payload = joined(row.payload, new.payload)
    row.max_attempts, row.priority, row.flags = new.max_attempts, new.priority, new.flags
    row.keep = new.keep
    row.attempts = row.resets = row.suspect = 0
    row.last_error = row.progress = row.finished_at = row.log = None
    row.revision += 1
    row.updated_at = now
    row.state = waiting_state(row.run_at, now)


def request_again(row: Row, now: int) -> None:
    """What `unsafe_dedupe` does to a job that is there already."""
    row.revision += 1
    row.updated_at = now


def supersede(row: Row, now: int) -> None:
    """A running job whose key was taken or removed: it may complete, but not run again."""
    row.key = None
    row.superseded = 1
    row.updated_at = now


# ── ending a delivery ──


def end(row: Row, outcome: Outcome, now: int) -> None:
    """What an outcome does to a running job. A completed row then belongs to the history if its
    `expires_at` is set, and nowhere if not."""
    _unlock(row, now)
    match outcome:
        case Complete():
            row.output = outcome.output
            complete(row, outcome.keep, now)
        case Cancel():
            _close(row, JobState.CANCELLED, now)
        case Fail():
            _fail(row, outcome, now)
        case Release():
            _hand_back(row, now)
        case _:
            assert_never(outcome)


def complete(row: Row, default_keep: float | None, now: int) -> None:
    _close(row, JobState.COMPLETED, now)
    keep = default_keep if row.keep is None else row.keep
    if keep:
        row.keep = keep
        row.expires_at = now + micros(keep)


def _fail(row: Row, outcome: Fail, now: int) -> None:
    row.last_error = outcome.error
    row.suspect = 0
    if outcome.payload is not None:
        row.payload = outcome.payload
    most = outcome.max_attempts if row.max_attempts is None else row.max_attempts
    if outcome.final or row.superseded or row.attempts >= most:
        _close(row, JobState.FAILED, now)
    elif row.cancel_requested:
        _close(row, JobState.CANCELLED, now)
    else:
        asked = now + micros(outcome.delay) if outcome.run_at is None else outcome.run_at
        row.run_at = min(LAST_INSTANT, asked)
        row.state = waiting_state(row.run_at, now)


def take_back(row: Row, max_resets: int, now: int) -> None:
    """What the death of its worker does to a running job."""
    row.resets += row.suspect
    killer = row.suspect and row.resets >= max_resets
    _unlock(row, now)
    _hand_back(row, now)
    row.suspect = 1
    if killer and row.state is JobState.READY:
        row.last_error = KILLED.format(row.resets)
        _close(row, JobState.FAILED, now)


def _hand_back(row: Row, now: int) -> None:
    row.attempts -= 1
    if row.superseded:
        row.last_error = SUPERSEDED
        _close(row, JobState.FAILED, now)
    elif row.cancel_requested:
        _close(row, JobState.CANCELLED, now)
    else:
        row.state = JobState.READY


def _unlock(row: Row, now: int) -> None:
    row.token = row.worker = row.lease_until = None
    row.updated_at = now


def _close(row: Row, state: JobState, now: int) -> None:
    row.state = state
    row.superseded = row.cancel_requested = 0
    row.finished_at = row.updated_at = now


def add_to_log(log: str | None, entry: str, most: int = MAX_LOG) -> str:
    """The log with one more entry (JSON text), without its oldest ones beyond `most`."""
    entries = [] if log is None else msgspec.json.decode(log, type=list[msgspec.Raw])
    kept = [*entries, msgspec.Raw(entry.encode())][-most:]
    return msgspec.json.encode(kept).decode()


# ── by an operator ──


def cancel(row: Row, now: int) -> None:
    """A running job is asked to stop; one that waits is cancelled."""
    if row.state is JobState.RUNNING:
        row.cancel_requested = 1
        row.updated_at = now
    else:
        _close(row, JobState.CANCELLED, now)


def give_up(row: Row, reason: str, now: int) -> None:
    row.attempts = row.limit
    row.last_error = reason
    _close(row, JobState.FAILED, now)


def reschedule(
    row: Row,
    now: int,
    *,
    run_at: int | None,
    priority: int | None,
    attempts: int | None,
    max_attempts: int | None,
) -> None:
    row.run_at = row.run_at if run_at is None else run_at
    row.priority = row.priority if priority is None else priority
    row.attempts = row.attempts if attempts is None else attempts
    row.max_attempts = row.max_attempts if max_attempts is None else max_attempts
    row.updated_at = now
    if row.state is JobState.FAILED and attempts is None:
        return
    if row.attempts >= row.limit:
        _close(row, JobState.FAILED, now)
    else:
        row.finished_at = None
        row.state = waiting_state(row.run_at, now)


def run_again(row: Row, now: int) -> None:
    """With all its attempts, now."""
    row.attempts = row.resets = row.suspect = 0
    row.finished_at = None
    row.run_at = row.updated_at = now
    row.state = JobState.READY
