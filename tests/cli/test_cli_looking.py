"""Commands that only look make nothing and change nothing, and no command shows a raw OSError."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import Program

LOOKS = [
    ("jobs", "list"),
    ("jobs", "show", "1"),
    ("cron", "list"),
    ("health",),
    ("doctor",),
    ("pause",),
    ("resume",),
]
CHANGES = [
    ("jobs", "retry", "1"),
    ("jobs", "remove", "k"),
    ("pause", "--task", "t"),
    ("cron", "pause", "weekly"),
    ("cleanup", "prune"),
    ("unlock", "w"),
]


def _strangers(path: Path, mode: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.execute("CREATE TABLE own (n)")
        connection.commit()


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("mode", ["delete", "wal"])
@pytest.mark.parametrize("command", [*LOOKS, *CHANGES], ids=" ".join)
def test_a_strangers_file_stays_as_it_is(
    program: Program, command: tuple[str, ...], mode: str
) -> None:
    _strangers(program.folder / "own.db", mode)
    before = _files(program.folder)
    result = program.call(*command, "-c", "sqlite:///own.db")
    assert result.exit_code == 1
    told = result.stderr or result.stdout  # doctor tells it as a finding
    assert "own.db has no Windlass tables" in told
    assert "windlass migrate" in told
    assert _files(program.folder) == before


def test_looking_makes_no_file(program: Program) -> None:
    for command in LOOKS:
        assert program.call(*command, "-c", "sqlite:///none.db").exit_code == 1
    assert not (program.folder / "none.db").exists()


@pytest.mark.parametrize("command", LOOKS, ids=" ".join)
def test_looking_does_not_change_a_copys_journal(
    program: Program, command: tuple[str, ...]
) -> None:
    """`VACUUM INTO` makes a file that does not use the write-ahead log."""
    program.add("t")
    with closing(sqlite3.connect(program.file)) as connection:
        connection.execute(f"VACUUM INTO '{program.folder}/copy.db'")
    before = _files(program.folder)["copy.db"]
    result = program.call(*command, "-c", "sqlite:///copy.db")
    assert result.exit_code == (1 if command == ("doctor",) else 0), result.output
    assert _files(program.folder)["copy.db"] == before
    assert not (program.folder / "copy.db-wal").exists()


def test_adding_and_migrating_make_tables_in_a_strangers_file(program: Program) -> None:
    """Jobs may live beside the user's own tables: that is asked for, not stumbled into."""
    for name, command in (("one.db", ("add", "t")), ("two.db", ("migrate",))):
        _strangers(program.folder / name, "delete")
        assert program.call(*command, "-c", f"sqlite:///{name}").exit_code == 0
        assert program.call("jobs", "list", "-c", f"sqlite:///{name}").exit_code == 0


@pytest.mark.parametrize(
    "command",
    [*LOOKS, ("add", "t"), ("migrate",), ("run", "work:app"), ("run", "--tasks", "closed")],
    ids=" ".join,
)
def test_a_directory_without_rights_is_one_line(
    program: Program, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may look anywhere, so what others meet is put in its way."""
    closed = program.folder / "closed"
    closed.mkdir()
    stat, access = os.stat, os.access

    def refuse(path: Any, **options: Any) -> os.stat_result:
        if isinstance(path, str | os.PathLike) and closed in Path(path).absolute().parents:
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return stat(path, **options)

    monkeypatch.setattr(os, "stat", refuse)
    monkeypatch.setattr(
        os, "access", lambda path, mode: closed not in Path(path).parents and access(path, mode)
    )
    (closed / "task.py").write_text("def task(payload, helpers): ...")
    result = program.call(*command, "-c", "sqlite:///closed/jobs.db")
    told = result.stderr or result.stdout
    assert result.exit_code == 1, told
    assert "closed" in told
    if command != ("doctor",):
        assert told.startswith("windlass: ")
        assert told.count("\n") == 1
