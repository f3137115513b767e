"""The tables of the memory store, and what `chaining` reads and writes of them."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence

from windlass.model.chain import ChainState
from windlass.model.job import JobState
from windlass.store.records import Blocker, ChainRow, Row


class MemoryBook:
    """Dictionaries of jobs, history, chains and blockers. The rows are the very objects that the
    rules change, so writing one matters only where it is new or moves."""

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}
        self.history: dict[int, Row] = {}
        self.chains: dict[int, ChainRow] = {}
        self.named: dict[int, list[Blocker]] = {}
        """Blockers, by the job that named them."""
        self.ids = itertools.count(1)
        self.has_scheduled = False
        """Whether a job was written here that is due later; giving a hint sets it back."""

    def copy(self) -> MemoryBook:
        """Rows of its own; ids come from the same count, so that none is given twice."""
        other = MemoryBook()
        other.rows = {job_id: copy.copy(row) for job_id, row in self.rows.items()}
        other.history = dict(self.history)
        other.chains = {chain_id: copy.copy(row) for chain_id, row in self.chains.items()}
        other.named = {job: [copy.copy(it) for it in named] for job, named in self.named.items()}
        other.ids = self.ids
        return other

    # ── reading ──

    def job(self, job_id: int) -> Row | None:
        return self.rows.get(job_id)

    def current(self, chain_id: int) -> Row | None:
        return next((row for row in self.rows.values() if row.chain == chain_id), None)

    def chain(self, chain_id: int) -> ChainRow | None:
        return self.chains.get(chain_id)

    def keyed(self, tenant: str, key: str, since: int | None) -> ChainRow | None:
        same = [it for it in self.chains.values() if (it.tenant, it.key) == (tenant, key)]
        for chain in same:
            if chain.state is ChainState.OPEN:
                return chain
        ended = [it for it in same if since is not None and (it.finished_at or 0) > since]
        return max(ended, key=lambda it: (it.finished_at, it.id), default=None)

    def blockers(self, job_id: int) -> Sequence[Blocker]:
        return self.named.get(job_id, [])

    def naming(self, chain_id: int) -> Sequence[Blocker]:
        return [it for job in sorted(self.named) for it in self.named[job] if it.chain == chain_id]

    def chain_jobs(self, chain_id: int) -> Sequence[Row]:
        stored = [*self.history.values(), *self.rows.values()]
        return sorted(
            (row for row in stored if row.chain == chain_id), key=lambda row: row.step or 0
        )

    # ── writing ──

    def add_job(self, row: Row) -> None:
        row.id = row.id or next(self.ids)
        self.rows[row.id] = row
        self.has_scheduled |= row.state is JobState.SCHEDULED

    def write_job(self, row: Row) -> None:
        """A completed job leaves, for the history if it is to be kept."""
        self.has_scheduled |= row.state is JobState.SCHEDULED
        if row.state is JobState.COMPLETED:
            self.rows.pop(row.id, None)
            if row.expires_at is None:
                self.named.pop(row.id, None)
            else:
                self.history[row.id] = row

    def delete_job(self, row: Row) -> None:
        self.rows.pop(row.id, None)
        self.history.pop(row.id, None)
        self.named.pop(row.id, None)

    def write_chain(self, chain: ChainRow) -> None:
        self.chains[chain.id] = chain

    def delete_chain(self, chain: ChainRow) -> None:
        del self.chains[chain.id]

    def write_blockers(self, job_id: int, blockers: Sequence[Blocker]) -> None:
        self.named[job_id] = list(blockers)

    def write_blocker(self, blocker: Blocker) -> None:
        """It is the very object that the list has."""
