"""`windlass jobs`: look at jobs and change them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any

import click

from windlass.app import App
from windlass.cli.base import FAILED, Command, CommandFailed, ExitCodes
from windlass.cli.output import plural, print_job, print_jobs, print_json, say
from windlass.cli.place import Place, jobs_database, json_option
from windlass.cli.selection import Changed, Selection, apply, selection_options, selects
from windlass.cli.values import instant_option
from windlass.client.showing import ShownJob, show_job
from windlass.model.job import Job


class Group(ExitCodes, click.Group):
    """A group with examples in its help."""


@click.group(
    cls=Group,
    examples=("windlass jobs list --state failed", "windlass jobs show 7", "windlass jobs retry 7"),
)
def jobs() -> None:
    """List, show and change jobs."""


@jobs.command(
    "list",
    cls=Command,
    examples=(
        "windlass jobs list",
        "windlass jobs list --state failed --task welcome",
        "windlass jobs list --json --limit 1000 --after 5000   # the next page",
    ),
)
@selection_options
@click.option("--key", help="The job with this key.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True)
@click.option(
    "--after",
    type=click.IntRange(0),
    metavar="ID",
    help="The last id of the page before: only older jobs.",
)
@json_option
@jobs_database
def list_jobs(
    place: Place,
    selection: Selection,
    key: str | None,
    limit: int,
    after: int | None,
    as_json: bool,
) -> None:
    """List jobs, the newest first, a page at a time."""

    async def work(app: App) -> list[Job]:
        return await app.client.list_jobs(**selection.words, key=key, limit=limit, after=after)

    found = place.use(work, looks=True)
    if as_json:
        print_json(found)
    elif found:
        print_jobs(found)
        if len(found) == limit:
            say(f"there may be more: --after {found[-1].id}")
    else:
        say("no jobs")


@jobs.command(
    cls=Command, examples=("windlass jobs show 7", "windlass jobs show 7 --json | jq .payload")
)
@click.argument("id", type=int)
@json_option
@jobs_database
def show(place: Place, id: int, as_json: bool) -> None:
    """Show everything about one job: its fields, the chains it named as blockers, its last error
    with traceback, its log."""

    async def work(app: App) -> ShownJob | None:
        return await show_job(app.client, id)

    found = place.use(work, looks=True)
    if found is None:
        raise CommandFailed(f"there is no job {id}, or it is finished and was not kept")
    if as_json:
        print_json(found)
    else:
        print_job(found, found.blockers)


Verb = Callable[[App, list[int]], Coroutine[Any, Any, list[Job]]]


def _change(place: Place, selection: Selection, as_json: bool, past: str, verb: Verb) -> None:
    """Apply a verb, say how many changed, and exit 1 if a job given by its id did not."""

    async def work(app: App) -> Changed:
        return await apply(app, selection, lambda ids: verb(app, ids))

    changed = place.use(work)
    if as_json:
        print_json(changed.jobs)
    else:
        click.echo(f"{plural(len(changed.jobs), 'job')} {past}")
    for reason in changed.refused:
        say(f"windlass: {reason}")
    if changed.refused:
        click.get_current_context().exit(FAILED)


@jobs.command(
    cls=Command,
    examples=("windlass jobs retry 7 8", "windlass jobs retry --state failed --task welcome"),
)
@selects
@json_option
@jobs_database
def retry(place: Place, selection: Selection, as_json: bool) -> None:
    """Run failed, cancelled and scheduled jobs now, with all their attempts."""
    _change(place, selection, as_json, "will run", lambda app, ids: app.client.retry_jobs(ids))


@jobs.command(
    cls=Command, examples=("windlass jobs cancel 7", "windlass jobs cancel --queue reports")
)
@selects
@json_option
@jobs_database
def cancel(place: Place, selection: Selection, as_json: bool) -> None:
    """Cancel waiting jobs; running ones are told to stop and are cancelled when they do."""
    _change(
        place,
        selection,
        as_json,
        "cancelled, or told to stop",
        lambda app, ids: app.client.cancel_jobs(ids),
    )


@jobs.command(
    cls=Command, examples=("windlass jobs complete 7", "windlass jobs complete --task obsolete")
)
@selects
@json_option
@jobs_database
def complete(place: Place, selection: Selection, as_json: bool) -> None:
    """Mark jobs as completed without running them; running ones are skipped."""
    _change(place, selection, as_json, "completed", lambda app, ids: app.client.complete_jobs(ids))


@jobs.command(cls=Command, examples=("windlass jobs fail 7 --reason 'customer left'",))
@click.option("--reason", default="Manually marked as failed", show_default=True)
@selects
@json_option
@jobs_database
def fail(place: Place, selection: Selection, reason: str, as_json: bool) -> None:
    """Mark jobs as failed for good; running ones are skipped."""
    _change(
        place,
        selection,
        as_json,
        "failed",
        lambda app, ids: app.client.permanently_fail_jobs(ids, reason),
    )


@jobs.command(
    cls=Command,
    examples=(
        "windlass jobs reschedule 7 --run-at +1h",
        "windlass jobs reschedule --state failed --attempts 0 --run-at +10m",
    ),
)
@click.option(
    "--run-at", metavar="INSTANT", callback=instant_option, help="ISO 8601 with zone, or +5m."
)
@click.option("--priority", type=int, metavar="N", help="Smaller runs first.")
@click.option(
    "--attempts", type=int, metavar="N", help="Attempts used so far; revives failed jobs."
)
@click.option("--max-attempts", type=int, metavar="N", help="Attempts before it fails for good.")
@selects
@json_option
@jobs_database
@click.pass_context
def reschedule(
    ctx: click.Context,
    place: Place,
    /,
    selection: Selection,
    run_at: datetime | None,
    priority: int | None,
    attempts: int | None,
    max_attempts: int | None,
    as_json: bool,
) -> None:
    """Change when and how jobs run; what is not given stays as it is. Running ones are skipped."""
    if (run_at, priority, attempts, max_attempts) == (None,) * 4:
        raise click.UsageError(
            "Say what to change: --run-at, --priority, --attempts, --max-attempts.", ctx
        )
    _change(
        place,
        selection,
        as_json,
        "rescheduled",
        lambda app, ids: app.client.reschedule_jobs(
            ids, run_at=run_at, priority=priority, attempts=attempts, max_attempts=max_attempts
        ),
    )


@jobs.command(cls=Command, examples=("windlass jobs remove nightly-report",))
@click.argument("key")
@json_option
@jobs_database
def remove(place: Place, key: str, as_json: bool) -> None:
    """Delete the job with this key; one that runs loses its key and will not run again."""

    async def work(app: App) -> Job | None:
        return await app.client.remove_job(key)

    job = place.use(work)
    if job is None:
        raise CommandFailed(f"no job has the key {key!r}")
    if as_json:
        print_json(job)
    else:
        click.echo(f"job {job.id} removed")
