"""The SQL of this store, one statement a file, loaded once."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from windlass.stores.sqlite.columns import fill

_BRANCH = "/*branch*/"
_END = "/*end*/"


def _load() -> dict[str, str]:
    folder = files(__package__) / "sql"
    return {
        entry.name.removesuffix(".sql"): fill(_without_comments(entry.read_text("utf-8")))
        for entry in folder.iterdir()
        if entry.name.endswith(".sql")
    }


def _without_comments(text: str) -> str:
    """The statement alone: `sqlite3` tells what kind it is by its first word."""
    lines = [line for line in text.splitlines() if not line.startswith("--")]
    return "\n".join(lines).strip()


SQL = _load()


@cache
def for_tasks(name: str, tasks: int) -> str:
    """The statement with its branch repeated for `:task0`, `:task1`, …"""
    head, rest = SQL[name].split(_BRANCH)
    branch, tail = rest.split(_END)
    branches = (branch.replace(":task0", f":task{number}") for number in range(tasks))
    return head + "  UNION ALL".join(branches) + tail
