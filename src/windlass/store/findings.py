"""What an examination of a database finds, for `windlass doctor`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

MOST_NAMED = 5
"""Chains, jobs and other things named in one finding."""


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


# ── findings that several stores have ──


def stuck_dependents(first: int, count: int) -> Finding:
    """Jobs that are blocked, though every chain they named has ended."""
    waiting = "waits" if count == 1 else f"and {count - 1} more wait"
    return Finding(
        Level.PROBLEM,
        "stuck_dependents",
        f"job {first} {waiting} for chains that have all ended; that must not happen",
        f"windlass jobs cancel {first}, then windlass jobs retry {first}, which looks at its chains"
        " again; and please report it",
    )


def failed_blockers(jobs: int, chains: Sequence[int]) -> Finding:
    """Jobs that wait for chains which failed or were cancelled, because they chose to."""
    named = " ".join(str(chain) for chain in chains[:MOST_NAMED])
    more = " and others" if len(chains) > MOST_NAMED else ""
    waiting = "1 job waits" if jobs == 1 else f"{jobs} jobs wait"
    return Finding(
        Level.WARNING,
        "failed_blockers",
        f"{waiting} for chains that failed or were cancelled: {named.replace(' ', ', ')}{more}",
        f"windlass chains retry {named}, or complete them by hand, or delete them",
    )
