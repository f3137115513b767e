"""The list of mutations fits the sources and the tests, and docs/promises.md tells all of it.

That each mutation is noticed takes minutes to show: `make mutation` does.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.doc_pages import ROOT
from tests.docs.test_promises_page import functions
from tests.mutation import page
from tests.mutation.mutation import CONTRACT, CONTRACT_POSTGRES, Mutation
from tests.mutation.mutations import MUTATIONS
from windlass.testing import contract

CASES = {str(case) for case in contract.cases()}


def is_there(test: str) -> bool:
    """Whether there is such a test; of the contract suite, such a case."""
    node, _, variant = test.partition("[")
    file, _, name = node.partition("::")
    if not Path(ROOT / file).is_file() or name not in functions(ROOT / file):
        return False
    if node in (CONTRACT, CONTRACT_POSTGRES):
        return variant.removesuffix("]").partition("-")[2] in CASES
    return True


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: str(mutation.name))
def test_a_mutation_fits_its_file_and_its_tests(mutation: Mutation) -> None:
    text = (ROOT / mutation.file).read_text(encoding="utf-8")
    assert mutation.applied(text) != text
    assert mutation.tests
    assert [test for test in (*mutation.tests, mutation.still_works) if not is_there(test)] == []


def test_each_has_its_own_name_and_is_told_in_one_sentence() -> None:
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)
    assert [each.name for each in MUTATIONS if not each.protection.endswith(".")] == []
    assert [each.name for each in MUTATIONS if "|" in each.protection] == []


def test_no_test_is_named_that_runs_the_installed_program() -> None:
    """Tests of the command line start it without PYTHONPATH: they would not run the copy."""
    named = [test for mutation in MUTATIONS for test in mutation.tests]
    assert [test for test in named if test.startswith(("tests/cli/", "tests/docs/"))] == []


def test_the_page_has_the_table() -> None:
    found = page.PAGE.read_text(encoding="utf-8")
    assert found == page.written(found), "run `python -m tests.mutation.page`"


def test_a_text_that_is_gone_is_refused() -> None:
    with pytest.raises(ValueError, match="occurs 0 times"):
        MUTATIONS[0].applied("something else")
