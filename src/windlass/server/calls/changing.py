"""The verbs that add jobs, and those of operators: in the caller's tenant alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from windlass.clock import to_micros
from windlass.model import names
from windlass.model.chain import Chain
from windlass.model.job import Job
from windlass.model.outcome import clip
from windlass.server import visible
from windlass.server.calls.desk import Desk
from windlass.store.records import Reaped
from windlass.store.schedules import Fired, KnownSchedule
from windlass.wire import calls

# ── adding ──


async def enqueue(desk: Desk, asked: calls.Enqueue) -> calls.Enqueued:
    desk.checks.jobs(asked.jobs, desk.caller)
    if not asked.jobs:
        return calls.Enqueued()
    await visible.require_own(desk.caller.identity, desk.store, asked.jobs)
    if all(new.key is None for new in asked.jobs):
        added: Sequence[Job] = await desk.writers.jobs.add(asked.jobs)
        instants = {job.created_at for job in added}
        if len(instants) == 1 and not any(new.blockers for new in asked.jobs):
            at = to_micros(instants.pop())
            return calls.Enqueued(None, [job.id for job in added], at, desk.caller.own(None))
    else:  # an open transaction may hold a key, and only the call that adds it should wait
        added = await desk.store.enqueue(asked.jobs)
    shown = visible.added(desk.caller.identity, asked.jobs, added)
    return calls.Enqueued([desk.caller.job(job) for job in shown])


async def start_chains(desk: Desk, asked: calls.StartChains) -> list[Chain[Any]]:
    desk.checks.chains(asked.chains, desk.caller)
    identity = desk.caller.identity
    await visible.require_own(identity, desk.store, [chain.job for chain in asked.chains])
    started = visible.started(identity, await desk.store.start_chains(asked.chains))
    return [desk.caller.named(chain) for chain in started]


async def register(desk: Desk, asked: calls.Register) -> list[KnownSchedule]:
    for schedule in asked.wanted:
        names.check_schedule(schedule.identifier)
        names.check_task(schedule.task)
    return await desk.store.register(asked.wanted, desk.caller.own(asked.tenant))


async def fire(desk: Desk, asked: calls.Fire) -> Fired:
    tenant = desk.caller.own(asked.tenant)
    desk.checks.jobs(asked.jobs, desk.caller)
    await visible.require_own(desk.caller.identity, desk.store, asked.jobs)
    return await desk.store.fire(asked.identifier, asked.expected, asked.until, asked.jobs, tenant)


# ── schedules ──


async def pause_schedule(desk: Desk, asked: calls.OneSchedule) -> KnownSchedule | None:
    return await desk.store.pause_schedule(asked.identifier, desk.caller.own(asked.tenant))


async def resume_schedule(desk: Desk, asked: calls.OneSchedule) -> KnownSchedule | None:
    return await desk.store.resume_schedule(asked.identifier, desk.caller.own(asked.tenant))


async def forget_schedule(desk: Desk, asked: calls.OneSchedule) -> KnownSchedule | None:
    return await desk.store.forget_schedule(asked.identifier, desk.caller.own(asked.tenant))


# ── chains ──


async def complete_chain(desk: Desk, asked: calls.CompleteChain) -> Chain[Any]:
    desk.checks.completion(asked.completion, desk.caller)
    chain = await desk.store.complete_chain(
        asked.chain_id, asked.completion, asked.inherits, desk.caller.tenant(asked.tenant)
    )
    return desk.caller.chain(chain)


async def cancel_chains(desk: Desk, asked: calls.Ids) -> list[Chain[Any]]:
    tenant = desk.caller.tenant(asked.tenant)
    return _chains(desk, await desk.store.cancel_chains(asked.ids, tenant))


async def retry_chains(desk: Desk, asked: calls.Ids) -> list[Chain[Any]]:
    tenant = desk.caller.tenant(asked.tenant)
    return _chains(desk, await desk.store.retry_chains(asked.ids, tenant))


async def delete_chains(desk: Desk, asked: calls.DeleteChains) -> list[Chain[Any]]:
    tenant = desk.caller.tenant(asked.tenant)
    return _chains(desk, await desk.store.delete_chains(asked.ids, asked.cascade, tenant))


def _chains(desk: Desk, chains: Sequence[Chain[Any]]) -> list[Chain[Any]]:
    return [desk.caller.chain(chain) for chain in chains]


# ── jobs ──


def _changing(
    verb: Callable[[Desk, Any, str | None], Awaitable[list[Job]]],
) -> Callable[[Desk, Any], Awaitable[list[Job]]]:
    """A verb that changes jobs of one tenant, and answers with them."""

    async def run(desk: Desk, asked: Any) -> list[Job]:
        changed = await verb(desk, asked, desk.caller.tenant(asked.tenant))
        return [desk.caller.job(job) for job in changed]

    return run


@_changing
async def cancel(desk: Desk, asked: calls.Ids, tenant: str | None) -> list[Job]:
    return await desk.store.cancel(asked.ids, tenant)


@_changing
async def complete(desk: Desk, asked: calls.Ids, tenant: str | None) -> list[Job]:
    return await desk.store.complete(asked.ids, tenant)


@_changing
async def fail(desk: Desk, asked: calls.FailJobs, tenant: str | None) -> list[Job]:
    return await desk.store.fail(asked.ids, clip(asked.reason), tenant)


@_changing
async def retry(desk: Desk, asked: calls.Ids, tenant: str | None) -> list[Job]:
    return await desk.store.retry(asked.ids, tenant)


@_changing
async def reschedule(desk: Desk, asked: calls.Reschedule, tenant: str | None) -> list[Job]:
    if asked.priority is not None:
        names.check_priority(asked.priority)
    names.check_attempts(asked.attempts)
    names.check_max_attempts(asked.max_attempts)
    return await desk.store.reschedule(
        asked.ids,
        run_at=asked.run_at,
        priority=asked.priority,
        attempts=asked.attempts,
        max_attempts=asked.max_attempts,
        tenant=tenant,
    )


@_changing
async def delete(desk: Desk, asked: calls.Ids, tenant: str | None) -> list[Job]:
    return await desk.store.delete(asked.ids, tenant)


async def remove(desk: Desk, asked: calls.OneKey) -> Job | None:
    job = await desk.store.remove(asked.key, desk.caller.own(asked.tenant))
    return None if job is None else desk.caller.job(job)


async def pause(desk: Desk, asked: calls.TaskOrQueue) -> None:
    own = desk.caller.own(asked.tenant)
    await desk.store.pause(task=asked.task, queue=asked.queue, tenant=own)


async def resume(desk: Desk, asked: calls.TaskOrQueue) -> None:
    own = desk.caller.own(asked.tenant)
    await desk.store.resume(task=asked.task, queue=asked.queue, tenant=own)


async def delete_failed(desk: Desk, asked: calls.DeleteFailed) -> int:
    return await desk.store.delete_failed(asked.limit, desk.caller.tenant(asked.tenant))


# ── of all tenants together: for admins ──


async def unlock(desk: Desk, asked: calls.Unlock) -> list[Job]:
    return await desk.store.unlock(asked.workers, asked.max_resets)


async def reap(desk: Desk, asked: calls.Reap) -> Reaped:
    return await desk.store.reap(asked.limit, asked.max_resets)


async def promote(desk: Desk, asked: calls.Limit) -> int:
    return await desk.store.promote(asked.limit)


async def next_due(desk: Desk, asked: calls.Nothing) -> float | None:
    return await desk.store.next_due()


async def prune(desk: Desk, asked: calls.Prune) -> int:
    return await desk.store.prune(asked.limit, asked.keep_chains, asked.keep_failed_chains)
