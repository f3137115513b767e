"""A schedule as a sentence.

The sentence says exactly what the pattern's values are, so that two patterns with different
values never get the same one. "every 5 minutes" is said only of steps that divide the hour, or
with the two times between which it holds: the wrap from 56 to 0 makes `*/7` something else. A day
that not every month has is said to fire where it exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from windlass.model.cron.fields import DAY, HOUR, MINUTE, MONTH, WEEKDAY
from windlass.model.cron.schedule import Schedule
from windlass.model.cron.timetable import Timetable

_MONTHS = [word.capitalize() for word in MONTH.words]
_WEEK = [word.capitalize() for word in (*WEEKDAY.words[1:], WEEKDAY.words[0])]
"""From Monday on."""
_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_FEW = 4
"""The most times of day that are always listed."""
_LIST = 6
"""The most that are listed where nothing shorter says the same."""


def describe(schedule: Schedule) -> str:
    """When a schedule fires, in words, by the clock of its time zone; UTC goes without saying."""
    table = schedule.timetable
    minutes = sorted({time % 60 for time in table.times})
    hours = sorted({time // 60 for time in table.times})
    days = _days(table, is_daily=len(hours) < len(HOUR.values))
    words = _times(minutes, hours)
    if days.startswith(" ") and words.startswith("every hour,"):
        words += ","
    zone = "" if schedule.tz == "UTC" else f", {schedule.tz} time"
    return words + days + zone


# ── times of day ──


def _times(minutes: list[int], hours: list[int]) -> str:
    step = _step(minutes)
    is_regular = step is not None and minutes[0] + len(MINUTE.values) - minutes[-1] == step
    often = "every minute" if step == 1 else f"every {step} minutes"
    if len(hours) == len(HOUR.values):
        if is_regular and minutes[0] == 0:
            return often
        if len(minutes) == 1:
            return f"every hour, at minute {minutes[0]}"
        return f"at {_numbers(minutes, 'minute')} of every hour"
    times = [f"{hour:02}:{minute:02}" for hour in hours for minute in minutes]
    if len(times) <= _FEW:
        return f"at {_listed(times)}"
    apart = _step(hours)
    if len(minutes) == 1 and apart is not None:
        return f"every {'hour' if apart == 1 else f'{apart} hours'} from {times[0]} to {times[-1]}"
    if len(times) <= _LIST and not is_regular:
        return f"at {_listed(times)}"
    if is_regular and hours[-1] - hours[0] == len(hours) - 1:
        return f"{often} from {times[0]} to {times[-1]}"
    if is_regular and minutes[0] == 0:
        return f"{often} in {_numbers(hours, 'hour')}"
    return f"at {_numbers(minutes, 'minute')} of {_numbers(hours, 'hour')}"


# ── days ──


def _days(table: Timetable, *, is_daily: bool) -> str:
    any_day = len(table.days) == len(DAY.values)
    any_weekday = len(table.weekdays) == len(WEEKDAY.values)
    months = _months(table.months)
    if any_day and any_weekday:
        return f"{' every day' if is_daily else ''}{months}"
    if any_day:
        return f"{_weekdays(table.weekdays)}{months}"
    days = f" on {_numbers(sorted(table.days), 'day')} of"
    absent = ""
    if max(table.days) > min(_LENGTHS[month - 1] for month in table.months):
        absent = f" (where {'it exists' if len(table.days) == 1 else 'they exist'})"
    if any_weekday:
        return f"{days} {_of_months(table.months)}{absent}"
    either = _weekdays(table.weekdays).removeprefix(",")
    return f"{days} the month{absent} or{either}{months}"


def _weekdays(weekdays: Iterable[int]) -> str:
    names, is_run = _named([(weekday - 1) % 7 for weekday in weekdays], _WEEK)
    return f", {names}" if is_run else f" on {names}"


def _months(months: Iterable[int]) -> str:
    """When in the year; nothing if it is all of it."""
    names, is_run = _named([month - 1 for month in months], _MONTHS)
    if names == f"{_MONTHS[0]} to {_MONTHS[-1]}":
        return ""
    return f", from {names}" if is_run else f" in {names}"


def _of_months(months: Iterable[int]) -> str:
    names, is_run = _named([month - 1 for month in months], _MONTHS)
    if names == f"{_MONTHS[0]} to {_MONTHS[-1]}":
        return "every month"
    return f"every month from {names}" if is_run else names


def _named(places: Iterable[int], names: Sequence[str]) -> tuple[str, bool]:
    """The names at these places, and whether they are one run of at least three."""
    found = sorted(places)
    if len(found) >= 3 and found[-1] - found[0] == len(found) - 1:
        return f"{names[found[0]]} to {names[found[-1]]}", True
    return _listed([names[place] for place in found]), False


# ── numbers ──


def _step(values: Sequence[int]) -> int | None:
    """The distance between neighbours, if it is the same for all of two or more."""
    steps = {later - value for value, later in pairwise(values)}
    return steps.pop() if len(steps) == 1 else None


def _numbers(values: Sequence[int], noun: str) -> str:
    """`minute 5`, `minutes 0 to 10, 15 and 45`, `every 7th minute from 0 to 56`."""
    step = _step(values)
    if step is not None and step > 1 and len(values) > _FEW:
        nth = {2: "2nd", 3: "3rd"}.get(step, f"{step}th")
        return f"every {nth} {noun} from {values[0]} to {values[-1]}"
    return f"{noun}{'s' if len(values) > 1 else ''} {_listed(_runs(values))}"


def _runs(values: Sequence[int]) -> list[str]:
    """Each value, or `a to b` for three or more neighbours."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return [
        text
        for run in runs
        for text in ([f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run))
    ]


def _listed(words: Sequence[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
