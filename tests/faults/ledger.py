"""An append-only record of what happened, which survives kill -9.

Each event is one `write` to a file opened with O_APPEND, so lines of many processes never mix.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from pathlib import Path
from typing import Any


def record(path: str | Path, event: str, **details: Any) -> None:
    line = json.dumps({"event": event, "at": time.monotonic(), "pid": os.getpid(), **details})
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(handle, line.encode() + b"\n")
    finally:
        os.close(handle)


def read(path: str | Path) -> list[dict[str, Any]]:
    """Whole lines: a reader may see the beginning of one that is being written."""
    file = Path(path)
    if not file.exists():
        return []
    *lines, _ = file.read_text().split("\n")
    return [json.loads(line) for line in lines]


def starts(events: list[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    """Each job's starts, in the order they happened."""
    by_job: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if event["event"] == "start":
            by_job[event["job"]].append(event)
    return by_job


def check_deliveries(events: list[dict[str, Any]]) -> None:
    """I3: one delivery of a job starts at most once."""
    for job, begun in starts(events).items():
        deliveries = [event["delivery"] for event in begun]
        assert len(deliveries) == len(set(deliveries)), f"job {job} started twice: {deliveries}"


def check_one_at_a_time(events: list[dict[str, Any]]) -> None:
    """I8: between a start and its end nothing else starts."""
    running: int | None = None
    for event in sorted(events, key=lambda event: float(event["at"])):
        if event["event"] == "start":
            assert running is None, f"job {event['job']} started while {running} ran"
            running = event["job"]
        elif event["event"] == "end":
            assert running == event["job"]
            running = None
