"""`windlass bench`: measure this machine, beside what bare SQL reaches in the same run."""

from __future__ import annotations

import asyncio
import json
import platform
import shutil
import sqlite3
import sys
import tempfile
from pathlib import Path
from typing import Any, Literal

import click

import windlass
from windlass.cli.base import Command
from windlass.cli.bench import bare, measure

_COUNT = click.IntRange(1)


@click.command(
    "bench",
    cls=Command,
    examples=(
        "windlass bench",
        "windlass bench --jobs 20000 --rounds 1 --json",
        "windlass bench --synchronous normal --folder /mnt/disk",
    ),
)
@click.option("-n", "--jobs", type=_COUNT, default=100_000, show_default=True, help="Jobs in all.")
@click.option("--batch", type=_COUNT, default=500, show_default=True, help="Jobs per call.")
@click.option("--rounds", type=_COUNT, default=3, show_default=True, help="Medians are shown.")
@click.option("--samples", type=_COUNT, default=300, show_default=True, help="Timed for latency.")
@click.option(
    "--idle",
    type=click.FloatRange(0.1, 600),
    default=5.0,
    show_default=True,
    help="Seconds to watch an idle worker.",
)
@click.option(
    "--synchronous",
    type=click.Choice(["full", "normal"]),
    default="full",
    show_default=True,
    help="SQLite's durability, for Windlass and the bare calls alike.",
)
@click.option(
    "--folder",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    default=Path(),
    help="Where to put the database file; the disk matters. [default: here]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def bench(
    jobs: int,
    batch: int,
    rounds: int,
    samples: int,
    idle: float,
    synchronous: Literal["full", "normal"],
    folder: Path,
    as_json: bool,
) -> None:
    """Measure this machine: enqueue, throughput, latency, idle cost.

    Everything runs on an embedded file that is removed afterwards. The limit is the same cycle
    written as bare sqlite3 calls with the same batches and durability, in the same run; the
    ratios are what to compare between machines.
    """
    place = Path(tempfile.mkdtemp(prefix="windlass-bench-", dir=folder.resolve()))
    try:
        result = asyncio.run(_measure(place, jobs, batch, rounds, samples, idle, synchronous))
    finally:
        shutil.rmtree(place, ignore_errors=True)
    if as_json:
        click.echo(json.dumps(result, indent=2))
    else:
        _show(result)


async def _measure(
    place: Path, jobs: int, batch: int, rounds: int, samples: int, idle: float, synchronous: str
) -> dict[str, Any]:
    url = f"sqlite:///{place}/bench.db"
    limits: list[tuple[float, float]] = []
    cycles: list[tuple[float, float]] = []
    for number in range(rounds):
        _tell(f"cycle of {jobs:,} jobs, round {number + 1} of {rounds}")
        limits.append(bare.bare_cycle(place, jobs, batch, synchronous))
        cycles.append(await measure.cycle(url, jobs, batch, synchronous))
        measure.remove(place, "bench.db")
    _tell("enqueue one by one")
    singles = max(100, min(2_000, jobs // 20))
    one_by_one = await measure.enqueue_one_by_one(url, singles, synchronous)
    measure.remove(place, "bench.db")
    _tell("pickup latency in one process")
    disk = bare.Disk(place)
    here = await measure.pickup_here(url, samples, synchronous, disk)
    fsync = disk.close()
    _tell("pickup latency between processes")
    there = await measure.pickup_there(url, samples, synchronous)
    _tell(f"an idle worker for {idle:g} s")
    resting = await measure.idle(url, idle, synchronous)
    _tell("")
    limit = measure.median([jobs / sum(pair) for pair in limits])
    reached = measure.median([jobs / sum(pair) for pair in cycles])
    return {
        "windlass": windlass.__version__,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "synchronous": synchronous,
        "jobs": jobs,
        "batch": batch,
        "rounds": rounds,
        "bare": _rates(jobs, limits, limit),
        "cycle": {
            **_rates(jobs, cycles, reached),
            "ratio_to_bare": round(reached / limit, 3),
            "ratios": [
                round(sum(lowest) / sum(own), 3) for lowest, own in zip(limits, cycles, strict=True)
            ],
        },
        "enqueue_one_by_one_per_s": round(singles / one_by_one),
        "fsync_ms": round(fsync * 1e3, 3),
        "pickup_one_process_ms": _latency(here),
        "pickup_one_process_limit_ms": round(1.0 + 2e3 * fsync, 3),
        "pickup_two_processes_ms": _latency(there),
        "idle_cpu_percent": round(resting["cpu"] * 100, 3),
        "worker_rss_mb": round(resting["rss"] / 1e6, 1),
    }


def _rates(jobs: int, pairs: list[tuple[float, float]], rate: float) -> dict[str, Any]:
    return {
        "per_s": round(rate),
        "enqueue_per_s": round(measure.median([jobs / first for first, _ in pairs])),
        "work_per_s": round(measure.median([jobs / second for _, second in pairs])),
    }


def _latency(taken: list[float]) -> dict[str, float]:
    return {
        f"p{percent}": round(measure.percentile(taken, percent) * 1e3, 3)
        for percent in (50, 95, 99)
    }


def _tell(text: str) -> None:
    """What is being measured, on a terminal only."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{text}", err=True, nl=False)


def _show(result: dict[str, Any]) -> None:
    cycle, limit = result["cycle"], result["bare"]
    here, there = result["pickup_one_process_ms"], result["pickup_two_processes_ms"]
    rows = [
        ("", "jobs/s", "bare sqlite3", "ratio"),
        _row("whole cycle", cycle["per_s"], limit["per_s"]),
        _row("  enqueue in bulk", cycle["enqueue_per_s"], limit["enqueue_per_s"]),
        _row("  claim, run, settle", cycle["work_per_s"], limit["work_per_s"]),
        ("enqueue one by one", f"{result['enqueue_one_by_one_per_s']:,}", "", ""),
    ]
    click.echo(
        f"windlass {result['windlass']}, Python {result['python']}, SQLite {result['sqlite']},"
        f" synchronous={result['synchronous']}, {result['jobs']:,} jobs in batches of"
        f" {result['batch']}, medians of {result['rounds']}\n"
    )
    for name, own, other, ratio in rows:
        click.echo(f"{name:<24}{own:>12}{other:>15}{ratio:>8}")
    click.echo(
        f"\n{'pickup, one process':<24}p50 {here['p50']:.2f} ms, p99 {here['p99']:.2f} ms"
        f"   (1 ms + 2 fsync = {result['pickup_one_process_limit_ms']:.2f} ms)"
        f"\n{'pickup, two processes':<24}p50 {there['p50']:.2f} ms, p99 {there['p99']:.2f} ms"
        f"\n{'idle worker':<24}{result['idle_cpu_percent']:.2f} % of a core,"
        f" {result['worker_rss_mb']:.0f} MB resident"
        f"\n{'fsync':<24}{result['fsync_ms']:.3f} ms"
    )


def _row(name: str, own: int, other: int) -> tuple[str, str, str, str]:
    return name, f"{own:,}", f"{other:,}", f"{own / other:.2f}"
