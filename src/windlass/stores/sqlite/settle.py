"""Ending deliveries.

The common case, completed, is one DELETE guarded by the token (and one copy into the history of
what is kept): `completions.py`, and for jobs of chains `chained.py`. If it meets fewer rows than it
was given, a delivery lost its lease, and the whole transaction is done again carefully: rows are
read, decided one by one, and written back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TypeVar

import msgspec

from windlass.model.job import JobState
from windlass.store.records import MAX_LOG, Complete, Lease, Note, Outcome, Row, Settled, Verdict
from windlass.store.webhooks import address_of
from windlass.stores.sqlite import ending
from windlass.stores.sqlite.book import SqliteBook
from windlass.stores.sqlite.chained import ChainedCompletions, concerns_chains, is_quick
from windlass.stores.sqlite.completions import Completion, Completions
from windlass.stores.sqlite.connection import Session
from windlass.stores.sqlite.rows import json_text

Settlement = tuple[Lease, Outcome]
_How = TypeVar("_How")

_APPLIED = Settled(Verdict.APPLIED, JobState.COMPLETED)
_ids = msgspec.json.Decoder(list[int]).decode


class Settle:
    """One call to settle. Whatever needs no database is prepared by the caller, so that the writer
    thread only runs statements; `write` does the work inside a transaction."""

    def __init__(self, settlements: Sequence[Settlement]) -> None:
        self._settlements = settlements
        completed: list[Completion] = []
        chained: list[tuple[int, Settlement]] = []
        self._others: list[tuple[int, Settlement]] = []
        for place, settlement in enumerate(settlements):
            lease, outcome = settlement
            if concerns_chains(lease, outcome) or _is_posted(settlement):
                chained.append((place, settlement))
            elif isinstance(outcome, Complete):
                completed.append((lease, outcome))
            else:
                self._others.append((place, settlement))
        # Where two deliveries of one job are settled the answers depend on their order.
        ids = {lease.job_id for lease, _ in settlements}
        self._is_plain = len(ids) == len(settlements)
        self.rows = len(settlements) + sum([_starts(outcome) for _, (_, outcome) in chained])
        """How many rows it writes, about."""
        self._completed = Completions(completed)
        self._steps = _steps(chained)

    def write(self, db: Session, now: int) -> list[Settled]:
        if db.careful or not self._is_plain:
            return _settle_carefully(db, self._settlements, now)
        if self._completed.leases:
            self._completed.write(db, now)
            ending.ended(db, self._completed.ended)
        answers = [_APPLIED] * len(self._settlements)
        for step in self._steps:
            if isinstance(step, ChainedCompletions):
                step.write(db, now)
            else:
                _answer(db, step, now, answers)
        if self._others:
            _answer(db, self._others, now, answers)
        return answers


def _is_posted(settlement: Settlement) -> bool:
    """Whether the job's end is posted somewhere, which is left to the careful way."""
    return address_of(settlement[0].meta) is not None


def _is_quick(settlement: Settlement) -> bool:
    return is_quick(settlement[1]) and not _is_posted(settlement)


def _starts(outcome: Outcome) -> int:
    return len(outcome.starts) if isinstance(outcome, Complete) else 0


def _steps(
    chained: Sequence[tuple[int, Settlement]],
) -> list[ChainedCompletions | list[tuple[int, Settlement]]]:
    """Settlements that may add jobs, in their order, since one may depend on another: those that
    follow one another and can be done the quick way are one step, and so are the others."""
    steps: list[ChainedCompletions | list[tuple[int, Settlement]]] = []
    for quick, group in groupby(chained, key=lambda it: _is_quick(it[1])):
        step = list(group)
        if quick:
            completions = [
                (lease, outcome) for _, (lease, outcome) in step if isinstance(outcome, Complete)
            ]
            steps.append(ChainedCompletions(completions))
        else:
            steps.append(step)
    return steps


def _answer(
    db: Session, asked: Sequence[tuple[int, Settlement]], now: int, answers: list[Settled]
) -> None:
    """Settle carefully, and put each answer in its place."""
    told = _settle_carefully(db, [settlement for _, settlement in asked], now)
    for (place, _), answer in zip(asked, told, strict=True):
        answers[place] = answer


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

    answers = _change_owned(db, [(lease, max_resets) for lease in leases], now, take_back)
    # Only a delivery that settles again is told that it has ended its chain.
    return [
        answer if answer.verdict is Verdict.APPLIED else Settled(answer.verdict)
        for answer in answers
    ]


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
            # Of a chain that is there the job is completed, by this delivery or without it.
            chain = None if lease.chain is None else book.chain(lease.chain)
            verdict = Verdict.LOST if is_known or chain is not None else Verdict.MISSING
            answers.append(Settled(verdict, None if chain is None else chain.end_by(lease.token)))
    book.save()
    return answers


def move(db: Session, lease: Lease, worker: str, expires_at: int, length: int) -> Verdict:
    """Make a delivery another worker's, whose lease is `length` long; all in ticks."""
    beat = {"worker": worker, "expires_at": expires_at, "lease": length, "fresh": expires_at}
    db.run("beat_worker", beat)
    moved = db.run("move_job", {"worker": worker, "id": lease.job_id, "token": lease.token})
    return Verdict.APPLIED if moved else _why_not(db, lease)


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
    return Verdict.APPLIED if written else _why_not(db, lease)


def _why_not(db: Session, lease: Lease) -> Verdict:
    known = db.value("peek_job", {"id": lease.job_id, "chain": lease.chain})
    return Verdict.LOST if known else Verdict.MISSING
