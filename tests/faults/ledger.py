"""An append-only record of what happened, which survives kill -9.

Each event is one `write` to a file opened with O_APPEND, so lines of many processes never mix.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
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
    """I8: between a start and its end, or the death of its process, nothing else starts.

    A death is an event "killed", which names the process as its `victim`.
    """
    running: dict[str, Any] | None = None
    for event in sorted(events, key=lambda event: float(event["at"])):
        if event["event"] == "start":
            assert running is None, f"job {event['job']} started while {running} ran"
            running = event
        elif event["event"] == "end":
            assert running is not None and running["job"] == event["job"], f"{event} did not run"
            running = None
        elif event["event"] == "killed" and running and running["pid"] == event["victim"]:
            running = None


def check_produced(
    found: Iterable[int], acknowledged: Iterable[int], unknown: Iterable[int]
) -> None:
    """I1, I6: what was acknowledged took effect once, what is unknown at most once."""
    effects, wanted = Counter(found), set(acknowledged)
    twice = [n for n, count in effects.items() if count > 1]
    assert not twice, f"took effect more than once: {sorted(twice)[:20]}"
    lost = wanted - effects.keys()
    assert not lost, f"acknowledged and lost: {sorted(lost)[:20]}"
    strange = effects.keys() - wanted - set(unknown)
    assert not strange, f"never asked for: {sorted(strange)[:20]}"
