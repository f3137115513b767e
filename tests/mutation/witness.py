"""A pytest plugin for runs against a copy: it checks what is imported and notes what failed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import windlass

COPY = "WINDLASS_MUTATION_COPY"
NOTES = "WINDLASS_MUTATION_NOTES"
_WHERE = "import windlass; print(windlass.__file__)"


def pytest_configure() -> None:
    copy = Path(os.environ[COPY]).resolve()
    child = subprocess.run(
        [sys.executable, "-c", _WHERE], stdout=subprocess.PIPE, text=True, check=True
    )
    for place in (windlass.__file__, child.stdout.strip()):
        if not Path(place).resolve().is_relative_to(copy):
            raise pytest.UsageError(f"windlass comes from {place}, not from {copy}")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    note = [report.nodeid, report.when, report.outcome]
    with Path(os.environ[NOTES]).open("a", encoding="utf-8") as notes:
        notes.write(json.dumps(note) + "\n")
