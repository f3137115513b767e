"""docs/architecture.md: its layers are those of the linter, its public modules are all that the
documentation imports, and the files it names exist."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.docs.doc_pages import DOCS, ROOT, Block, blocks, pages, table_rows

PAGE = DOCS / "architecture.md"
TEXT = PAGE.read_text(encoding="utf-8")
CONTRACTS: list[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"][
    "importlinter"
]["contracts"]
PUBLIC = [
    name
    for row in table_rows(PAGE, "## What is public")
    for name in re.findall(r"`([\w.]+)`", row[0])
]


def test_the_layers_are_those_the_linter_checks() -> None:
    [checked] = [rule["layers"] for rule in CONTRACTS if rule["type"] == "layers"]
    drawn = TEXT.split("## Layers\n", 1)[1].split("```")[1].removeprefix("text\n")
    assert [set(layer.split(" | ")) for layer in checked] == [
        {f"windlass.{name.strip()}" for name in layer.split(",")} for layer in drawn.split("─►")
    ]


def test_the_modules_that_import_stores_are_those_the_linter_allows() -> None:
    [rule] = [rule for rule in CONTRACTS if rule["type"] == "protected"]
    assert rule["protected_modules"] == ["windlass.stores"]
    [sentence] = re.findall(r"Only three modules import\s+the stores: (.*?)\.", TEXT)
    assert set(rule["allowed_importers"]) == {
        f"windlass.{name}" for name in re.findall(r"`(\w+)`", sentence)
    }


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_module_says_what_it_is_for(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__
    for public in getattr(module, "__all__", ()):
        assert hasattr(module, public)


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_import_public_names_only(page: Path) -> None:
    for block in blocks(page):
        if block.language != "python" or block.is_skipped:
            continue
        for module, name in _imports(block):
            if module.split(".")[0] != "windlass" or f"{module}.{name}" in PUBLIC:
                continue
            assert module in PUBLIC, f"{block}: {module} is not public"
            names: Any = getattr(importlib.import_module(module), "__all__", None)
            assert None in (name, names) or name in names, f"{block}: {module}.{name}"


def _imports(block: Block) -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.Import):
            found += [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [(node.module, alias.name) for alias in node.names]
    return found


def test_the_files_it_names_exist() -> None:
    files = [str(path) for folder in ("src", "tests") for path in ROOT.glob(f"{folder}/**/*.py")]
    for name in set(re.findall(r"`([\w/]+\.py)`", TEXT)):
        assert any(file.endswith(f"/{name}") for file in files), name
