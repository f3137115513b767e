"""Measure all systems and write the page: `python -m benchmarks.run --help`."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import chart, report, scenarios
from benchmarks.process import ROOT, ChildError
from benchmarks.report import Result
from benchmarks.scenarios import Figures, Plan
from benchmarks.systems import SYSTEMS
from benchmarks.systems.base import System
from tests.postgres.cluster import Cluster, Version

Scenario = Callable[[Cluster, System, Plan], Figures]

SCENARIOS: dict[str, Scenario] = {
    "drain1": lambda cluster, system, plan: scenarios.drain(cluster, system, plan, 1),
    "drain2": lambda cluster, system, plan: scenarios.drain(cluster, system, plan, 2),
    "cycle": scenarios.cycle,
    "singly": scenarios.singly,
}
"""Those of each round. `wal` and `pickup` are measured once: the first does not depend on the
machine's mood, and the second alternates between the systems with every sample."""
ONCE = ("wal", "pickup")
VERSIONS: dict[str, Version] = {"16": 16, "18": 18, "system": "system"}
DURABLE = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "shared_buffers": "128MB",
    "max_wal_size": "4GB",
}


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser(quick="--quick" in given).parse_args(given)
    chosen = [system for system in SYSTEMS if _is_chosen(system, options.only)]
    result = Result(
        plan=Plan(options.jobs, options.singles, options.samples, options.seconds),
        rounds=options.rounds,
        postgres="",
        command=shlex.join(["python", "-m", "benchmarks.run", *given]),
        versions={},
        missing={},
        load_before=os.getloadavg()[0],
    )
    systems = installed(chosen, result)
    begun = time.monotonic()
    with Cluster.create(VERSIONS[options.postgres], options.folder, **DURABLE) as cluster:
        result.postgres = _server_version(cluster)
        measure(cluster, systems, options.scenarios, result)
    result.seconds = time.monotonic() - begun
    if not result.samples:
        _tell("nothing was measured, so nothing is written")
        return 1
    write(result, chosen, options.out)
    return 0


def measure(cluster: Cluster, systems: list[System], wanted: Sequence[str], result: Result) -> None:
    for number in range(result.rounds):
        for name, scenario in SCENARIOS.items():
            if name in wanted:
                turn = number % max(1, len(systems))
                for system in systems[turn:] + systems[:turn]:
                    _take(name, scenario, cluster, system, result, f"round {number + 1}")
    if "wal" in wanted:
        for system in systems:
            _take("wal", scenarios.wal_per_job, cluster, system, result, "once")
    if "pickup" in wanted:
        _tell("pickup", "all", "in turns")
        try:
            for name, figures in scenarios.pickup(cluster, systems, result.plan).items():
                result.add(name, figures)
                _tell("pickup", name, _shown(figures))
        except (ChildError, RuntimeError) as error:
            result.missing["pickup latency"] = _first_line(error)
            _tell("pickup", "all", f"failed: {error}")


def _take(
    name: str, scenario: Scenario, cluster: Cluster, system: System, result: Result, when: str
) -> None:
    """One measurement. A system that fails in one is reported, and the others go on."""
    try:
        figures = scenario(cluster, system, result.plan)
    except (ChildError, RuntimeError) as error:
        result.missing[f"{system.name}, {name}, {when}"] = _first_line(error)
        _tell(name, system.name, f"failed: {error}")
        return
    result.add(system.name, figures)
    _tell(name, system.name, _shown(figures))


def installed(chosen: Sequence[System], result: Result) -> list[System]:
    """Those that are there; the others are reported as not installed, with the reason."""
    there = []
    for system in chosen:
        try:
            result.versions[system.name] = system.versions()
        except Exception as error:
            result.missing[system.name] = f"not installed ({type(error).__name__}: {error})"
            _tell("install", system.name, result.missing[system.name])
        else:
            there.append(system)
    return there


def write(result: Result, systems: Sequence[System], out: Path) -> None:
    picture = out.with_suffix(".png")
    chart.draw(result, systems, picture)
    out.write_text(report.page(result, systems, picture.name), encoding="utf-8")
    raw = {"versions": result.versions, "missing": result.missing, "samples": result.samples}
    (ROOT / "benchmarks" / "last-run.json").write_text(json.dumps(raw, indent=1) + "\n", "utf-8")
    _tell("written", str(out), str(picture))


def parser(quick: bool) -> argparse.ArgumentParser:
    own = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    own.add_argument(
        "--jobs", type=int, default=1_000_000, help="of a drain; slow systems get less"
    )
    own.add_argument("--rounds", type=int, default=5, help="medians are shown")
    own.add_argument("--singles", type=int, default=3_000, help="jobs added one by one")
    own.add_argument("--samples", type=int, default=2_000, help="latencies of each system")
    own.add_argument("--seconds", type=float, default=60.0, help="the longest drain")
    own.add_argument("--only", action="append", default=[], help="part of a system's name")
    own.add_argument(
        "--scenarios",
        nargs="+",
        choices=[*SCENARIOS, *ONCE],
        default=[*SCENARIOS, *ONCE],
        help="all by default",
    )
    own.add_argument("--postgres", choices=list(VERSIONS), default="18")
    own.add_argument("--folder", type=Path, help="where the cluster is made; the disk matters")
    own.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks.md")
    own.add_argument("--quick", action="store_true", help="one small round, to try it out")
    if quick:
        own.set_defaults(jobs=20_000, rounds=1, singles=300, samples=50, seconds=10.0)
    return own


def _is_chosen(system: System, only: Sequence[str]) -> bool:
    return not only or any(part in system.name for part in only)


def _server_version(cluster: Cluster) -> str:
    with cluster.connect() as connection:
        row = connection.execute("SHOW server_version").fetchone()
    assert row is not None
    return str(row[0])


def _shown(figures: Figures) -> str:
    return ", ".join(f"{name} {value:,.1f}" for name, value in figures.items())


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0]


def _tell(*words: str) -> None:
    print(time.strftime("%H:%M:%S"), *words, sep="  ", flush=True)


if __name__ == "__main__":
    sys.exit(main())
