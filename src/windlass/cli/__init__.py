"""The command line. Each command is one module, imported when it is used and not before."""

from __future__ import annotations

from typing import Any

import click

import windlass
from windlass.cli.base import ExitCodes
from windlass.cli.lazy import LazyGroup

COMMANDS = {
    "run": "Work on jobs until stopped.",
    "serve": "Serve the jobs to programs in any language.",
    "dashboard": "See and change the jobs in a browser.",
    "top": "Watch how work goes, in the terminal.",
    "token": "Make, list and revoke the tokens of a server.",
    "add": "Add one job, or a file of jobs.",
    "jobs": "List, show and change jobs.",
    "chains": "List, show and change chains.",
    "pause": "Stop starting jobs of a task or a queue.",
    "resume": "Start jobs of a task or a queue again.",
    "cron": "Check crontabs; list, pause, trigger and remove schedules.",
    "migrate": "Install or update the schema.",
    "cleanup": "Remove what is no longer needed.",
    "unlock": "Free what dead workers held.",
    "import": "Move jobs here from another queue.",
    "health": "Exit 0 if everything needed is there.",
    "doctor": "Say what is wrong here, and what to do.",
    "proto": "Print the protocol file of the server's streams.",
    "bench": "Measure this machine.",
    "demo": "See jobs run, fail, queue up and survive a crash.",
}
MODULES = {name: f"windlass.cli.{name}" for name in COMMANDS} | {"import": "windlass.cli.import_"}


class Windlass(ExitCodes, LazyGroup):
    """The root of the command tree."""


@click.command(
    cls=Windlass,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    commands_by_name={name: (MODULES[name], text) for name, text in COMMANDS.items()},
    examples=(
        "windlass demo                       # see it work, in half a minute",
        "windlass run shop:app               # work on the jobs of shop.py's app",
        "windlass add welcome '{\"user_id\": 7}'",
        "windlass jobs list --state failed",
        'eval "$(_WINDLASS_COMPLETE=bash_source windlass)"   # completion; also zsh, fish',
    ),
)
@click.version_option(windlass.__version__, "--version", message="windlass %(version)s")
def cli() -> None:
    """Windlass runs jobs in the background.

    Where the jobs are: -c/--connection, else WINDLASS_URL, else DATABASE_URL, else PGDATABASE,
    else windlass.toml, else sqlite:///windlass.db in the current folder.
    """


def main(**options: Any) -> None:
    """The entry point of the `windlass` program."""
    cli.main(**options)
