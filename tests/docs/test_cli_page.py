"""docs/cli.md names every command and every option of the program, and no others."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from tests.docs.doc_pages import DOCS, table_rows
from windlass.cli import cli

PAGE = DOCS / "cli.md"
OPTION = re.compile(r"(?<![\w-])--?[a-z](?:[a-z-]*[a-z])?(?![\w-])")


def walk(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """Every command below `command`, by its full name; groups load theirs when asked."""
    ctx = click.Context(command, info_name=name)
    if not isinstance(command, click.Group):
        return
    for child in command.list_commands(ctx):
        found = command.get_command(ctx, child)
        assert found is not None
        yield f"{name} {child}", found
        yield from walk(found, f"{name} {child}")


def options(command: click.Command) -> set[str]:
    found = {"-h", "--help"}
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            found.update([*parameter.opts, *parameter.secondary_opts])
    return found


def sections() -> dict[str, str]:
    """The text below each heading, up to the next."""
    pieces = re.split(r"^#+ (.*)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


COMMANDS = dict(walk(cli, "windlass"))
SECTIONS = sections()
COMMON = {
    option for row in table_rows(PAGE, "## Common options") for option in OPTION.findall(row[0])
}


def test_the_program_has_commands() -> None:
    assert {"windlass run", "windlass jobs list"} <= set(COMMANDS)
    assert "--once" in options(COMMANDS["windlass run"])


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_documented_with_all_its_options(name: str) -> None:
    assert name in SECTIONS, f"docs/cli.md has no heading {name!r}"
    named = set(OPTION.findall(SECTIONS[name]))
    assert options(COMMANDS[name]) - COMMON - named == set()


@pytest.mark.parametrize("title", SECTIONS)
def test_a_section_names_no_option_that_does_not_exist(title: str) -> None:
    command = COMMANDS.get(title)
    if command is None or isinstance(command, click.Group):
        known = set().union(*map(options, COMMANDS.values())) | options(cli)
    else:
        known = options(command)
    code = " ".join(re.findall(r"`([^`]+)`", SECTIONS[title]))
    assert set(OPTION.findall(code)) - known == set()


def test_every_heading_of_a_command_is_a_command() -> None:
    named = {title for title in SECTIONS if title.startswith("windlass ")}
    assert named == set(COMMANDS)


def test_every_command_is_in_the_overview() -> None:
    overview = SECTIONS["Command line"]
    top = [name for name in COMMANDS if name.count(" ") == 1]
    assert [name for name in top if f"`{name}`" not in overview] == []
