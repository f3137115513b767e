"""How many jobs a worker claims, as a function of what its slots are doing."""

from __future__ import annotations

import pytest

from windlass.engine.demand import (
    AHEAD_SECONDS,
    MOST_AHEAD,
    MOST_TEXT,
    REFILL,
    Demand,
    Load,
    demand,
    demand_one_by_one,
)

QUICK = 1e-6


@pytest.mark.parametrize(
    ("load", "free"),
    [
        (Load(slots=4), 4),
        (Load(slots=4, running=3), 1),
        (Load(slots=4, running=2, buffered=1), 1),
        (Load(slots=4, running=2, buffered=9), 0),
    ],
)
def test_a_buffered_job_takes_a_slot(load: Load, free: int) -> None:
    assert load.free == free


@pytest.mark.parametrize("pace", [None, AHEAD_SECONDS * 1.01, 60.0])
def test_without_quick_jobs_only_free_slots_are_filled(pace: float | None) -> None:
    assert demand(Load(slots=4, pace=pace)) == Demand(4, low_water=0)
    assert demand(Load(slots=4, running=3, pace=pace)) == Demand(1, low_water=0)
    assert demand(Load(slots=4, running=4, pace=pace)) == Demand(0, low_water=0)


def test_quick_jobs_are_taken_ahead_by_their_pace() -> None:
    # A quarter of a second for four slots is 100 jobs of 10 ms.
    assert demand(Load(slots=4, pace=0.01)) == Demand(104, low_water=50)
    assert demand(Load(slots=4, running=4, pace=0.01)) == Demand(100, low_water=50)


def test_nothing_is_claimed_before_the_buffer_lacks_half() -> None:
    full, half, below = (
        demand(Load(slots=4, running=4, buffered=buffered, pace=0.01)).count
        for buffered in (100, 50, 49)
    )
    assert (full, half, below) == (0, 0, 51)


def test_a_large_buffer_is_filled_up_as_soon_as_it_lacks_one_claim() -> None:
    low_water = MOST_AHEAD - REFILL + 1
    enough, short = (
        demand(Load(slots=10, running=10, buffered=buffered, pace=QUICK))
        for buffered in (low_water, low_water - 1)
    )
    assert enough == Demand(0, low_water)
    assert short == Demand(REFILL, low_water)


def test_a_claim_is_of_one_size_unless_more_slots_are_free() -> None:
    assert demand(Load(slots=10, running=10, pace=QUICK)).count == REFILL
    assert demand(Load(slots=3 * REFILL, pace=QUICK)).count == 3 * REFILL


def test_slots_that_ask_are_claimed_for_whatever_the_buffer_holds() -> None:
    busy = Load(slots=4, running=4, buffered=100, pace=0.01)
    assert demand(busy).count == 0
    assert demand(busy, asking=2).count == 2


def test_no_more_are_claimed_than_the_worker_may_take() -> None:
    assert demand(Load(slots=10), left=3).count == 3
    assert demand(Load(slots=10), left=30).count == 10
    assert demand(Load(slots=10, running=10), asking=5, left=1).count == 1


def test_the_options_and_large_payloads_limit_what_is_taken_ahead() -> None:
    load = Load(slots=10, running=10, pace=QUICK)
    assert demand(load, most_ahead=7) == Demand(7, low_water=4)
    assert demand(load, most_ahead=0) == Demand(0, low_water=0)
    assert demand(load, size=MOST_TEXT / 3).count == 3


@pytest.mark.parametrize(
    ("load", "count"),
    [
        (Load(slots=4, pace=QUICK), 1),
        (Load(slots=4, running=3, pace=QUICK), 1),
        (Load(slots=4, running=4), 0),
        (Load(slots=4, running=1, preparing=1), 0),
        (Load(slots=4, buffered=1), 0),
    ],
)
def test_one_by_one_waits_until_the_last_job_is_prepared(load: Load, count: int) -> None:
    assert demand_one_by_one(load) == Demand(count, low_water=0)
