"""What callers may name, count and time: each bad input has one clear error."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from windlass import errors
from windlass.model import names

LONG = "x" * 513


@pytest.mark.parametrize(
    ("check", "value", "error", "says"),
    [
        (names.check_task, "", errors.TaskNameError, "task must not be empty"),
        (
            names.check_task,
            "x" * 129,
            errors.TaskNameError,
            "129 characters long",
        ),
        (names.check_task, 7, errors.TaskNameError, "must be a string, not int"),
        (names.check_task, "windlass.webhook", errors.TaskNameError, "for Windlass itself"),
        (names.check_task, "a\x00b", errors.TaskNameError, "must not contain NUL"),
        (names.check_task, "a\ud800", errors.TaskNameError, "not valid Unicode"),
        (names.check_queue, "", errors.QueueNameError, "queue must not be empty"),
        (names.check_queue, "x" * 129, errors.QueueNameError, "the limit is 128"),
        (names.check_key, "", errors.KeyNameError, "key must not be empty"),
        (names.check_key, LONG, errors.KeyNameError, "513 characters long; the limit is 512"),
        (names.check_key_mode, "merge", errors.KeyModeError, "key_mode 'merge' is unknown"),
        (names.check_max_attempts, 0, errors.MaxAttemptsError, "at least 1, not 0"),
        (names.check_max_attempts, 2**31, errors.MaxAttemptsError, "does not fit 32 bits"),
        (names.check_max_attempts, True, errors.MaxAttemptsError, "must be an integer, not bool"),
        (names.check_attempts, -1, errors.ValidationError, "attempts must be at least 0"),
        (names.check_priority, 1.5, errors.PriorityError, "must be an integer, not float"),
        (names.check_priority, -(2**31) - 1, errors.PriorityError, "does not fit 32 bits"),
        (names.check_flags, "gpu", errors.FlagsError, "must be a list of strings"),
        (names.check_flags, 3, errors.FlagsError, "must be a list of strings"),
        (names.check_flags, [""], errors.FlagsError, "flag must not be empty"),
        (names.check_flags, [str(n) for n in range(65)], errors.FlagsError, "at most 64 flags"),
        (names.check_instant, datetime(2026, 1, 1), errors.InstantError, "has no time zone"),
        (names.check_instant, "tomorrow", errors.InstantError, "must be a datetime, not str"),
        (names.check_instant, datetime(1969, 1, 1, tzinfo=UTC), errors.InstantError, "1970"),
    ],
)
def test_refusals(check: Any, value: Any, error: type[errors.ValidationError], says: str) -> None:
    with pytest.raises(error, match=says) as caught:
        check(value)
    assert isinstance(caught.value, ValueError)
    assert caught.value.field


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, 1e30, True, "5"])
def test_durations_out_of_range(value: Any) -> None:
    with pytest.raises(errors.DurationError, match="delay must be"):
        names.check_seconds(value, "delay")


def test_what_is_taken() -> None:
    assert names.check_task("ünïcode/task-1") == "ünïcode/task-1"
    assert names.check_task("x" * 128) == "x" * 128
    assert names.check_task("windlass") == "windlass"
    assert names.check_any_task("windlass.webhook") == "windlass.webhook"
    assert names.check_queue(None) is None
    assert names.check_key(None) is None
    assert names.check_key_mode("unsafe_dedupe") == "unsafe_dedupe"
    assert names.check_max_attempts(None) is None
    assert names.check_max_attempts(1) == 1
    assert names.check_attempts(None) is None
    assert names.check_attempts(0) == 0
    assert names.check_priority(-5) == -5
    assert names.check_flags(None) is None
    assert names.check_flags([]) is None
    assert names.check_flags(["a", "b", "a"]) == ("a", "b")
    assert names.check_instant(None) is None
    local = datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=5)))
    assert names.check_instant(local) == local
    assert names.check_seconds(None, "delay") is None
    assert names.check_seconds(timedelta(minutes=1), "delay") == 60.0
    assert names.check_seconds(0, "delay") == 0.0


def test_codes_are_the_sql_states() -> None:
    codes = {
        errors.TaskNameError: "GWBID",
        errors.QueueNameError: "GWBQN",
        errors.KeyNameError: "GWBJK",
        errors.MaxAttemptsError: "GWBMA",
        errors.KeyModeError: "GWBKM",
        errors.PayloadTooLargeError: "WLPAY",
    }
    assert {kind: kind.code for kind in codes} == codes


def test_signals_carry_what_they_say() -> None:
    assert errors.RetryAfter(timedelta(minutes=1)).seconds == 60.0
    assert str(errors.RetryAfter(5)) == "asked to be retried after 5 s"
    assert "asked to be retried at 2026" in str(errors.RetryAt(datetime(2026, 1, 1, tzinfo=UTC)))
    with pytest.raises(errors.InstantError):
        errors.RetryAt(datetime(2026, 1, 1))
    assert errors.MissingExtraError("this", "postgres").extra == "postgres"
    assert "pip install 'windlass[postgres]'" in str(errors.MissingExtraError("this", "postgres"))
