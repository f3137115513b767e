"""Which jobs a verb changes: ids, or every job of a state, a task or a queue."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from windlass.app import App
from windlass.client.showing import BATCH, change_all
from windlass.model.job import Job, JobState


@dataclass(frozen=True, slots=True)
class Selection:
    ids: tuple[int, ...]
    state: tuple[str, ...]
    task: str | None
    queue: str | None

    @property
    def words(self) -> dict[str, Any]:
        """The arguments of `client.list_jobs` that select the same."""
        return {"state": self.state or None, "task": self.task, "queue": self.queue}

    @property
    def is_by_property(self) -> bool:
        return bool(self.state) or self.task is not None or self.queue is not None


@dataclass(slots=True)
class Changed:
    """What changed, and one line for each id that did not."""

    jobs: list[Job] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def selection_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --state, --task and --queue as its argument `selection`."""

    @click.option(
        "--state",
        type=click.Choice([state.value for state in JobState]),
        multiple=True,
        help="Jobs in this state; may be repeated.",
    )
    @click.option("--task", metavar="NAME", help="Jobs of this task.")
    @click.option("--queue", metavar="NAME", help="Jobs of this queue.")
    @functools.wraps(function)
    def with_selection(
        *args: Any,
        state: tuple[str, ...],
        task: str | None,
        queue: str | None,
        ids: tuple[int, ...] = (),
        **options: Any,
    ) -> Any:
        return function(*args, selection=Selection(ids, state, task, queue), **options)

    return with_selection


def selects(function: Callable[..., Any]) -> Callable[..., Any]:
    """As `selection_options`, with ids as arguments; one of both ways must be used."""

    @functools.wraps(function)
    def checked(*args: Any, selection: Selection, **options: Any) -> Any:
        if bool(selection.ids) == selection.is_by_property:
            raise click.UsageError(
                "Give job ids, or select jobs by --state, --task or --queue.",
                click.get_current_context(),
            )
        return function(*args, selection=selection, **options)

    return click.argument("ids", metavar="[ID]...", type=int, nargs=-1)(selection_options(checked))


async def apply(
    app: App, selection: Selection, verb: Callable[[list[int]], Awaitable[list[Job]]]
) -> Changed:
    changed = Changed()
    if selection.ids:
        ids = list(dict.fromkeys(selection.ids))
        for start in range(0, len(ids), BATCH):
            changed.jobs += await verb(ids[start : start + BATCH])
        done = {job.id for job in changed.jobs}
        changed.refused = await _why_not(app, [id for id in ids if id not in done])
        return changed
    async for batch in change_all(app.client, selection.words, verb):
        changed.jobs += batch
    return changed


async def _why_not(app: App, ids: Sequence[int]) -> list[str]:
    reasons = []
    for id in ids:
        job = await app.client.get_job(id)
        if job is None:
            reasons.append(f"job {id} is unknown, or finished and was not kept")
        elif job.state is JobState.RUNNING:
            reasons.append(f"job {id} is running ({job.locked_by}); it was not changed")
        else:
            reasons.append(f"job {id} is {job.state}; it was not changed")
    return reasons
