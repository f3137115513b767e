"""What an examination finds."""

from __future__ import annotations

from enum import StrEnum

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
