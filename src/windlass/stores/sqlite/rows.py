"""Jobs read, changed by the rules and written back, all of a batch at once.

The rules are those of the reference store (`stores/memory.py`); they run on rows read inside the
write transaction, so nobody can change a row between reading and writing.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from windlass.clock import to_datetime
from windlass.model import payload as payloads
from windlass.model.job import Job, JobState, Progress
from windlass.model.names import DEFAULT_MAX_ATTEMPTS
from windlass.store.records import Cancel, Complete, Fail, NewJob, Outcome, Release
from windlass.stores.memory import KILLED, SUPERSEDED
from windlass.stores.sqlite import queues
from windlass.stores.sqlite.connection import Session


class Row(msgspec.Struct, array_like=True, gc=False):
    """One job; the order of fields is that of the view `windlass_job_rows`."""

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

    @property
    def limit(self) -> int:
        return DEFAULT_MAX_ATTEMPTS if self.max_attempts is None else self.max_attempts

    def job(self) -> Job:
        progress = payloads.decode(self.progress) if self.progress else None
        return Job(
            id=self.id,
            task=self.task,
            payload=payloads.decode(self.payload),
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
            output=None if self.output is None else payloads.decode(self.output),
            progress=Progress(*progress) if progress else None,
            log=() if self.log is None else tuple(payloads.decode(self.log)),
            resets=self.resets,
            deliveries=self.deliveries,
            keep=self.keep,
            finished_at=None if self.finished_at is None else to_datetime(self.finished_at),
        )


_decode = msgspec.json.Decoder(list[Row]).decode
_encode = msgspec.json.encode


def read(db: Session, name: str, **parameters: object) -> list[Row]:
    """The rows of one of the `read_…` or `find_…` statements."""
    return _decode(db.value(name, parameters))


def json_text(value: object) -> str:
    """How every statement is given a list."""
    return _encode(value).decode()


def micros(seconds: float) -> int:
    return round(seconds * 1e6)


def due(new: NewJob, now: int) -> int:
    return now + new.delay if new.run_at is None else new.run_at


def waiting_state(run_at: int, now: int) -> JobState:
    return JobState.READY if run_at <= now else JobState.SCHEDULED


def new_row(new: NewJob, now: int) -> Row:
    """A job that is not in the table yet: its id is 0 until it is."""
    run_at = due(new, now)
    return Row(
        id=0,
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


def replace(row: Row, new: NewJob, now: int) -> None:
    """What adding a job again under its key does to one that does not run."""
    failed_before = row.state is JobState.FAILED or row.attempts > 0
    if failed_before or new.key_mode == "replace":
        row.run_at = due(new, now)
    row.task, row.payload, row.queue = new.task, new.payload, new.queue
    row.max_attempts, row.priority, row.flags = new.max_attempts, new.priority, new.flags
    row.keep = new.keep
    row.attempts = row.resets = row.suspect = 0
    row.last_error = row.progress = row.finished_at = row.log = None
    row.revision += 1
    row.updated_at = now
    row.state = waiting_state(row.run_at, now)


def close(row: Row, state: JobState, now: int) -> None:
    row.state = state
    row.superseded = row.cancel_requested = 0
    row.finished_at = row.updated_at = now


def _unlock(row: Row, now: int) -> None:
    row.token = row.worker = row.lease_until = None
    row.updated_at = now


class Changes:
    """What a batch did to rows, written by `save` in as few statements as possible."""

    def __init__(self) -> None:
        self.touched: set[str] = set()
        self.kept: dict[int, tuple[Row, int]] = {}
        self.gone: set[int] = set()
        self._changed: dict[int, Row] = {}

    def change(self, row: Row) -> None:
        """Call before changing a row, so that the queue it leaves is known."""
        self._changed[row.id] = row
        if row.queue is not None:
            self.touched.add(row.queue)

    def remove(self, row: Row) -> None:
        self.change(row)
        self.gone.add(row.id)

    def finish(self, row: Row, default_keep: float | None, now: int) -> None:
        """The job is done: it leaves the table, for the history if it is to be kept."""
        self.remove(row)
        close(row, JobState.COMPLETED, now)
        keep = default_keep if row.keep is None else row.keep
        if keep:
            row.keep = keep
            self.kept[row.id] = (row, now + micros(keep))

    def end(self, row: Row, outcome: Outcome, now: int) -> None:
        """What an outcome does to a running job."""
        self.change(row)
        _unlock(row, now)
        match outcome:
            case Complete():
                row.output = outcome.output
                self.finish(row, outcome.keep, now)
            case Cancel():
                close(row, JobState.CANCELLED, now)
            case Fail():
                _fail(row, outcome, now)
            case Release():
                _hand_back(row, now)

    def take_back(self, row: Row, max_resets: int, now: int) -> None:
        """What the death of its worker does to a running job."""
        self.change(row)
        row.resets += row.suspect
        killer = row.suspect and row.resets >= max_resets
        _unlock(row, now)
        _hand_back(row, now)
        row.suspect = 1
        if killer and row.state is JobState.READY:
            row.last_error = KILLED.format(row.resets)
            close(row, JobState.FAILED, now)

    def save(self, db: Session) -> None:
        """Write everything and let the queues go on."""
        self.save_only(db)
        queues.admit(db, self.touched)
        db.made_ready = True

    def save_only(self, db: Session) -> None:
        if self.kept:
            db.run("insert_history", {"rows": _history_rows(self.kept.values())})
        if self.gone:
            db.run("delete_jobs", {"ids": json_text(sorted(self.gone))})
        changed = [row for row in self._changed.values() if row.id not in self.gone]
        if changed:
            db.run("update_jobs", {"rows": _job_rows(changed)})
            self.touched.update(row.queue for row in changed if row.queue is not None)


def _fail(row: Row, outcome: Fail, now: int) -> None:
    row.last_error = outcome.error
    row.suspect = 0
    if outcome.payload is not None:
        row.payload = outcome.payload
    most = outcome.max_attempts if row.max_attempts is None else row.max_attempts
    if outcome.final or row.superseded or row.attempts >= most:
        close(row, JobState.FAILED, now)
    elif row.cancel_requested:
        close(row, JobState.CANCELLED, now)
    else:
        row.run_at = now + micros(outcome.delay)
        row.state = waiting_state(row.run_at, now)


def _hand_back(row: Row, now: int) -> None:
    row.attempts -= 1
    if row.superseded:
        row.last_error = SUPERSEDED
        close(row, JobState.FAILED, now)
    elif row.cancel_requested:
        close(row, JobState.CANCELLED, now)
    else:
        row.state = JobState.READY


def _stored_state(row: Row) -> str:
    """Whoever belongs to a queue waits until the queue admits it."""
    if row.state is JobState.READY and row.queue is not None:
        return "waiting"
    return row.state.value


def _job_rows(rows: Iterable[Row]) -> str:
    """In the order of update_jobs.sql."""
    return json_text(
        [
            (
                row.id,
                row.task,
                row.payload,
                _stored_state(row),
                row.priority,
                row.run_at,
                row.attempts,
                row.max_attempts,
                row.key,
                row.queue,
                row.flags,
                row.revision,
                row.resets,
                row.suspect,
                row.superseded,
                row.cancel_requested,
                row.keep,
                row.last_error,
                row.progress,
                row.log,
                row.updated_at,
                row.finished_at,
            )
            for row in rows
        ]
    )


def _history_rows(kept: Iterable[tuple[Row, int]]) -> str:
    """In the order of insert_history.sql."""
    return json_text(
        [
            (
                row.id,
                row.task,
                row.payload,
                row.priority,
                row.run_at,
                row.attempts,
                row.deliveries,
                row.max_attempts,
                row.key,
                row.queue,
                row.flags,
                row.revision,
                row.resets,
                row.keep,
                row.last_error,
                row.output,
                row.progress,
                row.log,
                row.created_at,
                row.updated_at,
                row.finished_at,
                expires_at,
            )
            for row, expires_at in kept
        ]
    )
