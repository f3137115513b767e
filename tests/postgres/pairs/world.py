"""A database with something for every verb, and what must be true of it after any two of them."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Awaitable, Sequence
from typing import Any

import psycopg
from msgspec.structs import replace

from tests.postgres.pairs import gates
from windlass.errors import LeaseLostError
from windlass.model.cron import Schedule
from windlass.model.job import JobState
from windlass.store.records import (
    COMPLETE,
    ClaimRequest,
    Complete,
    Fail,
    JobFilter,
    Lease,
    NewChain,
    NewJob,
)
from windlass.store.webhooks import WEBHOOK_TASK
from windlass.stores.postgres import PostgresStore
from windlass.stores.postgres.schema import prepare
from windlass.testing.clock import FakeClock
from windlass.testing.contract.schedules import schedule

SCHEMA = "pairs"
LEASE = 30.0
POSTED = '{"webhook": "https://example.org"}'


class World:
    """One database. `begin` fills it anew; `check` says whether it is as it must be."""

    keys = ("open", "running", "failed", "later")
    queues = ("busy", "rung", "paused")

    def __init__(self, url: str) -> None:
        self.url = url
        self.clock = FakeClock()
        self.worker = "worker"
        self._round = 0
        self._original: list[Lease] = []
        self.leases: list[Lease] = []
        self.ids: list[int] = []
        self.removed: set[str] = set()
        self.failed_deleted = False
        self.chains_ended = False
        """Whether a verb was called that ends jobs by their chains, and names none of them."""
        self.going: list[int] = []
        """Chains whose jobs run; others wait for them."""
        self.lost = 0
        """A chain that has failed, and others with it."""
        self.floor = self.instant = 0
        self.schedule: Schedule = schedule()
        self.held = self._store(gates.HELD)
        self.free = self._store("free")
        self.watcher: psycopg.Connection[Any] = psycopg.connect(url, autocommit=True)

    def _store(self, name: str) -> PostgresStore:
        store = PostgresStore(self._named(name), schema_name=SCHEMA, clock=self.clock, listen=False)
        store.claims.least_batch = 1
        return store

    def _named(self, name: str) -> str:
        return f"{self.url}{'&' if '?' in self.url else '?'}application_name={name}"

    def url_of(self, store: PostgresStore) -> str:
        return self._named(gates.HELD if store is self.held else "free")

    async def open(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            prepare(connection, SCHEMA, "auto")
            gates.build(connection, SCHEMA)
            connection.execute("CREATE SCHEMA saved")
        await self.held.open()
        await self.free.open()
        self._lifeline = self.free.lifeline()

    async def close(self) -> None:
        await self.held.close()
        await self.free.close()
        self.watcher.close()

    async def begin(self) -> None:
        """The same jobs again; workers and tokens are new, as no store has seen them before."""
        if not self._original:
            await self._fill()
            self._tables("CREATE TABLE saved.{t} AS TABLE {s}.{t}")
            self._original = self.leases
        self.removed.clear()
        self.failed_deleted = self.chains_ended = False
        self._round += 1
        offset = self._round << 20
        self.worker = f"worker {self._round}"
        self.leases = [
            replace(lease, token=lease.token + offset, worker=self.worker)
            for lease in self._original
        ]
        self._tables(
            "DELETE FROM {s}.{t}; INSERT INTO {s}.{t} OVERRIDING SYSTEM VALUE TABLE saved.{t}"
        )
        self._run(f"UPDATE {{s}}._jobs SET token = token + {offset} WHERE token IS NOT NULL")
        self._run(f"UPDATE {{s}}._batches SET base = base + {offset}")
        self._run(f"UPDATE {{s}}._workers SET name = name || ' {self._round}'")

    async def _fill(self) -> None:
        """Jobs in every state, of living workers, of a dead one and of none."""
        store, add = self.free, self.free.enqueue
        # What has failed, was cancelled, is kept, and is due.
        await add([NewJob("t", key="failed"), NewJob("t"), NewJob("t"), NewJob("t")])
        first, second, third, fourth = await self._claim("early", 4)
        await store.settle([(first, Fail("no", final=True)), (second, Fail("no", final=True))])
        await store.settle([(third, Complete("1", keep=1.0))])
        await store.cancel([fourth.job_id])
        await store.retire("early")
        await store.retry([fourth.job_id])
        await store.cancel([fourth.job_id])
        await self._fill_lost_chain()
        await add([NewJob("t", delay=1_000_000), NewJob("t", delay=1_000_000, queue="due")])
        await add([NewJob("t", key="later", delay=3_600_000_000)])
        # A worker that will be dead, with a job of its own and one of a queue.
        await add([NewJob("t"), NewJob("t", queue="of the dead"), NewJob("t", queue="of the dead")])
        await self._claim("dead", 2, lease=1.0)
        # A worker that lives: a batch, a key, a queue, a longer lease.
        # The ends of two of these are posted.
        plain, slow = NewJob("t", meta=POSTED), NewJob("slow", meta=POSTED)
        await add([NewJob("t"), plain, NewJob("t", key="running"), slow])
        await add([NewJob("t", queue="busy")])
        chains = await store.start_chains([NewChain(job=NewJob("t"))] * 2)
        self.going = [chain.id for chain in chains]
        self.leases = await self._claim(self.worker, 7)
        both, one = tuple(self.going), (self.going[0],)
        await add([NewJob("t", blockers=both), NewJob("t", blockers=one, queue="rung")])
        await store.start_chains([NewChain(job=NewJob("t", blockers=both), key="chained")])
        await add([NewJob("t", queue="busy")] * 2)
        # What can be claimed: plain jobs, a key, a queue that has rung; and what is paused.
        await add([NewJob("t")] * 3 + [NewJob("t", key="open"), NewJob("t", queue="rung")])
        await store.pause(queue="paused")
        await store.pause(task="paused")
        await add([NewJob("t", queue="paused"), NewJob("paused")])
        [known] = await store.register([self.schedule])
        self.floor = known.floor_at
        self.clock.advance(2)
        self.instant = self.clock.now() - 1
        found = await store.find(JobFilter(limit=1000))
        # What has failed with a chain cannot be retried before the chain is.
        self.ids = sorted(job.id for job in found if not (job.blockers_open and job.last_error))

    async def _fill_lost_chain(self) -> None:
        """A chain that has failed; a job and a chain that failed with it, and a job that waits."""
        store = self.free
        [lost] = await store.start_chains([NewChain(job=NewJob("t"))])
        self.lost = lost.id
        blockers = (lost.id,)
        await store.start_chains([NewChain(job=NewJob("t", blockers=blockers))])
        await store.enqueue(
            [
                NewJob("t", blockers=blockers),
                NewJob("t", blockers=blockers, on_blocker_failure="wait"),
            ]
        )
        [lease] = await self._claim("early", 1)
        await store.settle([(lease, Fail("no", final=True))])
        await store.retire("early")

    async def _claim(self, worker: str, limit: int, lease: float = LEASE) -> list[Lease]:
        request = ClaimRequest(
            worker=worker,
            tasks=("t", "slow"),
            limit=limit,
            suspects=limit,
            lease=lease,
            longer_leases={"slow": 2 * LEASE},
        )
        leases = await self.free.claim(request)
        assert len(leases) == limit
        return leases

    def _tables(self, statements: str) -> None:
        """Run this for every table of data, all in one round trip."""
        found = self.watcher.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace"
            " AND relkind = 'r' AND relname NOT IN ('_migrations', '_functions')",
            (SCHEMA,),
        ).fetchall()
        self._run(";".join(statements.replace("{t}", name) for [name] in found))

    def _run(self, statements: str) -> None:
        self.watcher.execute(statements.replace("{s}", SCHEMA).encode())

    @staticmethod
    async def unless_lost(call: Awaitable[None]) -> None:
        with contextlib.suppress(LeaseLostError):
            await call

    # ── what must be true ──

    async def check(self, added: Sequence[int], ended: Sequence[int], given: list[Lease]) -> None:
        """`added` were acknowledged, `ended` said to be over, `given` are the leases of claims."""
        self._check_rows()
        held = await self._check_leases([*self.leases, *given])
        completed = await self._drain()
        self._check_posts(completed)
        assert not set(ended) & completed, "a job that had ended ran again"
        self._check_nothing_is_left()
        self._check_chains()
        await self._check_nothing_is_lost(added, {*ended, *completed}, held)

    def _check_rows(self) -> None:
        orphans = self._query(
            "SELECT j.id FROM {s}._jobs AS j WHERE j.state = 'running'"
            " AND NOT EXISTS (SELECT FROM {s}._workers AS w WHERE w.id = j.worker)"
        )
        assert orphans == [], f"jobs run at a worker that is not known: {orphans}"
        batches = self._query(
            "SELECT b.base FROM {s}._batches AS b"
            " WHERE NOT EXISTS (SELECT FROM {s}._workers AS w WHERE w.id = b.worker)"
        )
        assert batches == [], f"batches of a worker that is not known: {batches}"
        stranded = self._query(
            "SELECT DISTINCT j.queue FROM {s}._jobs AS j WHERE j.state = 'waiting'"
            " AND NOT EXISTS (SELECT FROM {s}._bells AS b WHERE b.queue = j.queue)"
            " AND NOT EXISTS (SELECT FROM {s}._paused AS p WHERE p.tenant = j.tenant"
            "   AND (p.kind = 'queue' AND p.name = j.queue OR p.kind = 'task' AND p.name = j.task))"
            " AND NOT EXISTS (SELECT FROM {s}._jobs AS a"
            "   WHERE a.queue = j.queue AND a.state IN ('ready', 'running'))"
        )
        assert stranded == [], f"queues that will never go on: {stranded}"

    async def _check_leases(self, leases: list[Lease]) -> set[int]:
        """Each running job is held by exactly one lease that was given out; the jobs held."""
        tokens = [lease.token for lease in leases]
        assert len(set(tokens)) == len(tokens), "a token was given out twice"
        deliveries = Counter(lease.job_id for lease in leases)
        alone = [lease for lease in leases if deliveries[lease.job_id] == 1]
        others = [[lease] for lease in leases if deliveries[lease.job_id] > 1]
        held = [
            lease
            for group in (alone, *others)
            for lost in [self._lifeline.check("any", group).lost]
            for lease in group
            if lease.job_id not in lost
        ]
        ids = [lease.job_id for lease in held]
        assert len(set(ids)) == len(ids), "two deliveries of one job are held"
        running = await self.free.find(JobFilter(states=(JobState.RUNNING,), limit=1000))
        dead = f"dead {self._round}"
        unseen = {job.id for job in running if job.locked_by != dead} - set(ids)
        assert unseen == set(), f"jobs that run by no lease that was given out: {unseen}"
        return set(ids)

    async def _drain(self) -> set[int]:
        """Let every worker end, then run all there is; the jobs that were completed by it."""
        store = self.free
        for worker in await store.workers():
            await store.retire(worker.id)
        for name in (*self.queues, "due", "of the dead"):
            await store.resume(queue=name)
        await store.resume(task="t")
        await store.resume(task="paused")
        await store.promote(1000)
        completed: set[int] = set()
        request = ClaimRequest(
            worker=f"last {self._round}",
            tasks=("t", "slow", "paused", WEBHOOK_TASK),
            limit=100,
            suspects=100,
            past_heads=True,
        )
        while leases := await store.claim(request):
            await store.settle([(lease, COMPLETE) for lease in leases])
            completed |= {lease.job_id for lease in leases}
        await store.retire(f"last {self._round}")
        return completed

    def _check_posts(self, completed: set[int]) -> None:
        """Of what completed, each end that is to be posted is posted once."""
        posts = self._query(
            "SELECT (p.payload -> 'job' ->> 'id')::bigint, p.payload -> 'job' ->> 'state', count(*)"
            f" FROM {{s}}._history AS p WHERE p.task = '{WEBHOOK_TASK}' GROUP BY 1, 2"
        )
        told = {job_id: count for job_id, state, count in posts if state == "completed"}
        assert set(told.values()) <= {1}, f"ends that are posted twice: {told}"
        kept = {lease.job_id for lease in self._original if lease.meta is not None}
        assert completed & kept <= told.keys(), "ends that are not posted"

    def _check_nothing_is_left(self) -> None:
        left = self._query(
            "SELECT j.id, j.state::text FROM {s}._jobs AS j"
            " WHERE j.state IN ('ready', 'running', 'waiting')"
        )
        assert left == [], f"jobs that no worker can take: {left}"
        for table in ("_batches", "_workers"):
            assert self._query(f"SELECT count(*) FROM {{s}}.{table}") == [(0,)], table

    def _check_chains(self) -> None:
        """No job waits for what has ended, and every chain is as its current job is."""
        hung = self._query(
            "SELECT j.id FROM {s}._jobs AS j WHERE j.state = 'blocked' AND NOT EXISTS ("
            "  SELECT FROM {s}._blockers AS b JOIN {s}._chains AS c ON c.id = b.chain"
            "  WHERE b.job = j.id AND b.state = 'open' AND (c.state = 'open'"
            "    OR c.state IN ('failed', 'cancelled') AND j.on_blocker_failure = 'wait'))"
        )
        assert hung == [], f"jobs that wait for nothing: {hung}"
        counted = self._query(
            "SELECT j.id FROM {s}._jobs AS j WHERE j.state = 'blocked' AND j.blockers_open <> ("
            "  SELECT count(DISTINCT b.chain) FROM {s}._blockers AS b"
            "  WHERE b.job = j.id AND b.state <> 'met')"
        )
        assert counted == [], f"jobs that have counted wrongly: {counted}"
        left_failed = self._query(
            "SELECT b.job FROM {s}._blockers AS b JOIN {s}._jobs AS j ON j.id = b.job"
            " JOIN {s}._chains AS c ON c.id = b.chain WHERE b.state = 'failed'"
            " AND j.state = 'failed' AND c.openings > b.openings AND c.state = 'open'"
        )
        assert left_failed == [], f"jobs that were not put back: {left_failed}"
        torn = self._query(
            "SELECT c.id, c.state::text, j.state::text FROM {s}._chains AS c"
            " LEFT JOIN {s}._jobs AS j ON j.chain = c.id WHERE CASE c.state"
            "  WHEN 'open' THEN coalesce(j.state IN ('failed', 'cancelled'), true)"
            "  WHEN 'completed' THEN j.id IS NOT NULL"
            "  ELSE j.state <> c.state::text::{s}._job_state END"
        )
        assert torn == [], f"chains that are not as their jobs are: {torn}"
        forked = self._query(
            "SELECT j.chain FROM {s}._jobs AS j WHERE j.chain IS NOT NULL"
            " GROUP BY j.chain HAVING count(*) > 1"
        )
        assert forked == [], f"chains with two current jobs: {forked}"
        dangling = self._query(
            "SELECT b.job FROM {s}._blockers AS b"
            " WHERE NOT EXISTS (SELECT FROM {s}._jobs AS j WHERE j.id = b.job)"
            " AND NOT EXISTS (SELECT FROM {s}._history AS h WHERE h.id = b.job)"
        )
        assert dangling == [], f"blockers of jobs that are gone: {dangling}"

    async def _check_nothing_is_lost(
        self, added: Sequence[int], over: set[int], held: set[int]
    ) -> None:
        """Every job that was there or acknowledged is still there, or some call said it ended."""
        there = {job.id for job in await self.free.find(JobFilter(limit=1000))}
        missing = {*self.ids, *added} - there - over
        gone = {job_id for job_id in missing if not self._may_be_gone(job_id)}
        assert gone == set(), f"jobs that are gone, and no call said so: {gone}"

    def _may_be_gone(self, job_id: int) -> bool:
        """Removed by its key, deleted as failed or pruned: these verbs name none they end."""
        said_nothing = self.failed_deleted or self.chains_ended or bool(self.removed)
        return said_nothing or job_id in self._kept

    @property
    def _kept(self) -> set[int]:
        return set(self.ids[:4])

    def _query(self, text: str) -> list[Any]:
        return self.watcher.execute(text.replace("{s}", SCHEMA).encode()).fetchall()
