"""From a key to a new view, or to something that is to be done."""

from __future__ import annotations

from typing import NamedTuple

from windlass.cli.top.picture import FailureLine, Kind, Picture, QueueLine, TaskLine
from windlass.cli.top.view import View
from windlass.model.job import DEFAULT_TENANT

PAGE = 10
"""Rows of a page up or down."""
_FAR = 1_000_000


class Quit(NamedTuple):
    pass


class Look(NamedTuple):
    """At once."""


class Pause(NamedTuple):
    """Pause a task or a queue, or resume it."""

    kind: Kind
    name: str
    is_pausing: bool


class Retry(NamedTuple):
    job: int


Action = Quit | Look | Pause | Retry

HELP = (
    ("Tab, Shift-Tab", "the next table, the one before"),
    ("Up, Down, j, k", "another row; also Page Up, Page Down, Home, End"),
    ("s, S", "sort by the next column; turn the order round"),
    ("p", "pause the chosen task or queue, or resume it, in every worker"),
    ("r", "run the chosen failed job again, with all its attempts"),
    ("Space", "look now"),
    ("?", "these keys"),
    ("q, Ctrl-C", "leave"),
)
_MOVES = {
    "up": -1,
    "k": -1,
    "down": 1,
    "j": 1,
    "pageup": -PAGE,
    "pagedown": PAGE,
    "home": -_FAR,
    "end": _FAR,
}


def press(key: str, view: View, picture: Picture | None, tenant: str | None) -> Action | None:
    """What is to be done, where it is more than to look elsewhere. `tenant` is whose tasks and
    queues are paused, None for the default one's."""
    if key in ("q", "Q"):
        return Quit()
    if view.is_helping:
        view.is_helping = False
        return None
    view.say("")
    if key in ("?", "h"):
        view.is_helping = True
    elif key in ("tab", "right"):
        view.turn_to(1)
    elif key in ("backtab", "left"):
        view.turn_to(-1)
    elif key == " ":
        return Look()
    elif picture is not None:
        return _on_picture(key, view, picture, tenant or DEFAULT_TENANT)
    return None


def _on_picture(key: str, view: View, picture: Picture, tenant: str) -> Action | None:
    action: Action | None = None
    match key:
        case "s":
            view.sort()
            view.settle(picture)
        case "S":
            view.turn()
            view.settle(picture)
        case "p":
            action = _pause(view, picture, tenant)
        case "r":
            action = _retry(view, picture)
        case _ if key in _MOVES:
            view.move(_MOVES[key], picture)
        case _:
            pass
    return action


def _pause(view: View, picture: Picture, tenant: str) -> Action | None:
    match view.chosen(picture):
        case TaskLine(name=name, paused=paused):
            return Pause("task", name, tenant not in paused)
        case QueueLine(name=name, paused=paused):
            return Pause("queue", name, tenant not in paused)
        case _:
            view.say("choose a task or a queue to pause it: Tab goes to their tables")
            return None


def _retry(view: View, picture: Picture) -> Action | None:
    match view.chosen(picture):
        case FailureLine(job=job):
            return Retry(job)
        case _:
            view.say("choose a failed job to retry it: Tab goes to their table")
            return None
