"""What is asked for about chains: look at them, complete, cancel, retry and delete them.

Changes go by the rules of `store/chaining.py`, on the book of the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from windlass.model.chain import Chain, ChainState
from windlass.store.chaining import Chaining
from windlass.store.records import ChainFilter, ChainRow, Complete, Row, deleted_chain, sees
from windlass.stores.sqlite import admin, rows
from windlass.stores.sqlite.book import SqliteBook
from windlass.stores.sqlite.connection import Session
from windlass.stores.sqlite.rows import json_text

_AFTER_ALL = 2**63 - 1
"""An id that no chain reaches."""

_named = msgspec.json.Decoder(list[tuple[int, ChainRow | None]]).decode


class Seen(NamedTuple):
    """A chain, and its current job or its last one, as far as that is stored."""

    row: ChainRow
    job: Row | None

    def chain(self, *, deduplicated: bool = False) -> Chain[Any]:
        job = None if self.job is None else self.job.job()
        return self.row.chain(job, deduplicated=deduplicated)


_seen = msgspec.json.Decoder(list[tuple[ChainRow, Row | None]]).decode


# ── looking ──


def show(db: Session, ids: Sequence[int]) -> dict[int, Seen]:
    found = _seen(db.value("show_chains", {"ids": json_text(list(dict.fromkeys(ids)))}))
    return {row.id: Seen(row, job) for row, job in found}


def get(db: Session, chain_id: int, tenant: str | None) -> Seen | None:
    found = show(db, [chain_id]).get(chain_id)
    return found if found is not None and sees(tenant, found.row) else None


def find(db: Session, wanted: ChainFilter) -> list[Seen]:
    states = list(ChainState) if wanted.states is None else list(dict.fromkeys(wanted.states))
    page = {
        "before": _AFTER_ALL if wanted.after is None else wanted.after,
        "tenant": wanted.tenant,
        "task": wanted.task,
        "states": json_text(states),
        "limit": wanted.limit,
    }
    if wanted.tenant:
        statement = "find_chains_of_tenant"
    elif wanted.states is None and wanted.task is None:
        statement = "find_chains"
    else:
        statement = "find_chains_in_states"
    found = [Seen(row, job) for row, job in _seen(db.value(statement, page))]
    return sorted(found, key=lambda seen: -seen.row.id)


def jobs(db: Session, chain_id: int, tenant: str | None) -> list[Row]:
    kept = rows.read(db, "read_kept_of_chain", chain=chain_id)
    current = rows.read(db, "read_current_jobs", chains=json_text([chain_id]))
    return [row for row in (*kept, *current) if sees(tenant, row)]


def blocked_jobs(db: Session, chain_id: int, tenant: str | None) -> list[Row]:
    found = rows.read(db, "find_blocked", chain=chain_id)
    return sorted((row for row in found if sees(tenant, row)), key=lambda row: -row.id)


def blockers(db: Session, job_id: int, tenant: str | None) -> list[ChainRow]:
    row = admin.get(db, job_id, tenant)
    if row is None:
        return []
    return [
        chain or deleted_chain(chain_id, row.tenant, row.updated_at)
        for chain_id, chain in _named(db.value("read_named_chains", {"job": job_id}))
    ]


# ── changing ──


def complete(
    db: Session,
    chain_id: int,
    completion: Complete,
    inherits: Sequence[str],
    tenant: str | None,
    now: int,
) -> Seen:
    def change(rules: Chaining) -> list[ChainRow]:
        [chain] = rules.find([chain_id], tenant)
        rules.complete(chain, completion, inherits)
        return [chain]

    [completed] = _changed(db, now, change)
    return completed


def cancel(db: Session, ids: Sequence[int], tenant: str | None, now: int) -> list[Seen]:
    def change(rules: Chaining) -> list[ChainRow]:
        chains = rules.find(ids, tenant)
        rules.cancel(chains)
        return chains

    return _changed(db, now, change, ids)


def retry(db: Session, ids: Sequence[int], tenant: str | None, now: int) -> list[Seen]:
    return _changed(db, now, lambda rules: rules.retry(rules.find(ids, tenant)), ids)


def delete(
    db: Session, ids: Sequence[int], tenant: str | None, now: int, *, cascade: bool
) -> list[ChainRow]:
    book = SqliteBook(db, now)
    book.chains.expect(ids)
    deleted = book.chaining.delete(ids, tenant, cascade=cascade)
    book.save()
    return deleted


def _changed(
    db: Session,
    now: int,
    change: Callable[[Chaining], list[ChainRow]],
    expected: Sequence[int] = (),
) -> list[Seen]:
    """Change chains by the rules; those that were, as they are now."""
    book = SqliteBook(db, now)
    book.chains.expect(expected)
    changed = [chain.id for chain in change(book.chaining)]
    book.save()
    found = show(db, changed)
    return [found[chain_id] for chain_id in changed]
