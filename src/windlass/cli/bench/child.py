"""The worker process of the bench: `python -m windlass.cli.bench.child MODE URL SYNC [SECONDS]`."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
from pathlib import Path

from windlass import App

_UNTIL_IDLE = 3.0
"""Seconds after its last job until a worker has come to rest."""


async def latency(url: str, synchronous: str) -> None:
    """Print when each job started, one line each."""
    app = App(url, synchronous=synchronous)

    @app.task
    async def mark(id: int) -> None:
        _say({"started": time.monotonic_ns()})

    async with app:
        runner = await app.run()
        _say({"ready": True})
        await runner.wait()


async def idle(url: str, synchronous: str, seconds: float) -> None:
    """Do nothing for a while and print what it cost."""
    app = App(url, synchronous=synchronous)

    @app.task
    async def noop(id: int) -> None: ...

    async with app:
        runner = await app.run()
        await app.client.add_job("noop", {"id": 1})
        await asyncio.sleep(_UNTIL_IDLE)
        before, since = _cpu(), time.perf_counter()
        await asyncio.sleep(seconds)
        share = (_cpu() - before) / (time.perf_counter() - since)
        _say({"cpu": share, "rss": _resident()})
        await runner.stop()


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _resident() -> int:
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _say(message: dict[str, object]) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    mode, url, synchronous, *rest = sys.argv[1:]
    if mode == "latency":
        asyncio.run(latency(url, synchronous))
    else:
        asyncio.run(idle(url, synchronous, float(rest[0])))
