"""Every job that ends passes `_ended`, whichever verb ends it. Its queue goes on, its chain ends,
jobs that wait for the chain are told, and the end is posted where there is an address for it, in
the transaction of the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import psycopg
import pytest

from tests.postgres.cluster import Cluster, Schema, fresh_schema
from windlass.clock import to_micros
from windlass.model.chain import ChainState
from windlass.model.job import Job, JobState
from windlass.store.records import (
    CANCEL,
    COMPLETE,
    RELEASE,
    ClaimRequest,
    Complete,
    Fail,
    JobFilter,
    Lease,
    NewChain,
    NewJob,
    Outcome,
)
from windlass.store.webhooks import WEBHOOK_KEEP, WEBHOOK_TASK, WebhookCall
from windlass.stores.postgres import PostgresStore
from windlass.testing import FakeClock

_call = msgspec.json.Decoder(WebhookCall).decode

RECORDER = """
CREATE TABLE {0}.heard (id bigint);
ALTER FUNCTION {0}._ended RENAME TO _really_ended;
CREATE FUNCTION {0}._ended(
  _ids bigint[], _tenants text[], _queues text[], _ends {0}._chain_end[] DEFAULT NULL,
  _at timestamptz DEFAULT NULL
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO {0}.heard SELECT unnest(_ids);
  RETURN {0}._really_ended(_ids, _tenants, _queues, _ends, _at);
END $$
"""
"""What `_ended` does, and a note of each job it is told of."""

URL = "https://example.org/ended"
POSTED = '{"webhook": "https://example.org/ended", "more": [1]}'
"""The `meta` of a job whose end is posted."""

KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "keyed": {"key": "k"},
    "queued": {"queue": "q"},
    "strict": {"queue": "q", "is_strict": 1},
    "kept": {"keep": 600.0},
    "of a tenant": {"tenant": "acme", "queue": "q", "key": "k"},
    "webhook": {"meta": POSTED},
    "webhook of a tenant": {"tenant": "acme", "queue": "q", "key": "k", "meta": POSTED},
    "webhook, kept": {"meta": POSTED, "keep": 600.0},
    "no webhook": {"meta": '{"webhook": 7, "more": "webhook"}'},
}

Way = Callable[[PostgresStore, Job], Awaitable[Any]]


async def _take(store: PostgresStore, suspects: int = 1) -> Lease:
    [lease] = await store.claim(ClaimRequest("w", ("t",), 1, suspects=suspects))
    return lease


def _settled(outcome: Outcome) -> Way:
    async def settle(store: PostgresStore, job: Job) -> None:
        await store.settle([(await _take(store), outcome)])

    return settle


async def _expire(store: PostgresStore, job: Job) -> None:
    await store.expire([await _take(store)], 1)
    await store.expire([await _take(store)], 1)


async def _unlock(store: PostgresStore, job: Job) -> None:
    await _take(store)
    await store.cancel([job.id])
    await store.unlock(["w"], 5)


async def _delete_failed(store: PostgresStore, job: Job) -> None:
    await store.settle([(await _take(store), Fail("no", final=True))])
    await store.delete_failed(10)


async def _retire(store: PostgresStore, job: Job) -> None:
    await _take(store)
    await store.cancel([job.id])
    await store.retire("w")


async def _in_transaction(store: PostgresStore, job: Job) -> None:
    lease = await _take(store)

    def complete() -> None:
        with store.transaction(lease) as tx:
            tx.complete(COMPLETE)

    await asyncio.to_thread(complete)


WAYS: dict[str, Way] = {
    "completed": _settled(COMPLETE),
    "completed with an output": _settled(Complete('"out"', keep=60.0)),
    "failed": _settled(Fail("no", final=True)),
    "cancelled": _settled(CANCEL),
    "completed in a transaction": _in_transaction,
    "expired": _expire,
    "unlocked": _unlock,
    "retired": _retire,
    "deleted": _delete_failed,
    "cancel": lambda store, job: store.cancel([job.id]),
    "complete": lambda store, job: store.complete([job.id]),
    "fail": lambda store, job: store.fail([job.id], "no"),
    "remove": lambda store, job: store.remove(job.key or "", job.tenant or ""),
}
SIMPLE = {("plain", "complete"), ("plain", "fail")}
"""An operator ends jobs on which nothing hangs in one pass, which does not pass `_ended`."""


@pytest.mark.parametrize("kind", KINDS)
def test_every_end_passes_one_function(pg: Cluster, kind: str) -> None:
    with fresh_schema(pg) as schema:
        asyncio.run(_walk(schema, kind))


async def _walk(schema: Schema, kind: str) -> None:
    store = PostgresStore(schema.url, schema_name=schema.name)
    await store.open()
    try:
        with psycopg.connect(schema.url, autocommit=True) as connection:
            connection.execute(RECORDER.format(schema.name).encode())
            for way, end in WAYS.items():
                if way == "remove" and "key" not in KINDS[kind]:
                    continue
                for table in ("_jobs", "_bells", "heard"):
                    connection.execute(f"DELETE FROM {schema.name}.{table}".encode())
                [job] = await store.enqueue([NewJob("t", **KINDS[kind])])
                behind = {**KINDS[kind], "key": None}
                [after] = await store.enqueue([NewJob("t", priority=1, **behind)])
                await end(store, job)
                heard = connection.execute(f"SELECT id FROM {schema.name}.heard".encode())
                expected = [] if (kind, way) in SIMPLE else [(job.id,)]
                assert list(dict.fromkeys(heard.fetchall())) == expected, way
                is_posted = kind.startswith("webhook") and way != "remove"
                calls = await _posted(store)
                assert [call.job.id for call in calls] == [job.id] * is_posted, way
                assert {call.job.tenant for call in calls} <= {job.tenant}
                await _goes_on(store, way, job, after)
    finally:
        await store.close()


async def _posted(store: PostgresStore) -> list[WebhookCall]:
    """The ends that are to be posted, in the order in which they were stored."""
    found = await store.find(JobFilter(task=WEBHOOK_TASK, limit=100))
    for job in found:
        assert (job.state, job.keep) == (JobState.READY, WEBHOOK_KEEP)
    calls = [_call(msgspec.json.encode(job.payload)) for job in reversed(found)]
    for job, call in zip(reversed(found), calls, strict=True):
        assert (call.url, call.job.tenant) == (URL, job.tenant)
        assert call.job.finished_at == to_micros(job.created_at)
    return calls


async def _goes_on(store: PostgresStore, way: str, job: Job, after: Job) -> None:
    """The next of the queue can be claimed, unless the job that failed holds it."""
    taken = await store.claim(ClaimRequest("next", ("t",), 5))
    still = await store.get(job.id)
    is_held = job.strict and still is not None and still.state == "failed"
    assert [lease.job_id for lease in taken] == ([] if is_held else [after.id]), way
    await store.settle([(lease, RELEASE) for lease in taken])
    await store.retire("next")


# ── chains and blockers ──


class Scene:
    """A job that is to end in some way; `waiting` is a job that waits for its chain."""

    def __init__(self, store: PostgresStore, clock: FakeClock) -> None:
        self.store = store
        self.clock = clock
        self.id = 0
        self.waiting = 0

    async def take(self) -> Lease:
        [lease] = await self.store.claim(ClaimRequest("w", ("t",), 1, suspects=1))
        assert lease.job_id == self.id
        return lease

    async def settle(self, outcome: Outcome) -> None:
        answers = await self.store.settle([(await self.take(), outcome)])
        assert [answer.verdict.value for answer in answers] == ["applied"]

    async def be_killed(self) -> None:
        """Its worker dies, and the next one that has it dies too."""
        await self.take()
        await self.store.unlock(["w"], 100)
        await self.take()


End = Callable[[Scene], Awaitable[Any]]


async def _settled_twice(scene: Scene) -> None:
    lease = await scene.take()
    await scene.store.settle([(lease, COMPLETE), (lease, COMPLETE)])


async def _settled_with_a_lost_one(scene: Scene) -> None:
    lease = await scene.take()
    other = Lease(**{name: getattr(lease, name) for name in Lease.__struct_fields__})
    other.job_id, other.token = 10**9, 10**9
    await scene.store.settle([(lease, COMPLETE), (other, COMPLETE)])


async def _completed_in_a_transaction(scene: Scene) -> None:
    lease = await scene.take()

    def complete() -> None:
        with scene.store.transaction(lease) as tx:
            tx.complete(COMPLETE)

    await asyncio.to_thread(complete)


async def _failed_in_a_transaction(scene: Scene) -> None:
    lease = await scene.take()

    def fail() -> None:
        with scene.store.transaction(lease) as tx:
            tx.complete(Fail("no", final=True))

    await asyncio.to_thread(fail)


async def _reaped(scene: Scene) -> None:
    await scene.be_killed()
    scene.clock.advance(3600.0)
    await scene.store.reap(10, 1)


async def _unlocked(scene: Scene) -> None:
    await scene.be_killed()
    await scene.store.unlock(["w"], 1)


async def _expired(scene: Scene) -> None:
    await scene.take()
    await scene.store.unlock(["w"], 100)
    await scene.store.expire([await scene.take()], 1)


async def _retired(scene: Scene) -> None:
    await scene.take()
    await scene.store.cancel([scene.id])
    await scene.store.retire("w")


async def _completed_after_failing(scene: Scene) -> None:
    await scene.settle(Fail("no", final=True))
    await scene.store.complete([scene.id])


async def _by_hand(scene: Scene) -> None:
    if await scene.store.get_chain(scene.id) is None:
        await scene.store.complete([scene.id])
    else:
        await scene.store.complete_chain(scene.id, COMPLETE)


async def _cancel_chain(scene: Scene) -> None:
    if await scene.store.get_chain(scene.id) is None:
        await scene.store.cancel([scene.id])
    else:
        await scene.store.cancel_chains([scene.id])


COMPLETED, FAILED, CANCELLED = JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED
ENDS: dict[str, tuple[JobState, End]] = {
    "completed": (COMPLETED, lambda scene: scene.settle(COMPLETE)),
    "completed with an output": (COMPLETED, lambda scene: scene.settle(Complete("1", keep=60.0))),
    "completed twice": (COMPLETED, _settled_twice),
    "completed beside a lost one": (COMPLETED, _settled_with_a_lost_one),
    "completed in a transaction": (COMPLETED, _completed_in_a_transaction),
    "completed after it failed": (COMPLETED, _completed_after_failing),
    "complete": (COMPLETED, lambda scene: scene.store.complete([scene.id])),
    "complete by hand": (COMPLETED, _by_hand),
    "failed": (FAILED, lambda scene: scene.settle(Fail("no", final=True))),
    "failed at last": (FAILED, lambda scene: scene.settle(Fail("no", max_attempts=1))),
    "failed in a transaction": (FAILED, _failed_in_a_transaction),
    "fail": (FAILED, lambda scene: scene.store.fail([scene.id], "no")),
    "reschedule": (
        FAILED,
        lambda scene: scene.store.reschedule([scene.id], attempts=3, max_attempts=3),
    ),
    "reaped": (FAILED, _reaped),
    "unlocked": (FAILED, _unlocked),
    "expired": (FAILED, _expired),
    "cancelled": (CANCELLED, lambda scene: scene.settle(CANCEL)),
    "cancel": (CANCELLED, lambda scene: scene.store.cancel([scene.id])),
    "cancel the chain": (CANCELLED, _cancel_chain),
    "retired": (CANCELLED, _retired),
}

ROLES = ("plain", "of a chain", "blocker", "dependent")


async def _ended_chain(store: PostgresStore) -> int:
    [chain] = await store.start_chains([NewChain(job=NewJob("first"))])
    [lease] = await store.claim(ClaimRequest("starter", ("first",), 1))
    await store.settle([(lease, COMPLETE)])
    await store.retire("starter")
    return chain.id


async def _set_up(scene: Scene, role: str, keep: float | None) -> None:
    store = scene.store
    if role in ("of a chain", "blocker"):
        [chain] = await store.start_chains([NewChain(job=NewJob("t", keep=keep, meta=POSTED))])
        scene.id = chain.id
        if role == "blocker":
            new = NewJob("u", queue="q", blockers=(chain.id,), meta=POSTED)
            [dependent] = await store.enqueue([new])
            scene.waiting = dependent.id
        return
    blockers = (await _ended_chain(store),) if role == "dependent" else ()
    [job] = await store.enqueue([NewJob("t", keep=keep, blockers=blockers, meta=POSTED)])
    scene.id = job.id


@pytest.mark.parametrize("keep", [None, 60.0], ids=["", "kept"])
@pytest.mark.parametrize("role", ROLES)
def test_what_follows_happens_with_the_end(pg: Cluster, role: str, keep: float | None) -> None:
    async def walk(schema: Schema) -> None:
        clock = FakeClock()
        store = PostgresStore(schema.url, schema_name=schema.name, clock=clock)
        store.claims.least_batch = 1
        await store.open()
        try:
            for name, (state, end) in ENDS.items():
                scene = Scene(store, clock)
                await _set_up(scene, role, keep)
                await end(scene)
                await _check(scene, role, state, name)
                await _clear(store)
        finally:
            await store.close()

    with fresh_schema(pg) as schema:
        asyncio.run(walk(schema))


async def _check(scene: Scene, role: str, state: JobState, name: str) -> None:
    store = scene.store
    job = await store.get(scene.id)
    assert (COMPLETED if job is None else job.state) is state, name
    posted = await _posted(store)
    calls = {call.job.id: call.job for call in posted}
    ended = calls.pop(scene.id)
    told = [call for call in posted if call.job.id == scene.id]
    assert len(told) == (2 if name == "completed after it failed" else 1), name
    assert ended.state == state.value, name
    if job is not None:
        assert (ended.error, ended.attempts) == (job.last_error, job.attempts), name
        assert msgspec.json.decode(ended.output) == job.output, name
    if role in ("of a chain", "blocker"):
        assert ended.chain == scene.id
        chain = await store.get_chain(scene.id)
        assert chain is not None
        assert chain.state == ChainState(state.value), name
        assert chain.finished_at == (await _now(store)), name
        assert chain.length == 1, name
    if role == "blocker":
        waiting = await store.get(scene.waiting)
        assert waiting is not None
        released = state is COMPLETED and name != "completed after it failed"
        assert waiting.state is (JobState.READY if released else FAILED), name
        leases = await store.claim(ClaimRequest("next", ("u",), 5))
        assert [lease.job_id for lease in leases] == ([scene.waiting] if released else []), name
        if not released:
            assert calls.pop(scene.waiting).error == waiting.last_error, name
    assert calls == {}, name
    if role == "dependent":
        [counted] = await store._calls.row(
            "SELECT count(*) FROM {schema}._blockers WHERE job = %s", scene.id
        )
        assert counted == (job is not None), name


async def _now(store: PostgresStore) -> Any:
    return store._calls.now


async def _clear(store: PostgresStore) -> None:
    for table in ("_jobs", "_history", "_chains", "_blockers", "_bells", "_batches", "_workers"):
        await store._calls.rows(f"DELETE FROM {{schema}}.{table} RETURNING 1")
