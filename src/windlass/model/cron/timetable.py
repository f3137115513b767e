"""Which instants a pattern means in a time zone.

The search goes by UTC days. On a day whose clock does not jump, and whose neighbours' do not
either, local time is UTC plus a constant, so the day's instants are its times of day moved by it.
The few days around a jump are walked minute by minute.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import islice

import msgspec

MINUTE = 60_000_000
"""Microseconds."""

_DAY = 1440
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_LAST_DAY = date(9999, 12, 29).toordinal() - _EPOCH_ORDINAL
_PATIENCE = 9 * 366
"""Days after which nothing can match any more: 29 February is at most eight years away."""


class Timetable(msgspec.Struct, frozen=True):
    """The minutes a pattern allows on the clock of `zone`.

    `times` are minutes of the day, ascending. `follows_clock` says that every hour is allowed.
    Days are chosen by day of month, by day of week, or, where both are restricted, by either.
    """

    times: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    zone: tzinfo
    follows_clock: bool

    # ── what callers ask ──

    def after(self, instant: int) -> int | None:
        """The first instant later than `instant`; None if there is none before the year 9999."""
        first = instant // (MINUTE * _DAY)
        for day in range(first, min(first + _PATIENCE, _LAST_DAY)):
            minutes = self._on_utc_day(day)
            place = bisect_right(minutes, instant // MINUTE)
            if place < len(minutes):
                return minutes[place] * MINUTE
        return None

    def between(self, after: int, until: int) -> Iterator[int]:
        """The instants in (after, until], ascending."""
        for day in range(after // (MINUTE * _DAY), min(until // (MINUTE * _DAY), _LAST_DAY) + 1):
            for minute in self._on_utc_day(day):
                if after < minute * MINUTE <= until:
                    yield minute * MINUTE

    def latest(self, after: int, until: int) -> Iterator[int]:
        """The instants in (after, until], the latest first."""
        last = min(until // (MINUTE * _DAY), _LAST_DAY)
        for day in range(last, after // (MINUTE * _DAY) - 1, -1):
            for minute in reversed(self._on_utc_day(day)):
                if after < minute * MINUTE <= until:
                    yield minute * MINUTE

    def cut(self, after: int, until: int, most: int) -> tuple[int, int]:
        """Where to begin so that (begin, until] holds at most the `most` latest instants of
        (after, until], and how many it holds."""
        found = self.latest(after, until)
        count = sum(1 for _ in islice(found, most))
        return next(found, after), count

    # ── days ──

    def _on_utc_day(self, day: int) -> list[int]:
        offset = _offset(self.zone, day)
        if offset == _offset(self.zone, day - 1) == _offset(self.zone, day + 1):
            return self._on_steady_day(day, offset)
        return self._on_day_of_jump(day)

    def _on_steady_day(self, day: int, offset: int) -> list[int]:
        begin, end = day * _DAY, (day + 1) * _DAY
        minutes: list[int] = []
        for local in range((begin + offset) // _DAY, (end - 1 + offset) // _DAY + 1):
            if self._allows_day(local):
                base = local * _DAY - offset
                minutes += [base + time for time in self.times if begin <= base + time < end]
        return minutes

    def _on_day_of_jump(self, day: int) -> list[int]:
        minutes = []
        before = _shown(self.zone, day * _DAY - 1)
        for minute in range(day * _DAY, (day + 1) * _DAY):
            shown = _shown(self.zone, minute)
            is_due = self._allows(shown.wall)
            if not self.follows_clock:
                left_out = range(before.wall + 1, shown.wall)
                is_due = (is_due and not shown.again) or any(map(self._allows, left_out))
            if is_due:
                minutes.append(minute)
            before = shown
        return minutes

    def _allows(self, wall: int) -> bool:
        day, time = divmod(wall, _DAY)
        place = bisect_left(self.times, time)
        return self.times[place : place + 1] == (time,) and self._allows_day(day)

    def _allows_day(self, local: int) -> bool:
        on = date.fromordinal(local + _EPOCH_ORDINAL)
        if on.month not in self.months:
            return False
        by_day = on.day in self.days
        by_weekday = on.isoweekday() % 7 in self.weekdays
        if len(self.days) < 31 and len(self.weekdays) < 7:
            return by_day or by_weekday
        return by_day and by_weekday


class _Shown(msgspec.Struct, frozen=True):
    """What a clock shows: its minutes since 1970, and whether it has shown them before."""

    wall: int
    again: bool


def _shown(zone: tzinfo, minute: int) -> _Shown:
    local = (_EPOCH + timedelta(minutes=minute)).astimezone(zone)
    ahead = local.utcoffset() or timedelta()
    return _Shown(minute + ahead // timedelta(minutes=1), local.fold == 1)


@lru_cache(maxsize=20_000)
def _offset(zone: tzinfo, day: int) -> int:
    """Minutes by which the zone is ahead of UTC when the UTC day begins."""
    if zone is UTC:
        return 0
    return _shown(zone, day * _DAY).wall - day * _DAY
