"""The tables of a picture: which columns each has, and in which orders its rows can be.

A row is known by its name or its job, so that the cursor stays on it when the order changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from windlass.cli.top import formats
from windlass.cli.top.glyphs import ALIVE, DEAD, PAUSED, Glyphs
from windlass.cli.top.picture import (
    FailureLine,
    Picture,
    QueueLine,
    RunningLine,
    TaskLine,
    WorkerLine,
)

Line = TaskLine | QueueLine | RunningLine | FailureLine | WorkerLine
_BAR = 8


class Cell(NamedTuple):
    text: str
    style: str = ""


class Column(NamedTuple):
    """A column of at least `width` cells. One that `grows` takes what its texts need, as far as
    there is room; where there is too little, those with the highest `rank` are left out first, and
    those with rank 0 never."""

    title: str
    width: int
    rank: int = 0
    grows: bool = False
    is_right: bool = False


class Order(NamedTuple):
    """An order of rows; `is_down` says that it begins with the greatest."""

    title: str
    key: Callable[[Any], Any]
    is_down: bool = True


class Pane(NamedTuple):
    name: str
    columns: Sequence[Column]
    orders: Sequence[Order]
    """The first is what it begins with."""
    lines: Callable[[Picture], Sequence[Line]]
    key: Callable[[Any], str | int]
    cells: Callable[[Any, Glyphs], Sequence[Cell]]
    empty: str

    def sorted(self, picture: Picture, order: int, *, is_turned: bool) -> list[Line]:
        """Rows that are alike are in the order of their names, so that they stand still."""
        chosen = self.orders[order]
        found = sorted(self.lines(picture), key=self.key)
        return sorted(found, key=chosen.key, reverse=chosen.is_down != is_turned)


def _pause(paused: Sequence[str], glyphs: Glyphs) -> Cell:
    return Cell(glyphs.sign(PAUSED), PAUSED.style) if paused else Cell("")


def _task(line: TaskLine, glyphs: Glyphs) -> list[Cell]:
    speed = line.speed
    return [
        _pause(line.paused, glyphs),
        Cell(formats.shown(line.name)),
        Cell(formats.rate(speed.per_second) if speed.per_second else ""),
        Cell(formats.percent(speed.failing), "red"),
        Cell(str(line.running) if line.running else "", "blue"),
        Cell(formats.span(speed.wait)),
        Cell(formats.span(speed.run)),
    ]


TASKS = Pane(
    name="tasks",
    columns=(
        Column("", 1),
        Column("TASK", 12, grows=True),
        Column("PER S", 6, is_right=True),
        Column("FAIL", 4, is_right=True),
        Column("RUN", 4, 2, is_right=True),
        Column("WAITED", 6, 4, is_right=True),
        Column("TOOK", 6, 3, is_right=True),
    ),
    orders=(
        Order("PER S", lambda line: line.speed.per_second),
        Order("FAIL", lambda line: line.speed.failing_per_second),
        Order("RUN", lambda line: line.running),
        Order("WAITED", lambda line: line.speed.wait or 0.0),
        Order("TOOK", lambda line: line.speed.run or 0.0),
        Order("TASK", lambda line: line.name, is_down=False),
    ),
    lines=lambda picture: picture.tasks,
    key=lambda line: line.name,
    cells=_task,
    empty="no task is known yet: windlass add TASK, windlass run MODULE:APP",
)


def _queue(line: QueueLine, glyphs: Glyphs) -> list[Cell]:
    return [
        _pause(line.paused, glyphs),
        Cell(formats.shown(line.name)),
        Cell("" if line.job is None else str(line.job)),
        Cell(formats.shown(line.task)),
        Cell(formats.span(line.seconds)),
    ]


QUEUES = Pane(
    name="queues",
    columns=(
        Column("", 1),
        Column("QUEUE", 12, grows=True),
        Column("RUNS JOB", 8, is_right=True),
        Column("TASK", 8, 1, grows=True),
        Column("SINCE", 6, is_right=True),
    ),
    orders=(
        Order("SINCE", lambda line: line.seconds or 0.0),
        Order("QUEUE", lambda line: line.name, is_down=False),
    ),
    lines=lambda picture: picture.queues,
    key=lambda line: line.name,
    cells=_queue,
    empty="no queue has jobs",
)


def _running(line: RunningLine, glyphs: Glyphs) -> list[Cell]:
    bar = ""
    if line.progress is not None:
        part = min(1.0, max(0.0, line.progress)) if line.progress == line.progress else 0.0
        bar = f"{glyphs.bar(part, _BAR)} {int(part * 100):3}%"
    return [
        Cell(str(line.job)),
        Cell(formats.shown(line.task)),
        Cell(bar, "blue"),
        Cell(formats.span(line.seconds)),
        Cell(f"{line.attempt}/{line.max_attempts}"),
        Cell(formats.shown(line.worker)),
        Cell(formats.shown(line.note)),
    ]


RUNNING = Pane(
    name="running",
    columns=(
        Column("JOB", 5, is_right=True),
        Column("RUNNING TASK", 12, grows=True),
        Column("PROGRESS", _BAR + 5),
        Column("SINCE", 6, is_right=True),
        Column("TRY", 5, 2, is_right=True),
        Column("WORKER", 10, 3, grows=True),
        Column("NOTE", 8, 1, grows=True),
    ),
    orders=(
        Order("SINCE", lambda line: line.seconds),
        Order("PROGRESS", lambda line: -1.0 if line.progress is None else line.progress),
        Order("TRY", lambda line: line.attempt),
        Order("RUNNING TASK", lambda line: line.task, is_down=False),
        Order("WORKER", lambda line: line.worker or "", is_down=False),
        Order("JOB", lambda line: line.job, is_down=False),
    ),
    lines=lambda picture: picture.running,
    key=lambda line: line.job,
    cells=_running,
    empty="no job runs",
)


def _failure(line: FailureLine, glyphs: Glyphs) -> list[Cell]:
    return [
        Cell(str(line.job)),
        Cell(formats.shown(line.task)),
        Cell(formats.depth(line.count), "red"),
        Cell(formats.span(line.seconds)),
        Cell(formats.first_line(line.error)),
    ]


FAILURES = Pane(
    name="failures",
    columns=(
        Column("JOB", 5, is_right=True),
        Column("FAILED TASK", 12, grows=True),
        Column("JOBS", 5, is_right=True),
        Column("AGO", 6, is_right=True),
        Column("ERROR", 12, grows=True),
    ),
    orders=(
        Order("AGO", lambda line: line.seconds, is_down=False),
        Order("JOBS", lambda line: line.count.count),
        Order("FAILED TASK", lambda line: line.task, is_down=False),
    ),
    lines=lambda picture: picture.failures,
    key=lambda line: line.job,
    cells=_failure,
    empty="no job has failed",
)


def _worker(line: WorkerLine, glyphs: Glyphs) -> list[Cell]:
    sign = ALIVE if line.is_alive else DEAD
    ends = formats.span(abs(line.lease))
    return [
        Cell(glyphs.sign(sign), sign.style),
        Cell(formats.shown(line.name)),
        Cell(str(line.running)),
        Cell(f"{ends} left" if line.is_alive else f"over {ends}", "" if line.is_alive else "red"),
    ]


WORKERS = Pane(
    name="workers",
    columns=(
        Column("", 1),
        Column("WORKER", 12, grows=True),
        Column("HAS JOBS", 8, is_right=True),
        Column("LEASE", 11, is_right=True),
    ),
    orders=(
        Order("HAS JOBS", lambda line: line.running),
        Order("LEASE", lambda line: line.lease, is_down=False),
        Order("WORKER", lambda line: line.name, is_down=False),
    ),
    lines=lambda picture: picture.workers,
    key=lambda line: line.name,
    cells=_worker,
    empty="no worker is here: windlass run MODULE:APP",
)

PANES = {pane.name: pane for pane in (TASKS, QUEUES, RUNNING, FAILURES, WORKERS)}
