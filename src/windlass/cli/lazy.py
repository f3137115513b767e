"""A click group that knows its commands by name and imports one when it is used."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """`commands_by_name` maps a name to its module and its line in the list of commands.

    The module holds the command in a variable called like the module.
    """

    def __init__(
        self, *args: Any, commands_by_name: Mapping[str, tuple[str, str]], **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self._by_name = commands_by_name

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._by_name)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._by_name:
            return None
        module, _ = self._by_name[cmd_name]
        command = getattr(importlib.import_module(module), module.rpartition(".")[2])
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self._by_name.items()])
