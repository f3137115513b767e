"""Values that are chosen for trouble: what a caller can hand over, by mistake or on purpose."""

from __future__ import annotations

import enum
import math
from collections import OrderedDict, UserString
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
from hypothesis import strategies as st

from windlass import JobSpec


class Text(str):
    """A subclass, as libraries have them for marked text."""


class Number(int):
    pass


class Table(dict[Any, Any]):
    pass


class Rows(list[Any]):
    pass


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Nowhere(tzinfo):
    """A zone that does not say its offset, so that its datetimes are naive."""

    def utcoffset(self, when: datetime | None) -> timedelta | None:
        return None

    dst = utcoffset

    def tzname(self, when: datetime | None) -> str:
        return "nowhere"


class Hostile:
    """It can be neither shown nor compared."""

    def __repr__(self) -> str:
        raise ZeroDivisionError

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        raise ZeroDivisionError

    __hash__ = None  # type: ignore[assignment]


def _nested(depth: int, key: str | None = None) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value] if key is None else {key: value}
    return value


def _in_itself(kind: type) -> Any:
    value: Any = kind()
    if isinstance(value, dict):
        value["self"] = value
    else:
        value.append(value)
    return value


TEXTS = (
    "",
    " ",
    "t",
    "\x00",
    "a\x00b",
    "\ud800",
    "a\udfffb",
    "\u202eabc\u202c",
    "\u200f\u2066x\u2069",
    "\ufeff",
    "e\u0301\u0301\u0301",
    "\U0001f469\u200d\U0001f467",
    "\U0010ffff",
    "\x1b[31mred\x1b[0m",
    "\r\n",
    "\u2028",
    "a\tb\x0bc",
    "../../etc/passwd",
    "%s%n{0}{}",
    "'; DROP TABLE jobs; --",
    '"',
    "\\",
    "{}",
    "null",
    "NaN",
    "x" * 128,
    "x" * 129,
    "\U0001f469" * 128,
    "x" * 512,
    "x" * 513,
    "é" * 512,
    "replace",
    "preserve_run_at",
    "unsafe_dedupe",
    "ready",
    "all",
)
INTEGERS = (
    -1,
    0,
    1,
    2,
    25,
    2**15,
    2**31 - 1,
    2**31,
    -(2**31),
    -(2**31) - 1,
    2**53 + 1,
    2**63 - 1,
    2**63,
    -(2**63),
    -(2**63) - 1,
    2**64,
    10**400,
)
FLOATS = (0.0, -0.0, 0.5, -1.0, 1e-320, 1e15, 1e16, 1e300, math.inf, -math.inf, math.nan)
SPANS = (
    timedelta(0),
    timedelta(seconds=1),
    timedelta(microseconds=1),
    timedelta(microseconds=-1),
    timedelta.max,
    timedelta.min,
    timedelta(days=2_900_000),
)
INSTANTS = (
    datetime(2030, 1, 1, tzinfo=UTC),
    datetime(2030, 1, 1),
    datetime(2030, 1, 1, tzinfo=Nowhere()),
    datetime.min,
    datetime.max,
    datetime.min.replace(tzinfo=UTC),
    datetime.max.replace(tzinfo=UTC),
    datetime.min.replace(tzinfo=timezone(timedelta(hours=23, minutes=59))),
    datetime.max.replace(tzinfo=timezone(timedelta(hours=-23, minutes=-59))),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(9999, 1, 1, tzinfo=UTC),
    datetime(9999, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    datetime(2000, 1, 1, tzinfo=timezone(timedelta(microseconds=1))),
)

texts = st.sampled_from(TEXTS) | st.text(max_size=20) | st.text(st.characters(), max_size=8)
integers = st.sampled_from(INTEGERS) | st.integers()
floats = st.sampled_from(FLOATS) | st.floats()
spans = st.sampled_from(SPANS) | st.timedeltas()
instants = st.sampled_from(INSTANTS) | st.datetimes(timezones=st.none() | st.just(UTC))


SCOPE: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        Colour,
        Decimal,
        Fraction,
        Hostile,
        Level,
        Number,
        OrderedDict,
        Path,
        Rows,
        Table,
        Text,
        UUID,
        UserString,
        _in_itself,
        _nested,
        date,
    )
} | {"nan": math.nan}


@dataclass(frozen=True)
class Odd:
    """A value by the text that makes it, for it is made anew for each store: a generator is used up
    when it is read, containers can change, and some of them cannot be shown when a test fails."""

    source: str

    def make(self) -> Any:
        return eval(self.source, dict(SCOPE))


def made(value: Any) -> Any:
    """The value with the odd ones in it made."""
    match value:
        case Odd():
            return value.make()
        case JobSpec():
            return msgspec.structs.replace(
                value, **{name: made(getattr(value, name)) for name in value.__struct_fields__}
            )
        case dict() if type(value) is dict:
            return {key: made(each) for key, each in value.items()}
        case list() if type(value) is list:
            return [made(each) for each in value]
        case _:
            return value


ODD = (
    '"y" * 100_000',
    "10**5_000",
    "-(10**5_000)",
    "[10**5_000]",
    "None",
    "True",
    "False",
    'b""',
    'b"\\xff\\x00"',
    'bytearray(b"x")',
    'memoryview(b"x")',
    "object()",
    "Hostile()",
    "Hostile",
    "len",
    "(n for n in range(3))",
    "iter([])",
    "range(3)",
    "set()",
    'frozenset({"a"})',
    "1j",
    'Decimal("NaN")',
    "Decimal(1)",
    "Fraction(1, 3)",
    "UUID(int=7)",
    "date(2030, 1, 1)",
    'Path("x")',
    "...",
    'Text("t")',
    'UserString("t")',
    "Colour.RED",
    "Level.LOW",
    "Number(1)",
    "Table(a=1)",
    "Rows([1])",
    "OrderedDict(b=1, a=2)",
    '{1: "a"}',
    "{None: 1}",
    "{(1, 2): 3}",
    '{b"k": 1}',
    '{"\\ud800": 1}',
    '{"a\\x00": 1}',
    '{"": {"": [""]}}',
    '{"__proto__": {"x": 1}}',
    "_in_itself(list)",
    "_in_itself(dict)",
    "_nested(10_000)",
    '_nested(10_000, "k")',
    "_nested(63)",
    "_nested(64)",
    '[{"a": [nan]}]',
    '[[], {}, "", 0]',
    '["x"] * 65',
    '["x", "y"]',
    '[1, "1"]',
    "[None]",
    '(["a"],)',
    '"z" * 300_000',
)
others = st.sampled_from(ODD).map(Odd)
values = st.one_of(others, texts, integers, floats, spans, instants)
json_like = st.recursive(
    st.none() | st.booleans() | integers | floats | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
payloads = values | json_like
