"""Errors: one clear line, the right exit code, no traceback."""

from __future__ import annotations

import gc
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.cli.program import Program
from tests.patience import PATIENCE


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("run", "nosuch:app"), 2, "no module 'nosuch'"),
        (("run", "nosuch/file.py:app"), 2, "no file nosuch/file.py"),
        (("run", "work:nothing"), 2, "has no 'nothing'; it has app"),
        (("run", "work:mark"), 2, "is a function, not a windlass.App"),
        (("run", "work:"), 2, "not MODULE:APP"),
        (("run", "broken:app"), 1, "ZeroDivisionError: division by zero"),
        (("run", "quits:app"), 1, "SystemExit"),
        (("run", "needs:app"), 1, "No module named 'nowhere_to_be_found'"),
        (("run", "unready:app"), 1, "ConnectionError: no mail server"),
        (("run", "several"), 2, "several Apps; choose one: several:one"),
        (("run", "empty"), 2, "has no windlass.App"),
        (("run",), 2, "no tasks/ folder here"),
        (("run", "--tasks", "none"), 1, "no tasks folder at none"),
        (("run", "--tasks", "bad_tasks"), 1, "NameError"),
        (("run", "work:app", "--once", "--schema-only"), 2, "exclude each other"),
        (("run", "work:app", "--only", "quikc"), 2, "no task is called 'quikc'"),
        (("run", "work:app", "--exclude", "none"), 2, "no task is called 'none'"),
        (("run", "work:app", "--poll-interval", "300001"), 2, "300000"),
        (("run", "work:app", "-j", "0"), 2, "--jobs"),
        (("run", "work:app", "--processes", "2", "-c", "non.sense"), 2, "is not a URL"),
        (("run", "work:app", "--schema-only", "--migrate", "check"), 2, "exclude each other"),
        (("run", "work:app", "--migrate", "sometimes"), 2, "--migrate"),
        (("run", "work:app", "-c", "foo://bar"), 2, "foo://"),
        (("add", "t", "-c", "sqlite://jobs.db"), 2, "sqlite:///"),
        (("add", "t", "-c", "sqlite:///no/such/folder/x.db"), 1, "does not exist"),
        (("add", "t", "-c", "postgresql://127.0.0.1:1/x"), 1, "cannot connect to x on 127.0.0.1"),
        (("add", "t", "-c", "postgresql://127.0.0.1/x?colour=red"), 2, "colour"),
        (("jobs", "list", "-c", "sqlite:///typo.db"), 1, "no database at typo.db"),
        (("jobs", "list", "--nonsense"), 2, "--nonsense"),
        (("nonsense",), 2, "nonsense"),
        (("cleanup",), 2, "gc-tasks"),
        (("add", "t", '"\udcff"'), 2, "not JSON"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_one_line_and_the_right_code(
    program: Program, arguments: tuple[str, ...], code: int, said: str
) -> None:
    program.write("broken.py", "from windlass import App\napp = App()\n1 / 0\n")
    program.write("quits.py", "raise SystemExit(0)\n")
    program.write("needs.py", "import nowhere_to_be_found\n")
    program.write("several.py", "from windlass import App\none = App()\ntwo = App()\n")
    program.write("empty.py", "")
    program.write(
        "unready.py",
        "from windlass import App\n"
        "def lifespan(): raise ConnectionError('no mail server')\n"
        "app = App(tasks={'t': print}, lifespan=lifespan)\n",
    )
    program.write("bad_tasks/oops.py", "undefined_name\n")
    result = program.run(*arguments)
    assert result.returncode == code, result.stderr
    assert result.stderr.startswith("windlass: ")
    assert said in result.stderr
    assert result.stderr.count("\n") == 1, result.stderr
    assert result.stdout == ""
    assert not (program.folder / "typo.db").exists()


def test_debug_shows_the_traceback(program: Program) -> None:
    program.write("broken.py", "1 / 0\n")
    result = program.run("run", "broken:app", "--log-level", "debug")
    assert result.returncode == 1
    assert "Traceback" in result.stderr
    assert "broken.py" in result.stderr


@pytest.mark.parametrize("arguments", [("jobs", "list"), ("add", "t"), ("run", "work:app")])
def test_a_file_of_a_newer_version_is_refused_with_57(
    program: Program, arguments: tuple[str, ...]
) -> None:
    program.add("t")
    with sqlite3.connect(program.file) as connection:
        connection.execute(
            "UPDATE windlass_meta SET value = 9999"
            " WHERE key IN ('schema_version', 'breaking_version')"
        )
    connection.close()
    result = program.run(*arguments)
    assert result.returncode == 57
    assert "newer Windlass" in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_supervisor_passes_57_on(program: Program) -> None:
    test_a_file_of_a_newer_version_is_refused_with_57(
        program, ("run", "work:app", "--processes", "2")
    )


@pytest.mark.parametrize("arguments", [("jobs", "list"), ("add", "t"), ("run", "work:app")])
def test_a_corrupt_file_gives_one_line(program: Program, arguments: tuple[str, ...]) -> None:
    program.file.write_bytes(b"this is no database at all " * 400)
    result = program.run(*arguments)
    assert result.returncode == 1
    assert "is not a Windlass database or is damaged" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_read_only_file_gives_one_line(program: Program) -> None:
    program.add("t")
    program.close()
    # Without root's rights it cannot store which of its lines were covered.
    measuring = ("COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START")
    environment = program.environment()
    # The folders of pytest are closed to other users.
    with tempfile.TemporaryDirectory() as folder:
        # Root may write anything, so the program gives up being root once everything is imported.
        code = (
            "import os, sys, windlass.cli.add, windlass.stores.sqlite, concurrent.futures.thread,"
            " asyncio.runners\n"
            f"os.chdir({folder!r})\n"
            "from windlass.cli import main\n"
            "if os.getuid() == 0: os.setgid(65534); os.setuid(65534)\n"
            "main(args=['add', 't', '-c', 'sqlite:///windlass.db'])\n"
        )
        shutil.copy(program.file, folder)
        Path(folder, "windlass.db").chmod(0o444)
        Path(folder).chmod(0o555)
        result = subprocess.run(
            [sys.executable, "-c", code],
            env={name: text for name, text in environment.items() if name not in measuring},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        Path(folder).chmod(0o755)
    assert result.returncode == 1
    assert "windlass.db is read-only" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_run_that_fails_leaves_its_process_as_it_was(program: Program) -> None:
    """In a program of the user's that calls the command line."""

    def look() -> list[object]:
        stops = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
        return [gc.get_threshold(), *(signal.getsignal(number) for number in stops)]

    before = look()
    assert program.call("run", "no_such_module:app").exit_code != 0
    assert look() == before


def test_what_an_error_quotes_takes_no_second_line(program: Program) -> None:
    program.add("t")
    result = program.call("unlock", "a\nb")
    assert result.exit_code == 1
    assert result.stderr.startswith("windlass: no worker is called a b;")
    assert result.stderr.count("\n") == 1
