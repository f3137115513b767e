"""The versions that docs/running.md says are needed and tested are those that are."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.postgres.cluster import available_versions
from windlass.stores.postgres.schema import OLDEST_SERVER
from windlass.stores.sqlite.connection import OLDEST

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def row(name: str) -> list[str]:
    """The cells behind the name: needed, tested, tested by test-all, not tested."""
    text = (ROOT / "docs" / "running.md").read_text().partition("\n## Versions\n")[2]
    found = re.search(rf"^\| {name} \|(.*)\|$", text, re.MULTILINE)
    assert found is not None
    return [cell.strip() for cell in found[1].split("|")]


@pytest.mark.parametrize(
    ("name", "oldest"),
    [
        ("Python", PROJECT["requires-python"].removeprefix(">=")),
        ("PostgreSQL", str(OLDEST_SERVER // 10_000)),
        ("SQLite", ".".join(map(str, OLDEST[:2]))),
    ],
)
def test_what_is_needed(name: str, oldest: str) -> None:
    assert row(name)[0] == f"{oldest} or newer"


def test_the_pythons_that_are_named_are_tested() -> None:
    """`.ci/pythons` takes its versions from the classifiers."""
    named = [line.split(" :: ")[-1] for line in PROJECT["classifiers"]]
    versions = [version for version in named if re.fullmatch(r"3\.\d+", version)]
    _, _, tested, not_tested = row("Python")
    assert re.findall(r"3\.\d+", tested) == versions
    assert not set(re.findall(r"3\.\d+", not_tested)) & set(versions)


def test_the_servers_that_are_named_are_tested() -> None:
    tested = {int(number) for number in re.findall(r"\d+", row("PostgreSQL")[1])}
    assert tested == {version for version in available_versions() if version != "system"}
