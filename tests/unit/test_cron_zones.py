"""Schedules where the clock jumps: the rule of `windlass.model.cron`, against an enumeration of
every minute around each change of each zone."""

from __future__ import annotations

import io
import struct
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.unit.cron_oracle import Oracle, changes, comes, days, hours, micros, minutes, walls
from windlass.model.cron.pattern import parse_pattern

MINUTE = 60_000_000

ZONES = (
    "America/New_York",
    "Europe/Berlin",
    "Australia/Lord_Howe",  # half an hour
    "America/Sao_Paulo",  # at midnight, until 2019
    "America/St_Johns",
    "America/Havana",
    "Asia/Beirut",
    "Africa/Casablanca",  # Ramadan
    "Europe/Dublin",  # winter is the exception
    "America/Santiago",
    "Asia/Tehran",
    "Pacific/Chatham",
    "America/Asuncion",
    "Asia/Jerusalem",  # at midnight of UTC
)
FIRST, LAST = 2015, 2035
AROUND = 3 * 60
"""Minutes looked at on either side of a change."""


def assert_agrees(zone: ZoneInfo, pattern: str, first: int, shown: list[int]) -> list[int]:
    """The instants, in UTC minutes, at which the clock shows `shown` from the minute `first`."""
    expected = Oracle(pattern).instants(shown, first)
    # The walk cannot know what the clock showed before its first minute, so that one is left out.
    last = first + len(shown) - 1
    expected = [minute for minute in expected if minute > first]
    found = parse_pattern(pattern, zone).between(first * MINUTE, last * MINUTE)
    assert [instant // MINUTE for instant in found] == expected, (zone.key, pattern, first)
    return expected


def around(zone: ZoneInfo, change: int) -> list[int]:
    return walls(zone, change - AROUND, change + AROUND)


def daily(wall: int) -> str:
    return f"{wall % 60} {wall % 1440 // 60} * * *"


def check_change(zone: ZoneInfo, change: int) -> None:
    first, shown = change - AROUND, around(zone, change)
    before, after = shown[AROUND - 1] + 1, shown[AROUND]
    # The times from `least` up to `most` are left out, or shown twice.
    least, most = min(before, after), max(before, after)
    size = most - least
    is_gap = after > before
    assert size >= 30

    for wall in (least, least + size // 2, most - 1):
        fired = assert_agrees(zone, daily(wall), first, shown)
        assert fired == [change if is_gap else change - (most - wall)]
    outside = (change - 1, change) if is_gap else (change - size - 1, change + size)
    for wall, expected in zip((least - 1, most), outside, strict=True):
        assert assert_agrees(zone, daily(wall), first, shown) == [expected]
    # Several times in a gap are one instant, and in an overlap happen once each.
    assert_agrees(zone, f"*/10 {least % 1440 // 60} * * *", first, shown)

    for pattern in ("*/10 * * * *", "7 */1 * * *", "30 0-23 * * *"):
        assert_agrees(zone, pattern, first, shown)
    every = assert_agrees(zone, "* * * * *", first, shown)
    assert every == list(range(first + 1, change + AROUND))


@pytest.mark.parametrize("name", ZONES)
def test_every_change_follows_the_rule(name: str) -> None:
    zone = ZoneInfo(name)
    for change in changes(zone, FIRST, LAST):
        check_change(zone, change)


def invented(rule: str) -> ZoneInfo:
    """A zone of a POSIX rule, as a file of the time zone database without a table."""
    counts = struct.pack(">6l", 0, 0, 0, 0, 1, 4)
    block = b"TZif2" + bytes(15) + counts + struct.pack(">lbb", 0, 0, 0) + b"STD\0"
    return ZoneInfo.from_file(io.BytesIO(block * 2 + f"\n{rule}\n".encode()), key=rule)


@pytest.mark.parametrize(
    "rule",
    [
        # An overlap with midnight of UTC inside, and one that begins or ends there.
        "STD0DST,M3.4.0/0:30,M10.4.0/0:30",
        "STD0DST,M3.4.0/0,M10.4.0/1",
        "STD0DST,M3.4.0/23,M10.4.0/0",
        # Two hours, at both sides of midnight; and clocks that are far from UTC.
        "STD0DST-2,M3.4.0/23,M10.4.0/1",
        "STD-13:45DST,M3.4.0/13:15,M10.4.0/14",
        "STD11:30DST,M3.4.0/12,M10.4.0/13",
    ],
)
def test_changes_around_midnight_of_utc(rule: str) -> None:
    zone = invented(rule)
    found = changes(zone, 2026, 2028)
    assert len(found) == 6
    for change in found:
        check_change(zone, change)


def test_there_are_changes_to_look_at() -> None:
    counts = {name: len(changes(ZoneInfo(name), FIRST, LAST)) for name in ZONES}
    assert sum(counts.values()) >= 300
    assert min(counts.values()) >= 1


# ── the rule, spelled out ──


def local(zone: ZoneInfo, pattern: str, first: str, last: str) -> list[str]:
    """The instants from `first` to `last` (both in UTC) as the zone's clock shows them."""
    begin, end = (
        micros(datetime.fromisoformat(text).replace(tzinfo=UTC)) for text in (first, last)
    )
    found = parse_pattern(pattern, zone).between(begin - 1, end)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return [
        (epoch + timedelta(microseconds=at)).astimezone(zone).strftime("%d %H:%M%z") for at in found
    ]


@pytest.mark.parametrize(
    ("pattern", "spring", "autumn"),
    [
        (
            "30 2 * * *",
            ["29 03:00+0200", "30 02:30+0200"],
            ["25 02:30+0200", "26 02:30+0100"],
        ),
        (
            "0 3 * * *",
            ["29 03:00+0200", "30 03:00+0200"],
            ["25 03:00+0100", "26 03:00+0100"],
        ),
        (
            "0,20,40 2-3 29,25 * *",
            ["29 03:00+0200", "29 03:20+0200", "29 03:40+0200"],
            [
                *("25 02:00+0200", "25 02:20+0200", "25 02:40+0200"),
                *("25 03:00+0100", "25 03:20+0100", "25 03:40+0100"),
            ],
        ),
        (
            "30 * 29,25 * *",
            [f"29 {h:02}:30+0{1 if h < 2 else 2}00" for h in range(24) if h != 2],
            [
                f"25 {h:02}:30+0{offset}00"
                for offset, hours in ((2, range(3)), (1, range(2, 24)))
                for h in hours
            ],
        ),
    ],
)
def test_berlin(pattern: str, spring: list[str], autumn: list[str]) -> None:
    zone = ZoneInfo("Europe/Berlin")
    assert local(zone, pattern, "2026-03-28T22:00", "2026-03-30T12:00") == spring
    assert local(zone, pattern, "2026-10-24T21:00", "2026-10-26T12:00") == autumn


def test_midnight_that_does_not_exist_is_one_o_clock() -> None:
    zone = ZoneInfo("America/Sao_Paulo")
    found = local(zone, "@daily", "2018-11-03T00:00", "2018-11-05T12:00")
    assert found == ["03 00:00-0300", "04 01:00-0200", "05 00:00-0200"]


def test_a_day_that_does_not_exist() -> None:
    # Samoa went from 29 to 31 December 2011.
    zone = ZoneInfo("Pacific/Apia")
    found = local(zone, "0 4 * * *", "2011-12-29T00:00", "2012-01-01T00:00")
    assert found == ["29 04:00-1000", "31 00:00+1400", "31 04:00+1400", "01 04:00+1400"]
    assert local(zone, "0 4 30 12 *", "2011-12-05T00:00", "2012-01-15T00:00") == ["31 00:00+1400"]
    assert local(zone, "0 * 30 * *", "2011-12-05T00:00", "2012-01-15T00:00") == []
    assert local(zone, "@monthly", "2011-12-02T00:00", "2012-01-05T00:00") == ["01 00:00+1400"]
    (change,) = (at for at in changes(zone, 2011, 2011) if walls(zone, at, at + 1)[0] % 1440 == 0)
    first = change - 2_000
    shown = walls(zone, first, change + 2_000)
    for pattern in ("0 4 * * *", "*/7 3-9 * * *", "30 23 29-30 * *", "15 * * * *", "0 0 * * 5"):
        assert_agrees(zone, pattern, first, shown)


def test_changes_a_minute_after_midnight() -> None:
    zone = ZoneInfo("America/Goose_Bay")
    found = changes(zone, 2008, 2011)
    assert len(found) >= 6
    assert any(walls(zone, change - 1, change)[0] % 1440 == 0 for change in found)
    for change in found:
        first = change - AROUND
        shown = around(zone, change)
        for pattern in (
            "0 0 * * *",
            "1 0 * * *",
            "30 0 * * *",
            "0 1 * * *",
            "1 1 * * *",
            "30,59 23 * * *",
            "*/5 22-23,0-1 * * *",
            "*/5 * * * *",
        ):
            assert_agrees(zone, pattern, first, shown)


# ── whole years ──

YEARS = (
    ("Africa/Casablanca", 2026),
    ("Australia/Lord_Howe", 2027),
    ("America/Sao_Paulo", 2018),
)


@lru_cache
def year(name: str, number: int) -> tuple[int, list[int]]:
    first = micros(datetime(number, 1, 1, tzinfo=UTC)) // MINUTE
    last = micros(datetime(number + 1, 1, 1, tzinfo=UTC)) // MINUTE
    return first, walls(ZoneInfo(name), first, last)


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(YEARS), minutes, hours | st.just("0-3"), days)
def test_whole_years(place: tuple[str, int], minute: str, hour: str, day: str) -> None:
    pattern = f"{minute} {hour} {day} * *"
    assume(comes(pattern))
    assert_agrees(ZoneInfo(place[0]), pattern, *year(*place))
