"""Run programs of verbs on one store."""

from __future__ import annotations

import hypothesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.machines.bindings import Fresh
from tests.machines.chains import ChainMachine

STEPS = 40
"""Verbs in one program, at most."""


def run_programs(fresh: Fresh, runs: int, seed: int | None) -> None:
    """So many programs, those of the seed or always the same ones; a failure is made short."""

    class Bound(ChainMachine):
        pass

    Bound.fresh = staticmethod(fresh)

    chosen = settings(
        max_examples=runs,
        stateful_step_count=STEPS,
        derandomize=seed is None,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    if seed is not None:
        hypothesis.seed(seed)(Bound)
    run_state_machine_as_test(Bound, settings=chosen)
