"""All scenarios by name, and one run of some of them."""

from __future__ import annotations

import platform
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import windlass
from windlass.cli.bench import busy, quiet
from windlass.cli.bench.run import Run

SCENARIOS: dict[str, Callable[[Run], Awaitable[dict[str, Any]]]] = {
    "enqueue-one": busy.enqueue_one,
    "enqueue-bulk": busy.enqueue_bulk,
    "drain": busy.drain_all,
    "cycle": busy.cycle,
    "backlog": busy.backlog,
    "latency": quiet.latency,
    "held-snapshot": busy.held_snapshot,
    "idle": quiet.idle,
    "startup": quiet.startup,
}


async def play(run: Run, names: Sequence[str]) -> dict[str, Any]:
    """What was found, with names that programs can rely on."""
    return {
        "windlass": windlass.__version__,
        "python": platform.python_version(),
        "database": run.site.database,
        "jobs": run.jobs,
        "batch": run.batch,
        "rounds": run.rounds,
        "processes": run.processes,
        "scenarios": [await SCENARIOS[name](run) for name in names],
    }
