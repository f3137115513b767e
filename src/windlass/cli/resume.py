"""`windlass resume`"""

from __future__ import annotations

import click

from windlass.cli.base import Command
from windlass.cli.pause import change
from windlass.cli.place import Place, jobs_database, json_option


@click.command(
    cls=Command,
    examples=(
        "windlass resume --task welcome",
        "windlass resume --queue reports",
        "windlass resume                     # what is still paused",
    ),
)
@click.option("--task", metavar="NAME", help="The task.")
@click.option("--queue", metavar="NAME", help="The queue.")
@json_option
@jobs_database
def resume(place: Place, task: str | None, queue: str | None, as_json: bool) -> None:
    """Start jobs of a paused task or queue again. Without arguments it shows what is paused."""
    change(place, task, queue, as_json, is_pausing=False)
