"""Branch coverage of each package, from the data of a measured run: `make cover`.

A package is a folder of src/windlass; its modules count, and not those of folders within it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from coverage import Coverage

LEAST = 95.0
"""Percent of statements and branches that tests must reach in each package."""

SOURCES = Path("src")


def main(data_file: str = ".coverage") -> int:
    measured = Coverage(data_file=data_file)
    measured.load()
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        measured.json_report(outfile=report.name)
        files = json.loads(Path(report.name).read_text())["files"]
    figures = {name: percent(parts) for name, parts in by_package(files).items()}
    for name, figure in sorted(figures.items()):
        print(f"  {figure:5.1f} %  {name}{'' if figure >= LEAST else '  is too little'}")
    low = {name for name, figure in figures.items() if figure < LEAST}
    for path, found in sorted(files.items()):
        if package_of(path) in low and percent([found["summary"]]) < 100:
            lines = found["missing_lines"], found["missing_branches"]
            print(f"{path}: not reached: lines {lines[0]}, branches {lines[1]}")
    return 1 if low else 0


def by_package(files: dict[str, dict[str, dict[str, int]]]) -> dict[str, list[dict[str, int]]]:
    found: dict[str, list[dict[str, int]]] = defaultdict(list)
    for path, file in files.items():
        found[package_of(path)].append(file["summary"])
    return found


def package_of(path: str) -> str:
    return ".".join(Path(path).parent.relative_to(SOURCES).parts)


def percent(summaries: list[dict[str, int]]) -> float:
    reached = sum(one["covered_lines"] + one["covered_branches"] for one in summaries)
    there = sum(one["num_statements"] + one["num_branches"] for one in summaries)
    return 100.0 * reached / there if there else 100.0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
