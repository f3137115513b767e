"""`windlass health`"""

from __future__ import annotations

import click

from windlass.app import App
from windlass.cli.base import Command, CommandFailed
from windlass.cli.output import plural, print_json
from windlass.cli.place import Place, database, json_option
from windlass.observe.urls import without_password


@click.command(
    cls=Command,
    examples=(
        "windlass health                # does the database answer, does the schema fit",
        "windlass health --worker       # and is a worker alive",
    ),
)
@click.option("--worker", "needs_worker", is_flag=True, help="Also ask for a worker that is alive.")
@json_option
@database
def health(place: Place, needs_worker: bool, as_json: bool) -> None:
    """Exit 0 if the database answers, the schema fits and (with --worker) a worker is alive.

    Made for health checks of containers and supervisors.
    """

    async def work(app: App) -> dict[str, object]:
        await app.open()
        now = await app.store.now()
        workers = [worker.id for worker in await app.client.workers() if worker.expires_at > now]
        return {
            "url": without_password(app.settings.url),
            "workers": workers,
            "jobs": await app.client.counts(),
        }

    found = place.use(work, looks=True, migrate="check")
    alive = found["workers"]
    assert isinstance(alive, list)
    is_healthy = bool(alive) or not needs_worker
    if as_json:
        print_json({"healthy": is_healthy, **found})
    elif is_healthy:
        click.echo(f"ok: the database answers, {plural(len(alive), 'worker')} alive")
    if not is_healthy:
        raise CommandFailed("no worker is alive; start one with windlass run")
