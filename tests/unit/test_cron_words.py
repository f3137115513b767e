"""Schedules in words: nice for the usual ones, and true for every one.

Truth is shown by reading the sentence back: a reader that knows English but no patterns finds the
values that the pattern allows, no more and no fewer.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, reject, settings
from hypothesis import strategies as st

from windlass.errors import CrontabError
from windlass.model.cron import CronItem, Schedule, parse_cron_items
from windlass.model.cron.words import describe


def schedule(pattern: str, tz: str = "UTC") -> Schedule:
    return parse_cron_items([CronItem(task="t", pattern=pattern, options={"tz": tz})])[0]


# ── the usual ones ──


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("* * * * *", "every minute"),
        ("*/5 * * * *", "every 5 minutes"),
        ("0,30 * * * *", "every 30 minutes"),
        ("0 * * * *", "every hour, at minute 0"),
        ("30 0-23 * * *", "every hour, at minute 30"),
        ("@hourly", "every hour, at minute 0"),
        ("@daily", "at 00:00 every day"),
        ("@weekly", "at 00:00 on Sunday"),
        ("@monthly", "at 00:00 on day 1 of every month"),
        ("@yearly", "at 00:00 on day 1 of January"),
        ("30 4 * * 1", "at 04:30 on Monday"),
        ("0 * * * 1", "every hour, at minute 0, on Monday"),
        ("0 * * * 1-5", "every hour, at minute 0, Monday to Friday"),
        ("0 9,12,18 * * 1-5", "at 09:00, 12:00 and 18:00, Monday to Friday"),
        ("0 8 * * sat,sun", "at 08:00 on Saturday and Sunday"),
        ("0 8 * * fri-sun", "at 08:00, Friday to Sunday"),
        ("0,15,45 * * * *", "at minutes 0, 15 and 45 of every hour"),
        ("0-10,15,45 * * * *", "at minutes 0 to 10, 15 and 45 of every hour"),
        ("0,30 8-18 * * 1-5", "every 30 minutes from 08:00 to 18:30, Monday to Friday"),
        ("*/5 9 * * *", "every 5 minutes from 09:00 to 09:55 every day"),
        ("2-59/5 9-17 * * *", "every 5 minutes from 09:02 to 17:57 every day"),
        ("* 9-17 * * *", "every minute from 09:00 to 17:59 every day"),
        ("15 8-18 * * *", "every hour from 08:15 to 18:15 every day"),
        ("0 */2 * * *", "every 2 hours from 00:00 to 22:00 every day"),
        ("*/10 8-10,14 * * *", "every 10 minutes in hours 8 to 10 and 14 every day"),
        ("0 4 1,15 * 0", "at 04:00 on days 1 and 15 of the month or on Sunday"),
        (
            "0 4 1 3,6 1-5",
            "at 04:00 on day 1 of the month or Monday to Friday in March and June",
        ),
        ("0 0 * 1,3 *", "at 00:00 every day in January and March"),
        ("0 0 * 3-5 *", "at 00:00 every day, from March to May"),
        ("0 0 1 3-5 *", "at 00:00 on day 1 of every month from March to May"),
        ("* * * dec *", "every minute in December"),
    ],
)
def test_words_of_the_usual_patterns(pattern: str, words: str) -> None:
    assert describe(schedule(pattern)) == words


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("*/7 * * * *", "at every 7th minute from 0 to 56 of every hour"),
        ("1-59/2 * * * *", "at every 2nd minute from 1 to 59 of every hour"),
        ("5,35 * * * *", "at minutes 5 and 35 of every hour"),
        ("*/45 * * * *", "at minutes 0 and 45 of every hour"),
        ("0 */5 * * *", "every 5 hours from 00:00 to 20:00 every day"),
        (
            "0 0 */2 * *",
            "at 00:00 on every 2nd day from 2 to 30 of every month (where they exist)",
        ),
        ("0 0 31 * *", "at 00:00 on day 31 of every month (where it exists)"),
        ("0 0 29 2 *", "at 00:00 on day 29 of February (where it exists)"),
        ("0 0 30,31 1,3 *", "at 00:00 on days 30 and 31 of January and March"),
    ],
)
def test_no_rhythm_is_claimed_that_does_not_hold(pattern: str, words: str) -> None:
    assert describe(schedule(pattern)) == words


def test_the_zone_is_said_unless_it_is_utc() -> None:
    assert describe(schedule("30 4 * * 1", "Europe/Berlin")) == (
        "at 04:30 on Monday, Europe/Berlin time"
    )


def test_equal_patterns_get_equal_words() -> None:
    assert describe(schedule("*/15 8-9 * * 0")) == describe(schedule("0,15,30,45 8,9 * * sun"))


# ── every one ──

MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August"]
MONTHS += ["September", "October", "November", "December"]
WEEK = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


def read_names(text: str, names: list[str]) -> set[int]:
    """`Monday, Tuesday and Sunday`, `March to May`: their places."""
    places: set[int] = set()
    for part in re.split(", | and ", text):
        first, _, last = part.partition(" to ")
        places.update(range(names.index(first), names.index(last or first) + 1))
    return places


def read_numbers(text: str) -> set[int]:
    """`minute 5`, `days 0 to 10, 15 and 45`, `every 7th minute from 0 to 56`."""
    if rhythm := re.fullmatch(r"every (\d+)(?:nd|rd|th) \w+ from (\d+) to (\d+)", text):
        step, first, last = map(int, rhythm.groups())
        assert (last - first) % step == 0
        return set(range(first, last + 1, step))
    text = re.sub(r"^(minute|hour|day)s? ", "", text)
    return read_names(text, list(map(str, range(60))))


def read_clock(text: str) -> int:
    hour, minute = text.split(":")
    return int(hour) * 60 + int(minute)


def read_times(text: str) -> set[int]:
    """The minutes of a day."""
    if text == "every minute":
        return set(range(1440))
    if every := re.fullmatch(r"every (\d+) minutes", text):
        assert 60 % int(every[1]) == 0
        return set(range(0, 1440, int(every[1])))
    if every := re.fullmatch(r"every hour, at minute (\d+)", text):
        return set(range(int(every[1]), 1440, 60))
    if every := re.fullmatch(r"every (?:(\d+) )?(minute|hour)s? from (\S+:\S+) to (\S+)", text):
        step = int(every[1] or 1) * (60 if every[2] == "hour" else 1)
        first, last = read_clock(every[3]), read_clock(every[4])
        assert (last - first) % step == 0
        return set(range(first, last + 1, step))
    if every := re.fullmatch(r"(every minute|every \d+ minutes) in (.*)", text):
        hours = read_numbers(every[2])
        return {time for time in read_times(every[1]) if time // 60 in hours}
    if minutes := re.fullmatch(r"at (.* ?minutes? .*) of (.*)", text):
        hours = set(range(24)) if minutes[2] == "every hour" else read_numbers(minutes[2])
        return {hour * 60 + minute for hour in hours for minute in read_numbers(minutes[1])}
    return {read_clock(part) for part in re.split(", | and ", text.removeprefix("at "))}


SENTENCE = re.compile(
    r"(?P<times>.+?)"
    r"(?P<daily> every day)?"
    r"(?:,? on (?P<days>days? .*?|every \d+.. day .*?) of"
    r" (?:(?P<of>every month from .*?|every month|[A-Z].*?)|the month)(?P<absent> \(where.*?\))?)?"
    r"(?:,? (?:or )?(?:on )?(?P<weekdays>\w+day\b.*?))?"
    r"(?:,? (?:in|from) (?P<months>[A-Z].*?))?"
    r"(?:, (?P<zone>\S+) time)?"
)


def read(words: str) -> tuple[set[int], set[int], set[int], set[int], str, bool]:
    """Times of day, days, months and weekdays (from Monday on), the zone, whether some of the
    days are said to be absent in some months."""
    found = SENTENCE.fullmatch(words)
    assert found is not None, words
    of = (found["of"] or "every month").removeprefix("every month from ")
    months = found["months"] or ("January to December" if of == "every month" else of)
    return (
        read_times(found["times"]),
        read_numbers(found["days"]) if found["days"] else set(range(1, 32)),
        {place + 1 for place in read_names(months, MONTHS)},
        read_names(found["weekdays"] or "Monday to Sunday", WEEK),
        found["zone"] or "UTC",
        found["absent"] is not None,
    )


def meant(schedule: Schedule) -> tuple[set[int], set[int], set[int], set[int], str, bool]:
    table = schedule.timetable
    lengths = dict.fromkeys(range(1, 13), 31) | {4: 30, 6: 30, 9: 30, 11: 30, 2: 28}
    is_chosen = len(table.days) < 31
    return (
        set(table.times),
        set(table.days),
        set(table.months),
        {(weekday - 1) % 7 for weekday in table.weekdays},
        schedule.tz,
        is_chosen and any(max(table.days) > lengths[month] for month in table.months),
    )


def field(least: int, most: int) -> st.SearchStrategy[str]:
    value = st.integers(least, most)
    step = st.integers(2, max(most // 2, 2))
    span = st.tuples(value, value).map(sorted).map(lambda pair: f"{pair[0]}-{pair[1]}")
    part = st.one_of(
        value.map(str),
        span,
        st.builds("{}/{}".format, span, step),
        st.builds(f"{{}}-{most}/{{}}".format, st.integers(least, least + 3), step),
        st.builds("*/{}".format, step.filter(lambda n: n <= most)),
    )
    return st.one_of(
        st.just("*"), value.map(str), part, st.lists(part, min_size=2, max_size=6).map(",".join)
    )


PATTERNS = st.tuples(field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 6)).map(
    " ".join
)


@settings(max_examples=200, deadline=None)
@given(PATTERNS, st.sampled_from(["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires"]))
@example("2-59/5 * * * *", "UTC")
@example("1-59/2 1,3,7 * * *", "UTC")
@example("0 4 31 * 1-5", "UTC")
@example("0 0 29-31 2 0", "UTC")
@example("59 23 31 12 6", "UTC")
@example("*/5 1-23/2 */2 */5 */2", "Etc/GMT+5")
def test_the_words_say_what_the_pattern_says(pattern: str, tz: str) -> None:
    try:
        made = schedule(pattern, tz)
    except CrontabError:  # a day that no chosen month has
        reject()
    words = describe(made)
    assert read(words) == meant(made), words
    table = made.timetable
    picks_days, picks_weekdays = len(table.days) < 31, len(table.weekdays) < 7
    assert (" or " in words) is (picks_days and picks_weekdays)
    is_daily = not picks_days and not picks_weekdays and not table.follows_clock
    assert (" every day" in words) is is_daily
