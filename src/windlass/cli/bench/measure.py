"""What Windlass does in the same run, through public calls only."""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from windlass import App
from windlass.cli.bench.bare import Disk


def _app(url: str, synchronous: str) -> App:
    return App(url, synchronous=synchronous, log_level="warning")


async def cycle(url: str, jobs: int, batch: int, synchronous: str) -> tuple[float, float]:
    """Seconds to enqueue all jobs of a no-op task, and to claim, run and settle them all."""
    app = _app(url, synchronous)
    ran = 0

    @app.task
    async def noop(id: int) -> None:
        nonlocal ran
        ran += 1

    async with app:
        started = time.perf_counter()
        for first in range(0, jobs, batch):
            await noop.aenqueue_many({"id": n} for n in range(first, min(first + batch, jobs)))
        added = time.perf_counter()
        settled = await app.run_once()
        ended = time.perf_counter()
        left = sum((await app.client.counts()).values())
    if ran != jobs or settled != jobs or left:
        raise RuntimeError(f"{jobs} jobs: {ran} ran, {settled} were settled, {left} are left")
    return added - started, ended - added


async def enqueue_one_by_one(url: str, jobs: int, synchronous: str) -> float:
    """Seconds to enqueue jobs one after the other, each durable before the next."""
    async with _app(url, synchronous) as app:
        started = time.perf_counter()
        for number in range(jobs):
            await app.client.add_job("noop", {"id": number})
        return time.perf_counter() - started


async def pickup_here(url: str, samples: int, synchronous: str, disk: Disk) -> list[float]:
    """Seconds from the call of enqueue to the handler's first line, worker in this process.

    After each the disk is sampled, so that both see the same machine.
    """
    app = _app(url, synchronous)
    started: asyncio.Future[float]

    @app.task
    async def mark(id: int) -> None:
        started.set_result(time.perf_counter())

    taken: list[float] = []
    async with app:
        runner = await app.run(handle_signals=False)
        for number in range(samples):
            started = asyncio.get_running_loop().create_future()
            called = time.perf_counter()
            await mark.aenqueue(id=number)
            taken.append(await started - called)
            await asyncio.sleep(0.002)
            disk.sample()
        await runner.stop()
    return taken


async def pickup_there(url: str, samples: int, synchronous: str) -> list[float]:
    """The same with the worker in another process; both read the machine's monotonic clock."""
    worker = await _start_child("latency", url, synchronous)
    moments = random.Random(1)  # noqa: S311 - jobs do not come in step with anybody's polling
    taken: list[float] = []
    try:
        assert worker.stdout is not None
        await worker.stdout.readline()
        async with _app(url, synchronous) as app:
            for number in range(samples):
                called = time.monotonic_ns()
                await app.client.add_job("mark", {"id": number})
                line = await asyncio.wait_for(worker.stdout.readline(), 10)
                taken.append((json.loads(line)["started"] - called) / 1e9)
                await asyncio.sleep(moments.uniform(0.005, 0.055))
    finally:
        worker.terminate()
        await worker.wait()
    return taken


async def idle(url: str, seconds: float, synchronous: str) -> dict[str, Any]:
    """The share of a core an idle worker takes, and its resident memory in bytes."""
    worker = await _start_child("idle", url, synchronous, str(seconds))
    output, _ = await worker.communicate()
    answer: dict[str, Any] = json.loads(output)
    return answer


async def _start_child(*arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "windlass.cli.bench.child", *arguments, stdout=subprocess.PIPE
    )


def percentile(values: list[float], percent: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(len(ordered) * percent / 100))]


def median(values: list[float]) -> float:
    return statistics.median(values)


def remove(folder: Path, name: str) -> None:
    for ending in ("", "-wal", "-shm"):
        (folder / f"{name}{ending}").unlink(missing_ok=True)
