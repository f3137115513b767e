"""Jobs changed by the rules (`store/rules.py`) and written back, all of a batch at once.

Rows are read, changed and written inside the write transaction, so no other connection can change
one in between.
"""

from __future__ import annotations

from collections.abc import Iterable

from windlass.model.job import JobState
from windlass.store.records import Row
from windlass.stores.sqlite import ending, queues, rows
from windlass.stores.sqlite.connection import Session
from windlass.stores.sqlite.ending import Ended
from windlass.stores.sqlite.queues import Place
from windlass.stores.sqlite.rows import json_text


class Changes:
    """What a batch did to rows, written in as few statements as possible. Jobs that end by it
    pass `ending.ended`, whatever rule ended them."""

    def __init__(self, db: Session) -> None:
        self._db = db
        self.known: dict[int, Row] = {}
        """Every row that was read, so that a job is one object however often it is asked for."""
        self.kept: dict[int, Row] = {}
        self.gone: set[int] = set()
        self._changed: dict[int, Row] = {}
        self._added: dict[int, Row] = {}
        self._forgotten: set[int] = set()
        """Jobs of the history that are deleted."""
        self._states: dict[int, JobState] = {}
        self._places: dict[int, Place | None] = {}
        """Each row's state and queue before it was changed."""
        self._last_id: int | None = None

    def know(self, found: Iterable[Row]) -> list[Row]:
        """The rows, each as it is by now, where it was read before. Rows are known before they
        are changed, so that their states before are."""
        own = []
        for row in found:
            if row.id not in self.known:
                self.known[row.id] = row
                self._states[row.id], self._places[row.id] = row.state, row.place
            own.append(self.known[row.id])
        return own

    def read(self, name: str, **parameters: object) -> list[Row]:
        """The rows of one of the `read_…` statements about jobs."""
        return self.know(rows.read(self._db, name, **parameters))

    def change(self, row: Row) -> None:
        """Write this row, one that is known or was added."""
        if row.id not in self._added:
            self._changed[row.id] = row

    def add(self, row: Row) -> None:
        """A new job, which gets the next id."""
        if self._last_id is None:
            self._last_id = self._db.value("read_sequence")
        self._last_id += 1
        row.id = self._last_id
        self._added[row.id] = self.known[row.id] = row

    def is_new(self, row: Row) -> bool:
        return row.id in self._added

    def remove(self, row: Row) -> None:
        self.change(row)
        self._added.pop(row.id, None)
        self.gone.add(row.id)

    def finish(self, row: Row) -> None:
        """A completed job leaves the table, for the history if it is to be kept."""
        self.remove(row)
        if row.expires_at is not None:
            self.kept[row.id] = row

    def forget(self, row: Row) -> None:
        """Delete a job that is in the history."""
        self._forgotten.add(row.id)

    def save(self) -> None:
        """Write everything and let the queues go on."""
        queues.admit(self._db, self.write())
        self._db.made_ready = True
        touched = (*self._changed.values(), *self._added.values())
        if any(row.state is JobState.SCHEDULED for row in touched):
            self._db.made_scheduled = True

    def write(self) -> set[Place]:
        """Write everything; the queues that have yet to go on, where no job ended."""
        db = self._db
        if self.kept:
            db.run("insert_history", {"rows": json_text(list(self.kept.values()))})
        if self.gone:
            db.run("delete_jobs", {"ids": json_text(sorted(self.gone))})
        if self._forgotten:
            db.run("delete_history", {"ids": json_text(sorted(self._forgotten))})
        changed = [row for row in self._changed.values() if row.id not in self.gone]
        if changed:
            db.run("update_jobs", {"rows": json_text(changed)})
        for piece in rows.pieces(list(self._added.values()), rows.payload_length):
            db.run("insert_jobs", {"rows": json_text(piece)})
        touched = {row.place for row in (*changed, *self._added.values())}
        touched |= {self._places[job_id] for job_id in self._changed}
        left = {place for place in touched if place is not None}
        ends = self._ends()
        if not ends:
            return left
        ending.ended(db, ends)
        return left - ending.queues_of(ends)

    def _ends(self) -> list[Ended]:
        ends = []
        for row in self._changed.values():
            if row.state.is_final and self._states[row.id] is not row.state:
                ends.append(Ended(row.id, row.tenant, row.queue, row.state))
            elif row.id in self.gone:
                ends.append(Ended(row.id, row.tenant, row.queue, None))
        return ends
