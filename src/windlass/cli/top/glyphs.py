"""Signs and colours: a state is told by both, so that either is enough."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from windlass.model.job import JobState


class Sign(NamedTuple):
    """A sign of one cell, another for terminals without Unicode, and a colour."""

    unicode: str
    ascii: str
    style: str


STATES = {
    JobState.READY: Sign("●", "o", "cyan"),
    JobState.RUNNING: Sign("▶", ">", "blue"),
    JobState.SCHEDULED: Sign("◷", "@", "magenta"),
    JobState.BLOCKED: Sign("■", "#", "yellow"),
    JobState.FAILED: Sign("✖", "x", "red"),
    JobState.CANCELLED: Sign("⊘", "/", "yellow"),
    JobState.COMPLETED: Sign("✔", "+", "green"),
}
"""In the order in which they are shown; the first that fit are."""

PAUSED = Sign("‖", "=", "yellow")
ALIVE = Sign("●", "o", "green")
DEAD = Sign("✖", "x", "red")

_BARS = "▁▂▃▄▅▆▇█"
_FULL, _EMPTY = ("█", "#"), ("░", ".")


class Glyphs:
    """The signs that this terminal can show."""

    def __init__(self, *, is_ascii: bool = False) -> None:
        self.is_ascii = is_ascii
        self.up, self.down = ("^", "v") if is_ascii else ("▲", "▼")
        self.cursor = ">" if is_ascii else "❯"
        self.more = "." if is_ascii else "…"
        self.arrows = "Up/Down" if is_ascii else "↑↓"

    def sign(self, sign: Sign) -> str:
        return sign.ascii if self.is_ascii else sign.unicode

    def bar(self, part: float, width: int) -> str:
        """How far a job is. It is full only at the end."""
        part = min(1.0, max(0.0, part)) if part == part else 0.0
        done = int(part * width)
        full, empty = _FULL[self.is_ascii], _EMPTY[self.is_ascii]
        return full * done + empty * (width - done)

    def curve(self, values: Sequence[float], width: int) -> str:
        """The last values, each as a bar of one cell; the highest is full. '' where nothing was
        done, and where the terminal has no such signs."""
        values = values[-width:] if width > 0 else ()
        highest = max(values, default=0.0)
        if highest <= 0 or self.is_ascii:
            return ""
        steps = len(_BARS) - 1
        return "".join(
            " " if value <= 0 else _BARS[round(value / highest * steps)] for value in values
        )
