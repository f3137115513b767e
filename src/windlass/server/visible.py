"""What a caller sees of jobs and chains: a worker whose token is for some tasks sees these alone.

A job or a chain of another task is as if it did not exist where it is asked for by its id. Where it
comes along with something else, its id and its state are shown, and nothing of what it holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from windlass.errors import ChainNotFoundError, ValidationError
from windlass.model.chain import Chain
from windlass.model.job import Job
from windlass.model.names import MAX_TENANT
from windlass.server.identity import Identity
from windlass.store.port import Store
from windlass.store.records import NewJob, WorkerInfo

SUFFIX = re.compile(r"@([0-9a-f]{12})\.[0-9a-f]{12}$")
_NO_TENANT = "?" * (MAX_TENANT + 1)

J = TypeVar("J", bound=Job)


def may_read(identity: Identity, task: str) -> bool:
    """Whether a caller sees jobs of this task."""
    return identity.reads is None or task in identity.reads


def seen_job(identity: Identity, job: J) -> J:
    """The job; its id and state alone where it is of a task that the caller does not see."""
    if may_read(identity, job.task):
        return job
    return replace(
        job,
        payload=None,
        last_error=None,
        key=None,
        queue=None,
        flags=None,
        locked_by=None,
        output=None,
        progress=None,
        log=(),
        meta=None,
        errors=(),
    )


def seen_chain(identity: Identity, chain: Chain[Any]) -> Chain[Any]:
    """The chain without a job that the caller does not see; the id and state alone of one that is
    of another task."""
    if not may_read(identity, chain.task):
        return replace(chain, payload=None, output=None, error=None, job=None, key=None)
    if chain.job is None or may_read(identity, chain.job.task):
        return chain
    return replace(chain, job=None)


def seen_chains(identity: Identity, chains: Iterable[Chain[Any]]) -> list[Chain[Any]]:
    return [seen_chain(identity, chain) for chain in chains]


def started(identity: Identity, chains: Iterable[Chain[Any]]) -> list[Chain[Any]]:
    """The answer to who starts chains: what it said itself, or a chain that had the key before."""
    return [seen_chain(identity, chain) if chain.deduplicated else chain for chain in chains]


def added(identity: Identity, new: Sequence[NewJob], jobs: Iterable[J]) -> list[J]:
    """The answer to who adds jobs: what it said itself, unless the key was there before."""
    return [
        job if each.key is None else seen_job(identity, job)
        for each, job in zip(new, jobs, strict=True)
    ]


async def seen_workers(
    identity: Identity,
    store: Store,
    tenant: str | None,
    is_own: Callable[[str], bool] = lambda worker: False,
) -> list[WorkerInfo]:
    """The workers of a tenant, None for all. A caller that is no admin sees its own, those that
    have said that they are for its tenant, and those that hold its jobs; by names without what
    tells the workers of tokens apart.

    Workers that have said nothing may be for any tenant. No tenant has the name `_NO_TENANT`, so
    that those which serve it, too, are these.
    """
    known = await store.workers(tenant)
    if identity.is_admin:
        return known
    anyones = {info.id for info in await store.workers(_NO_TENANT)}
    return [
        replace(info, id=readable(info.id))
        for info in known
        if info.running or info.id not in anyones or is_own(info.id)
    ]


def readable(worker: str) -> str:
    """The name of a worker without the suffix that the verbs of the port give it."""
    return SUFFIX.sub("", worker)


async def require_own(identity: Identity, store: Store, jobs: Iterable[NewJob]) -> None:
    """Refuse jobs that would show or change what the caller does not see: keys that jobs of other
    tasks have, and chains of other tasks as blockers, which do not exist for it."""
    if identity.reads is None:
        return
    known: set[tuple[str, int]] = set()
    for new in jobs:
        if new.key is not None:
            holder = await store.get_by_key(new.key, new.tenant)
            if holder is not None and not may_read(identity, holder.task):
                raise ValidationError(
                    "another task's job has this key, and the token is for some tasks alone; use a"
                    " key of its own for each task",
                    field="key",
                )
        for id in new.blockers:
            if id < 0 or (new.tenant, id) in known:
                continue  # a negative one starts in the same call
            chain = await store.get_chain(id, new.tenant)
            if chain is None or not may_read(identity, chain.task):
                raise ChainNotFoundError([id])
            known.add((new.tenant, id))
