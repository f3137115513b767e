"""A picture and a view as the lines of a terminal, as many as it has and none wider than it is.

What does not fit is left out as a whole (a state, a column, a table, a key of the help line), and
only names and other texts are cut, which is shown by a sign at their end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import wrap
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from windlass.cli.top import formats
from windlass.cli.top.glyphs import STATES, Glyphs
from windlass.cli.top.keys import HELP
from windlass.cli.top.panes import FAILURES, PANES, QUEUES, RUNNING, TASKS, Cell, Column, Pane
from windlass.cli.top.picture import Detail, FailureLine, Picture, RunningLine
from windlass.cli.top.view import View
from windlass.clock import to_datetime
from windlass.model.job import JobState

_GAP = 1
_SMALLEST_CURVE = 10
_MOST_SAID = 3
"""Lines of what went wrong, here or in a job."""
UNANSWERED = "the database has not answered yet"
_ALWAYS = (JobState.READY, JobState.RUNNING, JobState.FAILED)
"""States that are shown also where no job is in them."""


class Size(NamedTuple):
    width: int
    height: int


class Frame:
    """How pictures of one place look on one terminal."""

    def __init__(self, place: str, glyphs: Glyphs) -> None:
        self._place = formats.shown(place)
        self._glyphs = glyphs

    def lines(
        self, picture: Picture | None, view: View, size: Size, trouble: str = ""
    ) -> list[Text]:
        """All lines of the terminal. `trouble` is why there is no newer picture."""
        width, height = max(1, size.width), max(1, size.height)
        top = [self._title(picture, width)]
        if view.is_helping:
            body = self._help(width)
        elif picture is None:
            body = [Text() if trouble else Text("looking …", "dim")]
        else:
            top += self._depths(picture, width)
            top += self._speed(picture, width)
            body = []
        bottom = [*self._message(picture, view, trouble, width), self._keys(view, width)]
        room = max(0, height - len(top) - len(bottom))
        if picture is not None and not view.is_helping:
            body = self._panes(picture, view, Size(width, room))
        body = body[:room] + [Text()] * (room - len(body))
        return [_cut(line, width) for line in [*top, *body, *bottom][-height:]]

    # ── above and below the tables ──

    def _title(self, picture: Picture | None, width: int) -> Text:
        clock = "" if picture is None else f"{to_datetime(picture.depths.now):%H:%M:%S} UTC"
        name = "windlass top "
        room = width - len(name) - len(clock) - 1
        place = _fit(self._place, max(0, room), self._glyphs)
        pad = " " * max(1, width - len(name) - cell_len(place) - len(clock))
        return Text.assemble((name, "bold"), place, pad, (clock, "dim"))

    def _depths(self, picture: Picture, width: int) -> list[Text]:
        pieces = []
        for state, sign in STATES.items():
            found = picture.depths.states.get(state)
            if found is not None and (found.count or state in _ALWAYS):
                style = sign.style if found.count else "dim"
                pieces.append(
                    Text.assemble(
                        (f"{self._glyphs.sign(sign)} ", style),
                        (formats.depth(found), f"bold {style}"),
                        f" {state.value}",
                    )
                )
        return flow(pieces, width, most=2)

    def _speed(self, picture: Picture, width: int) -> list[Text]:
        pieces = []
        speed = picture.speed
        if speed is None:
            pieces.append(Text("this server tells no rates", "dim"))
        else:
            pieces.append(Text.assemble((formats.rate(speed.per_second), "bold"), " jobs/s"))
            failing = formats.rate(speed.failing_per_second)
            style = "bold red" if speed.failing_per_second else "dim"
            pieces.append(Text.assemble((failing, style), " failing/s"))
            for name, value in (("waited", speed.wait), ("took", speed.run)):
                if value is not None:
                    pieces.append(Text(f"{name} {formats.span(value)}"))
        if picture.depths.oldest_ready is not None:
            pieces.append(Text(f"oldest ready {formats.span(picture.depths.oldest_ready)}"))
        (line,) = flow(pieces, width, most=1)
        room = width - line.cell_len - 2
        if room >= _SMALLEST_CURVE:
            curve = self._glyphs.curve(picture.history, room)
            line.append("  ").append(curve, "blue")
        return [line]

    def _message(self, picture: Picture | None, view: View, trouble: str, width: int) -> list[Text]:
        if trouble and trouble != UNANSWERED:
            trouble = f"trying again: {trouble}"
        if trouble or view.message:
            style = "bold red" if trouble or view.is_trouble else "bold"
            return self._said(formats.shown(trouble or view.message), width, style)
        if picture is None or view.is_helping:
            return [Text()]
        detail = picture.detail
        if detail is not None and (detail.kind, detail.name) == view.subject(picture):
            return flow(self._detail(detail), width, most=1)
        match view.chosen(picture):
            case FailureLine(job=job, error=error):
                return self._said(f"job {job}: {formats.first_line(error)}", width)
            case RunningLine(job=job, worker=worker, note=note) if note:
                text = f"job {job} on {formats.shown(worker)}: {formats.shown(note)}"
                return self._said(text, width)
            case _:
                return [Text()]

    def _said(self, text: str, width: int, style: str = "") -> list[Text]:
        """On a few lines."""
        lines = wrap(text, max(1, width))
        lines = [*lines[: _MOST_SAID - 1], " ".join(lines[_MOST_SAID - 1 :])]
        return [Text(_fit(line, width, self._glyphs), style) for line in lines if line]

    def _detail(self, detail: Detail) -> Iterable[Text]:
        yield Text(f"{detail.kind} {_fit(formats.shown(detail.name), 30, self._glyphs)}:")
        for state, sign in STATES.items():
            found = detail.depths.states.get(state)
            if found is not None and found.count:
                yield Text.assemble((formats.depth(found), sign.style), f" {state.value}")
        if detail.depths.oldest_ready is not None:
            yield Text(f"oldest ready {formats.span(detail.depths.oldest_ready)}")

    def _keys(self, view: View, width: int) -> Text:
        keys = [("q", "quit"), ("?", "keys"), ("Tab", "table"), ("s", "sort")]
        if view.focus in (TASKS.name, QUEUES.name):
            keys.insert(2, ("p", "pause/resume"))
        if view.focus == FAILURES.name:
            keys.insert(2, ("r", "retry"))
        keys.append((self._glyphs.arrows, "row"))
        pieces = [Text.assemble((key, "bold"), (f" {name}", "dim")) for key, name in keys]
        return flow(pieces, width, most=1)[0]

    def _help(self, width: int) -> list[Text]:
        wide = max(len(keys) for keys, _ in HELP) + 2
        found = [Text()]
        for keys, text in HELP:
            found.append(Text.assemble((keys.ljust(wide), "bold"), text))
        marks = [("‖", "paused"), *((sign.unicode, state.value) for state, sign in STATES.items())]
        if not self._glyphs.is_ascii:
            found += [
                Text(),
                *flow([Text(f"{mark} {name}") for mark, name in marks], width, most=3),
            ]
        return [*found, Text(), Text("any key goes back", "dim")]

    # ── tables ──

    def _panes(self, picture: Picture, view: View, size: Size) -> list[Text]:
        rows = {name: len(pane.lines(picture)) for name, pane in PANES.items()}
        found: list[Text] = []
        for name, height in share(rows, view.focus, size.height).items():
            found += self._pane(PANES[name], picture, view, Size(size.width, height))
        return found

    def _pane(self, pane: Pane, picture: Picture, view: View, size: Size) -> list[Text]:
        """Its titles, and the rows around the cursor."""
        rows = view.rows(pane, picture)
        choice = view.choices[pane.name]
        is_focused = pane.name == view.focus
        room = size.height - 1
        first = min(max(0, choice.place - room // 2), max(0, len(rows) - room))
        cells = [pane.cells(row, self._glyphs) for row in rows]
        titles = self._titles(pane, view, len(rows), is_cut=pane is RUNNING and picture.is_cut)
        widths = fit(pane.columns, [titles, *cells], size.width - 1)
        style = "reverse" if is_focused else "dim underline"
        head = _row(titles, pane.columns, widths, self._glyphs)
        head.append(" " * max(0, size.width - 1 - head.cell_len))
        found = [Text(" ").append_text(head)]
        found[0].stylize(style)
        if not rows:
            found.append(Text(f"  {pane.empty}", "dim"))
        for number in range(first, min(len(rows), first + room)):
            is_chosen = is_focused and number == choice.place
            line = Text(self._glyphs.cursor if is_chosen else " ")
            line.append_text(_row(cells[number], pane.columns, widths, self._glyphs))
            if is_chosen:
                line.stylize("bold")
            found.append(line)
        return found[: size.height]

    def _titles(self, pane: Pane, view: View, count: int, *, is_cut: bool) -> list[Cell]:
        """With how many rows there are, and in the focused table which column they are sorted by,
        and which way."""
        choice = view.choices[pane.name]
        order = pane.orders[choice.order]
        is_down = order.is_down != choice.is_turned
        arrow = self._glyphs.down if is_down else self._glyphs.up
        counted = next(column for column in pane.columns if column.grows)
        titles = []
        for column in pane.columns:
            title = column.title
            if column is counted and count:
                title += f" {count}{'+' if is_cut else ''}"
            if column.title == order.title and pane.name == view.focus:
                title = f"{arrow}{title}" if column.is_right else f"{title}{arrow}"
            titles.append(Cell(title))
        return titles


def share(rows: dict[str, int], focus: str, height: int) -> dict[str, int]:
    """How many lines each table gets, its titles included. The focused one is always there, the
    others as far as there is room for a row of each; those that are empty come last."""
    wanted = {name: 1 + max(1, count) for name, count in rows.items()}
    ranked = sorted(rows, key=lambda name: (name != focus, rows[name] == 0))
    there = ranked[: max(1, height // 2)]
    given = {name: min(2, height) for name in rows if name in there}
    left = height - sum(given.values())
    while left > 0:
        hungry = [name for name in given if given[name] < wanted[name]]
        if not hungry:
            break
        for name in (*hungry, *(name for name in hungry if name == focus)):
            if left > 0 and given[name] < wanted[name]:
                given[name] += 1
                left -= 1
    return given


def fit(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], width: int) -> list[int]:
    """The width of each column, 0 for those that are left out."""
    natural = [
        max(column.width, *(cell_len(row[n].text) for row in rows))
        for n, column in enumerate(columns)
    ]
    widths = [column.width if column.grows else natural[n] for n, column in enumerate(columns)]
    while sum(widths) + _GAP * (sum(map(bool, widths)) - 1) > width:
        optional = [n for n, column in enumerate(columns) if column.rank and widths[n]]
        if not optional:
            break
        widths[max(optional, key=lambda n: columns[n].rank)] = 0
    left = width - sum(widths) - _GAP * (sum(map(bool, widths)) - 1)
    while left > 0:
        hungry = [
            n for n, column in enumerate(columns) if column.grows and 0 < widths[n] < natural[n]
        ]
        if not hungry:
            break
        for n in hungry[:left]:
            widths[n] += 1
            left -= 1
    return widths


def _row(
    cells: Sequence[Cell], columns: Sequence[Column], widths: Sequence[int], glyphs: Glyphs
) -> Text:
    line = Text()
    is_first = True
    for cell, column, width in zip(cells, columns, widths, strict=True):
        if not width:
            continue
        if not is_first:
            line.append(" " * _GAP)
        is_first = False
        text = _fit(cell.text, width, glyphs)
        pad = " " * (width - cell_len(text))
        line.append(f"{pad}{text}" if column.is_right else f"{text}{pad}", cell.style)
    return line


def flow(pieces: Iterable[Text], width: int, most: int) -> list[Text]:
    """The first pieces that fit on so many lines, none of them cut unless it is alone too wide."""
    found = [Text()]
    for piece in pieces:
        gap = 2 if found[-1].plain else 0
        if found[-1].plain and found[-1].cell_len + gap + piece.cell_len > width:
            if len(found) == most:
                break
            found.append(Text())
            gap = 0
        found[-1].append(" " * gap).append_text(piece)
    return found


def _fit(text: str, width: int, glyphs: Glyphs) -> str:
    """Cut to so many cells, with a sign that it is."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + glyphs.more if width > 0 else ""


def _cut(line: Text, width: int) -> Text:
    line.truncate(width, overflow="crop")
    return line
