"""The files of PostgreSQL's functions: one function or view each, in an order in which all can be
made."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

pytest.importorskip("psycopg")

from windlass.stores.postgres import functions, schema

FOLDER = Path(str(files("windlass.stores.postgres") / "sql"))
FILES = sorted(FOLDER.rglob("*.sql"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_makes_what_it_is_called_and_says_what_for(path: Path) -> None:
    text = path.read_text()
    made = re.findall(r"^CREATE OR REPLACE (?:FUNCTION|VIEW) \{schema\}\.([\w{}]+)", text, re.M)
    name = path.stem
    if "-- for each n" in text:
        name = name.replace("_n", "_{kind}_{n}" if "-- for each kind" in text else "_{n}")
    assert made == [name]
    assert text.startswith("-- ")
    assert text.endswith(";\n") and not text.endswith("\n\n")


def test_all_files_are_found() -> None:
    names = [routine.name for routine in functions.routines()]
    assert len(names) == len(set(names))
    plain = {path.stem for path in FILES if "-- for each n" not in path.read_text()}
    picks = {f"_pick_{kind}_{n}" for kind in ("default", "every", "named") for n in (1, 4, 16)}
    assert set(names) - plain == {"_write_any", "_write_new", *picks}


def test_each_comes_after_what_it_is_bound_to() -> None:
    seen: set[str] = set()
    names = {routine.name for routine in functions.routines()}
    for routine in functions.routines():
        assert routine.uses & names <= seen, routine.name
        seen.add(routine.name)


def test_no_view_is_bound_to_a_function() -> None:
    """A function may be bound to a view: so functions can be dropped first, then views."""
    kinds = {routine.name: routine.is_view for routine in functions.routines()}
    for routine in functions.routines():
        if routine.is_view:
            assert all(kinds[name] for name in routine.uses & kinds.keys()), routine.name


def test_migrations_make_no_functions_and_no_views() -> None:
    for step in schema.migrations():
        assert not re.search(r"(?i)create\s+(or replace\s+)?(function|view|trigger)", step.text)


def test_what_is_there_n_times() -> None:
    [sixteen] = [made for made in functions.routines() if made.name == "_pick_default_16"]
    assert sixteen.text.count("UNION ALL") == 16
    assert "_tasks[16]" in sixteen.text and "_tasks[17]" not in sixteen.text
    assert "{i}" not in sixteen.text and "{n}" not in sixteen.text


def test_what_is_there_for_one_kind_only() -> None:
    made = {routine.name: routine.text for routine in functions.routines()}
    default, every, named = (made[f"_pick_{kind}_1"] for kind in ("default", "every", "named"))
    assert "tenant > ''" in every and "tenant > ''" not in default + named
    assert "tenant <> ''" in named and "tenant <> ''" not in default + every
    assert "{kind}" not in default + every + named
    assert not re.search(r"-- (of|end of)\b", default + every + named)


def test_what_is_there_for_one_word_only() -> None:
    made = {routine.name: routine.text for routine in functions.routines()}
    changes, adds = made["_write_any"], made["_write_new"]
    assert "ON CONFLICT (key, tenant)" in changes and "ON CONFLICT (" not in adds
    assert "    _numbers,\n" in adds and "    _numbers,\n" not in changes
    assert not re.search(r"-- (only|end)\b", changes + adds)
