"""A job with all that is shown of one: `windlass jobs show --json`, and the server's answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import msgspec

from windlass.client.client import Client
from windlass.model.chain import Chain
from windlass.model.job import Job

BATCH = 1_000
"""Jobs that are changed in one step where a filter selects them."""


class ShownJob(Job, frozen=True):
    """A job, and the chains that it named as blockers."""

    blockers: Sequence[Chain[Any]] = ()


async def show_job(client: Client, id: int) -> ShownJob | None:
    """The job with its blockers, or None."""
    job = await client.get_job(id)
    return None if job is None else await with_blockers(client, job)


async def with_blockers(client: Client, job: Job) -> ShownJob:
    return shown(job, await client.blockers(job.id) if job.blockers_total else ())


def shown(job: Job, blockers: Sequence[Chain[Any]]) -> ShownJob:
    fields: dict[str, Any] = msgspec.structs.asdict(job)
    return ShownJob(**fields, blockers=blockers)


async def change_all(
    client: Client, words: dict[str, Any], verb: Callable[[list[int]], Awaitable[list[Job]]]
) -> AsyncIterator[list[Job]]:
    """Apply a verb to every job that these words of `list_jobs` select, the newest first, batch by
    batch; what each batch changed. Jobs that are added meanwhile are left out."""
    after: int | None = None
    while page := await client.list_jobs(**words, after=after, limit=BATCH):
        yield await verb([job.id for job in reversed(page)])
        after = page[-1].id
