"""`windlass import`: move jobs here from another queue."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from windlass.app import App
from windlass.cli.base import Command, ExitCodes
from windlass.cli.output import plural, print_json, say
from windlass.cli.place import Place, database, json_option
from windlass.graphile_import import import_graphile, survey_graphile

if TYPE_CHECKING:
    from windlass.graphile_import import Group, Imported, Survey


class Importers(ExitCodes, click.Group):
    """A group with examples in its help."""


@click.group(cls=Importers, examples=("windlass import graphile --from graphile_old --dry-run",))
def import_() -> None:
    """Move jobs here from another queue."""


@import_.command(
    cls=Command,
    examples=(
        'psql my_db -c "ALTER SCHEMA graphile_worker RENAME TO graphile_old"',
        "windlass migrate -c postgresql:///my_db",
        "windlass import graphile -c postgresql:///my_db --from graphile_old --dry-run",
        "windlass import graphile -c postgresql:///my_db --from graphile_old",
    ),
)
@click.option(
    "--from",
    "source",
    metavar="NAME",
    required=True,
    help="The schema graphile-worker's tables are in.",
)
@click.option("--dry-run", is_flag=True, help="Only count; change nothing.")
@click.option(
    "--include-locked",
    is_flag=True,
    help="Also move jobs that a worker holds, or held when it died.",
)
@json_option
@database
def graphile(place: Place, source: str, dry_run: bool, include_locked: bool, as_json: bool) -> None:
    """Move the jobs of a graphile-worker schema into this one, in batches.

    Stop its workers first. What is moved is deleted there in the same transaction: an import
    that was interrupted can be begun again, and doubles nothing. Jobs that failed for good stay
    failed. Jobs that cannot be moved stay there and are reported. Crontabs are not moved.
    """
    if dry_run:

        async def look(app: App) -> Survey:
            return await survey_graphile(app, source, include_locked=include_locked)

        found = place.use(look, must_exist=False, migrate="check")
        if as_json:
            print_json({"would_move": found.movable.count, **_left(found)})
        else:
            click.echo(f"would move {_counted(found.movable.count, found.movable.failed)}")
            _tell(found)
        return

    async def work(app: App) -> Imported:
        there = await survey_graphile(app, source, include_locked=include_locked)
        with _progress(there.movable.count) as on_progress:
            return await import_graphile(
                app, source, include_locked=include_locked, on_progress=on_progress
            )

    done = place.use(work, must_exist=False, migrate="check")
    if as_json:
        print_json({"moved": done.moved, "refused": dict(done.refused), **_left(done.left)})
        return
    click.echo(f"moved {_counted(done.moved, done.failed)}")
    _tell(done.left)
    for job_id, reason in done.refused:
        say(f"left job {job_id}: {reason}")
    held = done.left.movable.count - len(done.refused)
    if held > 0:
        say(
            f"left {plural(held, 'job')} that came meanwhile, or that a transaction holds; go again"
        )


def _counted(count: int, failed: int) -> str:
    return plural(count, "job") + (f", {failed} of them failed" if failed else "")


def _left(found: Survey) -> dict[str, Any]:
    return {
        "locked": found.locked.count,
        "key_taken": found.key_taken.count,
        "broken": found.broken.count,
    }


def _tell(found: Survey) -> None:
    """What is not moved, and why, on standard error."""
    for group, why in (
        (found.locked, "locked by a worker; --include-locked moves them, if none is alive"),
        (found.key_taken, "whose keys are taken by jobs here"),
        (found.broken, "whose task or queue does not exist"),
    ):
        if group.count:
            say(f"left {plural(group.count, 'job')} {why} ({_ids(group)})")


def _ids(group: Group) -> str:
    more = ", …" if group.count > len(group.ids) else ""
    return f"id {', '.join(map(str, group.ids))}{more}"


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """Tells how many were moved so far: a bar on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda moved: None
        return
    with click.progressbar(length=total, label="jobs", file=sys.stderr) as bar:
        yield lambda moved: bar.update(moved - bar.pos)
