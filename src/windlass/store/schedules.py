"""What crosses the port about schedules.

A store keeps one row per tenant and identifier. `floor_at` is the instant up to which the schedule
is dealt with: everything later is open. `fire` moves it forward and adds the jobs in one step, and
only from where the caller believes it to be, so that of any number of workers one fires an instant.
It never moves back, whatever the clock does.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from enum import StrEnum

import msgspec

from windlass.clock import to_datetime
from windlass.model import payload as payloads
from windlass.model.cron import Schedule
from windlass.model.cron.schedule import CRON
from windlass.model.job import DEFAULT_TENANT
from windlass.store.records import NewJob


class KnownSchedule(msgspec.Struct, frozen=True):
    """A schedule as the database knows it. Instants are microseconds.

    `schedule` is what the worker that started last had in its crontab.
    """

    schedule: Schedule
    known_since: int
    seen_at: int
    """When a worker last started with it."""
    floor_at: int
    last_at: int | None = None
    """The last instant that was fired; passing over instants does not change it."""
    paused_at: int | None = None
    tenant: str = DEFAULT_TENANT

    @property
    def identifier(self) -> str:
        return self.schedule.identifier


class FireVerdict(StrEnum):
    """What became of one firing."""

    APPLIED = "applied"
    LOST = "lost"
    """The schedule was elsewhere: another worker fired it, or it was resumed."""
    PAUSED = "paused"
    EARLY = "early"
    """The last instant has not come yet, by the database's clock."""
    MISSING = "missing"
    """There is no schedule of this identifier; it was removed."""


class Fired(msgspec.Struct, frozen=True):
    """The answer to a firing, and where the schedule is now."""

    verdict: FireVerdict
    floor_at: int = 0


def encode(schedule: Schedule) -> str:
    return msgspec.json.encode(schedule).decode()


_decode = msgspec.json.Decoder(Schedule).decode


class _Wire(msgspec.Struct, array_like=True):
    """A row of a SQL store."""

    schedule: str
    known_since: int
    seen_at: int
    floor_at: int
    last_at: int | None
    paused_at: int | None
    tenant: str


_decode_rows = msgspec.json.Decoder(list[_Wire]).decode


def decode_known(text: str) -> list[KnownSchedule]:
    """What a SQL store answers with: a JSON array of rows."""
    return [
        KnownSchedule(
            _decode(row.schedule),
            row.known_since,
            row.seen_at,
            row.floor_at,
            row.last_at,
            row.paused_at,
            row.tenant,
        )
        for row in _decode_rows(text)
    ]


def jobs_at(
    schedule: Schedule,
    instants: Iterable[int],
    *,
    backfilled: bool,
    tenant: str = DEFAULT_TENANT,
) -> list[NewJob]:
    """The jobs of these instants, each due at its own."""
    text = payloads.encode(schedule.payload, limit=sys.maxsize)
    head = "{" if text == payloads.EMPTY else f"{text[:-1]},"
    tail = f'","backfilled":{"true" if backfilled else "false"}}}}}'
    return [
        NewJob(
            schedule.task,
            f'{head}"{CRON}":{{"ts":"{_iso(instant)}{tail}',
            schedule.queue,
            schedule.max_attempts,
            schedule.key,
            0 if schedule.priority is None else schedule.priority,
            schedule.flags,
            tenant=tenant,
            is_strict=int(schedule.strict or False),
            run_at=instant,
            key_mode=schedule.key_mode,
        )
        for instant in instants
    ]


def _iso(instant: int) -> str:
    shown = to_datetime(instant)
    return shown.isoformat(timespec="auto").replace("+00:00", "Z")
