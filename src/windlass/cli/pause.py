"""`windlass pause`; `windlass resume` is its twin."""

from __future__ import annotations

import click
import msgspec

from windlass.app import App
from windlass.cli.base import Command
from windlass.cli.output import print_json, say
from windlass.cli.place import Place, jobs_database, json_option
from windlass.store.records import Paused


@click.command(
    cls=Command,
    examples=(
        "windlass pause --task welcome",
        "windlass pause --queue reports",
        "windlass pause                     # what is paused",
    ),
)
@click.option("--task", metavar="NAME", help="The task.")
@click.option("--queue", metavar="NAME", help="The queue.")
@json_option
@jobs_database
def pause(place: Place, task: str | None, queue: str | None, as_json: bool) -> None:
    """Stop starting jobs of a task or a queue, in every worker, until resumed.

    It is remembered in the database. Jobs that run already go on. Without arguments it shows what
    is paused.
    """
    change(place, task, queue, as_json, is_pausing=True)


def change(
    place: Place, task: str | None, queue: str | None, as_json: bool, *, is_pausing: bool
) -> None:
    """Pause or resume one thing, or none; then show what is paused."""
    if task is not None and queue is not None:
        raise click.UsageError("Give --task or --queue, not both.", click.get_current_context())

    is_asking = task is None and queue is None

    async def work(app: App) -> Paused:
        if not is_asking:
            verb = app.client.pause if is_pausing else app.client.resume
            await verb(task=task, queue=queue)
        return await app.client.paused()

    paused = place.use(work, looks=is_asking)
    if as_json:
        elsewhere = [msgspec.structs.asdict(other) for other in paused.elsewhere]
        print_json({**msgspec.structs.asdict(paused), "elsewhere": elsewhere})
        return
    for name in paused.tasks:
        click.echo(f"task {name} is paused")
    for name in paused.queues:
        click.echo(f"queue {name} is paused")
    for other in paused.elsewhere:
        click.echo(f"{other.kind} {other.name} of tenant {other.tenant} is paused")
    if paused == Paused():
        say("nothing is paused")
