"""The verbs that look: at the caller's tenant, and at the tasks that its token is for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from windlass.model import names
from windlass.model.chain import Chain
from windlass.model.job import Job, JobState
from windlass.server.calls.desk import Desk
from windlass.server.calls.refusals import Refused
from windlass.server.pages import Listed, page
from windlass.server.visible import seen_workers
from windlass.store.records import Capabilities, ChainFilter, JobFilter, Paused, WorkerInfo
from windlass.store.schedules import KnownSchedule
from windlass.wire import calls

MOST_LISTED = 10_000


async def describe(desk: Desk, asked: calls.Nothing) -> Capabilities:
    """What a store elsewhere can do. The server does the upkeep."""
    served = desk.store.capabilities
    return Capabilities(
        shared=served.shared,
        durable=served.durable,
        transactions=False,
        sql=False,
        upkeep=False,
        roster=served.roster,
        chains=served.chains,
    )


async def subscribe(desk: Desk, asked: calls.Nothing) -> None:
    await desk.hint()


async def now(desk: Desk, asked: calls.Nothing) -> int:
    return await desk.store.now()


# ── jobs ──


async def get(desk: Desk, asked: calls.OneJob) -> Job | None:
    job = await desk.store.get(asked.job_id, desk.caller.tenant(asked.tenant))
    return _seen(desk, job)


async def get_by_key(desk: Desk, asked: calls.OneKey) -> Job | None:
    return _seen(desk, await desk.store.get_by_key(asked.key, desk.caller.own(asked.tenant)))


def _seen(desk: Desk, job: Job | None) -> Job | None:
    return None if job is None or not desk.caller.reads(job.task) else desk.caller.job(job)


async def find(desk: Desk, asked: calls.Find) -> list[Job]:
    return [desk.caller.job(job) for job in await _page(desk, asked.wanted, desk.store.find)]


async def counts(desk: Desk, asked: calls.Seen) -> dict[JobState, int]:
    if desk.caller.identity.reads is not None:
        raise Refused(
            f"the token {desk.caller.identity.name!r} is for some tasks, and jobs are counted for"
            " all of them; use a token that is for every task"
        )
    return await desk.store.counts(desk.caller.tenant(asked.tenant))


# ── chains ──


async def get_chain(desk: Desk, asked: calls.OneChain) -> Chain[Any] | None:
    tenant = desk.caller.tenant(asked.tenant)
    chain = await desk.store.get_chain(asked.chain_id, tenant)
    if chain is None or not await _reads_chain(desk, chain, tenant):
        return None
    return desk.caller.chain(chain)


async def _reads_chain(desk: Desk, chain: Chain[Any], tenant: str | None) -> bool:
    """Whether one of its jobs is of a task that the caller may see."""
    reads = desk.caller.reads
    if reads(chain.task) or (chain.job is not None and reads(chain.job.task)):
        return True
    return any(reads(job.task) for job in await desk.store.chain_jobs(chain.id, tenant))


async def find_chains(desk: Desk, asked: calls.FindChains) -> list[Chain[Any]]:
    chains = await _page(desk, asked.wanted, desk.store.find_chains)
    return [desk.caller.chain(chain) for chain in chains]


async def chain_jobs(desk: Desk, asked: calls.OneChain) -> list[Job]:
    tenant = desk.caller.tenant(asked.tenant)
    return _readable(desk, await desk.store.chain_jobs(asked.chain_id, tenant))


async def blocked_jobs(desk: Desk, asked: calls.OneChain) -> list[Job]:
    tenant = desk.caller.tenant(asked.tenant)
    return _readable(desk, await desk.store.blocked_jobs(asked.chain_id, tenant))


def _readable(desk: Desk, jobs: Sequence[Job]) -> list[Job]:
    return [desk.caller.job(job) for job in jobs if desk.caller.reads(job.task)]


async def blockers(desk: Desk, asked: calls.OneJob) -> list[Chain[Any]]:
    """What a job waited for is its own to know while it runs: a worker's own job is shown these
    chains whatever tasks they are of, as its lease shows them."""
    caller, tenant = desk.caller, desk.caller.tenant(asked.tenant)
    show = caller.chain
    if caller.identity.reads is not None:
        job = await desk.store.get(asked.job_id, tenant)
        if _seen(desk, job) is None:
            return []
        if job is not None and job.locked_by is not None and caller.has(job.locked_by):
            show = caller.named
    return [show(chain) for chain in await desk.store.blockers(asked.job_id, tenant)]


# ── what there is beside them ──


async def schedules(desk: Desk, asked: calls.Seen) -> list[KnownSchedule]:
    known = await desk.store.schedules(desk.caller.tenant(asked.tenant))
    return [it for it in known if desk.caller.reads(it.schedule.task)]


async def workers(desk: Desk, asked: calls.Seen) -> list[WorkerInfo]:
    caller = desk.caller
    tenant = caller.tenant(asked.tenant)
    return await seen_workers(caller.identity, desk.store, tenant, caller.has)


async def paused(desk: Desk, asked: calls.Seen) -> Paused:
    return await desk.store.paused(desk.caller.tenant(asked.tenant))


L = TypeVar("L", bound=Listed)
W = TypeVar("W", JobFilter, ChainFilter)


async def _page(desk: Desk, asked: W, find: Callable[[W], Awaitable[list[L]]]) -> list[L]:
    """A page of a list, which may be shorter than was asked for: it is not larger than one answer
    should be."""
    limit = names.check_count(min(asked.limit, MOST_LISTED), "limit", 1, MOST_LISTED)
    wanted = replace(asked, tenant=desk.caller.tenant(asked.tenant))

    async def some(after: int | None, most: int) -> list[L]:
        return await _of_tasks(desk, replace(wanted, after=after, limit=most), find)

    return (await page(some, asked.after, limit))[0]


async def _of_tasks(desk: Desk, wanted: W, find: Callable[[W], Awaitable[list[L]]]) -> list[L]:
    """A page of a list. A filter names one task at most, so that the pages of a token that is for
    several are put together from theirs."""
    reads = desk.caller.identity.reads
    if reads is None:
        return await find(wanted)
    tasks = [task for task in reads if wanted.task in (None, task)]
    found = [each for task in tasks for each in await find(replace(wanted, task=task))]
    return sorted(found, key=lambda each: -each.id)[: wanted.limit]
