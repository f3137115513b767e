"""A pattern: five fields, or one of the words that stand for five."""

from __future__ import annotations

import difflib
import re
from datetime import UTC, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from windlass.model.cron.fields import DAY, FIELDS, HOUR, RefusedError, parse_field
from windlass.model.cron.timetable import Timetable

WORDS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_LONGEST_MONTH = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}


@lru_cache(maxsize=1_000)
def timetable(pattern: str, tz: str) -> Timetable:
    """The instants of a pattern that was parsed before."""
    return parse_pattern(pattern, parse_zone(tz))


def parse_pattern(text: str, zone: tzinfo = UTC) -> Timetable:
    """RefusedError names the field that cannot be understood, and where it begins."""
    words = [(found.group(), found.start()) for found in re.finditer(r"\S+", text)]
    if len(words) == 1 and words[0][0].startswith("@"):
        word, offset = words[0]
        if word.lower() not in WORDS:
            raise RefusedError(
                f"{word!r} is not a pattern; the words are {', '.join(WORDS)}", "pattern", offset
            )
        words = [(field, offset) for field in WORDS[word.lower()].split()]
    if len(words) != len(FIELDS):
        names = ", ".join(field.name for field in FIELDS)
        raise RefusedError(
            f"a pattern has five fields ({names}), and {text.strip()!r} has {len(words)}", "pattern"
        )
    found: list[frozenset[int]] = []
    for field, (word, offset) in zip(FIELDS, words, strict=True):
        try:
            found.append(parse_field(field, word))
        except RefusedError as error:
            raise error.moved(offset) from None
    minutes, hours, days, months, weekdays = found
    longest = max(_LONGEST_MONTH.get(month, 31) for month in months)
    if min(days) > longest and len(weekdays) == 7:
        raise RefusedError(
            f"no month chosen here has a day {min(days)}, so this would never run; {DAY.allowed}",
            DAY.name,
            words[2][1],
        )
    return Timetable(
        times=tuple(hour * 60 + minute for hour in sorted(hours) for minute in sorted(minutes)),
        days=days,
        months=months,
        weekdays=weekdays,
        zone=zone,
        follows_clock=len(hours) == len(HOUR.values),
    )


def parse_zone(name: str) -> tzinfo:
    """A zone by its name in the time zone database; RefusedError if there is none."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        known = available_timezones()
        if not known:
            raise RefusedError(
                f"this machine has no time zone database to find {name!r} in: pip install tzdata",
                "tz",
            ) from None
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else "write Area/City;"
        raise RefusedError(
            f"there is no time zone {name!r}; {hint} tz takes names such as UTC or Europe/Berlin",
            "tz",
        ) from None
