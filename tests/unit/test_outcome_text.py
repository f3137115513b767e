"""How a failed attempt is put into words."""

from __future__ import annotations

import traceback
from datetime import timedelta

import pytest

from windlass import Nack
from windlass.errors import DurationError
from windlass.model import outcome
from windlass.model.outcome import MAX_ERROR, clip, describe


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def test_the_first_line_is_type_and_message() -> None:
    text = describe(raised(ValueError("what\nhappened")))
    assert text.startswith("ValueError: what\nhappened\n\nTraceback")
    assert describe(ValueError("bare")) == "ValueError: bare"
    assert describe(KeyError()) == "KeyError"


def test_a_cause_is_part_of_it() -> None:
    error = ValueError("outer")
    error.__cause__ = KeyError("inner")
    assert "KeyError: 'inner'" in describe(error)


def test_an_exception_that_cannot_be_shown() -> None:
    class Bad(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert describe(Bad()).startswith("Bad: <its message cannot be shown>")
    assert describe(raised(Bad())).startswith("Bad: <its message cannot be shown>")


def test_a_traceback_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **options: object) -> list[str]:
        raise RecursionError

    error = raised(ValueError("still told"))
    monkeypatch.setattr(traceback, "format_exception", broken)
    assert describe(error) == "ValueError: still told"


def test_what_a_child_described_is_taken_as_it_is() -> None:
    error = RuntimeError("x")
    error.__windlass_text__ = "Own: x\n\ntrace"  # type: ignore[attr-defined]
    assert describe(error) == "Own: x\n\ntrace"


def test_clip_keeps_beginning_and_end_within_the_limit() -> None:
    assert clip("short") == "short"
    assert clip("a\x00b\ud800") == "a\\x00b\\ud800"
    for text in ("ab" * 50_000, "ü" * 50_000, "日本" * 50_000):
        cut = clip(text)
        assert len(cut.encode()) <= MAX_ERROR
        assert cut.startswith(text[:100])
        assert cut.endswith(text[-100:])
        assert "… cut …" in cut


def test_nack_checks_its_delay() -> None:
    assert Nack(timedelta(seconds=3)).seconds == 3
    assert Nack().seconds == 0
    with pytest.raises(DurationError):
        Nack(-1)


def test_outcomes_have_defaults() -> None:
    assert outcome.Failed().message == "failed"
    assert outcome.Completed().value is None
    assert outcome.Abandon() == outcome.Abandon()
