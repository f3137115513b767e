"""What a pattern means, worked out the slow way: every minute is looked at, and nothing of the
code under test is used."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

_EPOCH = date(1970, 1, 1).toordinal()
_NAMES = {
    name: value
    for first, names in (
        (1, ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]),
        (0, ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
    )
    for value, name in enumerate(names, first)
}


def micros(moment: datetime) -> int:
    """The instant of an aware datetime, in microseconds since 1970."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


class Oracle:
    """A pattern of five fields, asked about one local minute or day at a time."""

    def __init__(self, pattern: str) -> None:
        self._fields = pattern.split()
        minute, hour, day, _, weekday = self._fields
        on_minutes = [value for value in range(60) if _allows(minute, value)]
        on_hours = [value for value in range(24) if _allows(hour, value)]
        self._times = {h * 60 + m for h in on_hours for m in on_minutes}
        self._by_day = not all(_allows(day, value) for value in range(1, 32))
        self._by_weekday = not all(_allows_weekday(weekday, value) for value in range(7))
        self._days: dict[int, bool] = {}
        self.every_hour = len(on_hours) == 24

    def on(self, day: date) -> bool:
        _, _, days, months, weekdays = self._fields
        if not _allows(months, day.month):
            return False
        by_day = _allows(days, day.day)
        by_weekday = _allows_weekday(weekdays, day.isoweekday() % 7)
        if self._by_day and self._by_weekday:
            return by_day or by_weekday
        return by_day and by_weekday

    def at(self, wall: int) -> bool:
        """Whether it allows a local minute, counted from 1970."""
        day, time = divmod(wall, 1440)
        if time not in self._times:
            return False
        if day not in self._days:
            self._days[day] = self.on(date(1970, 1, 1) + timedelta(days=day))
        return self._days[day]

    def instants(self, walls: list[int], first: int) -> list[int]:
        """Its instants among UTC minutes from `first` on, at which the clock shows `walls`."""
        if self.every_hour:
            return [first + n for n, wall in enumerate(walls) if self.at(wall)]
        # A fixed time is over as soon as the clock shows it or a later one for the first time.
        found = []
        reached = walls[0] - 1
        for n, wall in enumerate(walls):
            if wall == reached + 1:
                is_due = self.at(wall)
            else:
                is_due = any(map(self.at, range(reached + 1, wall + 1)))
            if is_due:
                found.append(first + n)
            reached = max(reached, wall)
        return found


def _allows(field: str, value: int) -> bool:
    return any(_part_allows(part, value) for part in field.split(","))


def _allows_weekday(field: str, value: int) -> bool:
    # Sunday is 0 and 7, and 7 by its name where it ends a range.
    numbers = (0, 7) if value == 0 else (value,)
    return any(_allows(field.replace("-sun", "-7"), number) for number in numbers)


def _part_allows(part: str, value: int) -> bool:
    span, _, step = part.partition("/")
    if span == "*":
        return value % int(step or 1) == 0
    first, _, last = span.partition("-")
    least = _number(first)
    most = _number(last or first)
    return least <= value <= most and (value - least) % int(step or 1) == 0


def _number(text: str) -> int:
    return int(text) if text.isdigit() else _NAMES[text.lower()[:3]]


def walls(zone: ZoneInfo, first: int, last: int) -> list[int]:
    """What the clock shows at each UTC minute of [first, last), in minutes since 1970."""
    shown = (datetime.fromtimestamp(minute * 60, zone) for minute in range(first, last))
    return [(local.toordinal() - _EPOCH) * 1440 + local.hour * 60 + local.minute for local in shown]


@lru_cache
def changes(zone: ZoneInfo, first_year: int, last_year: int) -> list[int]:
    """The UTC minutes of these years at which the zone's clock jumps."""
    begin = micros(datetime(first_year, 1, 1, tzinfo=UTC)) // 60_000_000
    end = micros(datetime(last_year + 1, 1, 1, tzinfo=UTC)) // 60_000_000
    found = []
    for left in range(begin, end, 720):
        if _ahead(zone, left) != _ahead(zone, left + 720):
            inside = range(left, left + 720)
            found += [n + 1 for n in inside if _ahead(zone, n) != _ahead(zone, n + 1)]
    return found


def _ahead(zone: ZoneInfo, minute: int) -> timedelta | None:
    return datetime.fromtimestamp(minute * 60, zone).utcoffset()


# ── patterns at random ──


def _parts(least: int, most: int, top: int, names: tuple[str, ...]) -> st.SearchStrategy[str]:
    number = st.integers(least, top)
    steps = st.integers(1, most)
    spans = st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}")
    stepped = st.tuples(spans, st.integers(1, 2 * most)).map(lambda pair: f"{pair[0]}/{pair[1]}")
    choices = [number.map(str), number.map(str), spans, stepped, steps.map(lambda n: f"*/{n}")]
    if names:
        choices += [st.sampled_from(names)]
    return st.one_of(choices)


def _field(
    least: int, most: int, *, top: int | None = None, names: tuple[str, ...] = ()
) -> st.SearchStrategy[str]:
    parts = _parts(least, most, top or most, names)
    return st.just("*") | st.lists(parts, min_size=1, max_size=3).map(",".join)


minutes = _field(0, 59)
hours = _field(0, 23)
days = _field(1, 31)
months = _field(1, 12, names=("jan", "Feb", "MAR", "june", "nov-dec", "may-oct/2"))
weekdays = _field(0, 6, top=7, names=("sun", "Mon", "TUE", "friday", "sat-sun", "wed-sun/2"))

patterns = st.tuples(minutes, hours, days, months, weekdays).map(" ".join)
"""Any pattern, also one that never comes, such as 30 February."""


def comes(pattern: str) -> bool:
    """Whether a pattern allows any day at all, found by looking at eight years of them."""
    oracle = Oracle(pattern)
    first = date(2000, 1, 1)
    return any(oracle.on(first + timedelta(days=n)) for n in range(8 * 366))
