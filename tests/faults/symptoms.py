"""What the log of a process must not have: an error that no part of Windlass caught."""

from __future__ import annotations

import re

_SICK = re.compile(r"Traceback|Exception ignored|never retrieved|never awaited|Fatal Python")
_RECORD = re.compile(r"^(?=(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):)", re.MULTILINE)
_ATTEMPT = re.compile(r"attempt \d+ of \d+ failed|failed for good")


def symptom(log: str) -> str | None:
    """The part of a log that shows it, if there is one. Attempts that failed tell where."""
    for record in _RECORD.split(log):
        if not _ATTEMPT.search(record.partition("\n")[0]) and _SICK.search(record):
            return record[-3000:]
    return None
