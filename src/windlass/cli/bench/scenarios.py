"""All scenarios by name, and one run of some of them."""

from __future__ import annotations

import platform
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import windlass
from windlass.cli.bench import busy, chains, heaps, looks, quiet, remote, stream
from windlass.cli.bench.run import Run

Entry = dict[str, Any]

SCENARIOS: dict[str, Callable[[Run], Awaitable[Entry | list[Entry]]]] = {
    "enqueue-one": busy.enqueue_one,
    "enqueue-bulk": busy.enqueue_bulk,
    "drain": busy.drain_all,
    "cycle": busy.cycle,
    "serial": heaps.serial,
    "tenants": heaps.tenants,
    "metrics": heaps.metrics,
    "looks": looks.looks,
    "chains": chains.chains,
    "stream": stream.stream,
    "remote": remote.remote,
    "backlog": heaps.backlog,
    "latency": quiet.latency,
    "held-snapshot": busy.held_snapshot,
    "idle": quiet.idle,
    "startup": quiet.startup,
}


async def play(run: Run, names: Sequence[str]) -> dict[str, Any]:
    """What was found, with names that programs can rely on."""
    found: list[Entry] = []
    for name in names:
        entries = await SCENARIOS[name](run)
        found += entries if isinstance(entries, list) else [entries]
    return {
        "windlass": windlass.__version__,
        "python": platform.python_version(),
        "database": run.site.database,
        "jobs": run.jobs,
        "batch": run.batch,
        "rounds": run.rounds,
        "processes": run.processes,
        "scenarios": found,
    }
