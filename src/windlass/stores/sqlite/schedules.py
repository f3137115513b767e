"""Schedules: registering them, firing them once, and what operators do with them."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.model.cron import Schedule
from windlass.store.records import NewJob
from windlass.store.schedules import Fired, FireVerdict, KnownSchedule, decode_known, encode
from windlass.stores.sqlite.connection import Session
from windlass.stores.sqlite.enqueue import Enqueue
from windlass.stores.sqlite.rows import json_text


def register(
    db: Session, tenant: str, schedules: Sequence[Schedule], now: int
) -> list[KnownSchedule]:
    pairs = [(schedule.identifier, encode(schedule)) for schedule in schedules]
    values = {"tenant": tenant, "schedules": json_text(pairs), "now": now}
    db.run("register_schedules", values)
    names = [schedule.identifier for schedule in schedules]
    by_identifier = {known.identifier: known for known in read(db, tenant, names)}
    return [by_identifier[schedule.identifier] for schedule in schedules]


def read(
    db: Session, tenant: str | None, identifiers: Sequence[str] | None = None
) -> list[KnownSchedule]:
    """Those of a tenant, or of all (None), and of these identifiers, or of all."""
    wanted = None if identifiers is None else json_text(identifiers)
    return decode_known(db.value("read_schedules", {"tenant": tenant, "identifiers": wanted}))


def _read_one(db: Session, tenant: str, identifier: str) -> KnownSchedule | None:
    known = read(db, tenant, [identifier])
    return known[0] if known else None


class Fire:
    """One call to fire, prepared; calling it does the work inside a transaction."""

    def __init__(
        self, tenant: str, identifier: str, expected: int, until: int, jobs: Sequence[NewJob]
    ) -> None:
        self._tenant = tenant
        self._identifier = identifier
        self._expected = expected
        self._until = until
        self._enqueue = Enqueue(jobs)

    def write(self, db: Session, now: int) -> Fired:
        values = {
            "tenant": self._tenant,
            "identifier": self._identifier,
            "expected": self._expected,
            "until": self._until,
            "now": now,
        }
        if db.run("fire_schedule", values):
            self._enqueue.write(db, now)
            return Fired(FireVerdict.APPLIED, self._until)
        known = _read_one(db, self._tenant, self._identifier)
        return Fired(FireVerdict.MISSING) if known is None else self._refusal(known)

    def _refusal(self, known: KnownSchedule) -> Fired:
        if known.paused_at is not None:
            return Fired(FireVerdict.PAUSED, known.floor_at)
        is_there = known.floor_at == self._expected < self._until
        return Fired(FireVerdict.EARLY if is_there else FireVerdict.LOST, known.floor_at)


def change(
    db: Session, statement: str, tenant: str, identifier: str, now: int
) -> KnownSchedule | None:
    """Pause or resume; the schedule as it then is."""
    db.run(statement, {"tenant": tenant, "identifier": identifier, "now": now})
    return _read_one(db, tenant, identifier)


def forget(db: Session, tenant: str, identifier: str) -> KnownSchedule | None:
    known = _read_one(db, tenant, identifier)
    db.run("delete_schedule", {"tenant": tenant, "identifier": identifier})
    return known
