"""Schedules: knowing them, firing them once, and what operators do with them."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.model.cron import Schedule
from windlass.store.records import NewJob
from windlass.store.schedules import Fired, FireVerdict, KnownSchedule, decode_known, encode
from windlass.stores.sqlite.connection import Session
from windlass.stores.sqlite.enqueue import Enqueue
from windlass.stores.sqlite.rows import json_text


def know(db: Session, schedules: Sequence[Schedule], now: int) -> list[KnownSchedule]:
    pairs = [(schedule.identifier, encode(schedule)) for schedule in schedules]
    db.run("know_schedules", {"schedules": json_text(pairs), "now": now})
    names = [schedule.identifier for schedule in schedules]
    by_identifier = {known.identifier: known for known in read(db, names)}
    return [by_identifier[schedule.identifier] for schedule in schedules]


def read(db: Session, identifiers: Sequence[str] | None = None) -> list[KnownSchedule]:
    """Those of these identifiers, or all."""
    wanted = None if identifiers is None else json_text(identifiers)
    return decode_known(db.value("read_schedules", {"identifiers": wanted}))


class Fire:
    """One call to fire, prepared; calling it does the work inside a transaction."""

    def __init__(self, identifier: str, expected: int, until: int, jobs: Sequence[NewJob]) -> None:
        self._identifier = identifier
        self._expected = expected
        self._until = until
        self._enqueue = Enqueue(jobs)

    def __call__(self, db: Session, now: int) -> Fired:
        values = {
            "identifier": self._identifier,
            "expected": self._expected,
            "until": self._until,
            "now": now,
        }
        if db.run("fire_schedule", values):
            self._enqueue(db, now)
            return Fired(FireVerdict.APPLIED, self._until)
        known = read(db, [self._identifier])
        return self._refusal(known[0]) if known else Fired(FireVerdict.MISSING)

    def _refusal(self, known: KnownSchedule) -> Fired:
        if known.paused_at is not None:
            return Fired(FireVerdict.PAUSED, known.floor_at)
        is_there = known.floor_at == self._expected < self._until
        return Fired(FireVerdict.EARLY if is_there else FireVerdict.LOST, known.floor_at)


def change(db: Session, statement: str, identifier: str, now: int) -> KnownSchedule | None:
    """Pause or resume; the schedule as it then is."""
    db.run(statement, {"identifier": identifier, "now": now})
    known = read(db, [identifier])
    return known[0] if known else None


def forget(db: Session, identifier: str) -> KnownSchedule | None:
    known = read(db, [identifier])
    db.run("delete_schedule", {"identifier": identifier})
    return known[0] if known else None
