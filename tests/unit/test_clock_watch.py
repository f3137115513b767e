"""When a reaper says that the database's clock was set, and when it was only slow to hear of it."""

from __future__ import annotations

import pytest

from windlass.clock import to_datetime
from windlass.stores.postgres.clock_watch import STEADY, ClockWatch
from windlass.testing.clock import START, FakeClock


def _watch() -> tuple[ClockWatch, FakeClock]:
    clock = FakeClock()
    watch = ClockWatch(clock)
    assert not watch.has_begun
    watch.begin(START, 5.0)
    return watch, clock


def test_it_reckons_what_the_clock_should_show() -> None:
    watch, clock = _watch()
    ticks = clock.monotonic()
    assert watch.reckoned == to_datetime(START + round(ticks * 1e6))
    clock.advance(1.5)
    assert watch.reckoned == to_datetime(START + round(ticks * 1e6) + 1_500_000)
    assert watch.watched_since == to_datetime(START + 5_000_000)


@pytest.mark.parametrize("slow", [0.0, 0.2, 3.0, 600.0])
def test_a_slow_answer_is_no_jump(slow: float) -> None:
    """The statement may have arrived at any time between sending it and reading the answer."""
    watch, _ = _watch()
    arrived_at_once = START + 10_000_000
    assert watch.jump(arrived_at_once, 10.0, 10.0 + slow) is None
    arrived_last = START + 10_000_000 + round(slow * 1e6)
    assert watch.jump(arrived_last, 10.0, 10.0 + slow) is None
    assert watch.watched_since == to_datetime(START + 5_000_000)


@pytest.mark.parametrize("by", [3600.0, 1.0, -1.0, -3600.0])
def test_what_slowness_cannot_explain_is_a_jump(by: float) -> None:
    watch, _ = _watch()
    shift = round(by * 1e6)
    assert watch.jump(START + 10_000_000 + shift, 10.0, 10.5) == shift
    assert watch.jump(START + 20_000_000 + shift, 20.0, 20.5) == shift  # until it is followed
    watch.follow(START + 20_000_000 + shift, 20.0)
    assert watch.jump(START + 30_000_000 + shift, 30.0, 30.5) is None
    assert watch.watched_since == to_datetime(START + 5_000_000 + shift)


def test_a_jump_is_seen_after_a_slow_look() -> None:
    """What was learnt from a slow answer is made exact by a quick one."""
    watch, _ = _watch()
    watch.follow(START + 11_000_000, 10.0)
    assert watch.jump(START + 20_000_000, 20.0, 20.0) == -1_000_000
    watch.follow(START + 20_000_000, 20.0)
    assert watch.jump(START + 31_000_000, 30.0, 30.1) == 1_000_000


def test_clocks_that_drift_do_not_jump() -> None:
    watch, _ = _watch()
    for step in range(1, 100):
        at = START + step * 10_000_000 - step * STEADY // 2
        assert watch.jump(at, step * 10.0, step * 10.0) is None


def test_machines_that_cannot_be_told_apart_are_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.stores.postgres.clock_watch.boot_id", lambda: "")
    assert ClockWatch(FakeClock()).machine != ClockWatch(FakeClock()).machine != ""
