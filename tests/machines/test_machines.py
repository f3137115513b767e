"""A few programs on each store, the same ones each time; `make machines RUNS=500` runs others."""

from __future__ import annotations

import pytest

from tests.machines.bindings import BINDINGS
from tests.machines.run import run_programs

RUNS = 15


WHEN = {"sqlite": (), "postgres-batches": (pytest.mark.slow,)}
"""The others are for `make test-all` alone."""


@pytest.mark.parametrize(
    "binding",
    [pytest.param(it, marks=WHEN.get(it, (pytest.mark.rig,))) for it in BINDINGS],
)
def test_a_store_answers_as_the_model_does(binding: str) -> None:
    run_programs(BINDINGS[binding], RUNS, seed=None)
