"""`python -m tests.mutation [NAME…]`: take out one protection at a time; each must be noticed."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.mutation.mutation import Mutation
from tests.mutation.mutations import MUTATIONS
from tests.mutation.witness import COPY, NOTES

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("src", "tests", "docs", "pyproject.toml", "README.md")
"""Tests read the documentation and the sources beside the package, so they get all of these."""
TEST_TIMEOUT = 60
RUN_TIMEOUT = 1200
_AS_IT_IS = "as it is"


@dataclass(frozen=True)
class Run:
    """What the tests of one run did, by node id: whether each failed in its own body."""

    failed: frozenset[str]
    passed: frozenset[str]
    output: str


@contextmanager
def copy_with(mutation: Mutation | None) -> Iterator[Path]:
    """A copy of the project in which one protection is off."""
    with tempfile.TemporaryDirectory(prefix="windlass-mutation-") as folder:
        copy = Path(folder)
        copy.chmod(0o755)  # the database server may run as another user
        for name in COPIED:
            if (ROOT / name).is_dir():
                skip = shutil.ignore_patterns("__pycache__", ".*")
                shutil.copytree(ROOT / name, copy / name, ignore=skip)
            else:
                shutil.copy2(ROOT / name, copy / name)
        if mutation is not None:
            file = copy / mutation.file
            file.write_text(mutation.applied(file.read_text(encoding="utf-8")), encoding="utf-8")
        yield copy


def run_tests(copy: Path, tests: Sequence[str]) -> Run:
    """Run tests of the copy, in a process that imports the copy, as do its child processes."""
    notes = copy / "notes.jsonl"
    path = os.pathsep.join([str(copy / "src"), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    plugins = ("-p", "tests.mutation.witness", "-p", "no:cacheprovider")
    options = ("-o", f"timeout={TEST_TIMEOUT}", "--tb=short")
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *options, *tests],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": path, COPY: str(copy), NOTES: str(notes)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=RUN_TIMEOUT,
        check=False,
    )
    failed: set[str] = set()
    passed: set[str] = set()
    broken: set[str] = set()
    lines = notes.read_text(encoding="utf-8").splitlines() if notes.exists() else []
    for node, when, outcome in map(json.loads, lines):
        if when == "call":
            (failed if outcome == "failed" else passed).add(node)
        elif outcome != "passed":  # a test that could not begin or tidy up says nothing
            broken.add(node)
    return Run(frozenset(failed), frozenset(passed - broken), ended.stdout)


def named(test: str, nodes: frozenset[str]) -> bool:
    """Whether one of these is that test, with whatever parameters where it names none."""
    return any(node == test or node.startswith(f"{test}[") for node in nodes)


def judge(mutation: Mutation) -> tuple[str, str]:
    """The verdict on a mutation in a few words ("" where all is well), and pytest's output."""
    with copy_with(mutation) as copy:
        run = run_tests(copy, [*mutation.tests, mutation.still_works])
    if not named(mutation.still_works, run.passed):
        return f"broken: {mutation.still_works} must still pass", run.output
    if alive := [test for test in mutation.tests if not named(test, run.failed)]:
        return f"not noticed by {', '.join(alive)}", run.output
    return "", run.output


def baseline(mutations: Sequence[Mutation]) -> tuple[str, str]:
    """The same for the project as it is: every named test must pass."""
    tests = sorted({test for each in mutations for test in (*each.tests, each.still_works)})
    with copy_with(None) as copy:
        run = run_tests(copy, tests)
    if red := [test for test in tests if not named(test, run.passed) or named(test, run.failed)]:
        return f"fails without a mutation: {', '.join(red)}", run.output
    return "", run.output


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutations; all if none is given")
    parser.add_argument("--no-baseline", action="store_true", help="omit the project as it is")
    parser.add_argument("--verbose", action="store_true", help="show what pytest said of all")
    options = parser.parse_args()
    known = {mutation.name: mutation for mutation in MUTATIONS}
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"unknown: {', '.join(unknown)}; there are: {', '.join(known)}")
    chosen = [known[name] for name in options.names] or list(MUTATIONS)
    bad = 0
    width = max(len(mutation.name) for mutation in chosen)
    runs: list[tuple[str, Callable[[], tuple[str, str]]]]
    runs = [(each.name, partial(judge, each)) for each in chosen]
    if not options.no_baseline:
        runs.insert(0, (_AS_IT_IS, partial(baseline, chosen)))
    for number, (name, look) in enumerate(runs, 1):
        began = time.monotonic()
        trouble, output = look()
        took = time.monotonic() - began
        good = "green" if name == _AS_IT_IS else "red, as it must be"
        print(
            f"{number:3}/{len(runs)}  {name:{width}}  {took:5.1f} s  {trouble or good}", flush=True
        )
        if trouble or options.verbose:
            print(output, flush=True)
        bad += bool(trouble)
    print(f"{len(chosen)} mutations, {bad} of {len(runs)} runs not as they must be")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
