"""Ending deliveries.

The common case, completed, is one DELETE guarded by the token (and one copy into the history of
what is kept). If it meets fewer rows than it was given, a delivery lost its lease, and the whole
transaction is done again carefully: rows are read, decided one by one, and written back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from windlass.model.job import JobState
from windlass.store.records import (
    MAX_LOG,
    Complete,
    Lease,
    Note,
    Outcome,
    Row,
    Settled,
    Verdict,
)
from windlass.store.rules import micros
from windlass.stores.sqlite import ending
from windlass.stores.sqlite.book import SqliteBook
from windlass.stores.sqlite.connection import Session
from windlass.stores.sqlite.ending import Ended
from windlass.stores.sqlite.rows import json_text

Settlement = tuple[Lease, Outcome]
_How = TypeVar("_How")

_COMPLETED = JobState.COMPLETED
_APPLIED = Settled(Verdict.APPLIED, _COMPLETED)
_FEW_CLAIMS = 3
_ids = msgspec.json.Decoder(list[int]).decode


class NotAllHeld(Exception):
    """Raised inside a transaction when the quick way met a lost lease; never leaves the store."""


class Settle:
    """One call to settle. Whatever needs no database is prepared by the caller, so that the writer
    thread only runs statements; calling it does the work inside a transaction."""

    def __init__(self, settlements: Sequence[Settlement]) -> None:
        self._settlements = settlements
        self._completed: list[Lease] = []
        self._kept: list[tuple[Lease, str | None, float]] = []
        self._others: list[tuple[int, Settlement]] = []
        for place, (lease, outcome) in enumerate(settlements):
            if not isinstance(outcome, Complete) or _concerns_chains(lease, outcome):
                self._others.append((place, (lease, outcome)))
                continue
            self._completed.append(lease)
            keep = outcome.keep if lease.keep is None else lease.keep
            if keep:
                self._kept.append((lease, outcome.output, keep))
        # Where two deliveries of one job are settled the answers depend on their order.
        ids = {lease.job_id for lease, _ in settlements}
        self._is_plain = len(ids) == len(settlements)
        self._deletes = _deletes(self._completed)
        self._ended = [
            Ended(lease.job_id, lease.tenant, lease.queue, _COMPLETED) for lease in self._completed
        ]

    def __call__(self, db: Session, now: int) -> list[Settled]:
        if db.careful or not self._is_plain:
            return _settle_carefully(db, self._settlements, now)
        if self._kept:
            self._keep(db, now)
        if self._completed:
            self._delete(db)
        answers = [_APPLIED] * len(self._settlements)
        if self._others:
            rest = _settle_carefully(db, [settlement for _, settlement in self._others], now)
            for (place, _), answer in zip(self._others, rest, strict=True):
                answers[place] = answer
        return answers

    def _keep(self, db: Session, now: int) -> None:
        kept = [
            (lease.job_id, lease.token, output, keep, now + micros(keep))
            for lease, output, keep in self._kept
        ]
        if db.run("keep_completed", {"completed": json_text(kept), "now": now}) != len(kept):
            raise NotAllHeld

    def _delete(self, db: Session) -> None:
        deleted = sum([db.run(name, parameters) for name, parameters in self._deletes])
        if deleted != len(self._completed):
            raise NotAllHeld
        ending.ended(db, self._ended)


def _concerns_chains(lease: Lease, completion: Complete) -> bool:
    return (
        lease.chain is not None
        or lease.blockers_total is not None
        or completion.next is not None
        or bool(completion.starts)
    )


def _deletes(leases: Sequence[Lease]) -> list[tuple[str, dict[str, object]]]:
    """The statements that end these deliveries: one for each claim they come from, if few."""
    by_claim: dict[int, list[int]] = {}
    for lease in leases:
        by_claim.setdefault(lease.token - lease.job_id, []).append(lease.job_id)
    if len(by_claim) > _FEW_CLAIMS:
        pairs = json_text([(lease.job_id, lease.token) for lease in leases])
        return [("delete_completed_pairs", {"pairs": pairs})]
    return [
        ("delete_completed", {"ids": json_text(ids), "base": base})
        for base, ids in by_claim.items()
    ]


def _settle_carefully(db: Session, settlements: Sequence[Settlement], now: int) -> list[Settled]:
    def end(book: SqliteBook, row: Row, outcome: Outcome) -> str | None:
        if isinstance(outcome, Complete):
            refusal = book.chaining.refusal(row, outcome)
            if refusal is not None:
                return refusal
        book.end(row, outcome)
        return None

    return _change_owned(db, settlements, now, end)


def expire(db: Session, leases: Sequence[Lease], max_resets: int, now: int) -> list[Settled]:
    """Take deliveries back as the reaper does."""

    def take_back(book: SqliteBook, row: Row, most: int) -> None:
        book.take_back(row, most)

    return _change_owned(db, [(lease, max_resets) for lease in leases], now, take_back)


def _change_owned(
    db: Session,
    asked: Sequence[tuple[Lease, _How]],
    now: int,
    change: Callable[[SqliteBook, Row, _How], str | None],
) -> list[Settled]:
    """Read the rows, change each that its lease still owns, and write them back. A change that is
    refused says why."""
    book = SqliteBook(db, now)
    wanted = json_text(sorted({lease.job_id for lease, _ in asked}))
    known = {row.id: row for row in book.read("read_jobs", ids=wanted)}
    unknown = [lease.job_id for lease, _ in asked if lease.job_id not in known]
    in_history = (
        set(_ids(db.value("known_history", {"ids": json_text(unknown)}))) if unknown else set()
    )
    answers: list[Settled] = []
    for lease, how in asked:
        row = known.get(lease.job_id)
        if row is not None and row.state is JobState.RUNNING and row.token == lease.token:
            refusal = change(book, row, how)
            answers.append(
                Settled(Verdict.APPLIED, row.state)
                if refusal is None
                else Settled(Verdict.REFUSED, reason=refusal)
            )
        else:
            is_known = lease.job_id in in_history or (
                lease.job_id in book.jobs.kept
                if lease.job_id in book.jobs.gone
                else row is not None
            )
            # Of a chain that is there, another than this delivery has completed the job.
            is_known = is_known or (lease.chain is not None and book.chain(lease.chain) is not None)
            answers.append(Settled(Verdict.LOST if is_known else Verdict.MISSING))
    book.save()
    return answers


def note(db: Session, lease: Lease, what: Note, now: int) -> Verdict:
    written = db.run(
        "note_job",
        {
            "progress": what.progress,
            "entry": what.entry,
            "most": MAX_LOG,
            "now": now,
            "id": lease.job_id,
            "token": lease.token,
        },
    )
    if written:
        return Verdict.APPLIED
    known = db.value("peek_job", {"id": lease.job_id, "chain": lease.chain})
    return Verdict.LOST if known else Verdict.MISSING
