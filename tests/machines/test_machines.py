"""A few programs on each store, the same ones each time; `make machines RUNS=500` runs others."""

from __future__ import annotations

import pytest

from tests.machines.bindings import BINDINGS
from tests.machines.run import run_programs

RUNS = 15


LATER = ("postgres", "postgres-16-batches", "postgres-serializable", "pooler-batches-serializable")
"""Those that others resemble: for `make test-all`."""


@pytest.mark.parametrize(
    "binding",
    [pytest.param(it, marks=pytest.mark.rig if it in LATER else ()) for it in BINDINGS],
)
def test_a_store_answers_as_the_model_does(binding: str) -> None:
    run_programs(BINDINGS[binding], RUNS, seed=None)
