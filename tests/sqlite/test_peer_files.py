"""The SQLite row of `benchmarks/`, with huey beside Windlass."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import own, scenarios
from benchmarks.systems import HUEY, HUEY_UNSAFE
from benchmarks.systems.base import System


@pytest.mark.parametrize("system", [HUEY, HUEY_UNSAFE], ids=lambda system: system.name)
def test_huey_is_counted_in_its_file(tmp_path: Path, system: System) -> None:
    assert scenarios.file_cycle(system, 50, tmp_path)["sqlite"] > 0
    assert list(tmp_path.iterdir()) == []


def test_windlass_and_bare_calls_are_measured_in_one_round(tmp_path: Path) -> None:
    rate, limit = own.file_cycle(tmp_path, lambda _: None, 200)
    assert rate > 0 and limit > 0
    assert list(tmp_path.iterdir()) == []
