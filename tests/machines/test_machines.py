"""A few programs on each store, the same ones each time; `make machines RUNS=500` runs others."""

from __future__ import annotations

import pytest

from tests.machines.bindings import BINDINGS
from tests.machines.run import run_programs

RUNS = 15


@pytest.mark.parametrize("binding", BINDINGS)
def test_a_store_answers_as_the_model_does(binding: str) -> None:
    run_programs(BINDINGS[binding], RUNS, seed=None)
