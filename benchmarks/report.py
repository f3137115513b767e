"""The page: what was measured, on what, and how to read it. It is made from a `Result` alone."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from benchmarks.results import Result
from benchmarks.targets import is_full, lines


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
SQLITE = (Column("cycle", "sqlite", _whole, True),)
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
row. Bare SQL is the limit here too: an `INSERT` whose trigger notifies, and a claim on the very
connection that listens."""
SQLITE_TEXT = """\
The cycle on a file: jobs per second, and in brackets {first}'s figure divided by this one."""
COST_TEXT = """\
Per job, added in bulk and drained by one worker process. CPU and memory are of the drain alone;
memory is the worker's peak. Less is better; in brackets the multiple of the first row."""


def page(result: Result, picture: str) -> str:
    ran = [name for name in result.systems if _figures(result, name)]
    on_server = [name for name in ran if _figures(result, name) - {"sqlite"}]
    latency = LATENCY_TEXT.format(samples=result.plan.samples)
    throughput, files = THROUGHPUT_TEXT.format(first=ran[0]), SQLITE_TEXT.format(first=ran[0])
    parts = [
        _opening(result, picture),
        _targets(result),
        _section("Throughput", throughput, result, on_server, THROUGHPUT),
        _section("Pickup latency", latency, result, on_server, LATENCY),
        _section("Cost of a job", COST_TEXT, result, on_server, COST),
        _section("SQLite", files, result, ran, SQLITE),
        _spread(result, on_server),
        _method(result),
        _settings(result, ran),
    ]
    if result.missing:
        missing = [f"- {name}: {why}" for name, why in result.missing.items()]
        parts.append("## Not measured\n\n" + "\n".join(missing))
    return "\n\n".join(part for part in parts if part) + "\n"


def _figures(result: Result, system: str) -> set[str]:
    return {name for record in result.records if record.system == system for name in record.figures}


def _opening(result: Result, picture: str) -> str:
    rounds = "one round" if result.plan.rounds == 1 else f"medians of {result.plan.rounds} rounds"
    return f"""# Benchmarks

Windlass beside bare SQL and beside its peers on one PostgreSQL, in one run. This page is written by
`make bench`, which sets everything up; every figure of every round is in
[benchmarks.json](benchmarks.json). [How it is built](../benchmarks/README.md) is told beside the
code.

{_caution(result)}{result.started_at}, {result.seconds / 60:.0f} min, {rounds}.
{result.machine};
producers, workers and the server share the cores.
PostgreSQL {result.postgres} with `fsync`, `synchronous_commit` and `full_page_writes` on and
`shared_buffers` of 128 MB, over a Unix socket. {_noise(result)}

![The drain with one worker process, and the cycle]({picture})"""


def _caution(result: Result) -> str:
    """Said of a run that is too short for its figures to be quoted."""
    if is_full(result.plan):
        return ""
    return (
        "**A short run:** fewer rounds, shorter ones or smaller backlogs than the targets ask for."
        "\nRead it as orders of magnitude.\n\n"
    )


def _noise(result: Result) -> str:
    """Whether the machine was quiet."""
    taken = [
        value
        for record in result.records
        for name, value in record.figures.items()
        if name.startswith("others")
    ]
    stolen = [record.steal for record in result.records]
    return (
        f"Load average before the start:\n{result.load_before:.2f}. During the drains other"
        f" programs took {_middle(taken)} cores in the median,\n{max(taken, default=0.0):.2f} at"
        f" most; in all measurements the host took {_middle(stolen)} and"
        f" {max(stolen, default=0.0):.2f}."
    )


def _middle(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f}" if values else "0"


def _targets(result: Result) -> str:
    rows = ["| what | target | measured | ratio | met? |", "|---|---|---|--:|---|"]
    found = lines(result)
    for line in found:
        met = {True: "yes", False: "**no**", None: "–"}[line.met]
        rows.append(f"| {line.what} | {line.target} | {line.measured} | {line.ratio} | {met} |")
    counted = [line.met for line in found]
    unknown = sum(line.measured == "not measured" for line in found)
    return (
        f"## Targets\n\n{counted.count(True)} are met, {counted.count(False)} are missed,"
        f" {unknown} were not measured. Figures are medians; a ratio is the\nmedian of the rounds'"
        " own ratios. Where no other figure is named, it is the part of the bound.\n\n"
        + "\n".join(rows)
    )


def _section(
    title: str, text: str, result: Result, ran: Sequence[str], columns: Sequence[Column]
) -> str:
    """Nothing where nothing was measured."""
    there = [name for name in ran if any(result.series(name, column.figure) for column in columns)]
    return f"## {title}\n\n{text}\n\n{_table(result, there, columns)}" if there else ""


