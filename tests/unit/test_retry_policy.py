"""Retry policies are values: (attempt, error) to seconds, or None to give up."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest

from windlass import Retry
from windlass.errors import DurationError, ValidationError
from windlass.model.names import LONGEST

X = ValueError()


def test_the_default_is_e_to_the_attempt_up_to_ten() -> None:
    delays = [Retry().delay(attempt, X) for attempt in (1, 2, 10, 11, 25)]
    assert delays == [math.exp(n) for n in (1, 2, 10, 10, 10)]


def test_exponential() -> None:
    retry = Retry.exponential(initial=2, multiplier=3, maximum=timedelta(seconds=50))
    assert [retry.delay(attempt, X) for attempt in range(1, 6)] == [2, 6, 18, 50, 50]
    assert Retry.exponential(1, 10.0).delay(10_000, X) == 3600
    assert repr(retry) == "Retry.exponential(2, 3, 50, jitter=0)"


def test_fixed_and_a_function() -> None:
    assert [Retry.fixed(5).delay(attempt, X) for attempt in (1, 20)] == [5, 5]
    assert Retry(lambda attempt, error: timedelta(seconds=attempt)).delay(4, X) == 4
    assert Retry(lambda attempt, error: None).delay(4, X) is None
    assert Retry(lambda attempt, error: -5).delay(4, X) == 0
    assert Retry(lambda attempt, error: math.inf).delay(4, X) == LONGEST
    with pytest.raises(ValueError, match="NaN"):
        Retry(lambda attempt, error: math.nan).delay(1, X)


def test_jitter_spreads_by_its_share() -> None:
    delays = [Retry.fixed(100, jitter=0.2).delay(1, X) or 0 for _ in range(500)]
    assert all(80 <= delay <= 120 for delay in delays)
    assert len(set(delays)) > 100


def test_which_errors() -> None:
    only = Retry(retry_on=(KeyError, OSError))
    assert only.delay(1, FileNotFoundError()) is not None
    assert only.delay(1, X) is None
    never = Retry.exponential(give_up_on=ValueError)
    assert never.delay(1, X) is None
    assert never.delay(1, KeyError()) == 1
    assert Retry.exponential(retry_on=KeyError).delay(1, X) is None


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Retry(jitter=1.5), ValidationError),
        (lambda: Retry.exponential(multiplier=0.5), ValidationError),
        (lambda: Retry.exponential(multiplier=math.inf), ValidationError),
        (lambda: Retry.exponential(initial=-1), DurationError),
        (lambda: Retry.fixed(math.nan), DurationError),
    ],
)
def test_refusals(make: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        make()


def test_repr() -> None:
    assert repr(Retry()) == "Retry()"
    assert repr(Retry(len)) == "Retry(<built-in function len>)"  # type: ignore[arg-type]
    assert repr(Retry.fixed(1)) == "Retry.fixed(1, jitter=0)"
