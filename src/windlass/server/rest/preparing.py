"""From specs to what a store takes: each is checked by itself, and a refusal says which it was."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from windlass.errors import ValidationError
from windlass.model.job import JobSpec
from windlass.server.rest.call import Call
from windlass.server.rest.problems import Kind, Refused
from windlass.server.service import Service
from windlass.store.records import NewJob
from windlass.store.webhooks import address_of

MOST = 10_000
"""Jobs, chains or outcomes of one call."""


def require_few(items: Sequence[object], of: str) -> None:
    if len(items) > MOST:
        raise Refused(
            Kind.TOO_LARGE, f"{len(items):,} in one call; the limit is {MOST:,}", field=of
        )


def blamed(error: ValidationError, place: str) -> Refused | ValidationError:
    """The same refusal, with the place of the spec before the field's name."""
    error.field = f"{place}.{error.field}" if place else error.field
    return error


def place_of(number: int, of: str | None) -> str:
    """How a field names the spec: many have a number in their list, one has none."""
    return "" if of is None else f"{of}[{number}]"


async def prepare(call: Call[Any, Any], specs: Iterable[JobSpec]) -> list[NewJob]:
    """Jobs of the caller's tenant; their payloads, names and webhooks are checked."""
    new = await call.own.prepare_jobs(specs)
    for job in new:
        check_address(call.service, job)
    return new


def check_address(service: Service, job: NewJob) -> None:
    """Refuse a job whose end would be posted where webhooks may not go."""
    url = address_of(job.meta)
    if url is not None:
        service.check_webhook(url)


def keep(service: Service, jobs: Iterable[NewJob]) -> None:
    """Keep for the server's time what says nothing of it, unless the program knows its task."""
    for job in jobs:
        if job.keep is None:
            known = service.app.registry.find(job.task)
            by_task = None if known is None else known.options.keep
            job.keep = service.keep if by_task is None else by_task
