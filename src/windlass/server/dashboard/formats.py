"""Values as people read them: numbers, times, JSON. All of them make text, and none makes HTML."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from windlass.clock import to_datetime

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def number(value: float) -> str:
    """1,234,567"""
    return f"{value:,.0f}"


def rate(value: float) -> str:
    """Per second; small ones with a digit behind the point."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 or value == 0 else f"{value:.2f}"


def per_minute(per_second: float) -> str:
    """A rate per second, told per minute."""
    return rate(per_second * 60) if per_second < 100 / 60 else number(per_second * 60)


def span(seconds: float | timedelta | None) -> str:
    """A length of time in its two largest units: `3m 20s`, `85ms`."""
    if seconds is None:
        return "–"
    if isinstance(seconds, timedelta):
        seconds = seconds.total_seconds()
    if seconds < 0:
        return f"−{span(-seconds)}"
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 10:
        return f"{seconds:.1f}s"
    left = round(seconds)
    parts: list[str] = []
    for size, unit in _UNITS:
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count}{unit}" if count else "")
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if part)


def ago(instant: datetime, now: datetime) -> str:
    """How far an instant lies back, or ahead."""
    seconds = (now - instant).total_seconds()
    if abs(seconds) < 1:
        return "now"
    whole = abs(seconds) if abs(seconds) >= 10 else float(round(abs(seconds)))
    text = span(whole).replace(".0s", "s")
    return f"{text} ago" if seconds > 0 else f"in {text}"


def instant(value: datetime) -> str:
    """2026-01-31 12:34:56 UTC"""
    return f"{value:%Y-%m-%d %H:%M:%S} UTC"


def iso(value: datetime) -> str:
    return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def json(value: Any) -> str:
    """JSON over several lines."""
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    except (ValueError, TypeError, RecursionError, msgspec.MsgspecError):
        return repr(value)


def brief(value: Any, most: int = 100) -> str:
    """JSON on one line, cut."""
    try:
        text = msgspec.json.encode(value).decode()
    except (ValueError, TypeError, RecursionError, msgspec.MsgspecError):
        text = repr(value)
    return cut(text, most)


def cut(text: str, most: int = 100) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def first_line(text: str | None, most: int = 160) -> str:
    """Of an error: what it says, before its traceback."""
    line = (text or "").strip().split("\n", 1)[0]
    return cut(line, most)


def share(fraction: float) -> str:
    """A part of a whole: 12 %, and <1 % where it is little."""
    return "<1 %" if 0 < fraction < 0.01 else f"{fraction * 100:.0f} %"


def at(micros: int) -> datetime:
    """The instant of a store, which is microseconds."""
    return to_datetime(micros)


def percent(fraction: float) -> int:
    """From 0 to 100, whatever a program says of its progress; NaN is 0."""
    return round(min(1.0, max(0.0, fraction)) * 100) if fraction == fraction else 0


FILTERS: dict[str, Callable[..., Any]] = {
    "number": number,
    "rate": rate,
    "per_minute": per_minute,
    "span": span,
    "ago": ago,
    "instant": instant,
    "iso": iso,
    "json": json,
    "brief": brief,
    "cut": cut,
    "first_line": first_line,
    "percent": percent,
    "share": share,
    "at": at,
}
