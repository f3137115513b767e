"""Writers give way to one another, and not to nobody."""

from __future__ import annotations

import pytest

from windlass.stores.sqlite.lock_pauses import LONGEST, TURN, LockPauses

HELD = 0.004


def _after(
    pauses: LockPauses,
    transactions: int,
    waited: float,
    idle: float = 0.0,
    *,
    stranger: bool = True,
) -> float:
    """The last pause of that many transactions, of which a share `waited` found the lock taken,
    by a stranger or by one of ours."""
    owed = pause = 0.0
    now = 100.0
    for _ in range(transactions):
        owed += waited
        now += HELD + pause + idle
        pause = pauses.pause(owed >= 1.0, stranger and owed >= 1.0, HELD, now)
        owed -= owed >= 1.0
    return pause


def test_alone_nobody_pauses() -> None:
    assert _after(LockPauses(), 500, waited=0.0) == 0.0


def test_a_rare_meeting_is_no_reason_to_hold_the_lock_less_when_there_is_little_to_do() -> None:
    assert _after(LockPauses(), 500, waited=0.1, idle=1.0) <= TURN


def test_ours_only_take_turns_however_busy_the_lock_is() -> None:
    assert _after(LockPauses(), 500, waited=0.9, stranger=False) == TURN


def test_a_busy_lock_is_left_alone_for_longer() -> None:
    pause = _after(LockPauses(), 500, waited=0.4)
    assert HELD < pause <= 1.5 * LONGEST


def test_the_busier_the_lock_the_longer_the_pause() -> None:
    little = sum(_after(LockPauses(), 300, waited=0.3) for _ in range(50))
    much = sum(_after(LockPauses(), 300, waited=0.9) for _ in range(50))
    assert much > little


@pytest.mark.parametrize("waited", [0.4, 1.0])
def test_once_alone_again_the_pauses_end(waited: float) -> None:
    pauses = LockPauses()
    assert _after(pauses, 500, waited) > TURN
    assert _after(pauses, 200, waited=0.0) == 0.0


def test_a_stranger_is_remembered_for_a_while() -> None:
    pauses = LockPauses()
    for number in range(100):
        pauses.pause(True, True, HELD, number * HELD)
    assert pauses.pause(True, False, HELD, 5.0) > TURN
    for number in range(50):
        last = pauses.pause(True, False, HELD, 20.0 + number * HELD)
    assert last == TURN
