"""Adding jobs.

Everything that needs no database is prepared by the caller, before the transaction: jobs that
differ only in their payload become one INSERT of the payloads, others one of whole rows. Keyed
jobs are compared with what is there, in order, by the rules in `store/rules.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from windlass.model import payload as payloads
from windlass.model.job import Job, JobState
from windlass.store import rules
from windlass.store.fresh import alike, fresh_jobs
from windlass.store.records import NewJob, Row
from windlass.stores.sqlite import queues, rows
from windlass.stores.sqlite.additions import Additions, common_values, next_job_id
from windlass.stores.sqlite.book import SqliteBook
from windlass.stores.sqlite.changes import Changes
from windlass.stores.sqlite.connection import Session
from windlass.stores.sqlite.named_chains import met_chains, waiting_row
from windlass.stores.sqlite.rows import json_text, payload_length, pieces


class Added:
    """What an enqueue did; `jobs` turns it into what the caller is given."""

    __slots__ = ("first_id", "new", "now", "rows", "values")

    def __init__(
        self,
        new: Sequence[NewJob],
        values: Sequence[Any],
        now: int,
        first_id: int = 0,
        rows: list[Row] | None = None,
    ) -> None:
        self.new = new
        self.values = values
        self.now = now
        self.first_id = first_id
        self.rows = rows

    @property
    def ids(self) -> Sequence[int]:
        if self.rows is not None:
            return [row.id for row in self.rows]
        return range(self.first_id, self.first_id + len(self.new))

    def jobs(self) -> list[Job]:
        if self.rows is not None:
            return [row.job() for row in self.rows]
        return fresh_jobs(self.new, self.values, self.now, self.ids)


class Enqueue:
    """One call to enqueue, prepared; calling it does the work inside a transaction."""

    def __init__(self, jobs: Sequence[NewJob]) -> None:
        self._jobs = jobs
        # What cannot be read back is refused before any row is written.
        self._values = [payloads.decode(new.payload) for new in jobs]
        self._keyed = any(new.key is not None for new in jobs)
        self.has_blockers = any(new.blockers for new in jobs)
        self._same = not self._keyed and _differ_only_in_payload(jobs)
        self._texts = [] if self._keyed else list(self._chunks())
        self._queues = {(new.tenant, new.queue) for new in jobs if new.queue is not None}
        differing = jobs[:1] if self._same else jobs
        self._timed = [new for new in differing if new.delay or new.run_at is not None]
        self._has_untimed = len(self._timed) < len(differing)

    def write(self, db: Session, now: int) -> Added:
        later = sum([rules.due(new, now) > now for new in self._timed])
        if later:
            db.made_scheduled = True
        if self._has_untimed or later < len(self._timed) or self._keyed:
            db.made_ready = True
        if self.has_blockers:
            added = self._add_waiting(db, now)
        elif self._keyed:
            added = self._add_keyed(db, now)
        else:
            added = Added(self._jobs, self._values, now, self._add_plain(db, now))
            queues.admit(db, self._queues)
        return added

    def _chunks(self) -> Iterator[tuple[int, str]]:
        for chunk in pieces(self._jobs, payload_length):
            if self._same:
                text = "[" + ",".join([new.payload for new in chunk]) + "]"
            else:
                text = json_text(chunk)
            yield len(chunk), text

    def _add_plain(self, db: Session, now: int) -> int:
        """The id of the first: one transaction numbers its rows without gaps, in order."""
        if not self._jobs:
            return 0
        last = 0
        for _, text in self._texts:
            if self._same:
                last = db.insert(
                    "insert_same", {**common_values(self._jobs[0], now), "payloads": text}
                )
            else:
                last = db.insert(
                    "insert_new", {"rows": text, "now": now, "last": rules.LAST_INSTANT}
                )
        return last - len(self._jobs) + 1

    def _add_keyed(self, db: Session, now: int) -> Added:
        keys = {(new.tenant, new.key) for new in self._jobs if new.key is not None}
        changes = Changes(db)
        existing = changes.know(rows.read_named(db, "read_keyed", keys))
        if any(row.blockers_total is not None for row in existing):
            return self._add_by_rules(db, now)
        by_key = {(row.tenant, row.key): row for row in existing}
        fresh: list[Row] = []
        result: list[Row] = []
        for new in self._jobs:
            row = by_key.get((new.tenant, new.key)) if new.key is not None else None
            if row is not None and _is_same(row, new):
                _add_again(row, new, now)
                if row.id:
                    changes.change(row)
            else:
                if row is not None:
                    rules.supersede(row, now)
                    changes.change(row)
                row = rules.new_row(new, now)
                fresh.append(row)
                if new.key is not None:
                    by_key[new.tenant, new.key] = row
            result.append(row)
        left = changes.write()
        _insert_rows(db, fresh)
        queues.admit(db, left | self._queues)
        return Added(self._jobs, self._values, now, rows=result)

    def _add_waiting(self, db: Session, now: int) -> Added:
        """The same where jobs wait for chains."""
        met = None if self._keyed else met_chains(db, self._jobs)
        if met is None:
            return self._add_by_rules(db, now)
        additions = Additions()
        for new in self._jobs:
            additions.add(new, None, None, new.blockers, met)
        first = next_job_id(db)
        additions.prepare().write(db, now, first, met=sorted(met))
        queues.admit(db, self._queues)
        jobs = [waiting_row(new, now, job_id, met) for job_id, new in enumerate(self._jobs, first)]
        return Added(self._jobs, self._values, now, rows=jobs)

    def _add_by_rules(self, db: Session, now: int) -> Added:
        """The same where jobs wait for chains that have failed, or have keys and wait, or replace
        others that waited."""
        book = SqliteBook(db, now)
        book.chains.expect(blocker for new in self._jobs for blocker in new.blockers)
        book.chaining.require(self._jobs)
        keys = {(new.tenant, new.key) for new in self._jobs if new.key is not None}
        existing = book.jobs.know(rows.read_named(db, "read_keyed", keys))
        by_key = {(row.tenant, row.key): row for row in existing}
        result: list[Row] = []
        for new in self._jobs:
            row = by_key.get((new.tenant, new.key)) if new.key is not None else None
            is_same = row is not None and _is_same(row, new)
            if row is not None and is_same:
                _add_again(row, new, now)
                book.write_job(row)
            else:
                if row is not None:
                    rules.supersede(row, now)
                    book.write_job(row)
                row = rules.new_row(new, now)
                book.add_job(row)
                if new.key is not None:
                    by_key[new.tenant, new.key] = row
            if not is_same or new.key_mode != "unsafe_dedupe":
                book.chaining.block(row, new.blockers)
            result.append(row)
        book.save()
        return Added(self._jobs, self._values, now, rows=result)


def _is_same(row: Row, new: NewJob) -> bool:
    """Whether the job that has the key stays: one that runs gives way to a new one."""
    return row.state is not JobState.RUNNING or new.key_mode == "unsafe_dedupe"


def _add_again(row: Row, new: NewJob, now: int) -> None:
    if new.key_mode == "unsafe_dedupe":
        rules.request_again(row, now)
    else:
        rules.replace(row, new, now)


def _insert_rows(db: Session, fresh: Sequence[Row]) -> None:
    for chunk in pieces(fresh, payload_length):
        last = db.insert("insert_rows", {"rows": json_text(chunk)})
        for row_id, row in enumerate(chunk, last - len(chunk) + 1):
            row.id = row_id


def _differ_only_in_payload(jobs: Sequence[NewJob]) -> bool:
    """Whether one INSERT of payloads will do; scalars would lose their quotes there."""
    if not jobs:
        return False
    common = alike(jobs[0])
    return all(new.payload[:1] in "{[" and alike(new) == common for new in jobs)
