"""The suite proves itself: every mutant is killed, by the cases its author expects."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from tests.contract.mutants import MUTANTS, Mutant
from windlass.stores.memory import MemoryStore
from windlass.testing import contract

CASES = {str(case): case for case in contract.cases()}


def passes(case: contract.Case, store: type[MemoryStore]) -> bool:
    """Whether the store passes; a case says no by an assertion or by missing what it unpacks."""
    try:
        contract.run(case, lambda clock: nullcontext(lambda: store(clock)))
    except (AssertionError, ValueError):
        return False
    return True


def test_there_are_enough_and_each_has_its_own_name() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 25


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_killed(mutant: Mutant) -> None:
    assert mutant.killers
    for name in mutant.killers:
        assert name in CASES, f"there is no case {name}"
        assert passes(CASES[name], MemoryStore), f"{name} fails on the right store"
        assert not passes(CASES[name], mutant.store), f"{name} lets the mutant live"
