"""Jobs as they are right after they were added, built from the request alone.

Nothing is read back: a job without a key is a new row, and everything in it is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

from msgspec.structs import astuple

from windlass.clock import to_datetime
from windlass.model.chain import Chain, ChainState
from windlass.model.job import Job
from windlass.store import rules
from windlass.store.records import NewChain, NewJob

alike = attrgetter(*(name for name in NewJob.__struct_fields__ if name != "payload"))
"""All of a request but its payload. Many requests of one call usually have this in common."""

_HEAD = ("id", "task", "payload")
assert Job.__struct_fields__[: len(_HEAD)] == _HEAD


_CHAIN = Job.__struct_fields__.index("chain") - len(_HEAD)


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
    """Chains that have just started, each with its first job, which waits for no other chain."""
    created_at = to_datetime(now)
    chains = []
    last: object = None
    before: tuple[Any, ...] = ()
    after: tuple[Any, ...] = ()
    for start, payload, chain_id in zip(new, payloads, ids, strict=True):
        common = alike(start.job)
        if common != last:
            last = common
            rest = astuple(rules.new_row(start.job, now).job())[len(_HEAD) :]
            before, after = rest[:_CHAIN], rest[_CHAIN + 1 :]
        chains.append(
            Chain(
                id=chain_id,
                task=start.job.task,
                payload=payload,
                state=ChainState.OPEN,
                output=None,
                error=None,
                job=Job(chain_id, start.job.task, payload, *before, chain_id, *after),
                length=1,
                key=start.key,
                tenant=start.job.tenant or None,
                deduplicated=False,
                created_at=created_at,
                finished_at=None,
            )
        )
    return chains
