"""Jobs changed by the rules (`store/rules.py`) and written back, all of a batch at once.

Rows are read, changed and written inside the write transaction, so no other connection can change
one in between.
"""

from __future__ import annotations

from windlass.model.job import JobState
from windlass.store import rules
from windlass.store.records import Outcome, Row
from windlass.stores.sqlite import ending, queues
from windlass.stores.sqlite.connection import Session
from windlass.stores.sqlite.ending import Ended
from windlass.stores.sqlite.queues import Place
from windlass.stores.sqlite.rows import json_text


class Changes:
    """What a batch did to rows, written in as few statements as possible. Jobs that end by it
    pass `ending.ended`, whatever rule ended them."""

    def __init__(self) -> None:
        self.kept: dict[int, Row] = {}
        self.gone: set[int] = set()
        self._changed: dict[int, Row] = {}
        self._states: dict[int, JobState] = {}
        """Each row's state before it was changed."""
        self._queues: set[Place] = set()

    def change(self, row: Row) -> None:
        """Call before changing a row, so that its state and the queue it leaves are known."""
        self._changed[row.id] = row
        self._states.setdefault(row.id, row.state)
        if row.place is not None:
            self._queues.add(row.place)

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
        queues.admit(db, self.write(db))
        db.made_ready = True
        if any(row.state is JobState.SCHEDULED for row in self._changed.values()):
            db.made_scheduled = True

    def write(self, db: Session) -> set[Place]:
        """Write everything; the queues that have yet to go on, where no job ended."""
        if self.kept:
            db.run("insert_history", {"rows": json_text(list(self.kept.values()))})
        if self.gone:
            db.run("delete_jobs", {"ids": json_text(sorted(self.gone))})
        changed = [row for row in self._changed.values() if row.id not in self.gone]
        if changed:
            db.run("update_jobs", {"rows": json_text(changed)})
            self._queues.update(row.place for row in changed if row.place is not None)
        ends = self._ends()
        if not ends:
            return self._queues
        ending.ended(db, ends)
        return self._queues - ending.queues_of(ends)

    def _ends(self) -> list[Ended]:
        ends = []
        for row in self._changed.values():
            if row.state.is_final and self._states[row.id] is not row.state:
                ends.append(Ended(row.id, row.tenant, row.queue, row.state))
            elif row.id in self.gone:
                ends.append(Ended(row.id, row.tenant, row.queue, None))
        return ends
