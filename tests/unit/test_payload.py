"""Payloads: anything JSON can say, and a clear refusal of everything else."""

from __future__ import annotations

import dataclasses
import math
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from windlass.errors import PayloadError, PayloadTooLargeError
from windlass.model import payload as payloads


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


class Model:
    """Looks like a pydantic model."""

    def __init__(self, number: int) -> None:
        self.number = number

    def model_dump(self, mode: str) -> dict[str, int]:
        assert mode == "json"
        return {"number": self.number}

    @classmethod
    def model_validate(cls, value: dict[str, int]) -> Model:
        if not isinstance(value.get("number"), int):
            raise ValueError("number is missing")
        return cls(value["number"])


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (object(), "payload is not JSON: object is not JSON"),
        ({1: object()}, "payload is not JSON"),
        ("a\x00b", "contains a NUL character"),
        ({"a\x00": 1}, "contains a NUL character"),
        ({"x": math.nan}, "contains NaN or infinity"),
        ([None, (1, {"y": math.inf})], "contains NaN or infinity"),
        ("\ud800", "payload is not JSON"),
        (nested(65), "nested deeper than 64 levels"),
        (nested(5000), "nested deeper than 64 levels"),
        (2**64, "an integer beyond 64 bits"),
        ({"n": [-(2**63) - 1]}, "an integer beyond 64 bits"),
    ],
    ids=[
        "object",
        "inside",
        "nul",
        "nul key",
        "nan",
        "inf",
        "surrogate",
        "deep",
        "deeper",
        "huge",
        "huge below",
    ],
)
def test_refusals(value: Any, says: str) -> None:
    with pytest.raises(PayloadError, match=says) as caught:
        payloads.encode(value)
    assert caught.value.field == "payload"


def test_too_large() -> None:
    with pytest.raises(PayloadTooLargeError, match=r"262,146 bytes of JSON; the limit is 262,144"):
        payloads.encode("x" * 256 * 1024)
    assert payloads.encode("x" * 100, limit=102)
    with pytest.raises(PayloadTooLargeError):
        payloads.encode("x" * 100, limit=101)


@dataclasses.dataclass
class Point:
    x: int
    at: datetime


class Struct(msgspec.Struct):
    name: str


@pytest.mark.parametrize(
    ("value", "back"),
    [
        (None, {}),
        ({}, {}),
        ({"a": [1, 2.5, None, True, "ü"]}, {"a": [1, 2.5, None, True, "ü"]}),
        (Point(1, datetime(2026, 1, 1, tzinfo=UTC)), {"x": 1, "at": "2026-01-01T00:00:00Z"}),
        (Struct("n"), {"name": "n"}),
        (Model(7), {"number": 7}),
        ({"models": [Model(7)], "no": None}, {"models": [{"number": 7}], "no": None}),
        ((1, 2), [1, 2]),
        (2**64 - 1, 2**64 - 1),
        (-(2**63), -(2**63)),
        ("9" * 30, "9" * 30),
        ({"text": ["\\u0000", 1]}, {"text": ["\\u0000", 1]}),
        ("null and void", "null and void"),
        (nested(64), nested(64)),
        ([[]] * 200, [[]] * 200),
    ],
)
def test_what_is_taken_comes_back(value: Any, back: Any) -> None:
    assert payloads.decode(payloads.encode(value)) == back


def test_an_output_of_none_is_null() -> None:
    assert payloads.encode_value(None) == "null"


def test_foreign_types_are_made_again() -> None:
    made = payloads.decode_foreign(Model, {"number": 3})
    assert isinstance(made, Model)
    with pytest.raises(TypeError, match="cannot make object"):
        payloads.decode_foreign(object, {})


def test_json_typed_by_a_person() -> None:
    assert payloads.decode('{"a": 1}') == {"a": 1}
    for text in ('{"a": ', b"\xff\xfe", '"\udcff"', "{a: 1}", "[" * 5000):
        with pytest.raises(PayloadError):
            payloads.decode(text)
