"""Values as people read them in a column."""

from __future__ import annotations

from windlass.store.figures import Depth

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))
_LARGE = ((1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k"))


def number(value: int) -> str:
    """Exact up to 9,999; then in thousands and millions, in five places: `12.3k`, `4.56M`."""
    for size, unit in _LARGE:
        if value >= size:
            scale = 1_000 if unit == "k" else size
            shown = value / scale
            digits = 2 if shown < 10 else 1 if shown < 100 else 0
            return f"{int(shown * 10**digits) / 10**digits:.{digits}f}{unit}"
    return f"{value:,}"


def depth(value: Depth) -> str:
    """An estimate has a sign before it."""
    return f"~{number(value.count)}" if value.is_estimate else number(value.count)


def rate(value: float) -> str:
    """Per second."""
    if value >= 9_999.5:
        return number(round(value))
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.995 or value == 0 else f"{value:.2f}"


def percent(part: float) -> str:
    """Nothing for nothing; what is less than one in a hundred is told as that."""
    if part <= 0:
        return ""
    return "<1%" if part < 0.01 else f"{int(min(part, 1.0) * 100)}%"


def span(seconds: float | None) -> str:
    """A length of time in at most two units: `85ms`, `3.2s`, `4m10s`, `2d3h`."""
    if seconds is None:
        return ""
    if seconds < 0:
        return f"-{span(-seconds)}"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    left = round(seconds)
    parts: list[str] = []
    for size, unit in _UNITS:
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count}{unit}" if count else "")
        if len(parts) == 2:
            break
    return "".join(parts)


def shown(text: str | None) -> str:
    """A text from the database on one line: what would steer the terminal becomes a dot."""
    line = " ".join((text or "").split())
    return "".join(sign if sign.isprintable() else "·" for sign in line)


def first_line(text: str | None, most: int = 500) -> str:
    """Of an error: what it says, before its traceback."""
    return shown((text or "").strip().split("\n", 1)[0][:most])
