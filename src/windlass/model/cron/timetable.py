"""Which instants a pattern means in a time zone.

The search goes by UTC days, and each day by the stretches through which the clock runs evenly:
there local time is UTC plus a constant, so the instants are the times of day moved by it. Nearly
every day is one such stretch. A day that begins and ends differently is walked once, minute by
minute, to find where its clock jumps.
"""

from __future__ import annotations

from bisect import bisect_right
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
        # Clocks are less than a day from UTC, and leave out a day at most.
        if not any(map(self._allows_day, range(day - 2, day + 3))):
            return []
        minutes: list[int] = []
        for stretch in _stretches(self.zone, day):
            if self.follows_clock:
                minutes += self._in(stretch.begin, stretch.end, stretch.ahead)
                continue
            found = [] if stretch.again else self._in(stretch.begin, stretch.end, stretch.ahead)
            # The times a gap leaves out are those the clock would have shown without it.
            left_out = stretch.begin + stretch.ahead - stretch.ahead_before
            if self._in(stretch.begin, left_out, stretch.ahead_before):
                minutes.append(stretch.begin)
                found = [minute for minute in found if minute > stretch.begin]
            minutes += found
        return minutes

    def _in(self, begin: int, end: int, ahead: int) -> list[int]:
        """The minutes of [begin, end) that match on a clock `ahead` of UTC."""
        minutes: list[int] = []
        for local in range((begin + ahead) // _DAY, (end - 1 + ahead) // _DAY + 1):
            if self._allows_day(local):
                base = local * _DAY - ahead
                minutes += [base + time for time in self.times if begin <= base + time < end]
        return minutes

    def _allows_day(self, local: int) -> bool:
        on = date.fromordinal(local + _EPOCH_ORDINAL)
        if on.month not in self.months:
            return False
        by_day = on.day in self.days
        by_weekday = on.isoweekday() % 7 in self.weekdays
        if len(self.days) < 31 and len(self.weekdays) < 7:
            return by_day or by_weekday
        return by_day and by_weekday


class _Stretch(msgspec.Struct, frozen=True):
    """Minutes of a UTC day, [begin, end), through which the clock runs evenly.

    It is `ahead` minutes ahead of UTC, and was `ahead_before` in the minute before them. `again`
    says that it has shown the same times before.
    """

    begin: int
    end: int
    ahead: int
    again: bool
    ahead_before: int


@lru_cache(maxsize=20_000)
def _stretches(zone: tzinfo, day: int) -> tuple[_Stretch, ...]:
    begin, end = day * _DAY, (day + 1) * _DAY
    if zone is UTC:
        return (_Stretch(begin, end, 0, False, 0),)
    clock = _clock(zone, begin)
    starts = [(begin, clock, _clock(zone, begin - 1))]
    if clock != _clock(zone, end - 1):
        for minute in range(begin + 1, end):
            before, clock = clock, _clock(zone, minute)
            if clock != before:
                starts.append((minute, clock, before))
    ends = [*(start for start, _, _ in starts[1:]), end]
    return tuple(
        _Stretch(start, stop, *now, ahead_before=before[0])
        for (start, now, before), stop in zip(starts, ends, strict=True)
    )


def _clock(zone: tzinfo, minute: int) -> tuple[int, bool]:
    """How many minutes a clock is ahead of UTC, and whether it has shown this time before."""
    local = (_EPOCH + timedelta(minutes=minute)).astimezone(zone)
    ahead = local.utcoffset() or timedelta()
    return ahead // timedelta(minutes=1), local.fold == 1
