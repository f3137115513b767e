"""Small charts that the server draws, for those who read without scripts: lines over time."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

WIDTH, HEIGHT = 600, 140
_TOP, _BOTTOM = 6, 2

Values = Sequence[float | None]


class Line(msgspec.Struct, frozen=True):
    """One line: its name, what it is drawn like, and its pieces, which end where nothing is
    known."""

    name: str
    kind: str
    pieces: list[str]


class Plot(msgspec.Struct, frozen=True):
    """Lines below one scale, whose upper end is `most`."""

    name: str
    title: str
    unit: str
    most: float
    lines: list[Line]


def plot(name: str, title: str, unit: str, **lines: Values) -> Plot:
    """A chart of these lines, by what they are drawn like; `_` in a name stands for a space."""
    most = max((value for line in lines.values() for value in line if value), default=0.0)
    drawn = [
        Line(kind.replace("_", " "), kind, _pieces(values, most)) for kind, values in lines.items()
    ]
    return Plot(name, title, unit, most, drawn)


def _pieces(values: Values, most: float) -> list[str]:
    """Points as SVG takes them, one text for each stretch of values that are known."""
    scale = (HEIGHT - _TOP - _BOTTOM) / most if most else 0.0
    step = WIDTH / max(1, len(values) - 1)
    pieces: list[list[str]] = [[]]
    for place, value in enumerate(values):
        if value is None:
            pieces.append([])
        else:
            pieces[-1].append(f"{place * step:.1f},{HEIGHT - _BOTTOM - value * scale:.1f}")
    return [" ".join(piece) for piece in pieces if piece]
