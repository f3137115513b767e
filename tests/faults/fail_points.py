"""A place where a worker over SQLite dies: at the COMMIT of a firing, just before or just after.

The test arms it by writing "before" or "after" to a file. The one worker that then takes the file
away dies by SIGKILL, so that each arming kills once.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from tests.faults.ledger import record
from windlass.stores.sqlite.connection import Parameters, Session

FIRE = "fire_schedule"


def arm(file: Path, when: str) -> None:
    draft = file.with_suffix(".draft")
    draft.write_text(when)
    draft.replace(file)


def install(file: Path, ledger: str) -> None:
    """Put the fail point into this process's SQLite store, which writes in one thread only."""
    run, control = Session.run, Session.control
    open_firings: list[Any] = []

    def watched_run(db: Session, name: str, parameters: Parameters | None = None) -> int:
        changed = run(db, name, parameters)
        if name == FIRE and changed and parameters is not None:
            open_firings.append(parameters["until"])
        return changed

    def watched_control(db: Session, sql: str) -> None:
        firings = [*open_firings] if sql == "COMMIT" else []
        if sql in ("COMMIT", "ROLLBACK"):
            open_firings.clear()
        when = _take(file) if firings else ""
        if when == "before":
            _die(ledger, when, firings)
        control(db, sql)
        if when == "after":
            _die(ledger, when, firings)

    Session.run = watched_run  # type: ignore[method-assign,assignment]
    Session.control = watched_control  # type: ignore[method-assign,assignment]


def _take(file: Path) -> str:
    """What is armed, for one caller among all processes; mostly nothing."""
    own = file.with_suffix(f".{os.getpid()}")
    try:
        file.rename(own)
    except FileNotFoundError:
        return ""
    return own.read_text()


def _die(ledger: str, when: str, firings: list[int]) -> None:
    record(ledger, "dies", when=when, until=max(firings))
    os.kill(os.getpid(), signal.SIGKILL)
