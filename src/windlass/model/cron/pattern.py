"""A pattern: five fields, or one of the words that stand for five."""

from __future__ import annotations

import difflib
import re
from datetime import UTC, tzinfo
from functools import cache, lru_cache
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
_NO_ZONES = ("localtime", "posixrules", "Factory")
_NO_AREAS = ("posix/", "right/", "SystemV/")
"""Names of the database that depend on the machine, or mean the same as others."""
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
        if name in _NO_ZONES or name.startswith(_NO_AREAS):
            raise ZoneInfoNotFoundError(name)
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        known = _known_zones()
        if not known:
            raise RefusedError(
                f"this machine has no time zone database to find {name!r} in: pip install tzdata",
                "tz",
            ) from None
        hint = _nearest(name, known)
        raise RefusedError(
            f"there is no time zone {name!r}; {hint} tz takes names such as UTC or Europe/Berlin",
            "tz",
        ) from None


@cache
def _known_zones() -> set[str]:
    return available_timezones()


def _nearest(name: str, known: set[str]) -> str:
    """A suggestion, but never an abbreviation for another: they look alike and mean other hours."""
    if name.upper() == "UTC":
        return "did you mean UTC?"
    cities = [zone for zone in known if "/" in zone and not zone.startswith(_NO_AREAS)]
    by_lower = {zone.lower(): zone for zone in cities}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.7)
    return f"did you mean {by_lower[near[0]]}?" if "/" in name and near else "write Area/City;"
