"""`windlass add`"""

from __future__ import annotations

from datetime import datetime
from typing import IO, Any

import click

from windlass.app import App
from windlass.cli.base import Command
from windlass.cli.jsonl import read_specs
from windlass.cli.output import plural, print_json
from windlass.cli.place import Place, jobs_database, json_option
from windlass.cli.values import instant_option, json_argument
from windlass.model.job import Job, JobSpec
from windlass.model.names import KEY_MODES

_OF_ONE_JOB = (
    *("queue", "strict", "run_at", "max_attempts", "key", "key_mode", "priority", "flag"),
)


@click.command(
    cls=Command,
    examples=(
        "windlass add welcome '{\"user_id\": 7}'",
        "windlass add report --run-at +2h --queue reports --key nightly",
        "windlass add report --run-at 2030-01-31T12:00:00+01:00",
        'windlass add --jsonl jobs.jsonl           # {"task": "welcome", "payload": {…}} a line',
        "generate | windlass add --jsonl -",
    ),
)
@click.argument("task", required=False)
@click.argument("payload", metavar="[JSON]", required=False, callback=json_argument)
@click.option(
    "--jsonl",
    type=click.File("rb"),
    metavar="FILE|-",
    help="Many jobs: one JSON object a line with task, payload, queue, run_at, max_attempts, key,"
    " key_mode, priority, flags, strict. A bad line is named and nothing of the file is stored.",
)
@click.option("--queue", metavar="NAME", help="Run one at a time with the others of this queue.")
@click.option(
    "--strict", is_flag=True, help="If it fails, its queue waits until it is retried or gone."
)
@click.option(
    "--run-at",
    metavar="INSTANT",
    callback=instant_option,
    help="Not before: ISO 8601 with a time zone, or +90s, +5m, +2h, +3d.",
)
@click.option("--max-attempts", type=int, metavar="N", help="Attempts before it fails for good.")
@click.option("--key", help="The job's unique name: adding it again changes the job.")
@click.option(
    "--key-mode", type=click.Choice(KEY_MODES), help="What adding again does.  [default: replace]"
)
@click.option("--priority", type=int, metavar="N", help="Smaller runs first.  [default: 0]")
@click.option("--flag", metavar="FLAG", multiple=True, help="A label; may be repeated.")
@json_option
@jobs_database
@click.pass_context
def add(
    ctx: click.Context,
    place: Place,
    /,
    task: str | None,
    payload: Any,
    jsonl: IO[bytes] | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Add one job and print its id, or a file of jobs and print how many."""
    if jsonl is not None:
        if task is not None or any(options[name] for name in _OF_ONE_JOB):
            raise click.UsageError("With --jsonl each line says what it wants; give no more.", ctx)
        _add_file(place, jsonl, as_json)
        return
    if task is None:
        raise click.UsageError("Name a task, or give --jsonl.", ctx)
    job = _add_one(place, task, payload, options)
    if as_json:
        print_json(job)
    else:
        click.echo(job.id)


def _add_one(place: Place, task: str, payload: Any, options: dict[str, Any]) -> Job:
    run_at: datetime | None = options["run_at"]

    async def work(app: App) -> Job:
        return await app.client.add_job(
            task,
            payload,
            queue=options["queue"],
            run_at=run_at,
            max_attempts=options["max_attempts"],
            key=options["key"],
            key_mode=options["key_mode"] or "replace",
            priority=options["priority"],
            flags=list(options["flag"]) or None,
            strict=options["strict"] or None,
        )

    return place.use(work, says_if_new=True)


def _add_file(place: Place, file: IO[bytes], as_json: bool) -> None:
    async def work(app: App) -> int:
        specs: list[JobSpec] = read_specs(file, app.settings.max_payload)
        return len(await app.client.add_jobs(specs))

    count = place.use(work, says_if_new=True)
    if as_json:
        print_json({"added": count})
    else:
        click.echo(f"{plural(count, 'job')} added")
