"""The instants of a pattern in UTC, against an enumeration of every minute."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, tzinfo

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from tests.unit.cron_oracle import Oracle, comes, micros, patterns
from windlass.model.cron.fields import RefusedError
from windlass.model.cron.pattern import parse_pattern

MINUTE = 60_000_000
DAY = 1440 * MINUTE

quick = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.filter_too_much]
)

begins = st.integers(0, micros(datetime(2120, 1, 1, tzinfo=UTC))) | st.integers(0, 80_000).map(
    lambda day: day * DAY
)
lengths = st.integers(0, 90 * DAY) | st.integers(0, 90 * 1440).map(lambda n: n * MINUTE)


def instants(*moments: str) -> list[int]:
    return [micros(datetime.fromisoformat(moment).replace(tzinfo=UTC)) for moment in moments]


def enumerated(pattern: str, after: int, until: int) -> list[int]:
    """The instants in (after, until]: a minute is looked at if it begins in there."""
    oracle = Oracle(pattern)
    candidates = range(after // MINUTE + 1, until // MINUTE + 1)
    return [minute * MINUTE for minute in candidates if oracle.at(minute)]


@quick
@given(patterns, begins, lengths, st.integers(0, 50))
@example("*/15 * * * *", 0, DAY, 10)
@example("0 0 29 2 *", instants("2024-02-28")[0], 2 * DAY, 5)
@example("0 0 13 * fri", instants("2026-02-01")[0], 28 * DAY, 3)
def test_instants_are_those_of_an_enumeration(
    pattern: str, after: int, length: int, most: int
) -> None:
    assume(comes(pattern))
    timetable = parse_pattern(pattern)
    until = after + length
    expected = enumerated(pattern, after, until)
    assert list(timetable.between(after, until)) == expected
    assert list(timetable.latest(after, until)) == expected[::-1]

    following = timetable.after(after)
    assert following is not None
    assert following == expected[0] if expected else following > until

    begin, count = timetable.cut(after, until, most)
    left = expected[len(expected) - min(most, len(expected)) :]
    assert list(timetable.between(begin, until)) == left
    assert count == len(left)


@quick
@given(patterns)
@example("0 0 31 2 *")
@example("0 0 30,31 feb *")
@example("0 0 31 */2 *")
@example("0 0 31 4,6,9,11 *")
@example("0 0 31 2 1")
@example("0 0 29 2 *")
def test_a_pattern_is_refused_exactly_if_no_day_ever_matches(pattern: str) -> None:
    if comes(pattern):
        assert parse_pattern(pattern).after(0) is not None
    else:
        with pytest.raises(RefusedError, match="would never run") as caught:
            parse_pattern(pattern)
        assert caught.value.field == "day of month"


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 80_000 * DAY))
def test_steps_of_after_are_the_instants_between(begin: int) -> None:
    timetable = parse_pattern("7,37 */5 * * 1-5")
    walked = []
    at = timetable.after(begin)
    while at is not None and at <= begin + 7 * DAY:
        walked.append(at)
        at = timetable.after(at)
    assert walked == list(timetable.between(begin, begin + 7 * DAY))
    assert len(walked) >= 40


def test_after_is_later_and_until_is_included() -> None:
    timetable = parse_pattern("0 4 * * *")
    (four,) = instants("2026-03-01T04:00")
    assert timetable.after(four - 1) == four
    assert timetable.after(four) == four + DAY
    assert list(timetable.between(four - 1, four)) == [four]
    assert list(timetable.between(four, four + DAY - 1)) == []
    assert list(timetable.between(four, four)) == []
    assert list(timetable.between(four + DAY, four - DAY)) == []
    assert list(timetable.latest(four + DAY, four - DAY)) == []


@pytest.mark.parametrize("pattern", ["0 0 29 2 *", "0 0 29-31 2 *", "0 0 29 feb 0-7"])
def test_a_leap_day_is_found_across_a_year_without_one(pattern: str) -> None:
    timetable = parse_pattern(pattern)
    start, found = instants("2096-02-29T00:00", "2104-02-29T00:00")
    assert timetable.after(start) == found


def test_day_of_month_and_day_of_week_are_either_where_both_are_restricted() -> None:
    (start,) = instants("2026-02-01T12:00")
    until = start + 20 * DAY

    def days(pattern: str) -> list[int]:
        found = parse_pattern(pattern).between(start, until)
        return [(date(1970, 1, 1) + timedelta(days=at // DAY)).day for at in found]

    assert days("0 0 10 * *") == [10]
    assert days("0 0 * * 1") == [2, 9, 16]
    assert days("0 0 10 * 1") == [2, 9, 10, 16]
    assert days("0 0 1-31 * 1") == [2, 9, 16]
    assert days("0 0 */1 * 1") == [2, 9, 16]
    assert days("0 0 10 * 0-6") == [10]
    assert days("0 0 10 * 1-7") == [10]
    # `*/2` restricts although it has a star.
    assert days("0 0 */10 * 1") == [2, 9, 10, 16, 20]


@pytest.mark.parametrize(
    ("word", "first", "second"),
    [
        ("@hourly", "2026-01-01T01:00", "2026-01-01T02:00"),
        ("@daily", "2026-01-02T00:00", "2026-01-03T00:00"),
        ("@midnight", "2026-01-02T00:00", "2026-01-03T00:00"),
        ("@weekly", "2026-01-04T00:00", "2026-01-11T00:00"),
        ("@monthly", "2026-02-01T00:00", "2026-03-01T00:00"),
        ("@yearly", "2027-01-01T00:00", "2028-01-01T00:00"),
        ("@Annually", "2027-01-01T00:00", "2028-01-01T00:00"),
    ],
)
def test_words(word: str, first: str, second: str) -> None:
    timetable = parse_pattern(word)
    start, one, two = instants("2026-01-01T00:00", first, second)
    assert timetable.after(start) == one
    assert timetable.after(one) == two


def test_cut_leaves_the_latest() -> None:
    timetable = parse_pattern("0 * * * *")
    start, until = instants("2026-01-01T00:00", "2026-01-02T00:00")
    assert timetable.cut(start, until, 24) == (start, 24)
    assert timetable.cut(start, until, 100) == (start, 24)
    begin, count = timetable.cut(start, until, 5)
    assert (begin, count) == (*instants("2026-01-01T19:00"), 5)
    assert timetable.cut(start, until, 0) == (until, 0)
    assert timetable.cut(until, start, 5) == (until, 0)


class CountingZone(tzinfo):
    """An hour ahead of UTC; counts how often somebody asks."""

    asked = 0

    def utcoffset(self, when: datetime | None) -> timedelta:
        self.asked += 1
        return timedelta(hours=1)

    def dst(self, when: datetime | None) -> timedelta:
        return timedelta()

    def tzname(self, when: datetime | None) -> str:
        return "counted"


def test_cut_of_a_long_span_looks_only_at_its_end() -> None:
    zone = CountingZone()
    timetable = parse_pattern("* * * * *", zone)
    (until,) = instants("2026-01-01T00:00")
    assert timetable.cut(0, until, 1_000)[1] == 1_000
    # The span has more than 20,000 days, the latest 1,000 minutes are of two.
    assert 0 < zone.asked < 100


def test_there_is_an_end_of_time() -> None:
    timetable = parse_pattern("0 0 * * *")
    (late,) = instants("9999-12-31T23:59")
    assert timetable.after(late) is None
    assert list(timetable.between(late - DAY // 2, late)) == []
    last = next(timetable.latest(0, late))
    assert date(1970, 1, 1) + timedelta(days=last // DAY) >= date(9999, 12, 1)
