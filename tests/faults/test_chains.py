"""Chains over worker processes that are killed, on SQLite."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.chain_scenario import MERGED, fan_ins_under_kills


@pytest.mark.rig
def test_each_merge_runs_once_and_none_hangs(tmp_path: Path) -> None:
    file = tmp_path / "jobs.db"
    with closing(sqlite3.connect(file)) as own:
        own.execute(MERGED)
        own.commit()

        def merged() -> list[tuple[int, int]]:
            return own.execute("SELECT n, parts FROM merged").fetchall()

        fan_ins_under_kills(tmp_path, f"sqlite:///{file}", merged)
