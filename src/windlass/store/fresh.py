"""Jobs as they are right after they were added, built from the request alone.

Nothing is read back: a job without a key is a new row, and everything in it is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

from msgspec.structs import astuple, replace

from windlass.model.chain import Chain, ChainState
from windlass.model.job import Job
from windlass.store import rules
from windlass.store.records import NewChain, NewJob

alike = attrgetter(*(name for name in NewJob.__struct_fields__ if name != "payload"))
"""All of a request but its payload. Many requests of one call usually have this in common."""

_HEAD = ("id", "task", "payload")
assert Job.__struct_fields__[: len(_HEAD)] == _HEAD


def fresh_jobs(
    new: Sequence[NewJob], payloads: Iterable[Any], now: int, ids: Iterable[int]
) -> list[Job]:
    """What `rules.new_row(…).job()` says of each, for many at once. `payloads` are decoded."""
    jobs = []
    last: object = None
    rest: tuple[Any, ...] = ()
    for job, payload, job_id in zip(new, payloads, ids, strict=True):
        common = alike(job)
        if common != last:
            last = common
            rest = astuple(rules.new_row(job, now).job())[len(_HEAD) :]
        jobs.append(Job(job_id, job.task, payload, *rest))
    return jobs


def fresh_chains(
    new: Sequence[NewChain], payloads: Iterable[Any], now: int, ids: Iterable[int]
) -> list[Chain[Any]]:
    """The same for chains without blockers, with their first jobs."""
    chains = []
    jobs = fresh_jobs([chain.job for chain in new], payloads, now, ids)
    for start, job in zip(new, jobs, strict=True):
        chains.append(
            Chain(
                id=job.id,
                task=job.task,
                payload=job.payload,
                state=ChainState.OPEN,
                output=None,
                error=None,
                job=replace(job, chain=job.id),
                length=1,
                key=start.key,
                tenant=job.tenant,
                deduplicated=False,
                created_at=job.created_at,
                finished_at=None,
            )
        )
    return chains
