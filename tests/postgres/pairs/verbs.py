"""Every verb of the port that writes, in every form that takes another way through the SQL.

`FORMS` must have at least one form for each verb of the port that is not in `READS`: a verb that is
new to the port fails the test that compares the two, until it has its forms here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psycopg

from tests.postgres.pairs.world import LEASE, World
from windlass.errors import (
    BlockerReferenceError,
    ChainClosedError,
    ChainNotFoundError,
    ValidationError,
)
from windlass.model.chain import Chain
from windlass.model.job import Job
from windlass.store.records import (
    CANCEL,
    COMPLETE,
    RELEASE,
    ChainFilter,
    ClaimRequest,
    Complete,
    Fail,
    Lease,
    NewChain,
    NewJob,
    Note,
    Outcome,
    Settled,
    Verdict,
)
from windlass.store.server import Request, Requested, Token
from windlass.stores.postgres import PostgresStore

READS = frozenset(
    (
        *("open", "close", "now", "subscribe", "capabilities", "connection", "next_due"),
        *("get", "get_by_key", "find", "counts", "paused", "workers", "schedules", "stranded"),
        *("get_chain", "find_chains", "chain_jobs", "blocked_jobs", "blockers"),
        *("find_token", "tokens", "claimable"),
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


@form("enqueue", "enqueue blocked", never_waits=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    named = (*world.going, world.lost)
    new = [NewJob("t", blockers=named, on_blocker_failure=choice) for choice in (None, "run")]
    with _refusals:
        return _added(await store.enqueue(new))
    return Told()


@form("enqueue", "enqueue keyed and blocked")
async def _(world: World, store: PostgresStore, who: str) -> Told:
    news = [NewJob("t", key=key, blockers=tuple(world.going)) for key in world.keys]
    with _refusals:
        return _added(await store.enqueue(news))
    return Told()


@form("joined", "joined start of chains", in_user_transaction=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    def start() -> list[Chain[Any]]:
        with psycopg.connect(world.url_of(store)) as connection:
            joined = store.joined(connection)
            chains = joined.start_chains([NewChain(job=NewJob("t"), key=f"{who} joined")])
            new = NewJob("t", blockers=(*world.going, chains[0].id))
            return [*chains, *joined.start_chains([NewChain(job=new)])]

    with _refusals:
        return _started(await asyncio.to_thread(start))
    return Told()


# ── chains ──

_refusals = suppress(BlockerReferenceError, ChainClosedError, ChainNotFoundError)
"""What the other verb has made impossible is refused, and nothing is written."""


def _started(chains: Sequence[Chain[Any]]) -> Told:
    return Told(added=[chain.id for chain in chains])


@form("start_chains", "start chains", never_waits=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    return _started(await store.start_chains([NewChain(job=NewJob("t"))] * 2))


@form("start_chains", "start chains that wait", never_waits=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    with _refusals:
        new = NewChain(job=NewJob("t", blockers=tuple(world.going)))
        return _started(await store.start_chains([new]))
    return Told()


@form("start_chains", "start chains by key")
async def _(world: World, store: PostgresStore, who: str) -> Told:
    new = [NewChain(job=NewJob("t"), key=key, key_window=60_000_000) for key in ("chained", "new")]
    await store.start_chains(new)
    return Told()


@form("complete_chain", "complete chain", in_user_transaction=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    world.chains_ended = True
    for chain in (*world.going, world.lost):
        with _refusals:
            await store.complete_chain(chain, Complete("1"))
    return Told()


@form("complete_chain", "complete chain, go on", in_user_transaction=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    world.chains_ended = True
    for chain, named in zip((world.going[0], world.lost), ((world.going[1],), ()), strict=True):
        with _refusals:
            await store.complete_chain(chain, Complete(next=NewJob("t", blockers=named)))
    return Told()


@form("cancel_chains")
async def _(world: World, store: PostgresStore, who: str) -> Told:
    with _refusals:
        await store.cancel_chains(world.going)
    return Told()


@form("retry_chains")
async def _(world: World, store: PostgresStore, who: str) -> Told:
    with _refusals:
        await store.retry_chains([*world.going, world.lost])
    return Told()


@form("delete_chains", "delete chains")
async def _(world: World, store: PostgresStore, who: str) -> Told:
    world.chains_ended = True
    with _refusals:
        await store.delete_chains([world.lost])
    return Told()


@form("delete_chains", "delete chains and all they named")
async def _(world: World, store: PostgresStore, who: str) -> Told:
    world.chains_ended = True
    chains = await store.find_chains(ChainFilter(limit=100))
    with _refusals:
        await store.delete_chains([chain.id for chain in chains if chain.key == "chained"], True)
    return Told()


# ── servers ──


def _requested(answers: Sequence[Requested]) -> Told:
    return Told(added=[job_id for answer in answers for job_id in answer.ids])


@form("enqueue_once", "enqueue once", never_waits=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    news = (NewJob("t"), NewJob("t", queue="busy"))
    return _requested(await store.enqueue_once([Request(f"of {who}", "d", news)]))


@form("enqueue_once", "enqueue once, the same")
async def _(world: World, store: PostgresStore, who: str) -> Told:
    names = ["a", "b", "c"] if who == "first" else ["c", "b", "a"]
    asked = [Request(name, "d", (NewJob("t"),)) for name in names]
    answers = await store.enqueue_once(asked)
    assert {len(answer.ids) for answer in answers} == {1}
    return _requested(answers)


@form("enqueue_once", "enqueue once, keyed")
async def _(world: World, store: PostgresStore, who: str) -> Told:
    asked = [Request(f"keyed {key}", "d", (NewJob("t", key=key),)) for key in world.keys]
    return _requested(await store.enqueue_once(asked))


@form("add_token")
async def _(world: World, store: PostgresStore, who: str) -> Told:
    await store.add_token(Token(name="token", digest=who, roles=("worker",), created_at=1))
    return Told()


@form("revoke_token")
async def _(world: World, store: PostgresStore, who: str) -> Told:
    await store.revoke_token("token")
    return Told()


@form("secret")
async def _(world: World, store: PostgresStore, who: str) -> Told:
    assert await store.secret("deliveries", who) in ("first", "second", "replaced")
    return Told()


@form("replace_secret")
async def _(world: World, store: PostgresStore, who: str) -> Told:
    await store.replace_secret("deliveries", "replaced")
    return Told()


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


@form("settle", "settle, go on", never_waits=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    return await _settle(world, store, Complete(next=NewJob("t", queue="busy")))


@form("settle", "settle, fan out and in", never_waits=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    starts = tuple(NewChain(job=NewJob("t")) for _ in range(2))
    outcome = Complete(next=NewJob("t", blockers=(-1, -2)), starts=starts)
    return await _settle(world, store, outcome)


@form("settle", "settle, name other chains", never_waits=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    starts = (NewChain(job=NewJob("t"), key="chained"), NewChain(job=NewJob("t"), key="settled"))
    on = NewJob("t", blockers=(-1, world.going[1]))
    return await _settle(world, store, Complete(next=on, starts=starts))


@form("settle", "settle fail for good", never_waits=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    return await _settle(world, store, Fail("oops", final=True))


@form("expire", never_waits=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    await store.expire(world.leases, 5)
    return Told()


@form("note", never_waits=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    for lease in world.leases:
        await store.note(lease, Note(progress="[0.5,null]", entry='"on"'))
    return Told()


@form("move", never_waits=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    for lease in world.leases:
        await store.move(lease, f"{who} server", LEASE)
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


@form("transaction", "transaction that goes on", in_user_transaction=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    ended: list[int] = []

    def complete() -> None:
        [lease] = [lease for lease in world.leases if lease.chain == world.going[0]]
        on = NewJob("t", blockers=(world.going[1], -1))
        with store.transaction(lease) as tx:
            tx.complete(Complete(next=on, starts=(NewChain(job=NewJob("t")),)))
        ended.append(lease.job_id)

    with suppress(ValidationError):
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
    with _refusals:
        await store.reschedule(world.ids, run_at=world.clock.now(), priority=3, attempts=0)
    return Told()


@form("retry", in_user_transaction=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    with _refusals:
        await store.retry(world.ids)
    return Told()


@form("remove", in_user_transaction=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    for key in world.keys:
        world.removed.add(key)
        await store.remove(key)
    return Told()


@form("delete", in_user_transaction=True)
async def _(world: World, store: PostgresStore, who: str) -> Told:
    return Told(ended=[job.id for job in await store.delete(world.ids)])


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
