"""`python -m tests.soak`: a steady load with faults for minutes or hours; see --help."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.results import machine, now
from tests.soak import verdict
from tests.soak.course import Report, SoakPlan, run
from tests.soak.sites import STORES

TITLES = {"postgres": "PostgreSQL 18", "sqlite": "SQLite"}


class Runs:
    """All stores at once, each in a thread: a load far below the limit leaves room for both, and
    what lasts half an hour should not last an hour."""

    def __init__(self, stores: list[str], plan: SoakPlan) -> None:
        self.reports: dict[str, Report] = {}
        self.errors: dict[str, BaseException] = {}
        self.interrupted = threading.Event()
        self._plan = plan
        self._began = time.monotonic()
        self._threads = [
            threading.Thread(target=self._run, args=(store,), name=f"soak-{store}")
            for store in stores
        ]

    def run(self) -> None:
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            while thread.is_alive():  # a join without end would keep signals from their handler
                thread.join(0.2)

    def _run(self, store: str) -> None:
        def say(line: str) -> None:
            passed = time.monotonic() - self._began
            print(f"{passed:6.0f} s  {store:8}  {line}", flush=True)

        try:
            report = run(store, self._plan, self.interrupted, say)
            if report is not None:
                self.reports[store] = report
        except BaseException as error:  # the other store's run ends too, and the user is told why
            self.errors[store] = error
            self.interrupted.set()
            say(f"{type(error).__name__}: {error}")


def told(report: Report) -> str:
    lines = [
        f"{TITLES[report.store]}: {report.ended:,} jobs ended in {report.seconds / 60:g} minutes",
        *(f"  {count:6}  {name}" for name, count in sorted(report.faults.items())),
        *(f"  {line}" for line in verdict.table(report.findings)),
        *(f"  BROKEN  {line}" for line in report.broken),
    ]
    return "\n".join(lines)


def encoded(reports: list[Report], plan: SoakPlan) -> dict[str, Any]:
    runs = [
        {**asdict(report), "title": TITLES[report.store], "findings": list(report.findings)}
        for report in reports
    ]
    return {
        "when": now(),
        "minutes": plan.seconds / 60,
        "machine": machine(Path(tempfile.gettempdir())),
        "runs": runs,
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="how long (30)")
    parser.add_argument("--rate", type=float, default=1.0, help="1 is about 120 jobs a second")
    parser.add_argument("--save", type=Path, default=Path("soak.json"), help="where figures go")
    parser.add_argument("stores", nargs="*", metavar="STORE", help=f"{', '.join(STORES)}; or both")
    options = parser.parse_args()
    stores = options.stores or list(STORES)
    if unknown := set(stores) - set(STORES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are: {', '.join(STORES)}")
    plan = SoakPlan(options.minutes * 60, options.rate)
    runs = Runs(stores, plan)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: runs.interrupted.set())
    runs.run()
    reports = [runs.reports[store] for store in stores if store in runs.reports]
    for report in reports:
        print(told(report), flush=True)
    options.save.write_text(json.dumps(encoded(reports, plan)), encoding="utf-8")
    if len(reports) < len(stores):
        print("interrupted" if not runs.errors else "ended by an error")
        return 1
    print(f"figures and samples: {options.save}")
    return 0 if all(report.is_good for report in reports) else 1


if __name__ == "__main__":
    sys.exit(main())
