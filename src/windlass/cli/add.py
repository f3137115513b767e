"""`windlass add`"""

from __future__ import annotations

from datetime import datetime
from typing import IO, Any

import click

from windlass.app import App
from windlass.cli.base import Command
from windlass.cli.blocking import blocker_options
from windlass.cli.jsonl import read_file
from windlass.cli.output import plural, print_json, say
from windlass.cli.place import Place, jobs_database, json_option
from windlass.cli.values import instant_option, json_argument, seconds_option
from windlass.model.chain import Chain
from windlass.model.job import Job, JobSpec
from windlass.model.names import KEY_MODES

_OF_ONE_JOB = (
    *("queue", "strict", "run_at", "max_attempts", "key", "key_mode", "priority", "flag"),
    *("is_chain", "key_window", "blockers", "on_blocker_failure"),
)


@click.command(
    cls=Command,
    examples=(
        "windlass add welcome '{\"user_id\": 7}'",
        "windlass add report --run-at +2h --queue reports --key nightly",
        "windlass add report --run-at 2030-01-31T12:00:00+01:00",
        "windlass add charge '{\"order\": 7}' --chain --key order-7",
        "windlass add report --blocker 12 --blocker 13   # once these chains have ended",
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
    " key_mode, priority, flags, strict, blockers, on_blocker_failure. With chain: true in each"
    " line, and perhaps key_window, it starts chains. A bad line is named and nothing of the file"
    " is stored.",
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
@click.option(
    "--chain",
    "is_chain",
    is_flag=True,
    help="Start a chain with this job; --key is then the chain's, and an open chain that has it is"
    " the answer.",
)
@click.option(
    "--key-window",
    metavar="TIME",
    callback=seconds_option,
    help="With --chain: the key counts so long after the chain's end, too; seconds, or 5m, 2h, 3d.",
)
@blocker_options
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
    """Add one job and print its id, or a file of jobs and print how many.

    A job may be the first of a chain, whose id is the job's; and it may wait for other chains.
    """
    if jsonl is not None:
        if task is not None or any(options[name] for name in _OF_ONE_JOB):
            raise click.UsageError("With --jsonl each line says what it wants; give no more.", ctx)
        _add_file(place, jsonl, as_json)
        return
    if task is None:
        raise click.UsageError("Name a task, or give --jsonl.", ctx)
    if options["key_window"] is not None and not options["is_chain"]:
        raise click.UsageError("--key-window is for chains; give --chain too.", ctx)
    if options["key_mode"] is not None and options["is_chain"]:
        raise click.UsageError("A chain's key has no mode; leave --key-mode out.", ctx)
    added = _add_one(place, task, payload, options)
    if as_json:
        print_json(added)
        return
    click.echo(added.id)
    if isinstance(added, Chain) and added.deduplicated:
        say(f"chain {added.id} is {added.state} and has this key; nothing was added")


def _add_one(place: Place, task: str, payload: Any, options: dict[str, Any]) -> Job | Chain[Any]:
    run_at: datetime | None = options["run_at"]
    spec = JobSpec(
        task=task,
        payload=payload,
        queue=options["queue"],
        run_at=run_at,
        max_attempts=options["max_attempts"],
        key=options["key"],
        key_mode=options["key_mode"] or "replace",
        priority=options["priority"],
        flags=list(options["flag"]) or None,
        strict=options["strict"] or None,
        blockers=list(options["blockers"]) or None,
        on_blocker_failure=options["on_blocker_failure"],
        key_window=options["key_window"],
    )

    async def work(app: App) -> Job | Chain[Any]:
        if options["is_chain"]:
            return (await app.client.start_chains([spec]))[0]
        return (await app.client.add_jobs([spec]))[0]

    return place.use(work, says_if_new=True)


def _add_file(place: Place, file: IO[bytes], as_json: bool) -> None:
    async def work(app: App) -> tuple[int, bool]:
        read = read_file(file, app.settings.max_payload)
        if not read.are_chains:
            return len(await app.client.add_jobs(read.specs)), False
        started = await app.client.start_chains(read.specs)
        return sum(not chain.deduplicated for chain in started), True

    count, are_chains = place.use(work, says_if_new=True)
    if as_json:
        print_json({"added": count})
    elif are_chains:
        click.echo(f"{plural(count, 'chain')} started")
    else:
        click.echo(f"{plural(count, 'job')} added")
