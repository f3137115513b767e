"""The command line with odd arguments and odd input: done, or one line and exit code 1 or 2."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import leaks
from tests.cli.program import WINDLASS, WORK, Program
from tests.fuzz.kit import fuzz
from tests.fuzz.values import integers, json_like, texts

pytestmark = pytest.mark.slow

words = (
    texts.filter(lambda text: "\x00" not in text)  # no system passes one to a program
    | integers.map(str)
    | st.sampled_from(["-", "--", "-1", "--json", "1e400", "[]", "{"])
)
COMMANDS: dict[str, tuple[str, ...]] = {
    "add": (
        *("--queue", "--run-at", "--max-attempts", "--key", "--key-mode", "--priority", "--flag"),
        *("--strict", "--tenant", "--chain", "--key-window", "--blocker", "--on-blocker-failure"),
    ),
    "jobs list": ("--state", "--task", "--queue", "--limit", "--after", "--tenant"),
    "jobs show": ("--tenant",),
    "jobs retry": ("--state", "--task", "--queue", "--tenant"),
    "jobs cancel": ("--state", "--task", "--queue", "--tenant"),
    "jobs complete": ("--state", "--task", "--queue", "--tenant"),
    "jobs fail": ("--state", "--task", "--queue", "--reason", "--tenant"),
    "jobs reschedule": ("--run-at", "--priority", "--attempts", "--max-attempts", "--task"),
    "jobs remove": ("--tenant",),
    "chains list": ("--state", "--task", "--limit", "--after", "--tenant"),
    "chains show": ("--tenant",),
    "chains complete": ("--then", "--queue", "--run-at", "--priority", "--blocker", "--tenant"),
    "chains cancel": ("--tenant",),
    "chains retry": ("--tenant",),
    "chains delete": ("--cascade", "--tenant"),
    "pause": ("--task", "--queue", "--tenant"),
    "resume": ("--task", "--queue", "--tenant"),
    "cron check": ("--count", "--tz"),
    "cron list": ("--tenant",),
    "cron pause": ("--tenant",),
    "cron resume": ("--tenant",),
    "cron remove": ("--tenant",),
    "cron trigger": ("--tenant",),
    "cleanup": ("--tenant",),
    "unlock": (),
    "health": ("--worker",),
    "migrate": ("--schema",),
    "import graphile": ("--from",),
    "doctor": (),
    "run --once": (
        "--only",
        "--exclude",
        "--crontab",
        "--tasks",
        "-j",
        "--grace",
        "--schema",
        "-m",
        "--tenant",
    ),
}


@pytest.fixture(scope="module")
@leaks.grows
def program(
    no_settings_from_outside: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Program]:
    made = Program(tmp_path_factory.mktemp("cli"))
    made.write("work.py", WORK)
    made.add("control")
    yield made
    made.close()


def stored(program: Program) -> int:
    with sqlite3.connect(program.file) as connection:
        [count] = connection.execute("SELECT count(*) FROM windlass_jobs").fetchone()
    connection.close()
    return int(count)


def call(program: Program, arguments: list[str], input: bytes | None = None) -> None:
    """A worker gets a process of its own, because it takes over the signals of its process and
    ends a process whose threads do not end."""
    before = stored(program)
    if arguments[0] == "run":
        ended = program.run(*arguments)
        code, output, errors = ended.returncode, ended.stdout, ended.stderr
    else:
        result = program.call(*arguments, input=input)  # type: ignore[arg-type]
        code, output, errors = result.exit_code, result.output, result.stderr
    assert code in (0, 1, 2), output + errors
    assert "Traceback" not in output + errors
    if code and errors:
        lines = errors.rstrip("\n").split("\n")
        assert lines[-1].startswith("windlass: "), errors
        assert len(errors) < 4_000, errors
    if code == 2:
        assert errors.count("\n") == 1, errors
        assert stored(program) == before
    elif code:
        assert stored(program) <= before


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command(program: Program, command: str) -> None:
    options = COMMANDS[command]
    one = st.tuples(st.sampled_from(options), words) if options else st.tuples(words)
    target = ["work:app"] if command.startswith("run") else []

    @fuzz(10 if command.startswith("run") else 30)
    @given(st.lists(words, max_size=2), st.lists(one, max_size=2))
    def check(free: list[str], more: list[tuple[str, ...]]) -> None:
        given_words = [*command.split(), *target, *(word for pair in more for word in pair), *free]
        call(program, given_words)

    check()


def test_lines_of_jobs(program: Program) -> None:
    fields = ["task", "payload", "queue", "run_at", "max_attempts", "key", "key_mode", "priority"]
    line = st.dictionaries(
        st.sampled_from(
            [
                *(*fields, "flags", "strict", "other"),
                *("chain", "key_window", "blockers", "on_blocker_failure"),
            ]
        ),
        json_like,
        max_size=4,
    )
    plain = line.map(lambda found: json.dumps({"task": "t", **found}).encode())
    garbage = st.binary(max_size=30) | st.sampled_from(
        [
            b"\xff\xfe",
            b"{" * 9_000,
            b'{"task": "t", "payload": 1e400}',
            b'{"task": "\\ud800"}',
            b"\0",
        ]
    )

    @fuzz(150)
    @given(st.lists(plain | garbage, max_size=3).map(b"\n".join))
    def check(text: bytes) -> None:
        call(program, ["add", "--jsonl", "-"], text)

    check()


PROCESSES: dict[str, tuple[list[bytes], bytes]] = {
    "a task that is no text": ([b"add", b"\xff"], b""),
    "a connection that is no text": ([b"jobs", b"list", b"-c", b"sqlite:///\xff.db"], b""),
    "a payload that is no text": ([b"add", b"t", b'"\xff"'], b""),
    "a crontab that is no text": ([b"cron", b"check", b"\xff"], b""),
    "lines that are no text": ([b"add", b"--jsonl", b"-"], b"\xff\xfe\x00"),
    "a module that is no text": ([b"run", b"\xff:app"], b""),
}


@pytest.mark.parametrize("name", PROCESSES)
def test_bytes_that_are_no_text(program: Program, name: str) -> None:
    """In a process of its own: here the bytes come through the operating system."""
    arguments, input = PROCESSES[name]
    before = stored(program)
    result = subprocess.run(
        [*map(os.fsencode, WINDLASS), *arguments],
        cwd=program.folder,
        env=program.environment(),
        input=input,
        capture_output=True,
    )
    said = result.stderr.decode(errors="replace")
    assert result.returncode in (1, 2), said
    assert said.startswith("windlass: ") and said.count("\n") == 1, said
    assert stored(program) == before


def test_the_worker_beside_is_alive(program: Program) -> None:
    program.add("quick", {"n": 7})
    assert program.run("run", "work:app", "--once").returncode == 0
    assert any(line.startswith("quick 7") for line in program.ran())
    assert Path(program.file).exists()
