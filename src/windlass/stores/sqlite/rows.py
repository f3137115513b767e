"""Jobs read, changed by the rules (`store/rules.py`) and written back, all of a batch at once.

All of it happens inside the write transaction, so nobody can change a row between reading and
writing. Rows come as JSON in the order of the view `windlass_job_rows`.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from windlass.model.job import JobState
from windlass.store import rules
from windlass.store.records import Outcome
from windlass.store.rules import Row
from windlass.stores.sqlite import queues
from windlass.stores.sqlite.connection import Session

_decode = msgspec.json.Decoder(list[Row]).decode
_encode = msgspec.json.encode


def read(db: Session, name: str, **parameters: object) -> list[Row]:
    """The rows of one of the `read_…` or `find_…` statements."""
    return _decode(db.value(name, parameters))


def json_text(value: object) -> str:
    """How every statement is given a list."""
    return _encode(value).decode()


class Changes:
    """What a batch did to rows, written by `save` in as few statements as possible."""

    def __init__(self) -> None:
        self.touched: set[str] = set()
        self.kept: dict[int, Row] = {}
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

    def finish(self, row: Row) -> None:
        """A completed job leaves the table, for the history if it is to be kept."""
        self.remove(row)
        if row.expires_at is not None:
            self.kept[row.id] = row

    def end(self, row: Row, outcome: Outcome, now: int) -> None:
        """What an outcome does to a running job."""
        self.change(row)
        rules.end(row, outcome, now)
        if row.state is JobState.COMPLETED:
            self.finish(row)

    def take_back(self, row: Row, max_resets: int, now: int) -> None:
        """What the death of its worker does to a running job."""
        self.change(row)
        rules.take_back(row, max_resets, now)

    def save(self, db: Session) -> None:
        """Write everything and let the queues go on."""
        self.save_only(db)
        queues.admit(db, self.touched)
        db.made_ready = True
        if any(row.state is JobState.SCHEDULED for row in self._changed.values()):
            db.made_scheduled = True

    def save_only(self, db: Session) -> None:
        if self.kept:
            db.run("insert_history", {"rows": _history_rows(self.kept.values())})
        if self.gone:
            db.run("delete_jobs", {"ids": json_text(sorted(self.gone))})
        changed = [row for row in self._changed.values() if row.id not in self.gone]
        if changed:
            db.run("update_jobs", {"rows": _job_rows(changed)})
            self.touched.update(row.queue for row in changed if row.queue is not None)


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


def _history_rows(kept: Iterable[Row]) -> str:
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
                row.expires_at,
            )
            for row in kept
        ]
    )
