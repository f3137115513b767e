"""The first hundred seeds; `make simulate SEEDS=2000` runs more."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation.__main__ import explain, shrunk
from tests.simulation.maker import make_plan
from tests.simulation.plan import decode, encode
from tests.simulation.world import run

SEEDS = 100
PARTS = 10


@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_is_broken(part: int) -> None:
    for seed in range(part, SEEDS, PARTS):
        report = run(make_plan(seed))
        if report.code:
            pytest.fail(
                f"{explain(shrunk(report))}\nagain: python -m tests.simulation --seed {seed}",
                pytrace=False,
            )


@pytest.mark.parametrize("seed", [3, 8, 28, 36])
def test_a_seed_is_one_run(seed: int) -> None:
    once = run(make_plan(seed))
    again = run(decode(encode(make_plan(seed))))
    assert len(once.trace) > 10
    assert once.trace == again.trace


def test_a_seed_is_one_run_in_every_process() -> None:
    """Neither the order of sets of words nor that of objects in memory counts."""
    traces = {_trace_in_a_process(hash_seed) for hash_seed in ("1", "2")}
    assert len(traces) == 1
    assert "claimed job" in traces.pop()


def _trace_in_a_process(hash_seed: str) -> str:
    shown = subprocess.run(
        [sys.executable, "-m", "tests.simulation", "--seed", "20", "--verbose"],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return shown.stdout


def test_runs_differ() -> None:
    assert run(make_plan(1)).trace != run(make_plan(2)).trace
