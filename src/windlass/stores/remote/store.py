"""The store: each verb of the port as one call over the link."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from msgspec.structs import replace

from windlass.errors import ConfigError, PayloadTooLargeError, StoreClosedError
from windlass.model import payload as payloads
from windlass.model.chain import KEEP_CHAINS, KEEP_FAILED_CHAINS, Chain
from windlass.model.cron import Schedule
from windlass.model.job import DEFAULT_TENANT, Job, JobState
from windlass.store.fresh import fresh_jobs
from windlass.store.hints import Due, ignore_due
from windlass.store.port import Joined, Listening, Transaction
from windlass.store.records import (
    Capabilities,
    ChainFilter,
    ClaimRequest,
    Complete,
    JobFilter,
    Lease,
    NewChain,
    NewJob,
    Note,
    Outcome,
    Paused,
    Reaped,
    Settled,
    Verdict,
    WorkerInfo,
)
from windlass.store.schedules import Fired, KnownSchedule
from windlass.stores.remote.address import ServerAddress
from windlass.stores.remote.call import read_answer
from windlass.stores.remote.claims import Claims
from windlass.stores.remote.lifeline import RemoteLifeline
from windlass.stores.remote.link import MOST_ARGUMENTS, Link
from windlass.stores.remote.subscribers import Subscribers
from windlass.stores.remote.workers import KnownWorkers
from windlass.wire import calls
from windlass.wire.calls import VERBS, Ended, ended, slim

_BEFORE = Capabilities(shared=True, durable=True, transactions=False, sql=False, upkeep=False)
"""Until the server has said what it can do."""


class RemoteStore:
    """The jobs of a Windlass server. The server promotes, reaps and prunes."""

    def __init__(self, address: ServerAddress) -> None:
        self._address = address
        self._subscribers = Subscribers()
        self._workers = KnownWorkers()
        self._link: Link | None = None
        self._claims: Claims | None = None
        self.capabilities = _BEFORE

    # ── life ──

    async def open(self) -> None:
        if self._link is not None:
            return
        self._address.tls()  # refuses files that cannot be used
        link = Link(self._address, f"{socket.gethostname()}-{os.getpid()}", self._subscribers)
        capabilities = await asyncio.to_thread(link.open)
        if self._link is not None:
            await asyncio.to_thread(link.close)  # two have opened it at once
            return
        self.capabilities = capabilities
        self._link, self._claims = link, Claims(link, self._workers)

    async def close(self) -> None:
        """Calls that are under way are answered first."""
        link, self._link, self._claims = self._link, None, None
        if link is not None:
            await asyncio.to_thread(link.close)

    @property
    def link(self) -> Link:
        if self._link is None:
            raise StoreClosedError("this store is not open; call open() first")
        return self._link

    async def _call(self, verb: str, arguments: calls.Arguments | bytes = b"{}") -> Any:
        link = self.link
        answer = await asyncio.wrap_future(link.call(verb, arguments))
        return read_answer(VERBS[verb], answer, link.address.name)

    async def now(self) -> int:
        now: int = await self._call("now")
        return now

    def subscribe(
        self,
        hint: Callable[[], None],
        listening: Listening = lambda error: None,
        due: Due = ignore_due,
    ) -> Callable[[], None]:
        stop = self._subscribers.subscribe(hint, listening, due)
        self.link.subscribe()
        return stop

    # ── producers ──

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Job]:
        if not jobs:
            return []
        asked = calls.Enqueue(jobs=list(jobs))
        added: calls.Enqueued = await self._call("enqueue", _in_one(asked, "jobs"))
        return added.jobs if added.jobs is not None else _fresh(asked.jobs, added)

    def joined(self, connection: Any) -> Joined:
        raise ConfigError(_NO_DATABASE)

    # ── workers ──

    async def claim(self, request: ClaimRequest) -> list[Lease]:
        if self._claims is None:
            raise StoreClosedError("this store is not open; call open() first")
        return await self._claims.claim(request)

    async def settle(self, settlements: Sequence[tuple[Lease, Outcome]]) -> list[Settled]:
        if not settlements:
            return []
        answers = await self._settle([ended(lease, outcome) for lease, outcome in settlements])
        over = (Verdict.APPLIED, Verdict.LOST, Verdict.MISSING)
        pairs = zip(settlements, answers, strict=True)
        self._workers.ended(lease for (lease, _), answer in pairs if answer.verdict in over)
        return answers

    async def _settle(self, settlements: list[Ended]) -> list[Settled]:
        """In as many calls as it takes: each outcome is written for itself anyway."""
        asked = calls.encode(calls.Settle(settlements=settlements))
        if len(settlements) > 1 and len(asked) > MOST_ARGUMENTS:
            half = len(settlements) // 2
            first = await self._settle(settlements[:half])
            return first + await self._settle(settlements[half:])
        answers: list[Settled] = await self._call("settle", asked)
        return answers

    async def expire(self, leases: Sequence[Lease], max_resets: int) -> list[Settled]:
        proofs = [slim(lease) for lease in leases]
        asked = calls.Expire(leases=proofs, max_resets=max_resets)
        answers: list[Settled] = await self._call("expire", asked)
        self._workers.ended(leases)
        return answers

    async def note(self, lease: Lease, note: Note) -> Verdict:
        verdict: Verdict = await self._call("note", calls.NoteOf(lease=slim(lease), note=note))
        return verdict

    def lifeline(self) -> RemoteLifeline:
        return RemoteLifeline(self.link, self._workers)

    def connection(self) -> AbstractContextManager[Any]:
        raise ConfigError(_NO_DATABASE)

    def transaction(self, lease: Lease) -> AbstractContextManager[Transaction]:
        raise ConfigError(_NO_DATABASE)

    async def retire(self, worker: str) -> None:
        # A claim whose caller was cancelled may not be over yet, and would sign on again.
        if self._claims is not None:
            await self._claims.ended(worker)
        for name in self._workers.names(worker):
            await self._call("retire", calls.Retire(worker=name))
        self._workers.forget(worker)

    async def introduce(
        self, worker: str, tasks: Sequence[str], tenants: Sequence[str] | None = None
    ) -> bool:
        named = None if tenants is None else tuple(tenants)
        name = self._workers.name(worker)
        asked = calls.Introduce(worker=name, tasks=tuple(tasks), tenants=named)
        is_known: bool = await self._call("introduce", asked)
        return is_known

    async def stranded(self) -> list[str]:
        tasks: list[str] = await self._call("stranded")
        return tasks

    # ── upkeep ──

    async def reap(self, limit: int, max_resets: int) -> Reaped:
        reaped: Reaped = await self._call("reap", calls.Reap(limit=limit, max_resets=max_resets))
        return reaped

    async def promote(self, limit: int) -> int:
        count: int = await self._call("promote", calls.Limit(limit=limit))
        return count

    async def next_due(self) -> float | None:
        seconds: float | None = await self._call("next_due")
        return seconds

    async def prune(
        self,
        limit: int,
        keep_chains: float = KEEP_CHAINS,
        keep_failed_chains: float = KEEP_FAILED_CHAINS,
    ) -> int:
        asked = calls.Prune(
            limit=limit, keep_chains=keep_chains, keep_failed_chains=keep_failed_chains
        )
        count: int = await self._call("prune", asked)
        return count

    # ── a look ──

    async def get(self, job_id: int, tenant: str | None = None) -> Job | None:
        job: Job | None = await self._call("get", calls.OneJob(job_id=job_id, tenant=tenant))
        return job

    async def get_by_key(self, key: str, tenant: str = DEFAULT_TENANT) -> Job | None:
        return await self._job("get_by_key", calls.OneKey(key=key, tenant=tenant))

    async def find(self, wanted: JobFilter) -> list[Job]:
        return await self._jobs("find", calls.Find(wanted=wanted))

    async def counts(self, tenant: str | None = None) -> dict[JobState, int]:
        counts: dict[JobState, int] = await self._call("counts", calls.Seen(tenant=tenant))
        return counts

    async def workers(self, tenant: str | None = None) -> list[WorkerInfo]:
        workers: list[WorkerInfo] = await self._call("workers", calls.Seen(tenant=tenant))
        return workers

    async def paused(self, tenant: str | None = None) -> Paused:
        paused: Paused = await self._call("paused", calls.Seen(tenant=tenant))
        return paused

    async def _job(self, verb: str, arguments: calls.Arguments) -> Job | None:
        job: Job | None = await self._call(verb, arguments)
        return job

    async def _jobs(self, verb: str, arguments: calls.Arguments) -> list[Job]:
        jobs: list[Job] = await self._call(verb, arguments)
        return jobs

    # ── schedules ──

    async def register(
        self, wanted: Sequence[Schedule], tenant: str = DEFAULT_TENANT
    ) -> list[KnownSchedule]:
        asked = calls.Register(wanted=list(wanted), tenant=tenant)
        known: list[KnownSchedule] = await self._call("register", asked)
        return known

    async def fire(
        self,
        identifier: str,
        expected: int,
        until: int,
        jobs: Sequence[NewJob],
        tenant: str = DEFAULT_TENANT,
    ) -> Fired:
        asked = calls.Fire(
            identifier=identifier, expected=expected, until=until, jobs=list(jobs), tenant=tenant
        )
        fired: Fired = await self._call("fire", _in_one(asked, "jobs"))
        return fired

    async def schedules(self, tenant: str | None = None) -> list[KnownSchedule]:
        known: list[KnownSchedule] = await self._call("schedules", calls.Seen(tenant=tenant))
        return known

    async def pause_schedule(
        self, identifier: str, tenant: str = DEFAULT_TENANT
    ) -> KnownSchedule | None:
        return await self._schedule("pause_schedule", identifier, tenant)

    async def resume_schedule(
        self, identifier: str, tenant: str = DEFAULT_TENANT
    ) -> KnownSchedule | None:
        return await self._schedule("resume_schedule", identifier, tenant)

    async def forget_schedule(
        self, identifier: str, tenant: str = DEFAULT_TENANT
    ) -> KnownSchedule | None:
        return await self._schedule("forget_schedule", identifier, tenant)

    async def _schedule(self, verb: str, identifier: str, tenant: str) -> KnownSchedule | None:
        asked = calls.OneSchedule(identifier=identifier, tenant=tenant)
        known: KnownSchedule | None = await self._call(verb, asked)
        return known

    # ── chains ──

    async def start_chains(self, chains: Sequence[NewChain]) -> list[Chain[Any]]:
        asked = calls.StartChains(chains=list(chains))
        return await self._chains("start_chains", _in_one(asked, "specs"))

    async def get_chain(self, chain_id: int, tenant: str | None = None) -> Chain[Any] | None:
        asked = calls.OneChain(chain_id=chain_id, tenant=tenant)
        chain: Chain[Any] | None = await self._call("get_chain", asked)
        return chain

    async def find_chains(self, wanted: ChainFilter) -> list[Chain[Any]]:
        return await self._chains("find_chains", calls.FindChains(wanted=wanted))

    async def chain_jobs(self, chain_id: int, tenant: str | None = None) -> list[Job]:
        return await self._jobs("chain_jobs", calls.OneChain(chain_id=chain_id, tenant=tenant))

    async def blocked_jobs(self, chain_id: int, tenant: str | None = None) -> list[Job]:
        return await self._jobs("blocked_jobs", calls.OneChain(chain_id=chain_id, tenant=tenant))

    async def blockers(self, job_id: int, tenant: str | None = None) -> list[Chain[Any]]:
        return await self._chains("blockers", calls.OneJob(job_id=job_id, tenant=tenant))

    async def complete_chain(
        self,
        chain_id: int,
        completion: Complete,
        inherits: Sequence[str] = (),
        tenant: str | None = None,
    ) -> Chain[Any]:
        asked = calls.CompleteChain(
            chain_id=chain_id, completion=completion, inherits=tuple(inherits), tenant=tenant
        )
        chain: Chain[Any] = await self._call("complete_chain", asked)
        return chain

    async def cancel_chains(
        self, ids: Sequence[int], tenant: str | None = None
    ) -> list[Chain[Any]]:
        return await self._chains("cancel_chains", calls.Ids(ids=tuple(ids), tenant=tenant))

    async def retry_chains(self, ids: Sequence[int], tenant: str | None = None) -> list[Chain[Any]]:
        return await self._chains("retry_chains", calls.Ids(ids=tuple(ids), tenant=tenant))

    async def delete_chains(
        self, ids: Sequence[int], cascade: bool = False, tenant: str | None = None
    ) -> list[Chain[Any]]:
        asked = calls.DeleteChains(ids=tuple(ids), cascade=cascade, tenant=tenant)
        return await self._chains("delete_chains", asked)

    async def _chains(self, verb: str, arguments: calls.Arguments | bytes) -> list[Chain[Any]]:
        chains: list[Chain[Any]] = await self._call(verb, arguments)
        return chains

    # ── operators ──

    async def cancel(self, ids: Sequence[int], tenant: str | None = None) -> list[Job]:
        return await self._jobs("cancel", calls.Ids(ids=tuple(ids), tenant=tenant))

    async def complete(self, ids: Sequence[int], tenant: str | None = None) -> list[Job]:
        return await self._jobs("complete", calls.Ids(ids=tuple(ids), tenant=tenant))

    async def fail(self, ids: Sequence[int], reason: str, tenant: str | None = None) -> list[Job]:
        asked = calls.FailJobs(ids=tuple(ids), reason=reason, tenant=tenant)
        return await self._jobs("fail", asked)

    async def reschedule(
        self,
        ids: Sequence[int],
        run_at: int | None = None,
        priority: int | None = None,
        attempts: int | None = None,
        max_attempts: int | None = None,
        tenant: str | None = None,
    ) -> list[Job]:
        asked = calls.Reschedule(
            ids=tuple(ids),
            run_at=run_at,
            priority=priority,
            attempts=attempts,
            max_attempts=max_attempts,
            tenant=tenant,
        )
        return await self._jobs("reschedule", asked)

    async def retry(self, ids: Sequence[int], tenant: str | None = None) -> list[Job]:
        return await self._jobs("retry", calls.Ids(ids=tuple(ids), tenant=tenant))

    async def delete(self, ids: Sequence[int], tenant: str | None = None) -> list[Job]:
        return await self._jobs("delete", calls.Ids(ids=tuple(ids), tenant=tenant))

    async def remove(self, key: str, tenant: str = DEFAULT_TENANT) -> Job | None:
        return await self._job("remove", calls.OneKey(key=key, tenant=tenant))

    async def unlock(self, workers: Sequence[str], max_resets: int) -> list[Job]:
        asked = calls.Unlock(workers=tuple(workers), max_resets=max_resets)
        return await self._jobs("unlock", asked)

    async def pause(
        self, *, task: str | None = None, queue: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> None:
        await self._call("pause", calls.TaskOrQueue(task=task, queue=queue, tenant=tenant))

    async def resume(
        self, *, task: str | None = None, queue: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> None:
        await self._call("resume", calls.TaskOrQueue(task=task, queue=queue, tenant=tenant))

    async def delete_failed(self, limit: int, tenant: str | None = None) -> int:
        asked = calls.DeleteFailed(limit=limit, tenant=tenant)
        count: int = await self._call("delete_failed", asked)
        return count


_NO_DATABASE = (
    "a grpc:// URL reaches a server, and not its database: connection=, ctx.connection() and"
    " ctx.transaction() need the database's own URL"
)


def _fresh(new: Sequence[NewJob], added: calls.Enqueued) -> list[Job]:
    if added.tenant:
        new = [job if job.tenant else replace(job, tenant=added.tenant) for job in new]
    values = [payloads.decode(job.payload) for job in new]
    return fresh_jobs(new, values, added.at, added.ids)


def _in_one(arguments: calls.Arguments, field: str) -> bytes:
    """All or none of these are stored, so they cross in one message."""
    written = calls.encode(arguments)
    if (size := len(written)) > MOST_ARGUMENTS:
        raise PayloadTooLargeError(
            f"these jobs are {size:,} bytes together; a server takes {MOST_ARGUMENTS:,} in one"
            " call, so add them in several",
            field=field,
        )
    return written
