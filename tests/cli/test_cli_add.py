"""Adding jobs."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from datetime import UTC, datetime, timedelta

import pytest

from tests.cli.program import WINDLASS, Program
from tests.patience import PATIENCE


def test_add_prints_the_id_and_stores_what_was_asked(program: Program) -> None:
    result = program.call(
        *("add", "welcome", '{"user_id": 7}', "--queue", "mail", "--run-at"),
        *("2099-01-01T12:00:00+02:00", "--max-attempts", "3", "--key", "k", "--priority", "-5"),
        *("--flag", "slow", "--flag", "eu"),
    )
    job = program.job(int(result.stdout))
    assert job.payload == {"user_id": 7}
    assert job.run_at == datetime(2099, 1, 1, 10, tzinfo=UTC)
    assert (job.queue, job.max_attempts, job.key, job.priority) == ("mail", 3, "k", -5)
    assert job.flags == ("slow", "eu")


def test_add_json_prints_the_job_with_its_field_names(program: Program) -> None:
    shown = json.loads(program.call("add", "welcome", "--json").stdout)
    assert shown["payload"] == {}
    assert shown["state"] == "ready"
    assert datetime.fromisoformat(shown["run_at"]).tzinfo is not None


@pytest.mark.parametrize(
    ("text", "later"),
    [("+90s", timedelta(seconds=90)), ("+5m", timedelta(minutes=5)), ("+2h", timedelta(hours=2)),
     ("+3d", timedelta(days=3))],
)  # fmt: skip
def test_run_at_may_be_relative(program: Program, text: str, later: timedelta) -> None:
    before = datetime.now(UTC)
    job = program.job(int(program.call("add", "t", "--run-at", text).stdout))
    assert before + later <= job.run_at <= datetime.now(UTC) + later


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("t", "{bad"), "payload is not JSON"),
        (("t", "NaN"), "payload is not JSON"),
        (("t", "--run-at", "2099-01-01T12:00:00"), "has no time zone"),
        (("t", "--run-at", "tomorrow"), "not an instant"),
        (("t", "--run-at", "+99999999999d"), "too far away"),
        (("t", "--max-attempts", "0"), "at least 1"),
        (("t", "--priority", "3000000000"), "32 bits"),
        (("t", "--key", ""), "must not be empty"),
        (("t", "--key-mode", "sometimes"), "sometimes"),
        (("x" * 129,), "limit is 128"),
        (("t", "--flag", ""), "must not be empty"),
        ((), "Name a task"),
        (("t", "--jsonl", "work.py"), "each line"),
    ],
)
def test_bad_values_are_wrong_usage_and_store_nothing(
    program: Program, arguments: tuple[str, ...], said: str
) -> None:
    result = program.call("add", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stderr.startswith("windlass: ")
    assert result.stderr.count("\n") == 1
    assert not program.file.exists() or program.jobs() == []


def test_jsonl_adds_every_line(program: Program) -> None:
    lines = [
        {"task": "a", "payload": {"n": 1}},
        {"task": "b", "queue": "q", "run_at": "2099-01-01T00:00:00Z", "max_attempts": 2,
         "key": "k", "key_mode": "preserve_run_at", "priority": 4, "flags": ["f"]},
    ]  # fmt: skip
    text = "\n\n".join(json.dumps(line) for line in lines) + "\n"
    result = program.call("add", "--jsonl", "-", input=text)
    assert (result.exit_code, result.stdout) == (0, "2 jobs added\n")
    first, second = program.jobs()
    assert (first.task, first.payload, first.state) == ("a", {"n": 1}, "ready")
    assert (second.queue, second.max_attempts, second.key) == ("q", 2, "k")
    assert (second.priority, second.flags, second.state) == (4, ("f",), "scheduled")


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ('{"task": "a"', "truncated"),
        ('{"task": "a", "colour": "red"}', "colour"),
        ('{"payload": {}}', "task"),
        ('{"task": "a", "priority": "high"}', "priority"),
        ('{"task": "a", "run_at": "2099-01-01T00:00:00"}', "no time zone"),
        ('{"task": "a", "max_attempts": 0}', "at least 1"),
        ('{"task": ""}', "must not be empty"),
        ('{"task": "a", "key_mode": "never"}', "key_mode"),
        ('{"task": "a", "payload": "' + "x" * 300_000 + '"}', "limit is"),
        ("[1]", "array"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_stored(program: Program, bad: str, said: str) -> None:
    program.write("jobs.jsonl", f'{{"task": "a"}}\n\n{bad}\n{{"task": "a"}}\n')
    result = program.call("add", "--jsonl", "jobs.jsonl")
    assert result.exit_code == 1
    assert "jobs.jsonl, line 3: " in result.stderr
    assert said in result.stderr
    assert "nothing was stored" in result.stderr
    assert result.stderr.count("\n") == 1
    assert not program.file.exists() or program.jobs() == []


def test_a_missing_file_is_wrong_usage(program: Program) -> None:
    result = program.call("add", "--jsonl", "none.jsonl")
    assert result.exit_code == 2
    assert "none.jsonl" in result.stderr


def test_many_lines_from_a_file_as_a_process(program: Program) -> None:
    program.write("jobs.jsonl", '{"task": "a"}\n' * 2_000)
    result = program.run("add", "--jsonl", "jobs.jsonl", "--json")
    assert json.loads(result.stdout) == {"added": 2_000}
    assert result.stderr == "windlass: windlass.db is new\n"
    assert program.app.sync.counts()["ready"] == 2_000


def test_a_terminal_sees_a_progress_bar(program: Program) -> None:
    program.write("jobs.jsonl", '{"task": "a"}\n' * 5)
    ours, theirs = pty.openpty()
    try:
        result = subprocess.run(
            [*WINDLASS, "add", "--jsonl", "jobs.jsonl"],
            cwd=program.folder,
            env=program.environment(TERM="xterm"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=theirs,
            timeout=PATIENCE,
        )
        shown = os.read(ours, 4096)
    finally:
        os.close(ours)
        os.close(theirs)
    assert result.stdout == b"5 jobs added\n"
    assert b"100%" in shown
