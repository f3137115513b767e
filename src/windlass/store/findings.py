"""What an examination of a database finds, for `windlass doctor`."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

import msgspec


class Level(StrEnum):
    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(msgspec.Struct, frozen=True):
    """One fact: a stable `code` for programs, a sentence, and what to do about it."""

    level: Level
    code: str
    message: str
    advice: str = ""


class Examinable(Protocol):
    """A store that can say how its database is doing; its capability `examination` says that it is
    one."""

    async def examine(self) -> list[Finding]:
        """Look without changing anything; works on an open store, also where no schema is.

        Raises SchemaTooNewError where only a newer program may use the schema.
        """
