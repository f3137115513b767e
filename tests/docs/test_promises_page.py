"""Every test that docs/promises.md names exists, and every promise names one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.docs.doc_pages import DOCS, ROOT, table_rows
from windlass.testing import contract

PAGE = DOCS / "promises.md"
TESTS = sorted(set(re.findall(r"`(tests/[^`]+)`", PAGE.read_text(encoding="utf-8"))))
PROMISES = table_rows(PAGE, "# Promises")
CASES = {str(case).partition("[")[0] for case in contract.cases()}


def functions(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


def proofs(row: list[str]) -> list[str]:
    return re.findall(r"`([^`]+)`", row[2])


@pytest.mark.parametrize("test", TESTS)
def test_a_named_test_exists(test: str) -> None:
    file, _, name = test.partition("::")
    assert name.startswith("test_")
    assert name in functions(ROOT / file)


@pytest.mark.parametrize("row", PROMISES, ids=lambda row: str(row[0]))
def test_a_promise_is_proved_by_tests_or_cases_that_exist(row: list[str]) -> None:
    assert proofs(row)
    unknown = [proof for proof in proofs(row) if proof not in CASES and proof not in TESTS]
    assert unknown == []


def test_the_promises_are_all_there() -> None:
    assert [row[0] for row in PROMISES] == [f"P{n}" for n in range(1, 13)]
