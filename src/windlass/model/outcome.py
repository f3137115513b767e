"""What a handler may return to say how a delivery ended; raising is in `errors`."""

from __future__ import annotations

import concurrent.futures
import traceback
from datetime import timedelta
from pathlib import Path
from types import TracebackType

import msgspec

from windlass.model.names import check_seconds

MAX_ERROR = 16 * 1024
_WAY_THERE = (str(Path(__file__).parents[1]), concurrent.futures.__path__[0])
_CUT = "\n… cut …\n"


class Completed(msgspec.Struct, frozen=True):
    """The job is done; `value` is its output."""

    value: object = None


class Failed(msgspec.Struct, frozen=True):
    """The attempt is used; retried by policy, or failed for good at the limit."""

    message: str = "failed"


class Nack(msgspec.Struct, frozen=True):
    """The attempt is used; again after exactly `delay` seconds (0 means now)."""

    delay: float | timedelta = 0.0
    reason: str = ""

    def __post_init__(self) -> None:
        check_seconds(self.delay, "delay")

    @property
    def seconds(self) -> float:
        return check_seconds(self.delay, "delay") or 0.0


class Abandon(msgspec.Struct, frozen=True):
    """The job goes back at once and the attempt is given back."""


def describe(error: BaseException) -> str:
    """Type, message and traceback of a failed attempt, at most 16 KiB.

    The first line is always `Type: message`, so lists can show it alone.
    """
    text = _told(error)
    if text is not None:
        return clip(text)
    message = message_of(error)
    head = f"{type(error).__name__}: {message}" if message else type(error).__name__
    if error.__traceback__ is None and error.__cause__ is None:
        return clip(head)
    try:
        kind, own = type(error), of_the_handler(error.__traceback__)
        trace = "".join(traceback.format_exception(kind, error, own, limit=-20))
    except BaseException:  # a broken __str__ or __repr__ within: the head says enough
        return clip(head)
    return clip(f"{head}\n\n{trace.rstrip()}")


def _told(error: BaseException) -> str | None:
    """The text of an exception that was described already, in the process where it was raised."""
    try:
        text = vars(error).get("__windlass_text__")
    except BaseException:  # the attributes of a user's exception may raise anything
        return None
    return text if isinstance(text, str) else None


def of_the_handler(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the handler's first line on, without the way there."""
    found = trace
    while found is not None and found.tb_frame.f_code.co_filename.startswith(_WAY_THERE):
        found = found.tb_next
    return trace if found is None else found


def message_of(error: BaseException) -> str:
    """The exception's own text, even where asking for it raises."""
    try:
        return str(error)
    except BaseException:  # the __str__ of a user's exception may raise anything
        return "<its message cannot be shown>"


def clip(text: str, most: int = MAX_ERROR) -> str:
    """`text` as storable UTF-8 of at most `most` bytes: its beginning and its end."""
    raw = text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace")
    if len(raw) <= most:
        return raw.decode()
    head = raw[: most // 4].decode("utf-8", "ignore")
    tail = raw[len(raw) - (most - most // 4 - len(_CUT.encode())) :].decode("utf-8", "ignore")
    return head + _CUT + tail
