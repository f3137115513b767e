"""What the program says about itself."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from tests.cli.program import Program
from windlass import __version__
from windlass.cli import COMMANDS, cli
from windlass.cli.chains import chains
from windlass.cli.cron import cron
from windlass.cli.jobs import jobs
from windlass.cli.token import token


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_shows_an_example(program: Program, command: str) -> None:
    result = program.call(command, "--help")
    assert result.exit_code == 0
    _, _, examples = result.stdout.partition("Examples:")
    assert f"windlass {command}" in examples


def test_help_tells_the_exit_codes(program: Program) -> None:
    for arguments in ((), ("run",), ("jobs",), ("jobs", "retry")):
        assert "57 the schema is newer" in program.call(*arguments, "--help").stdout


@pytest.mark.parametrize(
    ("group", "verb"),
    [(group.name, verb) for group in (jobs, chains, cron, token) for verb in group.commands],
)
def test_each_verb_of_a_group_shows_an_example(program: Program, group: str, verb: str) -> None:
    result = program.call(group, verb, "--help")
    assert result.exit_code == 0
    assert f"Examples:\n  windlass {group} {verb}" in result.stdout


def test_help_lists_every_command(program: Program) -> None:
    result = program.call("--help")
    listed = {line.split()[0] for line in result.stdout.splitlines() if line.startswith("  ")}
    assert set(COMMANDS) <= listed
    assert "_WINDLASS_COMPLETE=bash_source windlass" in result.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_explains_itself(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    for param in command.params:
        if isinstance(param, click.Option):
            assert param.help, f"{name} {param.opts} has no help"


def test_version(program: Program) -> None:
    result = program.run("--version")
    assert (result.returncode, result.stdout) == (0, f"windlass {__version__}\n")


def test_the_list_of_commands_imports_none_of_them() -> None:
    code = (
        "import sys, windlass.cli as c\n"
        "try: c.main(args=['--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in sys.modules if m in {f'windlass.cli.{n}' for n in c.COMMANDS}])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.splitlines()[-1] == "[]"


def test_completion_knows_commands_states_and_task_files(program: Program) -> None:
    program.write("tasks/users/verify.py", "def task(payload, helpers): ...")

    def complete(words: str, count: int) -> str:
        return program.run(
            _WINDLASS_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(count)
        ).stdout

    assert "plain,doctor" in complete("windlass do", 1)
    assert "plain,failed" in complete("windlass jobs list --state f", 4)
    assert "plain,users/verify" in complete("windlass run --only us", 3)
