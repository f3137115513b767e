"""Numbers, times and JSON as pages show them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from windlass.server.dashboard import formats

NOON = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0, "0ms"),
        (0.0854, "85ms"),
        (3.14, "3.1s"),
        (42, "42s"),
        (200, "3m 20s"),
        (3600, "1h"),
        (3700, "1h 1m"),
        (90_061, "1d 1h"),
        (86_400 * 400, "400d"),
        (-5, "−5.0s"),
        (timedelta(minutes=2), "2m"),
    ],
)
def test_lengths_of_time(seconds: float | None, text: str) -> None:
    assert formats.span(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "now"), (3.4, "3s ago"), (75, "1m 15s ago"), (-7200, "in 2h"), (-0.5, "now")],
)
def test_how_far_an_instant_lies_back(seconds: float, text: str) -> None:
    assert formats.ago(NOON - timedelta(seconds=seconds), NOON) == text


def test_numbers() -> None:
    assert formats.number(1_234_567) == "1,234,567"
    assert [formats.rate(value) for value in (0, 0.25, 12.34, 1234.5)] == [
        "0.0",
        "0.25",
        "12.3",
        "1,234",
    ]
    assert [formats.percent(value) for value in (-1, 0.256, 7, float("nan"))] == [0, 26, 100, 0]


def test_instants() -> None:
    assert formats.instant(NOON) == "2026-01-31 12:00:00 UTC"
    assert formats.iso(NOON) == "2026-01-31T12:00:00.000Z"


def test_json_and_what_is_none() -> None:
    assert formats.json({"a": [1]}) == '{\n  "a": [\n    1\n  ]\n}'
    assert formats.brief({"a": "b" * 200}, 20) == '{"a":"bbbbbbbbbbbbb…'
    assert formats.json("\ud800") == repr("\ud800")
    assert formats.brief({1, object()}).startswith("{")


def test_the_first_line_of_an_error() -> None:
    assert formats.first_line("\n  ValueError: no\nTraceback") == "ValueError: no"
    assert formats.first_line(None) == ""
