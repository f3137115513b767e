"""Changing chains: `windlass chains complete`, `cancel`, `retry` and `delete`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from typing import Any

import click

from windlass.app import App
from windlass.cli.base import FAILED, Command
from windlass.cli.blocking import blocker_options
from windlass.cli.output import plural, print_json, say
from windlass.cli.place import Place, jobs_database, json_option
from windlass.cli.values import instant_option, json_argument
from windlass.model.chain import Chain, Next

_OF_THE_NEXT = (
    *("queue", "run_at", "max_attempts", "priority", "flag", "blockers", "on_blocker_failure"),
)

chain_ids = click.argument("ids", metavar="ID...", type=int, nargs=-1, required=True)


@click.command(
    cls=Command,
    examples=(
        "windlass chains complete 7",
        "windlass chains complete 7 '{\"approved\": true}'        # the chain's output",
        "windlass chains complete 7 '{\"order\": 7}' --then ship  # it goes on with this job",
    ),
)
@click.argument("id", type=int)
@click.argument("output", metavar="[JSON]", required=False, callback=json_argument)
@click.option(
    "--then",
    metavar="TASK",
    help="Let the chain go on with a job of this task; JSON is its payload.",
)
@click.option("--queue", metavar="NAME", help="With --then: the next job's queue.")
@click.option(
    "--run-at",
    metavar="INSTANT",
    callback=instant_option,
    help="With --then: not before this. ISO 8601 with zone, or +5m.",
)
@click.option("--max-attempts", type=int, metavar="N", help="With --then: the next job's attempts.")
@click.option(
    "--priority", type=int, metavar="N", help="With --then.  [default: that of the job before]"
)
@click.option(
    "--flag", metavar="FLAG", multiple=True, help="With --then: a label; may be repeated."
)
@blocker_options
@json_option
@jobs_database
@click.pass_context
def complete(
    ctx: click.Context,
    place: Place,
    /,
    id: int,
    output: Any,
    then: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Complete the current job of a chain without a worker, in whatever state it is.

    The chain ends with this output; or it goes on with the job of --then, and the JSON is the
    payload of that job. A worker that runs the current job is told to stop, and its answer is lost:
    look at the chain first (windlass chains show ID), which may have gone on already.
    """
    if then is None and any(options[name] for name in _OF_THE_NEXT):
        raise click.UsageError("These options are for the next job: give --then TASK too.", ctx)
    following = None if then is None else _next(then, output, options)

    async def work(app: App) -> Chain[Any]:
        if following is not None:
            return await app.client.complete_chain(id, then=following)
        return await app.client.complete_chain(id, output)

    chain = place.use(work)
    if as_json:
        print_json(chain)
    elif following is None:
        click.echo(f"chain {id} completed")
    else:
        job = "" if chain.job is None else f", job {chain.job.id}"
        click.echo(f"chain {id} goes on with {following.task}{job}")


def _next(task: str, payload: Any, options: dict[str, Any]) -> Next:
    run_at: datetime | None = options["run_at"]
    return Next(
        task,
        payload,
        queue=options["queue"],
        run_at=run_at,
        max_attempts=options["max_attempts"],
        priority=options["priority"],
        flags=list(options["flag"]) or None,
        blockers=list(options["blockers"]) or None,
        on_blocker_failure=options["on_blocker_failure"],
    )


@click.command(cls=Command, examples=("windlass chains cancel 7", "windlass chains cancel 7 8 9"))
@chain_ids
@json_option
@jobs_database
def cancel(place: Place, ids: Sequence[int], as_json: bool) -> None:
    """Cancel the current jobs of open chains, all or none.

    A job that runs is told to stop, and its chain is cancelled when it does.
    """
    _change(
        *(place, ids, as_json, "cancelled, or told to stop"),
        lambda app, chosen: app.client.cancel_chains(chosen),
    )


@click.command(cls=Command, examples=("windlass chains retry 7", "windlass chains retry 7 8 9"))
@chain_ids
@json_option
@jobs_database
def retry(place: Place, ids: Sequence[int], as_json: bool) -> None:
    """Run the failed or cancelled jobs of chains again, all or none.

    Chains that are open or have completed are left as they are. Jobs that failed because of these
    chains wait for them again.
    """
    _change(
        *(place, ids, as_json, "open again"),
        lambda app, chosen: app.client.retry_chains(chosen),
    )


@click.command(
    cls=Command, examples=("windlass chains delete 7", "windlass chains delete 7 8 --cascade")
)
@chain_ids
@click.option(
    "--cascade", is_flag=True, help="Delete the chains that their jobs named as blockers, too."
)
@json_option
@jobs_database
def delete(place: Place, ids: Sequence[int], cascade: bool, as_json: bool) -> None:
    """Delete chains with their jobs, all or none; those that are gone already are skipped.

    Refused where an open job of another chain names one that is open or completed.
    """
    _change(
        *(place, ids, as_json, "deleted"),
        lambda app, chosen: app.client.delete_chains(chosen, cascade),
    )


Verb = Callable[[App, list[int]], Coroutine[Any, Any, list[Chain[Any]]]]


def _change(place: Place, ids: Sequence[int], as_json: bool, past: str, verb: Verb) -> None:
    """Apply a verb, say how many changed, and exit 1 if a chain given by its id did not."""

    async def work(app: App) -> tuple[list[Chain[Any]], list[str]]:
        changed = await verb(app, list(dict.fromkeys(ids)))
        done = {chain.id for chain in changed}
        left = [id for id in dict.fromkeys(ids) if id not in done]
        return changed, [await _why_not(app, id) for id in left]

    changed, refused = place.use(work)
    if as_json:
        print_json(changed)
    else:
        click.echo(f"{plural(len(changed), 'chain')} {past}")
    for reason in refused:
        say(f"windlass: {reason}")
    if refused:
        click.get_current_context().exit(FAILED)


async def _why_not(app: App, id: int) -> str:
    chain = await app.client.get_chain(id)
    if chain is None:
        return f"there is no chain {id} (any more)"
    return f"chain {id} is {chain.state}; it was not changed"
