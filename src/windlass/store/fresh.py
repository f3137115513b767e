"""Jobs as they are right after they were added, built from the request alone.

Nothing is read back: a job without a key is a new row, and everything in it is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

from msgspec.structs import astuple

from windlass.model.job import Job
from windlass.store import rules
from windlass.store.records import NewJob

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
