"""Where a claim starts: at the very start, unless that has shown to be crowded."""

from __future__ import annotations

from windlass.store.records import ClaimRequest, Lease
from windlass.stores.postgres.marks import LEAST_PAUSE, MOST_PAUSE, SHARE, SPARE, Marks
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
CROWDED = 3 + 2 + SPARE + 1


def crowded(clock: FakeClock, cost: float = 0.0) -> Marks:
    """Marks after a look from the start that met many entries and took `cost` seconds."""
    marks = Marks(clock)
    began = clock.monotonic()
    clock.advance(cost)
    marks.learn(REQUEST, FULL, bell=7, entries=CROWDED, began=began)
    return marks


def test_claims_start_at_the_very_start() -> None:
    clock = FakeClock()
    marks = Marks(clock)
    assert marks.start() is None
    marks.learn(REQUEST, FULL, bell=0, entries=CROWDED - 1, began=clock.monotonic())
    assert marks.start() is None


def test_a_crowded_start_is_passed_over() -> None:
    marks = crowded(FakeClock())
    start = marks.start()
    assert start is not None
    assert start.tasks == {"a": (0, 3, 3)}
    assert start.bell == 7


def test_the_marks_move_on() -> None:
    marks = crowded(FakeClock())
    more = [lease(4, task="b"), lease(5), lease(6, suspect=True)]
    marks.learn(REQUEST, more, bell=9, entries=3, began=None)
    start = marks.start()
    assert start is not None
    assert start.tasks == {"a": (0, 5, 5), "b": (0, 4, 4)}
    assert start.bell == 9


def test_now_and_then_there_is_a_look_from_the_start() -> None:
    clock = FakeClock()
    marks = crowded(clock)
    clock.advance(LEAST_PAUSE * 0.9)
    assert marks.start() is not None
    clock.advance(LEAST_PAUSE * 0.2)
    assert marks.start() is None
    marks.learn(REQUEST, FULL, bell=7, entries=3, began=clock.monotonic())
    assert marks.start() is None  # no longer crowded


def test_something_new_or_a_short_claim_calls_for_a_look() -> None:
    marks = crowded(FakeClock())
    marks.stir()
    assert marks.start() is None
    marks = crowded(FakeClock())
    marks.learn(REQUEST, FULL[:2], bell=7, entries=2, began=None)
    assert marks.start() is None


def test_looks_that_take_long_take_no_more_than_their_share() -> None:
    clock = FakeClock()
    marks = crowded(clock, cost=0.05)
    marks.stir()
    clock.advance(0.05 * SHARE * 0.9)
    assert marks.start() is not None
    assert 0 < marks.pause <= 0.05 * SHARE * 0.11
    clock.advance(0.05 * SHARE * 0.2)
    assert marks.pause == 0
    assert marks.start() is None
    marks = crowded(clock, cost=30)
    clock.advance(MOST_PAUSE)
    assert marks.start() is None
