"""Every verb of the port that writes, in every form that takes another way through the SQL.

`FORMS` must have at least one form for each verb of the port that is not in `READS`: a verb that is
new to the port fails the test that compares the two, until it has its forms here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from tests.postgres.pairs.world import LEASE, World
from windlass.model.job import Job
from windlass.store.records import (
    CANCEL,
    COMPLETE,
    RELEASE,
    ClaimRequest,
    Complete,
    Fail,
    Lease,
    NewJob,
    Note,
    Outcome,
    Settled,
    Verdict,
)
from windlass.stores.postgres import PostgresStore

READS = frozenset(
    (
        *("open", "close", "now", "subscribe", "capabilities", "connection", "next_due"),
        *("get", "get_by_key", "find", "counts", "paused", "workers", "schedules", "stranded"),
    )
)
"""Verbs of the port that write nothing."""


@dataclass
class Told:
    """What a call said, as far as the checks can use it: `added` jobs are acknowledged, `ended`
    ones are over for good, `leases` were given out."""

    added: Sequence[int] = ()
    ended: Sequence[int] = ()
    leases: Sequence[Lease] = ()


Call = Callable[[World, PostgresStore, str], Awaitable[Told]]


@dataclass(frozen=True)
class Form:
    """One way to call a verb. `in_user_transaction`: users may hold it in a transaction of theirs,
    so it must not make a worker or an enqueue wait; `never_waits`: such a worker or enqueue."""

    verb: str
    name: str
    call: Call
    in_user_transaction: bool = False
    never_waits: bool = False

    def __str__(self) -> str:
        return self.name


FORMS: list[Form] = []


def form(
    verb: str, name: str = "", *, in_user_transaction: bool = False, never_waits: bool = False
) -> Callable[[Call], Call]:
    def register(call: Call) -> Call:
        FORMS.append(Form(verb, name or verb, call, in_user_transaction, never_waits))
        return call

    return register


# ── producers ──


def _added(jobs: Sequence[Job]) -> Told:
    return Told(added=[job.id for job in jobs])


@form("enqueue", "enqueue plain", never_waits=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    return _added(await store.enqueue([NewJob("t"), NewJob("t", priority=-1)]))


@form("enqueue", "enqueue queued", never_waits=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    return _added(await store.enqueue([NewJob("t", queue=queue) for queue in world.queues]))


@form("enqueue", "enqueue keyed")
async def _(world: World, store: PostgresStore, who: str) -> Told:
    return _added(await store.enqueue([NewJob("t", key=key) for key in world.keys]))


@form("enqueue", "enqueue new key", never_waits=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    return _added(await store.enqueue([NewJob("t", key=f"new {who} of {world.worker}")]))


@form("enqueue", "enqueue keyed, keep run_at")
async def _(world: World, store: PostgresStore, who: str) -> Told:
    news = [NewJob("t", key=key, key_mode="preserve_run_at") for key in world.keys]
    return _added(await store.enqueue(news))


@form("enqueue", "enqueue keyed, dedupe")
async def _(world: World, store: PostgresStore, who: str) -> Told:
    news = [NewJob("t", key=key, key_mode="unsafe_dedupe") for key in world.keys]
    return _added(await store.enqueue(news))


@form("joined", "joined enqueue", in_user_transaction=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    def add() -> list[Job]:
        with psycopg.connect(world.url_of(store)) as connection:
            return store.joined(connection).enqueue(
                [
                    NewJob("t"),
                    *(NewJob("t", queue=queue) for queue in world.queues),
                    *(NewJob("t", key=key) for key in world.keys),
                ]
            )

    return _added(await asyncio.to_thread(add))


# ── workers ──


async def _claim(store: PostgresStore, worker: str, limit: int, **options: Any) -> Told:
    request = ClaimRequest(
        worker=worker,
        tasks=("t", "slow", "paused"),
        limit=limit,
        suspects=limit,
        lease=LEASE,
        longer_leases={"slow": 2 * LEASE},
        **options,
    )
    return Told(leases=await store.claim(request))


@form("claim", "claim", never_waits=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    return await _claim(store, f"{who} of {world.worker}", 50)


@form("claim", "claim by a worker that holds jobs", never_waits=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    return await _claim(store, world.worker, 50)


@form("claim", "claim few, past heads", never_waits=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    return await _claim(store, f"{who} of {world.worker}", 2, past_heads=True)


@form("introduce")
async def _(world: World, store: PostgresStore, who: str) -> Told:
    await store.introduce(world.worker, ["t", "slow"])
    return Told()


async def _settle(world: World, store: PostgresStore, outcome: Outcome) -> Told:
    settled: list[Settled] = await store.settle([(lease, outcome) for lease in world.leases])
    is_end = isinstance(outcome, Complete)
    ended = [
        lease.job_id
        for lease, answer in zip(world.leases, settled, strict=True)
        if answer.verdict is Verdict.APPLIED and is_end
    ]
    return Told(ended=ended)


@form("settle", "settle complete", never_waits=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    return await _settle(world, store, COMPLETE)


@form("settle", "settle complete, kept", never_waits=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    return await _settle(world, store, Complete("1", keep=3600.0))


@form("settle", "settle fail", never_waits=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    return await _settle(world, store, Fail("oops", delay=0.0))


@form("settle", "settle release", never_waits=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    return await _settle(world, store, RELEASE)


@form("settle", "settle cancel", never_waits=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    return await _settle(world, store, CANCEL)


@form("expire", never_waits=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    await store.expire(world.leases, 5)
    return Told()


@form("note", never_waits=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    for lease in world.leases:
        await store.note(lease, Note(progress="[0.5,null]", entry='"on"'))
    return Told()


async def _on_lifeline(store: PostgresStore, call: Callable[[Any], Any]) -> Told:
    lifeline = store.lifeline()
    try:
        await asyncio.to_thread(call, lifeline)
    finally:
        lifeline.close()
    return Told()


@form("lifeline", "renew", never_waits=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    return await _on_lifeline(store, lambda it: it.renew(world.worker, LEASE, world.leases))


@form("lifeline", "renew and extend", never_waits=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    extend = [(lease, 3 * LEASE) for lease in world.leases]
    return await _on_lifeline(store, lambda it: it.renew(world.worker, LEASE, world.leases, extend))


@form("lifeline", "check", never_waits=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    return await _on_lifeline(store, lambda it: it.check(world.worker, world.leases))


@form("transaction", in_user_transaction=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    ended: list[int] = []

    def complete() -> None:
        lease = world.leases[0]
        with store.transaction(lease) as tx:
            tx.complete(COMPLETE)
        ended.append(lease.job_id)

    await world.unless_lost(asyncio.to_thread(complete))
    return Told(ended=ended)


@form("retire", "retire")
async def _(world: World, store: PostgresStore, who: str) -> Told:
    await store.retire(world.worker)
    return Told()


# ── upkeep ──


@form("reap", never_waits=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    await store.reap(100, 5)
    return Told()


@form("promote", never_waits=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    await store.promote(100)
    return Told()


@form("prune", never_waits=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    await store.prune(100)
    return Told()


# ── schedules ──


@form("register")
async def _(world: World, store: PostgresStore, who: str) -> Told:
    await store.register([world.schedule])
    return Told()


@form("fire", never_waits=False)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    await store.fire("s", world.floor, world.instant, [NewJob("t"), NewJob("t", queue="busy")])
    return Told()


@form("pause_schedule")
async def _(world: World, store: PostgresStore, who: str) -> Told:
    await store.pause_schedule("s")
    return Told()


@form("resume_schedule")
async def _(world: World, store: PostgresStore, who: str) -> Told:
    await store.resume_schedule("s")
    return Told()


@form("forget_schedule")
async def _(world: World, store: PostgresStore, who: str) -> Told:
    await store.forget_schedule("s")
    return Told()


# ── operators ──


@form("cancel", in_user_transaction=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    await store.cancel(world.ids)
    return Told()


@form("complete", in_user_transaction=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    return Told(ended=[job.id for job in await store.complete(world.ids)])


@form("fail", in_user_transaction=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    await store.fail(world.ids, "by hand")
    return Told()


@form("reschedule", in_user_transaction=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    await store.reschedule(world.ids, run_at=world.clock.now(), priority=3, attempts=0)
    return Told()


@form("retry", in_user_transaction=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    await store.retry(world.ids)
    return Told()


@form("remove", in_user_transaction=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    for key in world.keys:
        world.removed.add(key)
        await store.remove(key)
    return Told()


@form("unlock", "unlock")
async def _(world: World, store: PostgresStore, who: str) -> Told:
    await store.unlock([world.worker], 5)
    return Told()


@form("pause", "pause a queue")
async def _(world: World, store: PostgresStore, who: str) -> Told:
    await store.pause(queue="rung")
    return Told()


@form("resume", "resume a queue")
async def _(world: World, store: PostgresStore, who: str) -> Told:
    await store.resume(queue="paused")
    return Told()


@form("pause", "pause a task")
async def _(world: World, store: PostgresStore, who: str) -> Told:
    await store.pause(task="t")
    return Told()


@form("resume", "resume a task")
async def _(world: World, store: PostgresStore, who: str) -> Told:
    await store.resume(task="paused")
    return Told()


@form("delete_failed")
async def _(world: World, store: PostgresStore, who: str) -> Told:
    world.failed_deleted = True
    await store.delete_failed(100)
    return Told()
