"""Reads the documentation: README.md and every page below docs/, as blocks that can be run.

The conventions are told in `test_examples`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
RUNNABLE = ("python", "console")

_FENCE = re.compile(r"^(`{3,})(\w*)\s*$")
_MARK = re.compile(r"^<!-- test: (.*?)\s*(-->)?$")
_FILE_NAME = re.compile(r"^# ([\w./-]+\.\w+)$")


@dataclass(frozen=True)
class Block:
    """A fenced block, with the invisible mark before it ("" if there is none)."""

    page: Path
    line: int
    language: str
    text: str
    mark: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def file_name(self) -> str | None:
        """The file this block is: from `file NAME`, or from a first line like `# hello.py`."""
        if self.mark.startswith("file "):
            return self.mark.removeprefix("file ")
        first = _FILE_NAME.match(self.text.split("\n", 1)[0])
        return first[1] if first else None

    @cached_property
    def is_skipped(self) -> bool:
        return self.mark.startswith("skip")


@dataclass(frozen=True)
class Setup:
    """Python that runs before each of the unnamed Python blocks that follow."""

    text: str


def pages() -> list[Path]:
    return [README, *sorted(DOCS.rglob("*.md"))]


def parts(page: Path) -> Iterator[Block | Setup]:
    """The blocks and setups of a page, from top to bottom."""
    lines = page.read_text(encoding="utf-8").splitlines()
    mark = ""
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if fence := _FENCE.match(line):
            end = lines.index(fence[1], number)
            yield Block(page, number, fence[2], "\n".join(lines[number:end]), mark)
            number, mark = end + 1, ""
        elif found := _MARK.match(line):
            if found[1] == "setup" and not found[2]:
                end = lines.index("-->", number)
                yield Setup("\n".join(lines[number:end]))
                number = end + 1
            elif found[2]:
                mark = found[1]
            else:
                raise ValueError(f"{page.name}:{number}: a mark must end on its line")
        elif line.strip() and mark:
            raise ValueError(f"{page.name}:{number}: a mark must stand right before a block")


def blocks(page: Path) -> list[Block]:
    return [part for part in parts(page) if isinstance(part, Block)]


def all_text() -> str:
    return "\n".join(page.read_text(encoding="utf-8") for page in pages())


def table_rows(page: Path, heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, without its head."""
    text = "\n" + without_blocks(page.read_text(encoding="utf-8"))
    below = text.split(f"\n{heading}\n", 1)[1]
    rows: list[list[str]] = []
    for line in below.splitlines():
        if line.startswith("|"):
            rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
        elif rows:
            break
        elif line.startswith("#"):
            raise ValueError(f"{page.name}: there is no table below {heading!r}")
    return rows[2:]


def without_blocks(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
