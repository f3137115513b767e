"""Jobs read, changed by the rules (`store/rules.py`) and written back, all of a batch at once.

All of it happens inside the write transaction, so no other connection can change a row between
reading and writing. Rows come and go as JSON arrays.
"""

from __future__ import annotations

import msgspec

from windlass.model.job import JobState
from windlass.store import rules
from windlass.store.records import Outcome, Row
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
            db.run("insert_history", {"rows": json_text(list(self.kept.values()))})
        if self.gone:
            db.run("delete_jobs", {"ids": json_text(sorted(self.gone))})
        changed = [row for row in self._changed.values() if row.id not in self.gone]
        if changed:
            db.run("update_jobs", {"rows": json_text(changed)})
            self.touched.update(row.queue for row in changed if row.queue is not None)
