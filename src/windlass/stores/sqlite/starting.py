"""Starting chains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.model import payload as payloads
from windlass.model.chain import Chain
from windlass.store.records import NewChain
from windlass.stores.sqlite import chain_admin
from windlass.stores.sqlite.book import SqliteBook
from windlass.stores.sqlite.chain_admin import Seen
from windlass.stores.sqlite.connection import Session


class Begun:
    """What a start did; `chains` turns it into what the caller is given."""

    def __init__(self, seen: Sequence[tuple[Seen, bool]]) -> None:
        self._seen = seen

    def chains(self) -> list[Chain[Any]]:
        return [seen.chain(deduplicated=is_duplicate) for seen, is_duplicate in self._seen]


class StartChains:
    """One call to start chains, prepared; calling it does the work inside a transaction."""

    def __init__(self, asked: Sequence[NewChain]) -> None:
        self._asked = asked
        for new in asked:
            payloads.decode(new.job.payload)

    def __call__(self, db: Session, now: int) -> Begun:
        return self._start_by_rules(db, now)

    def _start_by_rules(self, db: Session, now: int) -> Begun:
        book = SqliteBook(db, now)
        jobs = [new.job for new in self._asked]
        book.chains.expect(blocker for new in jobs for blocker in new.blockers)
        book.chains.know_keys(
            {(new.job.tenant, new.key) for new in self._asked if new.key is not None}
        )
        book.chaining.require(jobs)
        started = [book.chaining.start(new) for new in self._asked]
        book.save()
        found = chain_admin.show(db, [it.chain.id for it in started])
        return Begun([(found[it.chain.id], it.is_duplicate) for it in started])
