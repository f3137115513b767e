"""The page: what was measured, on what, and how to read it."""

from __future__ import annotations

import datetime
import os
import platform
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.scenarios import Plan
from benchmarks.systems.base import System

FULL_ROUNDS = 5
FULL_JOBS = 1_000_000

Samples = dict[str, dict[str, list[float]]]
"""By system and figure, one value for each round."""


@dataclass
class Result:
    plan: Plan
    rounds: int
    postgres: str
    command: str
    versions: dict[str, str]
    """By system; only those that ran."""
    missing: dict[str, str]
    """By system: why it did not run, or which of its measurements failed."""
    samples: Samples = field(default_factory=dict)
    load_before: float = 0.0
    started_at: datetime.datetime = field(
        default_factory=lambda: datetime.datetime.now(datetime.UTC)
    )
    seconds: float = 0.0

    def add(self, system: str, figures: dict[str, float]) -> None:
        for name, value in figures.items():
            self.samples.setdefault(system, {}).setdefault(name, []).append(value)

    def median(self, system: str, figure: str) -> float | None:
        values = self.samples.get(system, {}).get(figure)
        return statistics.median(values) if values else None

    def ratio(self, figure: str, above: str, below: str) -> float | None:
        """The figure of one system over that of another.

        It is the median of the rounds' own ratios, since what disturbs a round disturbs both; where
        a round is missing, it is the ratio of the medians.
        """
        first = self.samples.get(above, {}).get(figure, [])
        second = self.samples.get(below, {}).get(figure, [])
        if not first or not second or not all(second):
            return None
        if len(first) != len(second):
            return statistics.median(first) / statistics.median(second)
        return statistics.median([one / other for one, other in zip(first, second, strict=True)])


@dataclass(frozen=True)
class Column:
    title: str
    figure: str
    shown: Callable[[float], str]
    more_is_better: bool


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _tenths(value: float) -> str:
    return f"{value:,.1f}"


THROUGHPUT = (
    Column("drain, 1 process", "drain1", _whole, True),
    Column("drain, 2 processes", "drain2", _whole, True),
    Column("cycle", "cycle", _whole, True),
    Column("bulk enqueue", "bulk", _whole, True),
    Column("one by one", "one", _whole, True),
    Column("one by one, 16 callers", "one16", _whole, True),
)
COST = (
    Column("worker CPU, µs", "worker_cpu1", _tenths, False),
    Column("server CPU, µs", "server_cpu1", _tenths, False),
    Column("WAL bytes", "wal_bytes", _whole, False),
    Column("WAL records", "wal_records", _tenths, False),
    Column("worker memory, MB", "memory1", _whole, False),
)
LATENCY = (
    Column("p50, ms", "pickup50", _tenths, False),
    Column("p95, ms", "pickup95", _tenths, False),
    Column("p99, ms", "pickup99", _tenths, False),
)


THROUGHPUT_TEXT = """\
Jobs per second; more is better. In brackets: {first}'s figure divided by this one (the median of
the rounds' ratios), so that above 1 {first} is the faster one."""
LATENCY_TEXT = """\
From the call that adds a job to the first line of its handler in an idle worker of another process;
{samples:,} samples of each, taken in turns. Less is better; in brackets the multiple of the first
row."""
COST_TEXT = """\
Per job, added in bulk and drained by one worker process. CPU and memory are of the drain alone;
memory is the worker's peak. Less is better; in brackets the multiple of the first row."""


def page(result: Result, systems: Sequence[System], picture: str) -> str:
    ran = [system for system in systems if system.name in result.samples]
    parts = [
        _opening(result, picture),
        _section("Throughput", THROUGHPUT_TEXT.format(first=ran[0].name), result, ran, THROUGHPUT),
        _section(
            "Pickup latency",
            LATENCY_TEXT.format(samples=result.plan.samples),
            result,
            ran,
            LATENCY,
        ),
        _section("Cost of a job", COST_TEXT, result, ran, COST),
        _spread(result, ran),
        _method(result),
        _settings(result, ran),
    ]
    if result.missing:
        lines = [f"- {name}: {why}" for name, why in result.missing.items()]
        parts.append("## Not measured\n\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _opening(result: Result, picture: str) -> str:
    rounds = "one round" if result.rounds == 1 else f"medians of {result.rounds} rounds"
    return f"""# Benchmarks

Windlass beside its peers on one PostgreSQL, in one run. This page is written by
`python -m benchmarks.run`; `make bench-peers` sets everything up and does it again.
[How it is built](../benchmarks/README.md) is told beside the code.

{_caution(result)}{result.started_at:%Y-%m-%d %H:%M} UTC, {result.seconds / 60:.0f} min, {rounds}.
{_machine()}
PostgreSQL {result.postgres} with `fsync`, `synchronous_commit` and `full_page_writes` on and
`shared_buffers` of 128 MB, over a Unix socket. Load average before the start:
{result.load_before:.2f}.

![The drain with one worker process, and the cycle]({picture})"""


def _caution(result: Result) -> str:
    """Said of a run that is too short for its figures to be quoted."""
    if result.rounds >= FULL_ROUNDS and result.plan.jobs >= FULL_JOBS:
        return ""
    taken = [
        value
        for own in result.samples.values()
        for name in ("others1", "others2")
        for value in own.get(name, [])
    ]
    return (
        f"**A short run:** fewer than {FULL_ROUNDS} rounds or {FULL_JOBS:,} jobs, while other"
        f" programs\ntook up to {max(taken, default=0.0):.1f} of the {os.cpu_count()} cores. Read"
        " it as orders of magnitude.\n\n"
    )


def _machine() -> str:
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} cores ({model}), {memory:.0f} GiB, {platform.system()}"
        f" {platform.release()}, Python {platform.python_version()};\nproducers, workers and the"
        " server share the cores."
    )


