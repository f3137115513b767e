"""What may happen to a job, written once, on one row.

A store that changes rows in Python reads them, applies a rule and writes them back, all under its
write lock; `memory` and `sqlite` do. A store that changes rows in SQL states the same rules there.
Each rule leaves the row as it should be stored; the contract suite says what that is.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import assert_never

import msgspec

from windlass.clock import to_micros
from windlass.errors import ConfigError
from windlass.model.chain import ChainState
from windlass.model.fingerprint import fingerprint_of_error, fingerprint_of_text
from windlass.model.job import Carried, JobState
from windlass.store.records import (
    MAX_ERROR_TEXT,
    MAX_ERRORS,
    MAX_LOG,
    Cancel,
    ClaimRequest,
    Complete,
    Fail,
    NewJob,
    Outcome,
    Release,
    Row,
)

TOUCHED_BY = {
    "cancel": (JobState.BLOCKED, JobState.SCHEDULED, JobState.READY, JobState.RUNNING),
    "complete": (JobState.BLOCKED, JobState.SCHEDULED, JobState.READY, JobState.FAILED),
    "fail": (JobState.BLOCKED, JobState.SCHEDULED, JobState.READY, JobState.FAILED),
    "reschedule": (JobState.BLOCKED, JobState.SCHEDULED, JobState.READY, JobState.FAILED),
    "retry": (JobState.SCHEDULED, JobState.FAILED, JobState.CANCELLED),
    "delete": tuple(state for state in JobState if state is not JobState.RUNNING),
}
"""The states in which a job is changed by each verb of operators; in any other it is skipped. The
functions of PostgreSQL take their lists from here, and the contract suite tries all pairs."""

LAST_INSTANT = to_micros(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC))
"""The latest a job can be due; what is asked for later is due then."""

SUPERSEDED = "replaced or removed by its key while it ran, and did not complete"
BLOCKER_FAILED = "chain {0}, which this job waited for, {1}"
KILLED = "its worker died {0} times while this job ran (max_resets); it will not run again"


def refuse_conditions(request: ClaimRequest) -> None:
    """For stores that know none: ignoring one would run jobs that the user has excluded."""
    if request.conditions:
        raise ConfigError("this store knows no conditions; let pre_dequeue return True or False")


def micros(seconds: float) -> int:
    return round(seconds * 1e6)


def due(new: NewJob, now: int) -> int:
    return min(LAST_INSTANT, now + new.delay if new.run_at is None else new.run_at)


def state_when_due(run_at: int, now: int) -> JobState:
    """Whether it may start; that it may have to wait for its queue is the store's matter."""
    return JobState.READY if run_at <= now else JobState.SCHEDULED


# ── adding ──


def new_row(new: NewJob, now: int, job_id: int = 0) -> Row:
    run_at = due(new, now)
    return Row(
        id=job_id,
        state=state_when_due(run_at, now),
        run_at=run_at,
        created_at=now,
        updated_at=now,
        **{name: getattr(new, name) for name in Carried.__struct_fields__},
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
    before = row.payload
    for name in Carried.__struct_fields__:
        setattr(row, name, getattr(new, name))
    row.payload = joined(before, new.payload)
    row.attempts = row.resets = row.suspect = row.holds = 0
    row.last_error = row.errors = row.progress = row.finished_at = row.log = None
    row.fingerprint = None
    row.revision += 1
    row.updated_at = now
    row.state = state_when_due(row.run_at, now)


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
    worker = row.worker
    _unlock(row, now)
    match outcome:
        case Complete():
            row.output = outcome.output
            complete(row, outcome.keep, now)
        case Cancel():
            _close(row, JobState.CANCELLED, now)
        case Fail():
            _fail(row, outcome, worker, now)
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


def _fail(row: Row, outcome: Fail, worker: str | None, now: int) -> None:
    row.last_error = outcome.error
    row.fingerprint = fingerprint_of_error(row.tenant, row.task, outcome.error)
    failed = (row.attempts, now, worker, outcome.error[:MAX_ERROR_TEXT])
    row.errors = _appended(row.errors, msgspec.json.encode(failed), MAX_ERRORS)
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
        row.holds = _holds(row)
        row.state = state_when_due(row.run_at, now)


def _holds(row: Row) -> int:
    """Whether a job that has failed an attempt, or for good, holds its queue."""
    return int(bool(row.is_strict) and row.queue is not None and not row.superseded)


def blame(row: Row, reason: str) -> None:
    """Why it fails, where that is no error of its handler's."""
    row.last_error = reason
    row.fingerprint = fingerprint_of_text(row.tenant, row.task, reason)


def take_back(row: Row, max_resets: int, now: int) -> None:
    """What the death of its worker does to a running job."""
    row.resets += row.suspect
    killer = row.suspect and row.resets >= max_resets
    _unlock(row, now)
    _hand_back(row, now)
    row.suspect = 1
    if killer and row.state is JobState.READY:
        blame(row, KILLED.format(row.resets))
        _close(row, JobState.FAILED, now)


def _hand_back(row: Row, now: int) -> None:
    row.attempts -= 1
    if row.superseded:
        blame(row, SUPERSEDED)
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
    row.holds = _holds(row) if state is JobState.FAILED else 0
    row.superseded = row.cancel_requested = 0
    row.finished_at = row.updated_at = now


def add_to_log(log: str | None, entry: str, most: int = MAX_LOG) -> str:
    """The log with one more entry (JSON text), without its oldest ones beyond `most`."""
    return _appended(log, entry.encode(), most)


def _appended(texts: str | None, entry: bytes, most: int) -> str:
    entries = [] if texts is None else msgspec.json.decode(texts, type=list[msgspec.Raw])
    return msgspec.json.encode([*entries, msgspec.Raw(entry)][-most:]).decode()


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
    blame(row, reason)
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
    elif row.state is not JobState.BLOCKED:
        row.finished_at = None
        row.state = state_when_due(row.run_at, now)


def complete_by_hand(row: Row, completion: Complete, now: int) -> None:
    """Completed without its worker, whatever state it is in. One that runs has lost its lease."""
    _unlock(row, now)
    row.output = completion.output
    row.last_error = None
    complete(row, completion.keep, now)


def run_again(row: Row, now: int) -> None:
    """With all its attempts, now."""
    row.attempts = row.resets = row.suspect = 0
    row.finished_at = None
    row.run_at = row.updated_at = now
    row.state = JobState.READY


# ── by the chains it named ──


def release(row: Row, now: int) -> None:
    """All chains it waited for have ended: it is due, though not before jobs that are ready."""
    row.run_at = max(row.run_at, now)
    row.updated_at = now
    row.state = state_when_due(row.run_at, now)


def fail_blocked(row: Row, chain: int, state: ChainState, now: int) -> None:
    ended = "failed" if state is ChainState.FAILED else "was cancelled"
    blame(row, BLOCKER_FAILED.format(chain, ended))
    _close(row, JobState.FAILED, now)


def wait_again(row: Row, now: int) -> None:
    """The chain because of which it failed is open again."""
    row.last_error = row.finished_at = None
    row.holds = 0
    row.updated_at = now
    row.state = JobState.BLOCKED
