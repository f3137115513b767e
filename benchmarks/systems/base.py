"""What the runner knows of a system, and what a system does for the runner.

A system is described by a `System` and driven in processes of its own, so that its imports, its
event loop and its memory are its own as well. The Python ones implement `Side`, which
`benchmarks.child` runs; the Node.js one speaks the same lines of JSON (see `benchmarks.child`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, Protocol

Seen = Callable[[int], None]
"""Told the number of a job at the first line of its handler; only where latency is measured."""


class Side(Protocol):
    """One process's view of a system. A process either installs, or adds, or works.

    Peers are imported inside these methods, so that a description can be read where the peer is
    not installed.
    """

    def __init__(self, url: str, options: dict[str, Any]) -> None: ...

    async def install(self) -> None:
        """Make the schema in an empty database."""

    async def open(self, callers: int) -> None:
        """Be ready to add jobs, for so many callers at once."""

    async def add_bulk(self, first: int, count: int, size: int) -> None:
        """Add `count` jobs {"id": first}, {"id": first + 1}, … in calls of `size` jobs."""

    async def add_one(self, number: int) -> None:
        """Add the job {"id": number}; it is durable when this returns."""

    async def close(self) -> None:
        """The end of adding."""

    async def work(self, seen: Seen | None, ready: Callable[[], None]) -> None:
        """Run jobs until `stop`. `ready` is called when the worker works, or is about to."""

    async def stop(self) -> None:
        """Let `work` return."""


@dataclass(frozen=True)
class System:
    name: str
    settings: str
    """What differs from the defaults, for the report."""
    remaining: str
    """SQL for the number of jobs that are not completed yet."""
    command: Callable[[], list[str]]
    """How to start a process of this system; the role, URL and options follow."""
    versions: Callable[[], str]
    """Raises when the system is not installed."""
    rate: int
    """Jobs a second of a drain, roughly: so many seconds of a run are so many jobs."""
    bulk: tuple[int, ...]
    """Jobs per call of bulk enqueue. Of several, each gets a share; the last is the fast one."""
    bulk_rate: int = 40_000
    """Jobs a second of bulk enqueue, roughly; to tell how long a run will take."""
    options: dict[str, Any] = field(default_factory=dict)
    schema: str = ""
    """Where graphile-worker's SQL functions are, or ours of the same names."""


def python_command(module: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-m", "benchmarks.child", module]


def python_versions(*packages: str) -> Callable[[], str]:
    return lambda: ", ".join(f"{name} {metadata.version(name)}" for name in packages)
