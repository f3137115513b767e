"""How many calls a token may make."""

from __future__ import annotations

import pytest

from windlass.server.identity import Identity, Role
from windlass.server.limits import Limits
from windlass.server.refusals import TooManyCalls
from windlass.testing import FakeClock


def caller(name: str, digest: str | None = None, tenant: str = "") -> Identity:
    return Identity(name=name, roles=frozenset({Role.PRODUCER}), tenant=tenant, digest=digest)


def admitted(limits: Limits, who: Identity, calls: int) -> int:
    """How many calls at once are admitted."""
    for number in range(calls):
        try:
            limits.admit(who)
        except TooManyCalls:
            return number
    return calls


def test_a_second_s_worth_of_calls_at_once_and_then_the_rate() -> None:
    clock = FakeClock()
    limits = Limits(10.0, clock)
    ci = caller("ci", "d")
    assert admitted(limits, ci, 100) == 10
    for _ in range(50):
        clock.advance(0.1)
        assert admitted(limits, ci, 100) == 1
    clock.advance(1_000)
    assert admitted(limits, ci, 100) == 10


@pytest.mark.parametrize("rate", [0.25, 1.0, 3.0, 1_000.0])
def test_the_wait_that_is_told_is_enough(rate: float) -> None:
    clock = FakeClock()
    limits = Limits(rate, clock)
    ci = caller("ci", "d")
    admitted(limits, ci, 10_000)
    with pytest.raises(TooManyCalls) as refused:
        limits.admit(ci)
    assert 0 < refused.value.retry_after <= 1 / rate + 1e-6
    clock.advance(refused.value.retry_after + 1e-6)
    assert admitted(limits, ci, 10) == 1


def test_tokens_do_not_share_their_calls() -> None:
    limits = Limits(1.0, FakeClock())
    callers = [
        caller("ci", "one"),
        caller("ci", "two"),
        caller("ci"),
        caller("other"),
        caller("ci", tenant="acme"),
    ]
    assert [admitted(limits, who, 5) for who in callers] == [1] * 5


def test_without_a_rate_all_are_admitted() -> None:
    assert admitted(Limits(None, FakeClock()), caller("ci"), 1_000) == 1_000


def test_memory_is_bounded() -> None:
    limits = Limits(1.0, FakeClock())
    for number in range(20_000):
        limits.admit(caller("ci", str(number)))
    assert len(limits._full_at) == 10_000
