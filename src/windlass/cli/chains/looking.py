"""Looking at chains: `windlass chains list` and `show`."""

from __future__ import annotations

from typing import Any

import click

from windlass.app import App
from windlass.cli.base import Command, CommandFailed
from windlass.cli.chains.drawing import draw
from windlass.cli.output import instant, print_json, print_table, say
from windlass.cli.place import Place, jobs_database, json_option
from windlass.client.chain_trees import Tree, gather
from windlass.model.chain import Chain, ChainState

_HEADER = ("ID", "STATE", "TASK", "JOBS", "KEY", "CURRENT JOB", "CREATED AT", "ENDED AT", "ERROR")


@click.command(
    "list",
    cls=Command,
    examples=(
        "windlass chains list",
        "windlass chains list --state open --task charge",
        "windlass chains list --json --limit 1000 --after 5000   # the next page",
    ),
)
@click.option(
    "--state",
    type=click.Choice([state.value for state in ChainState]),
    multiple=True,
    help="Chains in this state; may be repeated.",
)
@click.option("--task", metavar="NAME", help="Chains whose first job is of this task.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True)
@click.option(
    "--after",
    type=click.IntRange(0),
    metavar="ID",
    help="The last id of the page before: only older chains.",
)
@json_option
@jobs_database
def list_chains(
    place: Place,
    state: tuple[str, ...],
    task: str | None,
    limit: int,
    after: int | None,
    as_json: bool,
) -> None:
    """List chains, the newest first, a page at a time."""

    async def work(app: App) -> list[Chain[Any]]:
        return await app.client.list_chains(
            state=state or None, task=task, limit=limit, after=after
        )

    found = place.use(work, looks=True)
    if as_json:
        print_json(found)
    elif found:
        if any(chain.tenant is not None for chain in found):
            rows = [(chain.tenant or "", *_row(chain)) for chain in found]
            print_table(("TENANT", *_HEADER), rows)
        else:
            print_table(_HEADER, [_row(chain) for chain in found])
        if len(found) == limit:
            say(f"there may be more: --after {found[-1].id}")
    else:
        say("no chains")


def _row(chain: Chain[Any]) -> tuple[str, ...]:
    job = chain.job
    return (
        str(chain.id),
        chain.state.value,
        chain.task,
        str(chain.length),
        chain.key or "",
        "" if job is None else f"{job.id} {job.task} {job.state}",
        instant(chain.created_at),
        instant(chain.finished_at),
        chain.error or "",
    )


@click.command(
    cls=Command,
    examples=("windlass chains show 7", "windlass chains show 7 --json | jq .chain.output"),
)
@click.argument("id", type=int)
@json_option
@jobs_database
def show(place: Place, id: int, as_json: bool) -> None:
    """Draw a chain: its jobs that are still stored, the chains they wait for, and what those wait
    for; and the jobs that wait for it."""

    async def work(app: App) -> Tree | None:
        return await gather(app.client, id)

    tree = place.use(work, looks=True)
    if tree is None:
        raise CommandFailed(
            f"there is no chain {id} (any more); windlass chains list shows those that are stored"
        )
    if as_json:
        print_json(tree)
        return
    for line in draw(tree):
        click.echo(line)
