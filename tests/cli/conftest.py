"""A folder, a database and the program, anew for each test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.program import WORK, Program


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Program]:
    for name in os.environ:
        if name.startswith(("WINDLASS_", "PG")) or name == "DATABASE_URL":
            monkeypatch.delenv(name)
    made = Program(tmp_path)
    made.write("work.py", WORK)
    yield made
    made.close()
