"""Schedules as operators see them: what the database knows, and when each fires next."""

from __future__ import annotations

import contextlib
from datetime import datetime

import msgspec

from windlass.clock import to_datetime
from windlass.errors import ScheduleNotFoundError
from windlass.model.cron import Schedule
from windlass.model.cron.fields import RefusedError
from windlass.store.schedules import KnownSchedule


class ScheduleInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as the database knows it.

    `next_at` is None while it is paused, and where this machine does not know the time zone.
    `seen_at` is when a worker last started with it; whether one that has it is running now, the
    database does not know.
    """

    id: str
    task: str
    pattern: str
    tz: str
    next_at: datetime | None
    last_at: datetime | None
    paused_at: datetime | None
    known_since: datetime
    seen_at: datetime
    schedule: Schedule
    tenant: str | None = None


def no_schedule(id: str) -> ScheduleNotFoundError:
    return ScheduleNotFoundError(
        f"no schedule is called {id!r} here; `windlass cron list` shows those that are known,"
        " which is from the first start of a worker that has it"
    )


def schedule_info(known: KnownSchedule, now: int) -> ScheduleInfo:
    schedule = known.schedule
    next_at = None
    if known.paused_at is None:
        with contextlib.suppress(RefusedError):  # a zone that this machine does not know
            next_at = schedule.timetable.after(max(now, known.floor_at))
    return ScheduleInfo(
        id=schedule.identifier,
        task=schedule.task,
        pattern=schedule.pattern,
        tz=schedule.tz,
        next_at=_instant(next_at),
        last_at=_instant(known.last_at),
        paused_at=_instant(known.paused_at),
        known_since=to_datetime(known.known_since),
        seen_at=to_datetime(known.seen_at),
        schedule=schedule,
        tenant=known.tenant or None,
    )


def _instant(micros: int | None) -> datetime | None:
    return None if micros is None else to_datetime(micros)
