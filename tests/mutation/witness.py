"""A pytest plugin for runs against a copy: it checks what is imported and notes what failed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import windlass

COPY = "WINDLASS_MUTATION_COPY"
NOTES = "WINDLASS_MUTATION_NOTES"


def pytest_configure() -> None:
    copy = Path(os.environ[COPY]).resolve()
    if not Path(windlass.__file__).resolve().is_relative_to(copy):
        raise pytest.UsageError(f"windlass comes from {windlass.__file__}, not from {copy}")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    note = [report.nodeid, report.when, report.outcome]
    with Path(os.environ[NOTES]).open("a", encoding="utf-8") as notes:
        notes.write(json.dumps(note) + "\n")
