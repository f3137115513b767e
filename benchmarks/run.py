"""Measure all systems and write the page: `python -m benchmarks.run --help`."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import chart, meter, report, results
from benchmarks.plan import FULL, QUICK, BenchmarkPlan
from benchmarks.process import ROOT, ChildError, environment
from benchmarks.results import About, Figures, Record, Result
from benchmarks.rows import ROWS, Stage, Step, steps
from benchmarks.systems import SYSTEMS
from benchmarks.systems.base import System
from benchmarks.targets import lines
from tests.postgres.cluster import Cluster, ClusterError, Version
from windlass.cli.bench.crew import BenchFailed

VERSIONS: dict[str, Version] = {"16": 16, "18": 18, "system": "system"}
DURABLE = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "shared_buffers": "128MB",
    "max_wal_size": "4GB",
}
FAILURES = (ChildError, BenchFailed, ClusterError, RuntimeError, KeyError, OSError)
"""What one measurement may end with while the others go on."""
EXAMPLES = """\
examples:
  python -m benchmarks.run                                # everything: about 75 minutes
  python -m benchmarks.run --quick                        # everything once and small: 5 minutes
  python -m benchmarks.run --minutes 30                   # everything, in shorter runs
  python -m benchmarks.run --resume                       # go on after an interruption
  python -m benchmarks.run --redo startup,held            # these rows again, the others as they are
  python -m benchmarks.run --only drain,cycle --systems windlass,bare
  python -m benchmarks.run --report                       # the page again, from the JSON file
