"""The SQL of this store, one statement a file, loaded once.

Statements about tenants come in variants, each of which walks an index of its own:

* A claim has one branch per task and owner. `{owned}` says which jobs are the owner's: those of the
  default tenant, of all others, or of one of the others.
* `{seen}` says which jobs a caller sees, and `{named}` lists names with their tenants. They make
  two statements of one: for the default tenant, or all, and with `_of_others` added to its name
  for others than the default one. So names of the default tenant need no pairs, and its callers
  no index beside the one by id.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

from windlass.stores.sqlite.columns import PLACES, fill

_BRANCH = "/*branch*/"
_END = "/*end*/"

_UNLESS_PAUSED = """(
    SELECT :task0 WHERE NOT EXISTS (
      SELECT 1 FROM windlass_paused WHERE tenant = {tenant} AND kind = 'task' AND name = :task0
    )
  )"""
_OF_DEFAULT = f"tenant = '' AND task = {_UNLESS_PAUSED}".replace("{tenant}", "''")
_OF_OTHERS = "tenant <> '' AND task = :task0"
_OF_ONE = f"tenant <> '' AND tenant = :tenant0 AND task = {_UNLESS_PAUSED}".replace(
    "{tenant}", ":tenant0"
)

OF_OTHERS = "_of_others"
_FOR_DEFAULT = {
    "{seen}": "(:tenant IS NULL OR tenant = :tenant)",
    "{named}": "(SELECT '' AS tenant, value AS name FROM json_each(:names))",
}
_FOR_OTHERS = {
    "{seen}": "tenant <> '' AND tenant = :tenant",
    "{named}": "(SELECT value ->> 0 AS tenant, value ->> 1 AS name FROM json_each(:names))",
}


class Branches(NamedTuple):
    """How many branches a claim has of each kind; their tasks are numbered in this order."""

    of_default: int = 0
    of_others: int = 0
    of_one: int = 0


def _load() -> dict[str, str]:
    folder = files(__package__) / "sql"
    return {
        entry.name.removesuffix(".sql"): _without_comments(entry.read_text("utf-8"))
        for entry in folder.iterdir()
        if entry.name.endswith(".sql")
    }


def _without_comments(text: str) -> str:
    """The statement alone: `sqlite3` tells what kind it is by its first word."""
    lines = [line for line in text.splitlines() if not line.startswith("--")]
    return "\n".join(lines).strip()


def _fill(text: str, owned: str = _OF_DEFAULT, more: Mapping[str, str] = _FOR_DEFAULT) -> str:
    return fill(text, {**PLACES, "{owned}": owned, **more})


_TEXTS = _load()

SQL = {name: _fill(text) for name, text in _TEXTS.items()} | {
    name + OF_OTHERS: _fill(text, more=_FOR_OTHERS)
    for name, text in _TEXTS.items()
    if any(place in text for place in _FOR_OTHERS)
}


@lru_cache(maxsize=256)
def for_branches(name: str, branches: Branches) -> str:
    """The statement with its branch repeated, for `:task0`, `:task1`, …, and `:tenant…` of one."""
    head, rest = _TEXTS[name].split(_BRANCH)
    branch, tail = rest.split(_END)
    owners = (_OF_DEFAULT,) * branches.of_default
    owners += (_OF_OTHERS,) * branches.of_others
    owners += (_OF_ONE,) * branches.of_one
    texts = (
        _fill(branch, owned).replace(":task0", f":task{n}").replace(":tenant0", f":tenant{n}")
        for n, owned in enumerate(owners)
    )
    return _fill(head) + "  UNION ALL".join(texts) + _fill(tail)
