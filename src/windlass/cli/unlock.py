"""`windlass unlock`"""

from __future__ import annotations

import click

from windlass.app import App
from windlass.cli.base import Command, CommandFailed
from windlass.cli.output import plural, print_json
from windlass.cli.place import Place, database, json_option
from windlass.model.job import Job


@click.command(cls=Command, examples=("windlass unlock web-1-4242-0a1b2c3d",))
@click.argument("workers", metavar="WORKER...", nargs=-1, required=True)
@json_option
@database
def unlock(place: Place, workers: tuple[str, ...], as_json: bool) -> None:
    """Treat workers as dead now, and put their jobs back, without waiting for their leases.

    A worker's id is what `jobs show` calls "locked by". A worker that is alive after all loses its
    jobs: what it still finishes is not written.
    """

    async def work(app: App) -> tuple[list[Job], set[str]]:
        client = app.client.for_tenant(None)  # a worker may hold jobs of several
        known = {worker.id for worker in await client.workers()}
        return await client.force_unlock_workers(workers), known

    freed, known = place.use(work)
    if as_json:
        print_json(freed)
    else:
        click.echo(f"{plural(len(freed), 'job')} freed")
    if unknown := sorted(set(workers) - known):
        listed = ", ".join(sorted(known)) or "none"
        raise CommandFailed(f"no worker is called {', '.join(unknown)}; there are: {listed}")
