"""The picture for scripts: a line for each look, or all of one picture as text, or as JSON."""

from __future__ import annotations

import asyncio
import sys

import click
import msgspec

from windlass.app import App
from windlass.cli.base import one_line
from windlass.cli.output import plural, print_json, print_table, say
from windlass.cli.top import formats
from windlass.cli.top.glyphs import STATES, Glyphs
from windlass.cli.top.panes import PANES
from windlass.cli.top.picture import Picture, look
from windlass.clock import to_datetime
from windlass.engine.signals import Signals
from windlass.errors import WindlassError
from windlass.model.job import JobState

_ALWAYS = (JobState.READY, JobState.RUNNING, JobState.FAILED)


async def print_page(app: App, *, as_json: bool) -> None:
    """One picture."""
    picture = await look(app)
    if as_json:
        print_json(picture)
        return
    click.echo(line(picture))
    glyphs = Glyphs(is_ascii=True)
    for pane in PANES.values():
        rows = pane.sorted(picture, 0, is_turned=False)
        if rows:
            click.echo()
            cells = [[cell.text for cell in pane.cells(row, glyphs)] for row in rows]
            print_table([column.title for column in pane.columns], cells)


async def tell(app: App, every: float, *, as_json: bool) -> None:
    """A line for each look, until a signal. A look that fails is told on standard error, and
    followed by the next; the first must succeed."""
    over = asyncio.Event()
    signals = Signals(lambda name: over.set(), over.set)
    picture = await look(app)
    signals.install()
    try:
        trouble = ""
        while True:
            if not trouble:
                click.echo(msgspec.json.encode(picture) if as_json else line(picture))
                sys.stdout.flush()
            try:
                await asyncio.wait_for(over.wait(), every)
                return
            except TimeoutError:
                pass
            try:
                picture, trouble = await look(app), ""
            except (WindlassError, OSError) as error:
                if one_line(error) != trouble:
                    trouble = one_line(error)
                    say(f"windlass: {trouble}; trying again")
    finally:
        signals.remove()


def line(picture: Picture) -> str:
    """The time, depths, rates and workers, on one line."""
    depths, speed = picture.depths, picture.speed
    parts = [f"{to_datetime(depths.now):%Y-%m-%dT%H:%M:%SZ}"]
    for state in STATES:
        found = depths.states.get(state)
        if found is not None and (found.count or state in _ALWAYS):
            parts.append(f"{formats.depth(found)} {state.value}")
    if depths.oldest_ready is not None:
        parts.append(f"oldest ready {formats.span(depths.oldest_ready)}")
    if speed is not None:
        parts.append(f"{formats.rate(speed.per_second)} jobs/s")
        parts.append(f"{formats.rate(speed.failing_per_second)} failing/s")
        for name, value in (("waited", speed.wait), ("took", speed.run)):
            if value is not None:
                parts.append(f"{name} {formats.span(value)}")
    alive = sum(worker.is_alive for worker in picture.workers)
    dead = len(picture.workers) - alive
    parts.append(plural(alive, "worker") + (f" and {dead} dead" if dead else ""))
    return "  ".join(parts)
