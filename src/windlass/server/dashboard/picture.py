"""A chain as a picture: its jobs from left to right, and the chains that they waited for below.

A chain is a row of boxes, one for each stored job. A box stands to the right of what must be over
before it: the job before it, and the last boxes of the chains that it names. This module works out
where boxes and lines are; a template writes them as SVG.
"""

from __future__ import annotations

import msgspec

from windlass.client.chain_trees import ChainNode, JobNode, Tree, is_deleted
from windlass.server.dashboard.formats import cut

WIDTH, HEIGHT = 172, 52
_GAP_X, _GAP_Y, _EDGE = 36, 22, 8
_MOST_BOXES = 80
_LONGEST = 21


class Box(msgspec.Struct):
    """A job, or a chain whose jobs are not shown."""

    column: int
    row: int
    title: str
    detail: str
    state: str
    address: str | None
    is_here: bool = False
    """The page is about it."""

    @property
    def x(self) -> int:
        return _EDGE + self.column * (WIDTH + _GAP_X)

    @property
    def y(self) -> int:
        return _EDGE + self.row * (HEIGHT + _GAP_Y)

    @property
    def words(self) -> str:
        """For those who hear the picture."""
        return f"{self.title}, {self.state}, {self.detail}"


class Line(msgspec.Struct, frozen=True):
    """From the right side of a box to the left of another; `is_wait` where the second waited for
    the chain of the first."""

    begin: Box
    end: Box
    is_wait: bool

    @property
    def path(self) -> str:
        x1, y1 = self.begin.x + WIDTH, self.begin.y + HEIGHT // 2
        x2, y2 = self.end.x, self.end.y + HEIGHT // 2
        bend = max(_GAP_X // 2, (x2 - x1) // 2)
        return f"M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"


class Picture(msgspec.Struct):
    """Boxes, and lines between them; `left_off` are boxes that there was no room for."""

    boxes: list[Box] = []
    lines: list[Line] = []
    left_off: int = 0

    @property
    def width(self) -> int:
        return max((box.x for box in self.boxes), default=0) + WIDTH + _EDGE

    @property
    def height(self) -> int:
        return max((box.y for box in self.boxes), default=0) + HEIGHT + _EDGE


def draw(tree: Tree, at: int | None = None) -> Picture:
    """The picture of a chain; the job `at` is the one that the page is about."""
    drawing = _Drawing(at)
    drawing.chain(tree)
    return drawing.picture


def draw_job(node: JobNode) -> Picture:
    """The picture of a job that is in no chain, with the chains that it waited for."""
    drawing = _Drawing(node.job.id)
    drawing.job(node)
    return drawing.picture


class _Drawing:
    def __init__(self, at: int | None) -> None:
        self.picture = Picture()
        self._at = at
        self._rows = 0

    def chain(self, node: ChainNode) -> Box | None:
        """Draw a chain and what it waited for; its last box."""
        row = self._rows
        self._rows += 1
        last: Box | None = None
        if not node.jobs:
            return self._add(_whole(node, row))
        gone = node.chain.length - len(node.jobs)
        if gone > 0:
            words = "1 job before" if gone == 1 else f"{gone} jobs before"
            last = self._add(Box(0, row, words, "not stored any more", "completed", None))
        for job in node.jobs:
            last = self.job(job, row, last) or last
        return last

    def job(self, node: JobNode, row: int = 0, before: Box | None = None) -> Box | None:
        """Draw a job, and the chains that it named in the rows below; its box."""
        self._rows = max(self._rows, row + 1)
        waited = [box for box in map(self.chain, node.blockers) if box is not None]
        self.picture.left_off += sum(node.left_off.values())
        ahead = [*waited, *([before] if before else [])]
        column = max((box.column + 1 for box in ahead), default=0)
        job = node.job
        box = self._add(
            Box(
                column,
                row,
                cut(job.task, _LONGEST),
                f"job {job.id}",
                job.state,
                f"/jobs/{job.id}",
                is_here=job.id == self._at,
            )
        )
        if box is not None:
            self.picture.lines += [Line(begin, box, True) for begin in waited]
            self.picture.lines += [Line(before, box, False)] if before else []
        return box

    def _add(self, box: Box) -> Box | None:
        if len(self.picture.boxes) >= _MOST_BOXES:
            self.picture.left_off += 1
            return None
        self.picture.boxes.append(box)
        return box


def _whole(node: ChainNode, row: int) -> Box:
    """A chain as one box: its jobs are gone, or are drawn elsewhere."""
    chain = node.chain
    if is_deleted(chain):
        return Box(0, row, "deleted chain", f"chain {chain.id}", "cancelled", None)
    return Box(
        0,
        row,
        cut(chain.task, _LONGEST),
        f"chain {chain.id}",
        chain.state,
        f"/chains/{chain.id}",
    )
