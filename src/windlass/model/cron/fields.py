"""One time field: `*`, `*/n`, `a`, `a-b`, `a-b/n`, and lists of these."""

from __future__ import annotations

import re

import msgspec

_STAR = re.compile(r"\*(?:/(?P<step>\d+))?", re.ASCII)
_SPAN = re.compile(
    r"(?P<first>\d+|[a-z]+)(?:-(?P<last>\d+|[a-z]+)(?:/(?P<step>\d+))?)?",
    re.ASCII | re.IGNORECASE,
)

_MOST_STEP = 10_000

_MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
_DAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")


class RefusedError(ValueError):
    """A part of a schedule cannot be understood; `offset` is where it begins in its text."""

    def __init__(self, message: str, field: str, offset: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.offset = offset

    def moved(self, by: int) -> RefusedError:
        """The same refusal in a longer text."""
        return RefusedError(self.message, self.field, self.offset + by)


class Field(msgspec.Struct, frozen=True):
    """What one of the five fields may hold."""

    name: str
    least: int
    most: int
    words: tuple[str, ...] = ()
    """Names of the values, from `least` on; their first three letters will do."""
    also: str = ""

    @property
    def values(self) -> range:
        return range(self.least, self.most + 1)

    @property
    def allowed(self) -> str:
        names = f", {self.words[0][:3]}-{self.words[-1][:3]}" if self.words else ""
        return (
            f"{self.name} takes {self.least}-{self.most}{self.also}{names}, *, */n, a-b, a-b/n,"
            " and lists of these with commas"
        )

    def refuse(self, what: str, offset: int = 0) -> RefusedError:
        return RefusedError(f"{what}; {self.allowed}", self.name, offset)


MINUTE = Field("minute", 0, 59)
HOUR = Field("hour", 0, 23)
DAY = Field("day of month", 1, 31)
MONTH = Field("month", 1, 12, _MONTHS)
WEEKDAY = Field("day of week", 0, 6, _DAYS, also=" and 7 (0 and 7 are Sunday)")

FIELDS = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)


def parse_field(field: Field, text: str) -> frozenset[int]:
    """The values a field's text allows; RefusedError if it cannot be understood."""
    values: set[int] = set()
    offset = 0
    for part in text.split(","):
        values.update(_parse_part(field, part, offset))
        offset += len(part) + 1
    return frozenset(values)


def _parse_part(field: Field, part: str, offset: int) -> set[int]:
    if star := _STAR.fullmatch(part):
        step = _step(field, star["step"], offset + 2)
        # `*/n` is every value divisible by n, not every n-th from the least.
        values = {value for value in field.values if value % step == 0}
        if not values:
            raise field.refuse(f"no {field.name} is divisible by {step}", offset)
        return values
    span = _SPAN.fullmatch(part)
    if span is None:
        what = f"{part!r} is no {field.name}" if part else f"there is an empty {field.name}"
        raise field.refuse(what, offset)
    first = _value(field, span["first"], offset)
    if span["last"] is None:
        return {first % 7 if field is WEEKDAY else first}
    last = _value(field, span["last"], offset + span.start("last"))
    if field is WEEKDAY and last == 0 < first and not span["last"].isdecimal():
        last = 7  # A week may end with its Sunday: sat-sun, mon-sun.
    if last < first:
        raise field.refuse(f"{part!r} runs backwards: make it two ranges", offset)
    step = _step(field, span["step"], offset + span.start("step"))
    values = set(range(first, last + 1, step))
    return {value % 7 for value in values} if field is WEEKDAY else values


def _value(field: Field, text: str, offset: int) -> int:
    if not text.isdecimal():
        return _named(field, text, offset)
    value = int(text) if len(text) < 10 else 10**9
    if not field.least <= value <= (7 if field is WEEKDAY else field.most):
        raise field.refuse(f"{field.name} {text} is out of range", offset)
    return value


def _named(field: Field, text: str, offset: int) -> int:
    for value, word in enumerate(field.words, field.least):
        if text.lower() in (word, word[:3]):
            return value
    raise field.refuse(f"{text!r} is no {field.name}", offset)


def _step(field: Field, text: str | None, offset: int) -> int:
    if text is None:
        return 1
    step = int(text) if len(text) < 10 else 0
    if not 1 <= step <= _MOST_STEP:
        raise field.refuse(f"the step after / must be from 1 to {_MOST_STEP:,}", offset)
    return step