def _table(result: Result, ran: Sequence[str], columns: Sequence[Column]) -> str:
    rows = [
        "| | " + " | ".join(column.title for column in columns) + " |",
        "|---|" + "--:|" * len(columns),
    ]
    for name in ran:
        cells = [_cell(result, name, ran[0], column) for column in columns]
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _cell(result: Result, name: str, first: str, column: Column) -> str:
    value = result.median(name, column.figure)
    if value is None:
        return "–"
    pair = (first, name) if column.more_is_better else (name, first)
    ratio = result.ratio(column.figure, *pair)
    if name == first or ratio is None:
        return column.shown(value)
    return f"{column.shown(value)} ({_ratio(ratio)})"


def _ratio(value: float) -> str:
    return f"{value:.0f} ×" if value >= 20 else f"{value:.1f} ×" if value >= 2 else f"{value:.2f} ×"


def _spread(result: Result, ran: Sequence[str]) -> str:
    rows = ["| | jobs a drain | drain, jobs/s | cores of others |", "|---|--:|---|---|"]
    for name in ran:
        for processes in (1, 2):
            drains = result.series(name, f"drain{processes}")
            if drains:
                others = result.series(name, f"others{processes}")
                jobs = result.median(name, f"jobs{processes}") or 0
                title = name if processes == 1 else f"{name}, 2 processes"
                rows.append(
                    f"| {title} | {jobs:,.0f} | {_list(drains.values(), _whole)}"
                    f" | {_list(others.values(), _tenths)} |"
                )
    return (
        "## Every round\n\n"
        "Cores of others were busy with neither the workers nor the server: the more of them, the"
        "\nless a figure says about the system.\n\n" + "\n".join(rows)
    )


def _list(values: Iterable[float], shown: Callable[[float], str]) -> str:
    return ", ".join(map(shown, values)) or "–"


def _method(result: Result) -> str:
    plan = result.plan
    return f"""## How it was measured

`{result.command}`

- The task does nothing; the payload is `{{"id": n}}`. A job counts as completed when the database
  does not count it as open any more.
- Systems take turns within each round, beginning with another one each time, each in a new
  database of the same cluster. Only the system under test runs then; for the latency all of them
  are there, idle, and their samples alternate. What no target is about is measured in the first
  round only (the cycle and the single calls of some peers).
- **Bare SQL** is the limit: one table, batches of 500 in one transaction for each step (insert,
  claim, delete), through psycopg; no retries, leases, keys or queues.
- **Drain**: jobs for about {plan.seconds:g} s, at most {plan.jobs:,}, are preloaded, then `VACUUM
  ANALYZE` and a checkpoint, then the workers start. The clock runs from the first completion seen
  in the database until none is left, or for {plan.longest:g} s.
- **Cycle**: one process adds in bulk, another works; from the first call until none is left.
- **Bulk enqueue**: one process, timed by itself and counted in the database: it is what loads the
  drain, windlass half of it in calls of 500 and half of it in calls of 2,000.
- **One by one**: calls for {plan.seconds:g} s, each durable before the caller's next.
- **Bulk SQL calls**: jobs a second of one call of each function for {plan.sql_jobs:,} jobs, or for
  half of them by their ids, with what it is given made before and all that it returns read; after
  the same calls for ten jobs, in one session, with a checkpoint before each.
- **Start and stop**: medians of up to 10 starts, on PostgreSQL with the schema in place.
- **Beside a backlog**: {plan.beside_jobs:,} jobs are added and drained beside what lies about, kind
  by kind in turn with a clean drain, {plan.beside_rounds[0]} and {plan.beside_rounds[1]} rounds.
  Idle queue names are queues that had a job each, which is done, as a worker has seen. Serial
  queues are compared with such a clean drain too.
- **Held horizon**: once, {plan.held_seconds:g} s; the first and the last claims that brought jobs,
  1,000 of each or half of all.
- **WAL**: of adding in bulk and draining up to {plan.wal_jobs:,} jobs, from `pg_stat_wal`, with
  `full_page_writes` off for that measurement alone, because the number of full-page images depends
  on where checkpoints fall.
- **CPU** of the server is that of all its processes without the one that counts. **Memory** is the
  worker's peak.
- **SQLite**: one process adds, another works; the bare calls do both in turn on one connection,
  because there is one writer anyway. huey removes a job when it takes it, so its jobs count when
  they start."""


def _settings(result: Result, ran: Sequence[str]) -> str:
    rows = ["| | versions | settings |", "|---|---|---|"]
    for name in ran:
        about = result.systems[name]
        rows.append(f"| {name} | {about.versions} | {about.settings} |")
    return (
        "## Versions and settings\n\n"
        "Peers have the fast settings of their own documentation, without a search for better ones"
        "\n(pgqueuer: the better of two batch sizes); a tuned one may do better. Systems differ in"
        "\nwhat they do for a job (leases, retries, history, results), so the ratios compare prices"
        "\nand not goods.\n\n" + "\n".join(rows)
    )
