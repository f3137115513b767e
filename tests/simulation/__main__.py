"""`python -m tests.simulation`: run seeds, or one seed, or a plan from a file; see --help."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.simulation.maker import make_plan
from tests.simulation.plan import SimulationPlan, decode, encode
from tests.simulation.shrink import shrink
from tests.simulation.world import Report, run

_AT_ONCE = 25


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to run (100)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (0)")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--seed", type=int, help="run this seed alone")
    parser.add_argument("--trace", type=Path, help="run the plan in this file")
    parser.add_argument("--keep-going", action="store_true", help="do not end at the first failure")
    parser.add_argument("--no-shrink", action="store_true", help="leave a failing plan as it is")
    parser.add_argument("--verbose", action="store_true", help="show what happened")
    parser.add_argument("--save", type=Path, default=Path("simulation-failure.json"))
    options = parser.parse_args()
    if options.trace is not None or options.seed is not None:
        if options.trace is not None:
            plan = decode(options.trace.read_bytes())
        else:
            plan = make_plan(options.seed)
        report = run(plan)
        if options.verbose and not report.code:
            print("\n".join(report.trace))
        return _tell(report, options) if report.code else _passed(1)
    failed = 0
    for seed, code in _run_all(options.first, options.seeds, options.processes):
        if code:
            failed += 1
            print(f"seed {seed}: {code}")
            if not options.keep_going:
                return _tell(run(make_plan(seed)), options)
    return 1 if failed else _passed(options.seeds)


def _passed(count: int) -> int:
    print(f"{count} passed")
    return 0


def _run_all(first: int, count: int, processes: int) -> Iterator[tuple[int, str]]:
    began, done = time.monotonic(), 0
    parts = [
        range(at, min(at + _AT_ONCE, first + count)) for at in range(first, first + count, _AT_ONCE)
    ]
    with ProcessPoolExecutor(processes) as pool:
        try:
            for part in pool.map(_codes, parts):
                yield from part
                done += len(part)
                if sys.stderr.isatty() or done % 500 == 0:
                    speed = done / (time.monotonic() - began)
                    end = "\r" if sys.stderr.isatty() and done < count else "\n"
                    told = f"{done} of {count} seeds, {speed:.0f} a second"
                    print(told, end=end, file=sys.stderr, flush=True)
        finally:
            pool.shutdown(cancel_futures=True)


def _codes(seeds: range) -> list[tuple[int, str]]:
    return [(seed, (run(make_plan(seed)).violations or [""])[0]) for seed in seeds]


def explain(report: Report) -> str:
    """What went wrong, in a plan as short as possible, and how to run that again."""
    lines = [
        f"seed {report.plan.seed}: {report.violations[0]}",
        f"{report.plan.settings}",
        *(f"  {event}" for event in report.plan.events),
        "what happened:",
        *(f"  {line}" for line in report.trace),
    ]
    return "\n".join(lines)


def shrunk(report: Report) -> Report:
    """The report of the shortest plan that fails by the same code."""

    def fails(plan: SimulationPlan) -> bool:
        return run(plan).code == report.code

    return run(shrink(report.plan, fails))


def _tell(report: Report, options: argparse.Namespace) -> int:
    if not options.no_shrink:
        report = shrunk(report)
    print(explain(report))
    options.save.write_text(encode(report.plan))
    print(f"again: python -m tests.simulation --trace {options.save}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
