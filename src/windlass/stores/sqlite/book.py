"""The book of one write transaction: the rules of `store/chaining.py` read and write jobs, chains
and blockers here.

It is the careful way, for whatever is rare: failures, retries, deletes, completion by hand. Rows
are read when they are asked for, several at once where more are likely to be, and written back all
at once by `save`. What happens all day (`settle.py`, `enqueue.py`, `starting.py`) has a quick way.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from windlass.model.job import JobState
from windlass.store import rules
from windlass.store.chaining import Chaining
from windlass.store.records import COMPLETE, Blocker, ChainRow, Complete, Outcome, Row
from windlass.stores.sqlite import rows
from windlass.stores.sqlite.chain_rows import ChainRows, some
from windlass.stores.sqlite.changes import Changes
from windlass.stores.sqlite.connection import Session
from windlass.stores.sqlite.rows import json_text


class SqliteBook:
    """A `chaining.Book`, and what verbs do to single jobs, with all that follows from it."""

    def __init__(self, db: Session, now: int) -> None:
        self._db = db
        self._now = now
        self.jobs = Changes(db)
        self._missing: set[int] = set()
        """Jobs that were asked for and are not there."""
        self._current: dict[int, Row] = {}
        """Current jobs that were added, by their chains."""

    @cached_property
    def chaining(self) -> Chaining:
        return Chaining(self, self._now)

    @cached_property
    def chains(self) -> ChainRows:
        return ChainRows(self._db)

    def read(self, name: str, **parameters: object) -> list[Row]:
        """The jobs of one of the `read_…` statements."""
        found = self.jobs.read(name, **parameters)
        chains = [row.chain for row in found if row.chain is not None]
        if chains:
            self.chains.expect(chains)
        return found

    # ── what verbs do ──

    def end(self, row: Row, outcome: Outcome) -> None:
        """What an outcome does to a running job."""
        token, is_cancelled = row.token, bool(row.cancel_requested)
        rules.end(row, outcome, self._now)
        self.write_job(row)
        if row.state.is_final:
            completion = outcome if isinstance(outcome, Complete) else COMPLETE
            self.chaining.ended(row, completion, token=token, is_cancelled=is_cancelled)

    def take_back(self, row: Row, max_resets: int) -> None:
        """What the death of its worker does to a running job."""
        rules.take_back(row, max_resets, self._now)
        self.changed([(row, JobState.RUNNING)])

    def changed(self, changed: Sequence[tuple[Row, JobState]]) -> None:
        """A rule has changed jobs that were in these states before: they may have ended by that, or
        been brought back. All are changed before one hears of another's end."""
        for row, _ in changed:
            self.write_job(row)
        for row, before in changed:
            if row.state.is_final and row.state is not before:
                self.chaining.ended(row)
        back = [row for row, before in changed if before.is_final and not row.state.is_final]
        if back:
            self.chaining.brought_back(back)

    def save(self) -> None:
        """Write everything, and let follow for the serial queues what follows."""
        if "chains" in self.__dict__:
            self.chains.write()
        self.jobs.save()

    # ── reading, for the rules ──

    def job(self, job_id: int) -> Row | None:
        known = self.jobs.known
        if job_id not in known and job_id not in self._missing:
            asked = some(self.chains.mentioned, job_id, known)
            self.read("read_jobs", ids=json_text(sorted(asked)))
            self._missing |= asked - known.keys()
        return None if job_id in self.jobs.gone else known.get(job_id)

    def current(self, chain_id: int) -> Row | None:
        added = self._current.get(chain_id)
        if added is not None and added.id not in self.jobs.gone:
            return added
        found = self.jobs.read("read_current_jobs", chains=json_text([chain_id]))
        return next((row for row in found if row.id not in self.jobs.gone), None)

    def chain(self, chain_id: int) -> ChainRow | None:
        return self.chains.chain(chain_id)

    def keyed(self, tenant: str, key: str, since: int | None) -> ChainRow | None:
        return self.chains.keyed(tenant, key, since)

    def blockers(self, job_id: int) -> Sequence[Blocker]:
        return self.chains.blockers(job_id)

    def naming(self, chain_id: int) -> Sequence[Blocker]:
        return self.chains.naming(chain_id)

    def chain_jobs(self, chain_id: int) -> Sequence[Row]:
        kept = rows.read(self._db, "read_kept_of_chain", chain=chain_id)
        current = self.current(chain_id)
        return kept if current is None else [*kept, current]

    # ── writing, for the rules ──

    def add_job(self, row: Row) -> None:
        self.jobs.add(row)
        self.write_job(row)

    def write_job(self, row: Row) -> None:
        """A completed job leaves, for the history if it is to be kept."""
        if row.state is not JobState.COMPLETED:
            self.jobs.change(row)
            if row.chain is not None and self.jobs.is_new(row):
                self._current[row.chain] = row
            return
        self.jobs.finish(row)
        if row.blockers_total is not None and row.expires_at is None:
            self.chains.forget_job(row.id)

    def delete_job(self, row: Row) -> None:
        if row.state is JobState.COMPLETED:
            self.jobs.forget(row)
        else:
            self.jobs.remove(row)
        if row.blockers_total is not None:
            self.chains.forget_job(row.id)

    def write_chain(self, chain: ChainRow) -> None:
        self.chains.write_chain(chain)

    def delete_chain(self, chain: ChainRow) -> None:
        self.chains.delete_chain(chain)

    def write_blockers(self, job_id: int, blockers: Sequence[Blocker]) -> None:
        self.chains.write_blockers(job_id, blockers)

    def write_blocker(self, blocker: Blocker) -> None:
        self.chains.write_blocker(blocker)