rows:
"""


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser().parse_args(given)
    out = page_of(options)
    out.parent.mkdir(parents=True, exist_ok=True)
    kept = out.with_suffix(".json")
    if options.report:
        write(Result.load(kept), out)
        chart.draw(Result.load(kept), out.with_suffix(".png"))
        return 0
    chosen = [system for system in SYSTEMS if is_chosen(system, options.systems)]
    wanted = options.only or list(ROWS)
    plan = plan_of(options, chosen, wanted)
    result = Result(plan)
    if options.resume or options.redo:
        if not kept.exists():
            raise SystemExit(f"there is no {kept} to go on from")
        result = Result.load(kept)
        if options.minutes or options.rounds:
            raise SystemExit("the run that is continued has its plan already")
        result.forget(options.redo)
        wanted = options.redo or wanted
    command = shlex.join(["python", "-m", "benchmarks.run", *given])
    if not result.command:
        result.command = command
    elif options.redo:
        result.command += f" && {command}"
    result.started_at = result.started_at or results.now()
    result.load_before = result.load_before or os.getloadavg()[0]
    result.machine = results.machine(options.folder or Path(tempfile.gettempdir()))
    there = installed(chosen, result)
    _only_own_settings()
    # Both ways to stop it end the server too, also where Ctrl-C is ignored (a shell's `&`).
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with Cluster.create(VERSIONS[options.postgres], options.folder, **DURABLE) as cluster:
        result.postgres = _server_version(cluster)
        stage = Stage(cluster, options.folder, lambda text: _tell(f"    {text}") if text else None)
        try:
            measure(stage, steps(result.plan, there, wanted), result, out)
        except KeyboardInterrupt:
            _tell("interrupted; --resume goes on from here")
            return 130
    if not result.records:
        _tell("nothing was measured")
        return 1
    chart.draw(result, out.with_suffix(".png"))
    missed = [line for line in lines(result) if line.met is False]
    _tell(f"written: {out}, {out.with_suffix('.png')}, {kept}; {len(missed)} targets are missed")
    return 0


def measure(stage: Stage, all_steps: list[Step], result: Result, out: Path) -> None:
    """Play what is not done yet. After each step everything is on disk."""
    ahead = [step for step in all_steps if step.key not in result.done]
    planned = sum(step.seconds for step in ahead)
    _tell(f"{len(ahead)} of {len(all_steps)} steps to go, about {_minutes(planned)}")
    begun, expected = time.monotonic(), 0.0
    for number, step in enumerate(ahead, 1):
        # What the steps took so far corrects what is said of the others, with some inertia.
        pace = (time.monotonic() - begun + 60) / (expected + 60)
        rest = _minutes((planned - expected) * pace)
        of = f", round {step.round} of {result.plan.rounds}" if step.round > 1 else ""
        _tell(f"[{number}/{len(ahead)}] {step.row}{of}: {step.system}; {rest} left")
        take(stage, step, result)
        expected += step.seconds
        if result.records:
            write(result, out)


def take(stage: Stage, step: Step, result: Result) -> None:
    """One step. What fails is reported, and the others go on."""
    what = f"{step.row}, {step.system}, round {step.round}"
    load, stolen, begun = os.getloadavg()[0], meter.steal(), time.monotonic()
    try:
        found = list(step.play(stage))
    except FAILURES as error:
        result.missing[what] = str(error).strip().split("\n", 1)[0] or type(error).__name__
        _tell(f"    failed: {type(error).__name__}: {error}")
        return
    taken = time.monotonic() - begun
    steal = (meter.steal() - stolen) / taken
    for system, number, figures in found:
        figures = {name: float(f"{value:.6g}") for name, value in figures.items()}
        noise = {"seconds": round(taken, 1), "load": round(load, 2), "steal": round(steal, 3)}
        result.records.append(Record(step.row, system, number, figures, **noise))
        _tell(f"    {system}: {_shown(figures)}")
    result.seconds += taken
    result.missing.pop(what, None)
    result.done.append(step.key)


def write(result: Result, out: Path) -> None:
    result.save(out.with_suffix(".json"))
    out.write_text(report.page(result, out.with_suffix(".png").name), encoding="utf-8")


def installed(chosen: Sequence[System], result: Result) -> list[System]:
    """Those that are there; the others are reported as not installed, with the reason."""
    there = []
    for system in chosen:
        try:
            versions = system.versions()
        except Exception as error:  # whatever is wrong with one, the others are measured
            result.missing[system.name] = f"not installed ({type(error).__name__}: {error})"
            _tell(f"{system.name}: {result.missing[system.name]}")
        else:
            result.systems[system.name] = About(versions, system.settings)
            result.missing.pop(system.name, None)
            there.append(system)
    return there


def page_of(options: argparse.Namespace) -> Path:
    """Where the page goes. A small run or a part of one must not replace the page of a whole."""
    is_part = (options.only or options.systems) and not (options.resume or options.redo)
    home = ROOT / ("build" if options.quick or is_part else "docs")
    return Path(options.out or home / "benchmarks.md")


def plan_of(
    options: argparse.Namespace, chosen: Sequence[System], wanted: Sequence[str]
) -> BenchmarkPlan:
    plan = QUICK if options.quick else FULL
    if options.rounds:
        plan = replace(plan, rounds=options.rounds)
    if options.minutes:
        # The longest runs that fit. Starts of processes and the large backlogs take their time
        # however short the runs are.
        factors = [part / 100 for part in range(100, 1, -1)]
        fitting = (plan.scaled(factor) for factor in factors)
        shortest = plan.scaled(factors[-1])
        plan = next(
            (
                each
                for each in fitting
                if sum(step.seconds for step in steps(each, chosen, wanted)) <= options.minutes * 60
            ),
            shortest,
        )
    return plan


def parser() -> argparse.ArgumentParser:
    rows = "".join(f"  {name:<14}{text}\n" for name, text in ROWS.items())
    own = argparse.ArgumentParser(
        prog="python -m benchmarks.run",
        description="Measure Windlass beside bare SQL and its peers, and write the page.",
        epilog=EXAMPLES + rows,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    own.add_argument("--only", type=_rows, metavar="ROW,…", help="these rows; all by default")
    own.add_argument(
        "--systems", metavar="PART,…", default="", help="systems whose names have such a part"
    )
    own.add_argument("--quick", action="store_true", help="everything once and small, into build/")
    own.add_argument("--minutes", type=float, help="shorten the runs so that all fit into so long")
    own.add_argument("--rounds", type=int, help="interleaved rounds; 5 by default")
    own.add_argument("--resume", action="store_true", help="continue the run of the JSON file")
    own.add_argument(
        "--redo", type=_rows, metavar="ROW,…", default=[], help="measure rows of that run again"
    )
    own.add_argument("--report", action="store_true", help="measure nothing, write the page")
    own.add_argument("--postgres", choices=list(VERSIONS), default="18")
    own.add_argument("--folder", type=Path, help="where the databases are made; the disk matters")
    own.add_argument(
        "--out",
        type=Path,
        help="the page, with .json and .png beside it; docs/benchmarks.md, or build/ for a part",
    )
    return own


def _rows(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in ROWS]:
        raise argparse.ArgumentTypeError(f"no row is called {', '.join(unknown)}")
    return names


def is_chosen(system: System, parts: str) -> bool:
    return any(part in system.name for part in parts.split(","))


def _only_own_settings() -> None:
    """The caller's settings are not to be read by a system."""
    own = environment()
    for name in os.environ.keys() - own.keys():
        del os.environ[name]


def _server_version(cluster: Cluster) -> str:
    with cluster.connect() as connection:
        row = connection.execute("SHOW server_version").fetchone()
    assert row is not None
    return str(row[0])


def _shown(figures: Figures) -> str:
    return ", ".join(f"{name} {value:,.4g}" for name, value in figures.items())


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{max(0.0, seconds):.0f} s"


def _tell(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
