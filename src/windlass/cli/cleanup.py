"""`windlass cleanup`"""

from __future__ import annotations

import click

from windlass.app import App
from windlass.cli.base import Command
from windlass.cli.output import plural, print_json
from windlass.cli.place import Place, jobs_database, json_option
from windlass.client import CLEANUPS, Cleanup


@click.command(
    cls=Command, examples=("windlass cleanup prune", "windlass cleanup delete-failed prune")
)
@click.argument("names", metavar="NAME...", nargs=-1, required=True, type=click.Choice(CLEANUPS))
@json_option
@jobs_database
def cleanup(place: Place, names: tuple[Cleanup, ...], as_json: bool) -> None:
    """Remove what is no longer needed.

    \b
    delete-failed   jobs that failed for good
    prune           finished jobs that were kept long enough (workers do this too)
    gc-tasks        unused task names (nothing to do: names live in the jobs)
    gc-queues       unused queue names (nothing to do: names live in the jobs)
    """

    async def work(app: App) -> dict[str, int]:
        return await app.client.cleanup(*dict.fromkeys(names))

    removed = place.use(work)
    if as_json:
        print_json(removed)
        return
    for name, count in removed.items():
        click.echo(f"{name}: {plural(count, 'row')} removed")
