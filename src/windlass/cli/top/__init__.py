"""`windlass top`: how work goes, in the terminal, and keys to pause and retry.

picture   what is asked of the database, in a bounded number of calls, and what was answered
panes     tables of the picture: their columns and the orders of their rows
view      what the person at the terminal chose: the pane, the row, the order
keys      from a key to a new view, or to something that is to be done
frame     a picture and a view as the lines of a terminal; nothing is cut in the middle of a number
glyphs    signs and colours of states, bars and curves
screen    the terminal: its keys, its size, one write for each frame
session   looks, keys and changes, until it is over
lines     the same picture for scripts, without a terminal
formats   numbers, lengths of time, texts of unknown origin

Looking changes nothing in the database. A pause and a retry open it anew.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import click

from windlass.app import App
from windlass.cli.base import Command
from windlass.cli.place import Place, jobs_database, json_option
from windlass.cli.top.lines import print_page, tell
from windlass.cli.values import seconds_option
from windlass.errors import MissingExtraError

_SHORTEST = 0.2
"""Seconds; to look more often would be a load."""


@click.command(
    cls=Command,
    examples=(
        "windlass top                                 # sqlite:///windlass.db, until q",
        "windlass top -c postgresql:///shop --every 5s",
        "windlass top --once                          # one picture, as text",
        "windlass top --lines --every 1m >> work.log  # one line a minute",
        "windlass top --once --json | jq .depths.states",
    ),
)
@click.option(
    "--every",
    metavar="TIME",
    default="2s",
    show_default=True,
    callback=seconds_option,
    help="How often to look: seconds, or 5s, 1m.",
)
@click.option("--once", is_flag=True, help="Print one picture as text, and end.")
@click.option(
    "--lines", is_flag=True, help="Print a line for each look, as it does without a terminal."
)
@json_option
@jobs_database
def top(place: Place, every: float, once: bool, lines: bool, as_json: bool) -> None:
    """Watch how work goes: depths, rates, running jobs, failures and workers; pause tasks and
    queues, and retry failed jobs, by a key.

    On a terminal it needs windlass[top] and is left by q; ? shows all keys. Without a terminal it
    prints a line for each look. Looking changes nothing in the database.
    """
    if once:
        place.use(lambda app: print_page(app, as_json=as_json), looks=True)
        return
    every = max(every, _SHORTEST)
    if lines or as_json or not is_terminal():
        place.use(lambda app: tell(app, every, as_json=as_json), looks=True)
        return
    show = _imported()
    place.use(lambda app: show(app, place, every), looks=True)


def is_terminal() -> bool:
    """Whether there is a screen to draw on, and a keyboard."""
    can_draw = sys.platform != "win32" and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
    return can_draw and sys.stdin.isatty() and sys.stdout.isatty()


def _imported() -> Callable[[App, Place, float], Coroutine[Any, Any, None]]:
    """MissingExtraError where the library is missing that only the screen needs."""
    try:
        from windlass.cli.top.session import show
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] != "rich":
            raise
        raise MissingExtraError(
            "windlass top on a terminal (not --lines or --once)", "top"
        ) from error
    return show
