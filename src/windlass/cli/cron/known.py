"""The schedules that a database knows: `windlass cron list`, and the verbs that change them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from windlass.app import App
from windlass.cli.base import Command, CommandFailed
from windlass.cli.output import instant, print_json, print_table, say
from windlass.cli.place import Place, jobs_database, json_option

if TYPE_CHECKING:
    from windlass.client import ScheduleInfo
    from windlass.model.job import Job

T = TypeVar("T")

_HEADER = ("ID", "TASK", "PATTERN", "LAST", "NEXT", "STATE", "SEEN")

schedule_ids = click.argument("ids", metavar="ID...", nargs=-1, required=True)


@click.command(
    "list",
    cls=Command,
    examples=("windlass cron list", "windlass cron list --json | jq '.[].next_at'"),
)
@json_option
@jobs_database
def list_schedules(place: Place, as_json: bool) -> None:
    """List the schedules that workers had when they started.

    LAST is the last instant fired, NEXT the one to come, SEEN when a worker last started with it.
    """

    async def work(app: App) -> list[ScheduleInfo]:
        return await app.client.list_schedules()

    found = place.use(work, looks=True)
    if as_json:
        print_json(found)
    elif found:
        if any(info.tenant is not None for info in found):
            rows = [(info.tenant or "", *_row(info)) for info in found]
            print_table(("TENANT", *_HEADER), rows)
        else:
            print_table(_HEADER, [_row(info) for info in found])
    else:
        say("no schedules; a schedule is known once a worker has started with it")


@click.command(cls=Command, examples=("windlass cron pause weekly_report",))
@schedule_ids
@json_option
@jobs_database
def pause(place: Place, ids: Sequence[str], as_json: bool) -> None:
    """Fire schedules no more, in any worker, until resumed.

    It is remembered in the database, also when workers start anew. Jobs added already stay.
    """
    for info in _shown(_apply(place, ids, lambda app, id: app.client.pause_schedule(id)), as_json):
        click.echo(f"schedule {info.id} is paused")


@click.command(cls=Command, examples=("windlass cron resume weekly_report",))
@schedule_ids
@json_option
@jobs_database
def resume(place: Place, ids: Sequence[str], as_json: bool) -> None:
    """Fire paused schedules again. What came while they were paused is passed over."""
    for info in _shown(_apply(place, ids, lambda app, id: app.client.resume_schedule(id)), as_json):
        click.echo(f"schedule {info.id} is active, next at {instant(info.next_at)}")


@click.command(
    cls=Command, examples=("windlass cron trigger weekly_report", "windlass cron trigger a b c")
)
@schedule_ids
@json_option
@jobs_database
def trigger(place: Place, ids: Sequence[str], as_json: bool) -> None:
    """Add one job of each schedule now, and print its id.

    Paused schedules can be triggered too. Their own instants stay as they are.
    """
    added: list[Job] = _apply(place, ids, lambda app, id: app.client.trigger_schedule(id))
    for job in _shown(added, as_json):
        click.echo(job.id)


@click.command(cls=Command, examples=("windlass cron remove weekly_report",))
@schedule_ids
@json_option
@jobs_database
def remove(place: Place, ids: Sequence[str], as_json: bool) -> None:
    """Forget schedules, when they last fired included.

    Workers that have it fire it no more until they start again; one that starts with it in its
    crontab makes it known anew. Pause is what keeps it silent for good.
    """
    for info in _shown(_apply(place, ids, lambda app, id: app.client.remove_schedule(id)), as_json):
        click.echo(f"schedule {info.id} removed; a worker that starts with it knows it anew")


def _apply(
    place: Place, ids: Sequence[str], verb: Callable[[App, str], Coroutine[Any, Any, T]]
) -> list[T]:
    """Apply a verb to each of the schedules; if one is unknown, to none of them."""
    wanted = list(dict.fromkeys(ids))

    async def work(app: App) -> list[T]:
        tenant = app.settings.tenant or None
        known = {i.id for i in await app.client.list_schedules() if i.tenant == tenant}
        if missing := [id for id in wanted if id not in known]:
            raise CommandFailed(
                f"no schedule is called {' or '.join(map(repr, missing))} here, and nothing was"
                " changed; windlass cron list shows those that are known"
            )
        return [await verb(app, id) for id in wanted]

    return place.use(work)


def _shown(found: list[T], as_json: bool) -> list[T]:
    """What is left to tell people: nothing once it was printed as JSON."""
    if as_json:
        print_json(found)
    return [] if as_json else found


def _row(info: ScheduleInfo) -> tuple[str, ...]:
    return (
        info.id,
        info.task,
        info.pattern if info.tz == "UTC" else f"{info.pattern} ({info.tz})",
        instant(info.last_at),
        instant(info.next_at),
        "active" if info.paused_at is None else "paused",
        instant(info.seen_at),
    )
