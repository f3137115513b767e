"""The store: each verb of the port as one operation for the writer thread."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, get_args

from windlass.clock import SYSTEM, Clock
from windlass.errors import ConfigError, StoreClosedError
from windlass.model.chain import KEEP_CHAINS, KEEP_FAILED_CHAINS, Chain
from windlass.model.cron import Schedule
from windlass.model.job import DEFAULT_TENANT, Job, JobState
from windlass.store import rules
from windlass.store.figures import (
    COUNTED,
    COUNTED_OF_GROUP,
    Depths,
    ErrorGroups,
    Rate,
    RateFilter,
    TaskFigures,
)
from windlass.store.findings import Finding
from windlass.store.hints import Due, Hints, ignore_due
from windlass.store.port import Joined, Listening, Transaction
from windlass.store.records import (
    RELEASE,
    Capabilities,
    ChainFilter,
    ChainRow,
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
    Row,
    Settled,
    Verdict,
    WorkerInfo,
)
from windlass.store.rules import micros
from windlass.store.schedules import Fired, KnownSchedule
from windlass.store.server import ClaimScope, Request, Requested, Token
from windlass.stores.migrations import Migrate
from windlass.stores.sqlite import (
    access,
    admin,
    chain_admin,
    examine,
    figures,
    schedules,
    schema,
    upkeep,
)
from windlass.stores.sqlite.anchor import Anchor, open_anchored
from windlass.stores.sqlite.chain_admin import Seen
from windlass.stores.sqlite.claim import Claimed, ClaimMemory, claim, leases_of, must_write
from windlass.stores.sqlite.claimable import claimable
from windlass.stores.sqlite.connection import Session, Synchronous, enter_wal
from windlass.stores.sqlite.depths import depths
from windlass.stores.sqlite.enqueue import Added, Enqueue
from windlass.stores.sqlite.joined import SqliteJoined
from windlass.stores.sqlite.lease_clock import ticks
from windlass.stores.sqlite.lifeline import SqliteLifeline
from windlass.stores.sqlite.operation import Operation, Read, Write
from windlass.stores.sqlite.requests import EnqueueOnce, Told
from windlass.stores.sqlite.settle import Settle, expire, move, note
from windlass.stores.sqlite.starting import Begun, StartChains
from windlass.stores.sqlite.transaction import open_connection, open_transaction
from windlass.stores.sqlite.writer import Writer


class SqliteStore:
    """Jobs in one SQLite file, shared by every process on this machine.

    `synchronous="full"` (default) makes each commit survive power loss; "normal" is faster, may
    lose the last commits to power loss (not to kill -9) and never corrupts. `busy_timeout` is how
    many seconds a call waits while another transaction holds the file, before StoreBusyError.
    With `look_only` nothing is made or changed: no file, no table, no journal mode.
    """

    capabilities = Capabilities(
        shared=True,
        durable=True,
        transactions=True,
        sql=True,
        roster=True,
        examination=True,
        chains=True,
        server=True,
        figures=True,
    )

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Clock = SYSTEM,
        synchronous: Literal["full", "normal"] = "full",
        busy_timeout: float = 30.0,
        migrate: Migrate = "auto",
        look_only: bool = False,
    ) -> None:
        if os.fspath(path) in ("", ":memory:"):
            raise ConfigError("sqlite:// needs a file; for jobs in memory use memory://")
        # Absolute, since connections are opened later, when the process may have moved.
        self._path = str(Path(path).absolute())
        if synchronous not in get_args(Synchronous):
            raise ConfigError(f"synchronous must be full or normal, not {synchronous!r}")
        self._clock = clock
        self._synchronous: Synchronous = synchronous
        self._busy_timeout = busy_timeout
        self._migrate: Migrate = "check" if look_only else migrate
        self._look_only = look_only
        self._writer: Writer | None = None
        self._hints = Hints()
        self._lifelines: list[SqliteLifeline] = []
        self._claim_memory = ClaimMemory()
        self._reaper = upkeep.Reaper(self._path, clock)

    # ── life ──

    async def open(self) -> None:
        if self._writer is not None:
            return
        writer = Writer(
            self._path,
            self._clock,
            self._open_file,
            self._busy_timeout,
            self._hints,
        )
        await writer.start()
        if self._writer is not None:
            await writer.close()
            return
        self._writer = writer

    def _open_file(self, again: bool) -> tuple[sqlite3.Connection, Anchor]:
        """For the writer's thread. A file that was there before is not made `again`."""
        make = self._migrate == "auto" and not again
        connection, anchor = open_anchored(
            self._path, self._synchronous, make=make, look=self._look_only
        )
        try:
            self._prepare_schema(connection)
            # A file that was made just now is known from when something was written into it.
            return connection, anchor if anchor.file is not None else Anchor(self._path)
        except BaseException:
            connection.close()
            raise

    def _prepare_schema(self, connection: sqlite3.Connection) -> None:
        """A stranger's file stays as it is, unless it is to have our tables too."""
        if self._migrate == "check":
            schema.require(connection, self._path, self._busy_timeout)
        if not self._look_only:
            enter_wal(connection, self._path)
        if self._migrate == "auto":
            schema.migrate(connection, self._path, self._busy_timeout)

    async def close(self) -> None:
        writer, self._writer = self._writer, None
        lifelines, self._lifelines = self._lifelines, []
        for lifeline in lifelines:
            await asyncio.to_thread(lifeline.close)
        if writer is not None:
            await writer.close()

    async def now(self) -> int:
        return self._clock.now()

    def subscribe(
        self,
        hint: Callable[[], None],
        listening: Listening = lambda error: None,
        due: Due = ignore_due,
    ) -> Callable[[], None]:
        stop = self._hints.subscribe(hint, due)
        if self._writer is not None:
            self._writer.wake()
        listening(None)
        return stop

    def _open_writer(self) -> Writer:
        if self._writer is None:
            raise StoreClosedError("this store is not open; call open() first")
        return self._writer

    async def _read(self, read: Read) -> Any:
        return await self._open_writer().submit(Operation(read=read))

    async def _submit(self, write: Write, **options: Any) -> Any:
        return await self._open_writer().submit(Operation(write, **options))

    async def _change(self, write: Callable[[Session, int], Sequence[Row]], rows: int) -> list[Job]:
        return admin.jobs(await self._submit(write, rows=rows))

    @property
    def commits(self) -> int:
        """How many transactions this store has committed since it was opened."""
        return self._open_writer().commits

    @property
    def looks(self) -> int:
        """How often it has looked for other processes' commits since it was opened."""
        return self._open_writer().looks

    # ── producers ──

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Job]:
        if not jobs:
            self._open_writer()
            return []
        added: Added = await self._submit(Enqueue(jobs).write, rows=len(jobs))
        return added.jobs()

    def joined(self, connection: Any) -> Joined:
        return SqliteJoined(connection, self._path, self._clock)

    # ── workers ──

    async def claim(self, request: ClaimRequest) -> list[Lease]:
        rules.refuse_conditions(request)
        claimed: Claimed = await self._submit(
            lambda db, now: claim(db, request, ticks(self._clock), self._claim_memory),
            peek=lambda db: must_write(db, request, ticks(self._clock), self._claim_memory),
            nothing=Claimed([]),
            rows=request.limit,
            abandoned=self._hand_back,
        )
        return leases_of(claimed)

    def _hand_back(self, claimed: Claimed) -> None:
        """Release the jobs of a claim whose caller was cancelled: no slot will run them."""
        released = [(lease, RELEASE) for lease in leases_of(claimed)]
        if released and self._writer is not None:
            self._writer.post(Operation(Settle(released).write))

    async def settle(self, settlements: Sequence[tuple[Lease, Outcome]]) -> list[Settled]:
        if not settlements:
            self._open_writer()
            return []
        settle = Settle(settlements)
        answers: list[Settled] = await self._submit(settle.write, rows=settle.rows)
        return answers

    async def expire(self, leases: Sequence[Lease], max_resets: int) -> list[Settled]:
        if not leases:
            self._open_writer()
            return []
        answers: list[Settled] = await self._submit(
            lambda db, now: expire(db, leases, max_resets, now), rows=len(leases)
        )
        return answers

    async def note(self, lease: Lease, what: Note) -> Verdict:
        verdict: Verdict = await self._submit(lambda db, now: note(db, lease, what, now))
        return verdict

    def lifeline(self) -> SqliteLifeline:
        self._open_writer()
        lifeline = SqliteLifeline(self._path, self._clock)
        self._lifelines = [*(it for it in self._lifelines if not it.is_closed), lifeline]
        return lifeline

    def connection(self) -> AbstractContextManager[sqlite3.Connection]:
        self._open_writer()
        return open_connection(
            self._path, self._synchronous, self._busy_timeout, look=self._look_only
        )

    def transaction(self, lease: Lease) -> AbstractContextManager[Transaction]:
        self._open_writer()
        return open_transaction(
            self._path, self._synchronous, lease, self._clock, self._busy_timeout
        )

    async def retire(self, worker: str) -> None:
        await self._submit(lambda db, now: upkeep.retire(db, worker, now))

    # ── upkeep ──

    async def reap(self, limit: int, max_resets: int) -> Reaped:
        reaped: Reaped = await self._submit(
            lambda db, now: self._reaper.reap(db, limit, max_resets, now),
            peek=self._reaper.must_write,
            nothing=Reaped(),
            rows=limit,
        )
        return reaped

    async def promote(self, limit: int) -> int:
        promoted: int = await self._submit(
            lambda db, now: upkeep.promote(db, limit, now),
            peek=lambda db: db.value("peek_due", {"now": self._clock.now()}),
            nothing=0,
            rows=limit,
        )
        return promoted

    async def next_due(self) -> float | None:
        due: int | None = await self._read(lambda db: db.value("next_due"))
        return None if due is None else max(0.0, (due - self._clock.now()) / 1e6)

    async def prune(
        self,
        limit: int,
        keep_chains: float = KEEP_CHAINS,
        keep_failed_chains: float = KEEP_FAILED_CHAINS,
    ) -> int:
        def at(now: int) -> upkeep.Pruning:
            return upkeep.Pruning(now, keep_chains, keep_failed_chains)

        pruned: int = await self._submit(
            lambda db, now: upkeep.prune(db, limit, at(now)),
            peek=lambda db: upkeep.may_prune(db, at(self._clock.now())),
            nothing=0,
            rows=limit,
        )
        return pruned

    # ── chains ──

    async def start_chains(self, chains: Sequence[NewChain]) -> list[Chain[Any]]:
        if not chains:
            self._open_writer()
            return []
        begun: Begun = await self._submit(StartChains(chains).write, rows=len(chains))
        return begun.chains()

    async def get_chain(self, chain_id: int, tenant: str | None = None) -> Chain[Any] | None:
        seen: Seen | None = await self._read(lambda db: chain_admin.get(db, chain_id, tenant))
        return None if seen is None else seen.chain()

    async def find_chains(self, wanted: ChainFilter) -> list[Chain[Any]]:
        found: list[Seen] = await self._read(lambda db: chain_admin.find(db, wanted))
        return [seen.chain() for seen in found]

    async def chain_jobs(self, chain_id: int, tenant: str | None = None) -> list[Job]:
        return admin.jobs(await self._read(lambda db: chain_admin.jobs(db, chain_id, tenant)))

    async def blocked_jobs(self, chain_id: int, tenant: str | None = None) -> list[Job]:
        return admin.jobs(
            await self._read(lambda db: chain_admin.blocked_jobs(db, chain_id, tenant))
        )

    async def blockers(self, job_id: int, tenant: str | None = None) -> list[Chain[Any]]:
        named: list[ChainRow] = await self._read(
            lambda db: chain_admin.blockers(db, job_id, tenant)
        )
        return [row.chain() for row in named]

    async def complete_chain(
        self,
        chain_id: int,
        completion: Complete,
        inherits: Sequence[str] = (),
        tenant: str | None = None,
    ) -> Chain[Any]:
        seen: Seen = await self._submit(
            lambda db, now: chain_admin.complete(db, chain_id, completion, inherits, tenant, now)
        )
        return seen.chain()

    async def cancel_chains(
        self, ids: Sequence[int], tenant: str | None = None
    ) -> list[Chain[Any]]:
        return await self._change_chains(chain_admin.cancel, ids, tenant)

    async def retry_chains(self, ids: Sequence[int], tenant: str | None = None) -> list[Chain[Any]]:
        return await self._change_chains(chain_admin.retry, ids, tenant)

    async def _change_chains(
        self,
        change: Callable[[Session, Sequence[int], str | None, int], list[Seen]],
        ids: Sequence[int],
        tenant: str | None,
    ) -> list[Chain[Any]]:
        changed: list[Seen] = await self._submit(
            lambda db, now: change(db, ids, tenant, now), rows=len(ids)
        )
        return [seen.chain() for seen in changed]

    async def delete_chains(
        self, ids: Sequence[int], cascade: bool = False, tenant: str | None = None
    ) -> list[Chain[Any]]:
        deleted: list[ChainRow] = await self._submit(
            lambda db, now: chain_admin.delete(db, ids, tenant, now, cascade=cascade), rows=len(ids)
        )
        return [row.chain() for row in deleted]

    # ── schedules ──

    async def register(
        self, wanted: Sequence[Schedule], tenant: str = DEFAULT_TENANT
    ) -> list[KnownSchedule]:
        known: list[KnownSchedule] = await self._submit(
            lambda db, now: schedules.register(db, tenant, wanted, now)
        )
        return known

    async def fire(
        self,
        identifier: str,
        expected: int,
        until: int,
        jobs: Sequence[NewJob],
        tenant: str = DEFAULT_TENANT,
    ) -> Fired:
        fire = schedules.Fire(tenant, identifier, expected, until, jobs)
        fired: Fired = await self._submit(fire.write, rows=len(jobs))
        return fired

    async def schedules(self, tenant: str | None = None) -> list[KnownSchedule]:
        known: list[KnownSchedule] = await self._read(lambda db: schedules.read(db, tenant))
        return known

    async def pause_schedule(
        self, identifier: str, tenant: str = DEFAULT_TENANT
    ) -> KnownSchedule | None:
        return await self._change_schedule("pause_schedule", identifier, tenant)

    async def resume_schedule(
        self, identifier: str, tenant: str = DEFAULT_TENANT
    ) -> KnownSchedule | None:
        return await self._change_schedule("resume_schedule", identifier, tenant)

    async def _change_schedule(
        self, statement: str, identifier: str, tenant: str
    ) -> KnownSchedule | None:
        known: KnownSchedule | None = await self._submit(
            lambda db, now: schedules.change(db, statement, tenant, identifier, now)
        )
        return known

    async def forget_schedule(
        self, identifier: str, tenant: str = DEFAULT_TENANT
    ) -> KnownSchedule | None:
        known: KnownSchedule | None = await self._submit(
            lambda db, now: schedules.forget(db, tenant, identifier)
        )
        return known

    # ── operators ──

    async def get(self, job_id: int, tenant: str | None = None) -> Job | None:
        row: Row | None = await self._read(lambda db: admin.get(db, job_id, tenant))
        return None if row is None else row.job()

    async def get_by_key(self, key: str, tenant: str = DEFAULT_TENANT) -> Job | None:
        row: Row | None = await self._read(lambda db: admin.get_by_key(db, key, tenant))
        return None if row is None else row.job()

    async def find(self, wanted: JobFilter) -> list[Job]:
        return admin.jobs(await self._read(lambda db: admin.find(db, wanted)))

    async def counts(self, tenant: str | None = None) -> dict[JobState, int]:
        counts: dict[JobState, int] = await self._read(lambda db: admin.counts(db, tenant))
        return counts

    async def cancel(self, ids: Sequence[int], tenant: str | None = None) -> list[Job]:
        return await self._change(lambda db, now: admin.cancel(db, ids, tenant, now), len(ids))

    async def complete(self, ids: Sequence[int], tenant: str | None = None) -> list[Job]:
        return await self._change(lambda db, now: admin.complete(db, ids, tenant, now), len(ids))

    async def fail(self, ids: Sequence[int], reason: str, tenant: str | None = None) -> list[Job]:
        def write(db: Session, now: int) -> list[Row]:
            return admin.fail(db, ids, reason, tenant, now)

        return await self._change(write, len(ids))

    async def reschedule(
        self,
        ids: Sequence[int],
        run_at: int | None = None,
        priority: int | None = None,
        attempts: int | None = None,
        max_attempts: int | None = None,
        tenant: str | None = None,
    ) -> list[Job]:
        def write(db: Session, now: int) -> list[Row]:
            return admin.reschedule(db, ids, run_at, priority, attempts, max_attempts, tenant, now)

        return await self._change(write, len(ids))

    async def retry(self, ids: Sequence[int], tenant: str | None = None) -> list[Job]:
        return await self._change(lambda db, now: admin.retry(db, ids, tenant, now), len(ids))

    async def delete(self, ids: Sequence[int], tenant: str | None = None) -> list[Job]:
        return await self._change(lambda db, now: admin.delete(db, ids, tenant, now), len(ids))

    async def remove(self, key: str, tenant: str = DEFAULT_TENANT) -> Job | None:
        row: Row | None = await self._submit(lambda db, now: admin.remove(db, key, tenant, now))
        return None if row is None else row.job()

    async def unlock(self, workers: Sequence[str], max_resets: int) -> list[Job]:
        return await self._change(lambda db, now: admin.unlock(db, workers, max_resets, now), 1)

    async def pause(
        self, *, task: str | None = None, queue: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> None:
        await self._submit(lambda db, now: admin.pause(db, task, queue, tenant))

    async def resume(
        self, *, task: str | None = None, queue: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> None:
        await self._submit(lambda db, now: admin.resume(db, task, queue, tenant))

    async def paused(self, tenant: str | None = None) -> Paused:
        paused: Paused = await self._read(lambda db: admin.paused(db, tenant))
        return paused

    async def workers(self, tenant: str | None = None) -> list[WorkerInfo]:
        workers: list[WorkerInfo] = await self._read(
            lambda db: admin.workers(db, self._clock, tenant)
        )
        return workers

    async def introduce(
        self, worker: str, tasks: Sequence[str], tenants: Sequence[str] | None = None
    ) -> bool:
        introduced: bool | None = await self._read(
            lambda db: upkeep.is_introduced(db, worker, tasks, tenants)
        )
        if introduced is not False:
            return introduced is not None
        known: bool = await self._submit(
            lambda db, now: upkeep.introduce(db, worker, tasks, tenants)
        )
        return known

    async def stranded(self) -> list[str]:
        tasks: list[str] = await self._read(self._reaper.stranded)
        return tasks

    async def examine(self) -> list[Finding]:
        findings: list[Finding] = await self._read(examine.examine)
        return findings

    async def delete_failed(self, limit: int, tenant: str | None = None) -> int:
        deleted: int = await self._submit(
            lambda db, now: admin.delete_failed(db, limit, tenant), rows=limit
        )
        return deleted

    # ── how work goes ──

    async def depths(
        self,
        *,
        task: str | None = None,
        queue: str | None = None,
        tenant: str | None = None,
        most: int = COUNTED,
    ) -> Depths:
        found: Depths = await self._read(
            lambda db: depths(db, task, queue, tenant, most, self._clock.now())
        )
        return found

    async def note_rates(self, reported: Sequence[TaskFigures]) -> None:
        rows = figures.encode(reported)
        await self._submit(lambda db, now: figures.note_rates(db, rows, now), rows=len(reported))

    async def rates(self, wanted: RateFilter) -> list[Rate]:
        found: list[Rate] = await self._read(
            lambda db: figures.rates(db, wanted, self._clock.now())
        )
        return found

    async def error_groups(
        self, limit: int = 50, tenant: str | None = None, most: int = COUNTED_OF_GROUP
    ) -> ErrorGroups:
        groups: ErrorGroups = await self._read(
            lambda db: figures.error_groups(db, limit, tenant, most)
        )
        return groups

    # ── for servers ──

    async def add_token(self, token: Token) -> bool:
        added: bool = await self._submit(lambda db, now: access.add_token(db, token))
        return added

    async def find_token(self, digest: str) -> Token | None:
        token: Token | None = await self._read(lambda db: access.find_token(db, digest))
        return token

    async def tokens(self) -> list[Token]:
        tokens: list[Token] = await self._read(access.tokens)
        return tokens

    async def revoke_token(self, name: str) -> Token | None:
        token: Token | None = await self._submit(lambda db, now: access.revoke_token(db, name, now))
        return token

    async def secret(self, name: str, fresh: str, tenant: str = DEFAULT_TENANT) -> str:
        known: str | None = await self._read(lambda db: access.secret(db, tenant, name))
        if known is not None:
            return known
        first: str = await self._submit(
            lambda db, now: access.first_secret(db, tenant, name, fresh)
        )
        return first

    async def replace_secret(self, name: str, fresh: str, tenant: str = DEFAULT_TENANT) -> None:
        await self._submit(lambda db, now: access.replace_secret(db, tenant, name, fresh))

    async def enqueue_once(self, requests: Sequence[Request]) -> list[Requested]:
        if not requests:
            self._open_writer()
            return []
        once = EnqueueOnce(requests)
        told: Told = await self._submit(once.write, rows=once.rows)
        return told.answers()

    async def move(self, lease: Lease, worker: str, seconds: float) -> Verdict:
        ends = ticks(self._clock) + micros(seconds)
        verdict: Verdict = await self._submit(
            lambda db, now: move(db, lease, worker, ends, micros(seconds))
        )
        return verdict

    async def claimable(self, scopes: Sequence[ClaimScope]) -> list[bool]:
        answers: list[bool] = await self._read(lambda db: claimable(db, scopes))
        return answers
