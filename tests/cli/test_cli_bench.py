"""`windlass bench`: it runs, counts every job, and prints the ratios itself."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.program import Program

QUICK = ("--jobs", "600", "--batch", "100", "--rounds", "1", "--samples", "5", "--idle", "0.2")


def test_the_ratios_are_in_the_json(program: Program, tmp_path: Path) -> None:
    result = json.loads(program.run("bench", *QUICK, "--json").stdout)
    assert result["jobs"] == 600
    assert result["cycle"]["ratio_to_bare"] > 0
    assert result["cycle"]["per_s"] > 0 and result["bare"]["per_s"] > 0
    assert {"p50", "p95", "p99"} == set(result["pickup_one_process_ms"])
    assert {"p50", "p95", "p99"} == set(result["pickup_two_processes_ms"])
    assert result["worker_rss_mb"] > 1
    assert not list(tmp_path.glob("windlass-bench-*")), "the bench leaves nothing behind"


def test_a_table_is_for_people(program: Program) -> None:
    shown = program.run("bench", *QUICK).stdout
    assert "ratio" in shown and "whole cycle" in shown and "idle worker" in shown


def test_a_batch_of_none_is_refused(program: Program) -> None:
    refused = program.run("bench", "--batch", "0")
    assert refused.returncode == 2
    assert "--batch" in refused.stderr
