"""Where a claim starts: at the very start, unless that has shown to be crowded."""

from __future__ import annotations

from windlass.store.records import ClaimRequest, Lease
from windlass.stores.postgres.marks import LEAST_PAUSE, MOST_PAUSE, SHARE, SPARE, ClaimMarks, Start
from windlass.testing import FakeClock


def lease(number: int, task: str = "a", suspect: bool = False) -> Lease:
    """The delivery of job `number`, due at that microsecond."""
    return Lease(
        job_id=number,
        token=number,
        worker="w",
        task=task,
        payload="{}",
        attempts=1,
        deliveries=1,
        max_attempts=None,
        priority=0,
        run_at=number,
        key=None,
        queue=None,
        flags=None,
        revision=0,
        resets=0,
        suspect=suspect,
        keep=None,
        created_at=0,
        updated_at=0,
        last_error=None,
    )


REQUEST = ClaimRequest(worker="w", tasks=("a", "b"), limit=3)
FULL = [lease(1), lease(2), lease(3)]
CROWDED = 3 + SPARE + 1
FROM_MARKS = Start({}, 0)


def crowded(clock: FakeClock, cost: float = 0.0) -> ClaimMarks:
    """Marks after a look from the start that met many entries and took `cost` seconds."""
    marks = ClaimMarks(clock)
    start = marks.start()
    clock.advance(cost)
    marks.learn(REQUEST, FULL, start, bell=7, entries=CROWDED)
    return marks


def test_claims_start_at_the_very_start() -> None:
    clock = FakeClock()
    marks = ClaimMarks(clock)
    first = marks.start()
    assert first == Start({}, 0, clock.monotonic())
    marks.learn(REQUEST, FULL, first, bell=0, entries=CROWDED - 1)
    assert marks.start() == first


def test_a_crowded_start_is_passed_over() -> None:
    marks = crowded(FakeClock())
    start = marks.start()
    assert start.began is None
    assert start.tasks == {"a": (0, 3, 3)}
    assert start.bell == 7


def test_the_marks_move_on() -> None:
    marks = crowded(FakeClock())
    start = marks.start()
    more = [lease(4, task="b"), lease(5), lease(6, suspect=True)]
    marks.learn(REQUEST, more, start, bell=9, entries=3)
    start = marks.start()
    assert start.began is None
    assert start.tasks == {"a": (0, 5, 5), "b": (0, 4, 4)}
    assert start.bell == 9


def test_now_and_then_there_is_a_look_from_the_start() -> None:
    clock = FakeClock()
    marks = crowded(clock)
    clock.advance(LEAST_PAUSE * 0.9)
    assert marks.start().began is None
    clock.advance(LEAST_PAUSE * 0.2)
    assert marks.start().began is not None
    marks.learn(REQUEST, FULL, marks.start(), bell=7, entries=3)
    assert marks.start().began is not None  # no longer crowded


def test_something_new_or_a_short_claim_calls_for_a_look() -> None:
    marks = crowded(FakeClock())
    marks.expect_new()
    assert marks.start().began is not None
    marks = crowded(FakeClock())
    marks.learn(REQUEST, FULL[:2], FROM_MARKS, bell=7, entries=2)
    assert marks.start().began is not None


def test_looks_that_take_long_take_no_more_than_their_share() -> None:
    clock = FakeClock()
    marks = crowded(clock, cost=0.05)
    marks.expect_new()
    clock.advance(0.05 * SHARE * 0.9)
    assert marks.start().began is None
    assert 0 < marks.pause <= 0.05 * SHARE * 0.11
    clock.advance(0.05 * SHARE * 0.2)
    assert marks.pause == 0
    assert marks.start().began is not None
    marks = crowded(clock, cost=30)
    clock.advance(MOST_PAUSE)
    assert marks.start().began is not None


def test_a_look_of_several_claims_is_measured_as_one() -> None:
    """None of them met many entries or took long, but all of them together did."""
    clock = FakeClock()
    marks = ClaimMarks(clock)
    start = marks.start()
    for bell in (1, 2, 3):
        clock.advance(0.02)
        marks.learn(REQUEST, [], start, bell=bell, entries=SPARE)
        start = start.after(bell, SPARE)
    marks.expect_new()
    clock.advance(0.06 * SHARE * 0.9)
    assert marks.start() == Start({}, 3)
    clock.advance(0.06 * SHARE * 0.2)
    assert marks.start().began is not None
