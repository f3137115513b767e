"""Numbered `.sql` files: applied once each, in order, never taken back.

The first line of each says whether an older program may go on using the database after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

Migrate = Literal["auto", "check", "never"]
"""What to do about the schema at start."""


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    breaking: bool
    text: str


@cache
def load(package: str) -> tuple[Migration, ...]:
    """The files in the folder `migrations` of a package, in the order of their numbers."""
    folder = files(package) / "migrations"
    entries = sorted(
        (entry for entry in folder.iterdir() if entry.name.endswith(".sql")),
        key=lambda entry: entry.name,
    )
    return tuple(_parse(entry.name, entry.read_text("utf-8")) for entry in entries)


def _parse(name: str, text: str) -> Migration:
    first, _, body = text.partition("\n")
    return Migration(
        version=int(name.split("_")[0]),
        name=name.removesuffix(".sql"),
        breaking=first.strip() == "-- breaking: yes",
        text=body,
    )
