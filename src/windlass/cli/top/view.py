"""What the person at the terminal has chosen: a pane, a row in each, and the order of rows."""

from __future__ import annotations

from dataclasses import dataclass, field

from windlass.cli.top.panes import PANES, Line, Pane
from windlass.cli.top.picture import Kind, Picture, QueueLine, TaskLine

_NAMES = tuple(PANES)


@dataclass(slots=True)
class Choice:
    """In one pane: which order, and the row that the cursor is on, and where that was last."""

    order: int = 0
    is_turned: bool = False
    key: str | int | None = None
    place: int = 0


@dataclass(slots=True)
class View:
    focus: str = _NAMES[0]
    choices: dict[str, Choice] = field(default_factory=lambda: {name: Choice() for name in _NAMES})
    is_helping: bool = False
    message: str = ""
    """What a key did, or why not, until the next key."""
    is_trouble: bool = False
    """The message is about what went wrong."""

    @property
    def pane(self) -> Pane:
        return PANES[self.focus]

    def say(self, message: str, *, is_trouble: bool = False) -> None:
        self.message, self.is_trouble = message, is_trouble

    def rows(self, pane: Pane, picture: Picture) -> list[Line]:
        choice = self.choices[pane.name]
        return pane.sorted(picture, choice.order, is_turned=choice.is_turned)

    def settle(self, picture: Picture) -> None:
        """Keep each cursor on its row, wherever that is now; where it is gone, the row that took
        its place is chosen."""
        for pane in PANES.values():
            self._put(pane, self.rows(pane, picture))

    def _put(self, pane: Pane, rows: list[Line]) -> None:
        choice = self.choices[pane.name]
        keys = [pane.key(row) for row in rows]
        if choice.key in keys:
            choice.place = keys.index(choice.key)
        elif keys:
            choice.place = min(choice.place, len(keys) - 1)
            choice.key = keys[choice.place]
        else:
            choice.place, choice.key = 0, None

    def move(self, steps: int, picture: Picture) -> None:
        rows = self.rows(self.pane, picture)
        choice = self.choices[self.focus]
        if rows:
            choice.place = min(max(0, choice.place + steps), len(rows) - 1)
            choice.key = self.pane.key(rows[choice.place])

    def chosen(self, picture: Picture) -> Line | None:
        """The row that the cursor is on."""
        rows = self.rows(self.pane, picture)
        return rows[self.choices[self.focus].place] if rows else None

    def turn_to(self, steps: int) -> None:
        """Another pane."""
        self.focus = _NAMES[(_NAMES.index(self.focus) + steps) % len(_NAMES)]

    def sort(self) -> None:
        """By the next column; the cursor goes to the first row."""
        choice = self.choices[self.focus]
        self.choices[self.focus] = Choice((choice.order + 1) % len(self.pane.orders))

    def turn(self) -> None:
        """The other way round."""
        choice = self.choices[self.focus]
        self.choices[self.focus] = Choice(choice.order, not choice.is_turned)

    def subject(self, picture: Picture | None) -> tuple[Kind, str] | None:
        """The task or the queue that the cursor is on, whose depths are told."""
        match None if picture is None else self.chosen(picture):
            case TaskLine(name=name):
                return "task", name
            case QueueLine(name=name):
                return "queue", name
            case _:
                return None
