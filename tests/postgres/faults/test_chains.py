"""Chains over worker processes that are killed, on PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from tests.faults.chain_scenario import MERGED, fan_ins_under_kills
from tests.postgres.cluster import Cluster, fresh_database
from tests.postgres.faults.kit import check_server_log


@pytest.mark.rig
def test_each_merge_runs_once_and_none_hangs(tmp_path: Path, pg18: Cluster) -> None:
    mark = len(pg18.log())
    with fresh_database(pg18) as url:
        with psycopg.connect(url, autocommit=True) as own:
            own.execute(MERGED)

            def merged() -> list[tuple[int, int]]:
                return own.execute("SELECT n, parts FROM merged").fetchall()

            fan_ins_under_kills(tmp_path, url, merged)
    check_server_log(pg18.log()[mark:], during_faults=True)