def _section(
    title: str, text: str, result: Result, ran: Sequence[System], columns: Sequence[Column]
) -> str:
    return f"## {title}\n\n{text}\n\n{_table(result, ran, columns)}"


def _table(result: Result, ran: Sequence[System], columns: Sequence[Column]) -> str:
    lines = [
        "| | " + " | ".join(column.title for column in columns) + " |",
        "|---|" + "--:|" * len(columns),
    ]
    for system in ran:
        cells = [_cell(result, system, ran[0], column) for column in columns]
        lines.append(f"| {system.name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(result: Result, system: System, first: System, column: Column) -> str:
    value = result.median(system.name, column.figure)
    if value is None:
        return "–"
    pair = (first.name, system.name) if column.more_is_better else (system.name, first.name)
    ratio = result.ratio(column.figure, *pair)
    if system is first or ratio is None:
        return column.shown(value)
    return f"{column.shown(value)} ({_ratio(ratio)})"


def _ratio(value: float) -> str:
    return f"{value:.0f} ×" if value >= 20 else f"{value:.1f} ×" if value >= 2 else f"{value:.2f} ×"


def _spread(result: Result, ran: Sequence[System]) -> str:
    lines = [
        "| | jobs a drain | drain, 1 process | cores of others | drain, 2 processes"
        " | cores of others | CPU of 2 against 1 |",
        "|---|--:|---|---|---|---|--:|",
    ]
    for system in ran:
        own = result.samples[system.name]
        cells = [
            _list(own.get(name, []), shown)
            for name, shown in (
                ("drain1", _whole),
                ("others1", _tenths),
                ("drain2", _whole),
                ("others2", _tenths),
            )
        ]
        lines.append(
            f"| {system.name} | {result.plan.jobs_of(system):,} | "
            + " | ".join(cells)
            + f" | {_cpu_of_two(result, system)} |"
        )
    return (
        "## Every round\n\n"
        "Cores of others were busy with neither the workers nor the server: the more of them, the"
        "\nless a figure says about the system.\n\n" + "\n".join(lines)
    )


def _cpu_of_two(result: Result, system: System) -> str:
    def total(processes: int) -> float | None:
        worker = result.median(system.name, f"worker_cpu{processes}")
        server = result.median(system.name, f"server_cpu{processes}")
        return None if worker is None or server is None else worker + server

    one, two = total(1), total(2)
    return f"{two / one:.2f} ×" if one and two else "–"


def _list(values: Sequence[float], shown: Callable[[float], str]) -> str:
    return ", ".join(map(shown, values)) or "–"


def _method(result: Result) -> str:
    return f"""## How it was measured

`{result.command}`

- The task does nothing; the payload is `{{"id": n}}`. A job counts as completed when its row is
  gone from the system's table.
- Systems take turns within each round, beginning with another one each time, each in a new
  database of the same cluster. Only the system under test runs then; for the latency all of them
  are there, idle, and their samples alternate.
- **Drain**: jobs are preloaded (fewer for the slow systems, see above), then `VACUUM ANALYZE` and a
  checkpoint, then the workers start. The clock runs from the first completion seen in the database
  until none is left, or for {result.plan.seconds:g} s.
- **Cycle**: one process adds in bulk, another works; from the first call until none is left.
- **Bulk enqueue**: one process, timed by itself and counted in the database.
- **One by one**: {result.plan.singles:,} calls, each durable before the caller's next. The two rows
  of one peer do the same here, so their difference is noise.
- **WAL**: of adding in bulk and draining up to 20,000 jobs, from `pg_stat_wal`, with
  `full_page_writes` off for that measurement alone, because the number of full-page images depends
  on where checkpoints fall.
- **CPU** of the server is that of all its processes without the one that counts."""


def _settings(result: Result, ran: Sequence[System]) -> str:
    lines = ["| | versions | settings |", "|---|---|---|"]
    for system in ran:
        lines.append(f"| {system.name} | {result.versions[system.name]} | {system.settings} |")
    return (
        "## Versions and settings\n\n"
        "Peers have the fast settings of their own documentation, without a search for better ones;"
        "\na tuned one may do better. Systems differ in what they do for a job (leases, retries,"
        "\nhistory, results), so the ratios compare prices and not goods.\n\n" + "\n".join(lines)
    )
