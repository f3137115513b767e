"""The suite proves itself: every mutant is killed, by the cases its author expects."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from tests.contract import (
    mutants,
    mutants_chains,
    mutants_expire,
    mutants_figures,
    mutants_server,
    mutants_strict,
    mutants_tenants,
    mutants_webhooks,
)
from tests.contract.mutant import MUTANTS, Mutant
from windlass.errors import WindlassError
from windlass.stores.memory import MemoryStore
from windlass.testing import contract

CASES = {str(case): case for case in contract.cases()}
FILES = (
    mutants,
    mutants_chains,
    mutants_expire,
    mutants_figures,
    mutants_server,
    mutants_strict,
    mutants_tenants,
    mutants_webhooks,
)
"""Importing them registers their mutants."""

PROVEN = (
    "tenants",
    "strict",
    "expire",
    "chains",
    "blockers",
    "chain_keys",
    "chain_operators",
    "webhooks",
    "server",
    "figures",
)
"""Groups of which every single case kills a mutant."""


def passes(case: contract.Case, store: type[MemoryStore]) -> bool:
    """Whether the store passes; a case says no by an assertion, by missing what it unpacks, or
    where the store refuses what it must take."""
    try:
        contract.run(case, lambda clock: nullcontext(lambda: store(clock)))
    except (AssertionError, ValueError, WindlassError):
        return False
    return True


def test_there_are_enough_and_each_has_its_own_name() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 25


def test_every_mutant_is_of_one_of_the_files() -> None:
    assert {mutant.store.__module__ for mutant in MUTANTS} == {file.__name__ for file in FILES}


@pytest.mark.parametrize("group", PROVEN)
def test_every_case_of_a_group_kills_a_mutant(group: str) -> None:
    cases = {str(case) for case in contract.cases() if case.group == group}
    assert cases
    assert cases - {name for mutant in MUTANTS for name in mutant.killers} == set()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_killed(mutant: Mutant) -> None:
    assert mutant.killers
    for name in mutant.killers:
        assert name in CASES, f"there is no case {name}"
        assert passes(CASES[name], MemoryStore), f"{name} fails on the right store"
        assert not passes(CASES[name], mutant.store), f"{name} lets the mutant live"
