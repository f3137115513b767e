"""What a case works with: the store, the clock, and short words for common steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from windlass.clock import to_datetime
from windlass.model.chain import Chain
from windlass.model.job import Job, JobState
from windlass.model.names import DEFAULT_MAX_RESETS
from windlass.store.port import Lifeline, Store
from windlass.store.records import (
    ClaimRequest,
    Complete,
    Fail,
    JobFilter,
    Lease,
    NewChain,
    NewJob,
    Outcome,
    Reaped,
    Renewal,
    Settled,
)
from windlass.testing.clock import FakeClock

LEASE = 30.0
"""Seconds of a lease where a case says nothing."""


class Kit:
    """An opened store on a fresh database. Times are seconds from the clock's now."""

    store: Store

    def __init__(self, connect: Callable[[], Store], clock: FakeClock) -> None:
        self._connect = connect
        self._opened: list[Store] = []
        self._line: Lifeline | None = None
        self.clock = clock

    # ── stores ──

    async def open(self) -> None:
        self.store = await self._another()

    async def other(self) -> Store:
        """A second, independently opened store on the database, or the same if not shared."""
        return await self._another() if self.store.capabilities.shared else self.store

    async def reopen(self) -> None:
        """Go on as a new process would: the old store is never used again, if jobs outlive it."""
        if self.store.capabilities.durable:
            self._drop_line()
            self.store = await self._another()

    async def close(self) -> None:
        self._drop_line()
        for store in reversed(self._opened):
            await store.close()

    async def _another(self) -> Store:
        store = self._connect()
        self._opened.append(store)
        await store.open()
        return store

    def _drop_line(self) -> None:
        if self._line is not None:
            self._line.close()
        self._line = None

    @property
    def line(self) -> Lifeline:
        if self._line is None:
            self._line = self.store.lifeline()
        return self._line

    # ── time ──

    def micros(self, seconds: float = 0.0) -> int:
        return self.clock.now() + round(seconds * 1e6)

    def at(self, seconds: float = 0.0) -> datetime:
        return to_datetime(self.micros(seconds))

    # ── producers ──

    def new(self, task: str = "t", **options: Any) -> NewJob:
        return NewJob(task, **options)

    async def add(self, task: str = "t", **options: Any) -> Job:
        [job] = await self.store.enqueue([self.new(task, **options)])
        return job

    async def add_many(self, *options: dict[str, Any]) -> list[Job]:
        return await self.store.enqueue([self.new(**{"task": "t", **each}) for each in options])

    def new_chain(
        self,
        task: str = "t",
        *,
        key: str | None = None,
        key_window: float = 0.0,
        **options: Any,
    ) -> NewChain:
        window = round(key_window * 1e6)
        return NewChain(job=self.new(task, **options), key=key, key_window=window)

    async def start(self, task: str = "t", **options: Any) -> Chain[Any]:
        [chain] = await self.store.start_chains([self.new_chain(task, **options)])
        return chain

    # ── workers ──

    async def claim(
        self,
        limit: int = 10,
        tasks: Sequence[str] | None = ("t",),
        worker: str = "w",
        store: Store | None = None,
        **options: Any,
    ) -> list[Lease]:
        named = None if tasks is None else tuple(tasks)
        request = ClaimRequest(
            worker=worker, tasks=named, limit=limit, **{"lease": LEASE, **options}
        )
        return await (store or self.store).claim(request)

    async def take(self, worker: str = "w", **options: Any) -> Lease:
        """The one job there is to claim."""
        leases = await self.claim(worker=worker, **options)
        assert len(leases) == 1, f"one job was to be claimed, not {len(leases)}"
        return leases[0]

    async def claimed(self, **options: Any) -> list[int]:
        """The ids a claim is given, in its order."""
        return [lease.job_id for lease in await self.claim(**options)]

    async def settle(self, lease: Lease, outcome: Outcome) -> Settled:
        [answer] = await self.store.settle([(lease, outcome)])
        return answer

    async def go_on(self, lease: Lease, task: str = "t", **options: Any) -> Settled:
        """Complete the delivery; its chain goes on with another job."""
        return await self.settle(lease, Complete(next=self.new(task, **options)))

    async def fail(self, lease: Lease, error: str = "oops", **options: Any) -> Settled:
        return await self.settle(lease, Fail(error, **options))

    def renew(
        self,
        *leases: Lease,
        worker: str = "w",
        lease: float = LEASE,
        extend: Sequence[tuple[Lease, float]] = (),
    ) -> Renewal:
        return self.line.renew(worker, lease, leases, extend)

    def check(self, *leases: Lease, worker: str = "w") -> Renewal:
        return self.line.check(worker, leases)

    # ── upkeep ──

    async def reap(self, limit: int = 100, max_resets: int = DEFAULT_MAX_RESETS) -> Reaped:
        return await self.store.reap(limit, max_resets)

    async def crash(self, max_resets: int = DEFAULT_MAX_RESETS) -> Reaped:
        """Every worker vanishes; their leases run out and are reaped."""
        self.clock.advance(LEASE)
        return await self.reap(max_resets=max_resets)

    async def pass_time(self, seconds: float) -> None:
        """Time goes on, and what is due by then becomes ready."""
        self.clock.advance(seconds)
        await self.store.promote(1000)

    # ── looking ──

    async def get(self, job_id: int) -> Job:
        job = await self.store.get(job_id)
        assert job is not None, f"job {job_id} is gone"
        return job

    async def state(self, job_id: int) -> JobState | None:
        job = await self.store.get(job_id)
        return job.state if job else None

    async def chain(self, chain_id: int) -> Chain[Any]:
        chain = await self.store.get_chain(chain_id)
        assert chain is not None, f"chain {chain_id} is gone"
        return chain

    async def page(self, **wanted: Any) -> list[int]:
        """The ids that a list shows, in its order."""
        return ids(await self.store.find(JobFilter(**wanted)))

    async def jobs(self, **wanted: Any) -> list[Job]:
        """The oldest first, unlike a list."""
        return list(reversed(await self.store.find(JobFilter(**wanted))))

    async def ids(self, **wanted: Any) -> list[int]:
        return ids(await self.jobs(**wanted))


def ids(jobs: Sequence[Job]) -> list[int]:
    return [job.id for job in jobs]
