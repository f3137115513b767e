"""Starting chains.

Chains without keys and blockers are prepared by the caller, and become two INSERTs, of their first
jobs and of themselves. Keys are compared with what is there, in order, and blockers are looked up
together. Where a job names a chain that has failed, the rules of `store/chaining.py` decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from windlass.model import payload as payloads
from windlass.model.chain import Chain
from windlass.store.fresh import fresh_chains
from windlass.store.records import NewChain
from windlass.stores.sqlite import chain_admin, queues
from windlass.stores.sqlite.additions import OWN, Additions, next_job_id
from windlass.stores.sqlite.book import SqliteBook
from windlass.stores.sqlite.chain_admin import Seen
from windlass.stores.sqlite.chain_rows import ChainRows
from windlass.stores.sqlite.connection import Session
from windlass.stores.sqlite.named_chains import met_chains


class _AllNew(NamedTuple):
    """Chains that have just started; their payloads are decoded."""

    new: Sequence[NewChain]
    values: Sequence[Any]
    now: int
    first_id: int

    def chains(self) -> list[Chain[Any]]:
        ids = range(self.first_id, self.first_id + len(self.new))
        return fresh_chains(self.new, self.values, self.now, ids)


class _Found(NamedTuple):
    """Chains that have started or were there already, which is said of each."""

    seen: Sequence[tuple[Seen, bool]]

    def chains(self) -> list[Chain[Any]]:
        return [seen.chain(deduplicated=is_duplicate) for seen, is_duplicate in self.seen]


Begun = _AllNew | _Found
"""What a start did; `chains` turns it into what the caller is given."""


class StartChains:
    """One call to start chains, prepared; calling it does the work inside a transaction."""

    def __init__(self, asked: Sequence[NewChain]) -> None:
        self._asked = asked
        self._jobs = [new.job for new in asked]
        # What cannot be read back is refused before any row is written.
        self._values = [payloads.decode(new.payload) for new in self._jobs]
        self._has_blockers = any(new.blockers for new in self._jobs)
        self._keys = {(new.job.tenant, new.key) for new in asked if new.key is not None}
        self._plain: Additions | None = None
        if not (self._has_blockers or self._keys):
            self._plain = Additions()
            for new in self._jobs:
                self._plain.add(new, OWN, 0)
            self._plain.prepare()

    def write(self, db: Session, now: int) -> Begun:
        if not self._asked:
            return _Found([])
        if self._plain is None:
            return self._start(db, now)
        first = next_job_id(db)
        self._plain.write(db, now, first)
        queues.admit(db, self._plain.queues)
        return _AllNew(self._asked, self._values, now, first)

    def _start(self, db: Session, now: int) -> Begun:
        """Start those whose keys are free."""
        met = met_chains(db, self._jobs) if self._has_blockers else set()
        if met is None:
            return self._start_by_rules(db, now)
        stored, additions, first = ChainRows(db), Additions(), next_job_id(db)
        stored.know_keys(self._keys)
        by_key: dict[tuple[str, str], int] = {}
        started: list[tuple[int, bool]] = []
        for new in self._asked:
            key = None if new.key is None else (new.job.tenant, new.key)
            there = None if key is None else by_key.get(key) or _stored(stored, new, now)
            if there is not None:
                started.append((there, True))
                continue
            offset = additions.add(new.job, OWN, 0, new.job.blockers, met)
            if key is not None:
                additions.name(offset, key[1], new.key_window)
                by_key[key] = first + offset
            started.append((first + offset, False))
        if additions.new:
            additions.prepare().write(db, now, first, met=sorted(met))
            queues.admit(db, additions.queues)
        return _show(db, started)

    def _start_by_rules(self, db: Session, now: int) -> Begun:
        book = SqliteBook(db, now)
        book.chains.expect(blocker for new in self._jobs for blocker in new.blockers)
        book.chains.know_keys(self._keys)
        book.chaining.require(self._jobs)
        started = [book.chaining.start(new) for new in self._asked]
        book.save()
        return _show(db, [(it.chain.id, it.is_duplicate) for it in started])


def _stored(chains: ChainRows, new: NewChain, now: int) -> int | None:
    """The chain that has this key, or had it within its window."""
    assert new.key is not None
    since = now - new.key_window if new.key_window else None
    found = chains.keyed(new.job.tenant, new.key, since)
    return None if found is None else found.id


def _show(db: Session, started: Sequence[tuple[int, bool]]) -> Begun:
    found = chain_admin.show(db, [chain_id for chain_id, _ in started])
    return _Found([(found[chain_id], is_duplicate) for chain_id, is_duplicate in started])
