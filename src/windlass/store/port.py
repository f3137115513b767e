"""The port itself. A store is whatever passes `windlass.testing.contract`.

Four rules hold for every verb:

* Every write by a worker presents its lease; no verb takes a bare id from a worker.
* The result says per row *applied*, *lost*, *missing* or *busy*; losing a race is an answer.
* One call is one atomic step: killed half-way, it either happened or it did not.
* The database's clock decides when leases end and jobs are due.

A tenant owns jobs, keys, queues, schedules and pauses; two tenants' names never meet. Verbs that
name one of these take the tenant it belongs to, the default one ('') where none is given. Verbs
about ids and lists take the tenant whose jobs the caller sees; None sees all.

Verbs are coroutines and may be awaited from any event loop; `Lifeline` and `Joined` are plain
calls, because their callers are the keeper's thread and the user's transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from windlass.model.chain import KEEP_CHAINS, KEEP_FAILED_CHAINS, Chain
from windlass.model.cron import Schedule
from windlass.model.job import DEFAULT_TENANT, Job, JobState
from windlass.store.hints import Due, ignore_due
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
    Renewal,
    Settled,
    Verdict,
    WorkerInfo,
)
from windlass.store.schedules import Fired, KnownSchedule

Listening = Callable[[BaseException | None], None]


MOST_STRANDED = 100
"""Tasks told by one call of `stranded`."""


class Lifeline(Protocol):
    """A worker's liveness, on a connection of its own, used from one thread."""

    def renew(
        self,
        worker: str,
        lease: float,
        leases: Sequence[Lease],
        extend: Sequence[tuple[Lease, float]] = (),
    ) -> Renewal:
        """Extend the worker's lease to `lease` seconds from now, and answer for `leases`.

        `extend` gives single leases an end of their own, that many seconds from now; it never
        shortens one. Raises StoreBusyError while another connection holds the database.
        """

    def check(self, worker: str, leases: Sequence[Lease]) -> Renewal:
        """The same answer; no lease is changed. Cheap enough for once a second, though a store may
        tidy up what it wrote about these leases."""

    def close(self) -> None: ...


class Joined(Protocol):
    """Enqueue inside a transaction the caller owns; it exists if and only if that commits."""

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Job]:
        """For callers without an event loop; ConfigError if the connection is an async one."""

    async def aenqueue(self, jobs: Sequence[NewJob]) -> list[Job]:
        """For callers with one, whatever the connection."""

    def start_chains(self, chains: Sequence[NewChain]) -> list[Chain[Any]]:
        """Start chains, for callers without an event loop."""

    async def astart_chains(self, chains: Sequence[NewChain]) -> list[Chain[Any]]: ...


class Transaction(Protocol):
    """The handler's own writes and its settlement, committed together or not at all.

    Left without `complete` the writes commit and the job stays running; an exception rolls
    everything back. `complete` raises LeaseLostError, and so rolls back, if the lease is lost, and
    ValidationError where `settle` would answer *refused*.
    """

    @property
    def connection(self) -> Any: ...

    def execute(self, sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[Any]: ...

    def complete(self, outcome: Outcome) -> None: ...

    def interrupt(self) -> None:
        """From any thread, without waiting: end the statement under way, because the handler was
        told to stop. The connection may be lost by it."""


class WorkStore(Protocol):
    """Where jobs to be worked on are: all that the engine knows of a store.

    `Store` is a whole queue; a table that its users fill themselves is less, and enough for this.
    """

    @property
    def capabilities(self) -> Capabilities: ...

    # ── life ──
    async def open(self) -> None:
        """Connect and bring the schema up to date; safe to call again and from many processes."""

    async def close(self) -> None: ...

    async def now(self) -> int:
        """The database's clock, in microseconds."""

    def subscribe(
        self,
        hint: Callable[[], None],
        listening: Listening = lambda error: None,
        due: Due = ignore_due,
    ) -> Callable[[], None]:
        """Call `hint` (from any thread, coalesced) when there may be something new to claim, and
        `due` when a job was scheduled for within `hints.SOON` seconds.

        Returns the way to stop it. Hints may be lost or spurious; polling stays on. `listening`
        hears, from any thread, when hints of other processes begin to arrive (None) and why they
        stopped (an error).
        """

    # ── workers ──
    async def claim(self, request: ClaimRequest) -> list[Lease]:
        """Take claimable jobs in (priority, run_at, id) order, at most one per serial queue."""

    async def settle(self, settlements: Sequence[tuple[Lease, Outcome]]) -> list[Settled]:
        """End deliveries, each if and only if its token still owns the job.

        A completion, the job with which its chain goes on, the chains that start with it, the end
        of the chain and the release of jobs that waited for it are one step. One that names unknown
        chains, or would make a chain wait for itself, is *refused* alone.
        """

    async def note(self, lease: Lease, note: Note) -> Verdict: ...

    def lifeline(self) -> Lifeline: ...

    def connection(self) -> AbstractContextManager[Any]:
        """A plain connection to the same database, for a handler's own statements.

        It commits when the block ends and rolls back if it raises. Where `async with` can be used
        as well it gives an async connection; else an `async def` gets the blocking one behind a
        thread. An `interrupt` method of either is called, from any thread and without waiting, when
        the handler is told to stop.
        """

    def transaction(self, lease: Lease) -> AbstractContextManager[Transaction]: ...

    async def retire(self, worker: str) -> None:
        """Forget a worker that stops; whatever it still holds is handed back."""

    # ── upkeep; workers call these where the capability `upkeep` says so ──
    async def reap(self, limit: int, max_resets: int) -> Reaped:
        """Take back jobs of workers whose leases ran out.

        The first time makes a job *suspect*, since it may only have lain in a prefetch; a suspect
        is claimed for a free slot and starts at once, so each further time counts as a reset, and
        at `max_resets` the job fails. The attempt is given back.
        """

    async def promote(self, limit: int) -> int:
        """Make due jobs ready; the number made so."""

    async def next_due(self) -> float | None:
        """Seconds until the next scheduled job is due (0 if one is), or None."""

    async def prune(
        self,
        limit: int,
        keep_chains: float = KEEP_CHAINS,
        keep_failed_chains: float = KEEP_FAILED_CHAINS,
    ) -> int:
        """Remove finished jobs that were kept long enough, at most `limit` in one step; and chains
        that completed, or ended otherwise, that many seconds ago, unless an open job names them;
        and requests that came so long ago that they may come anew (`ServerStore.enqueue_once`)."""

    # ── a look ──
    async def get(self, job_id: int, tenant: str | None = None) -> Job | None: ...


class Roster(Protocol):
    """Which workers run which tasks; a store whose work is all of one kind need not know, and its
    capability `roster` says so."""

    async def introduce(
        self, worker: str, tasks: Sequence[str], tenants: Sequence[str] | None = None
    ) -> bool:
        """Remember which tasks a worker runs, and for which tenants (None for all); False if there
        is no such worker, or not yet."""

    async def stranded(self) -> list[str]:
        """Tasks that have ready jobs of a tenant for which no live worker runs them, by name,
        `MOST_STRANDED` at most. Jobs that are paused with their task do not count. None are told,
        while a live worker has not been introduced."""


class ChainStore(Protocol):
    """Jobs that continue one another, and jobs that wait for chains. A store whose capability
    `chains` is False has none of these verbs, and takes no job that needs them.

    `enqueue` takes jobs with blockers, and `settle` completions that go on.
    """

    async def start_chains(self, chains: Sequence[NewChain]) -> list[Chain[Any]]:
        """Start chains, all or none, in the order given. Where an open chain has the key, or one
        that ended within `key_window`, that one is the answer, `deduplicated`. Raises
        ChainNotFoundError for unknown blockers; nothing is stored then."""

    async def get_chain(self, chain_id: int, tenant: str | None = None) -> Chain[Any] | None: ...

    async def find_chains(self, wanted: ChainFilter) -> list[Chain[Any]]:
        """One page, the newest first."""

    async def chain_jobs(self, chain_id: int, tenant: str | None = None) -> list[Job]:
        """Its jobs that are still stored, in order."""

    async def blocked_jobs(self, chain_id: int, tenant: str | None = None) -> list[Job]:
        """The jobs that wait for it, the newest first."""

    async def blockers(self, job_id: int, tenant: str | None = None) -> list[Chain[Any]]:
        """The chains that a job named, in the order given; without their jobs. Of one that is not
        there any more only its id is known."""

    async def complete_chain(
        self,
        chain_id: int,
        completion: Complete,
        inherits: Sequence[str] = (),
        tenant: str | None = None,
    ) -> Chain[Any]:
        """Complete the current job of a chain without a worker, whatever state it is in. Where the
        chain goes on, `inherits` names the fields that the next job has from that one.

        ChainNotFoundError; ChainClosedError if it is completed, or cannot be open again because
        another open chain has its key; BlockerReferenceError if it would wait for itself.
        """

    async def cancel_chains(
        self, ids: Sequence[int], tenant: str | None = None
    ) -> list[Chain[Any]]:
        """Cancel their current jobs, all or none; those that run are asked to stop. Raises
        ChainNotFoundError, and ChainClosedError for one that has ended."""

    async def retry_chains(self, ids: Sequence[int], tenant: str | None = None) -> list[Chain[Any]]:
        """Run failed and cancelled jobs of chains again, all or none; jobs that failed because of
        these chains wait again. The chains that were opened.

        ChainNotFoundError; ChainClosedError if another open chain has the key of one;
        BlockerReferenceError if one waits for a chain that has failed and is not among them.
        """

    async def delete_chains(
        self, ids: Sequence[int], cascade: bool = False, tenant: str | None = None
    ) -> list[Chain[Any]]:
        """Delete chains with their jobs, all or none; with `cascade` the chains that their jobs
        named, too. Unknown ids are passed over. BlockerReferenceError if an open job of another
        chain names one that is open or completed."""


class Store(WorkStore, Roster, ChainStore, Protocol):
    """One queue in one database."""

    # ── producers ──
    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Job]:
        """Add all of them or none, in the order given. Two with one key: the last wins."""

    def joined(self, connection: Any) -> Joined: ...

    # ── workers that come through a server ──
    async def expire(self, leases: Sequence[Lease], max_resets: int) -> list[Settled]:
        """Take single deliveries back as `reap` does those of dead workers, each if and only if its
        token still owns the job."""

    # ── schedules ──
    async def register(
        self, wanted: Sequence[Schedule], tenant: str = DEFAULT_TENANT
    ) -> list[KnownSchedule]:
        """Remember schedules as a worker has them; those that are new are known since now.

        The answer has one for each given, in their order.
        """

    async def fire(
        self,
        identifier: str,
        expected: int,
        until: int,
        jobs: Sequence[NewJob],
        tenant: str = DEFAULT_TENANT,
    ) -> Fired:
        """Move a schedule from `expected` forward to `until`, its last instant, and add its jobs.

        Both or neither: only if it still is where expected, is not paused, and `until` has come.
        """

    async def schedules(self, tenant: str | None = None) -> list[KnownSchedule]:
        """All that are known, by tenant and identifier."""

    async def pause_schedule(
        self, identifier: str, tenant: str = DEFAULT_TENANT
    ) -> KnownSchedule | None:
        """Fire it no more until resumed; None if there is no such schedule."""

    async def resume_schedule(
        self, identifier: str, tenant: str = DEFAULT_TENANT
    ) -> KnownSchedule | None:
        """Go on from now: what came while it was paused is passed over."""

    async def forget_schedule(
        self, identifier: str, tenant: str = DEFAULT_TENANT
    ) -> KnownSchedule | None:
        """Know it no more; the schedule as it was."""

    # ── operators: locked (running) jobs are skipped; what changed is returned ──
    async def get_by_key(self, key: str, tenant: str = DEFAULT_TENANT) -> Job | None: ...

    async def find(self, wanted: JobFilter) -> list[Job]:
        """One page, the newest first."""

    async def counts(self, tenant: str | None = None) -> dict[JobState, int]: ...

    async def cancel(self, ids: Sequence[int], tenant: str | None = None) -> list[Job]:
        """Waiting jobs are cancelled; running ones are asked to stop, and stay running."""

    async def complete(self, ids: Sequence[int], tenant: str | None = None) -> list[Job]: ...

    async def fail(
        self, ids: Sequence[int], reason: str, tenant: str | None = None
    ) -> list[Job]: ...

    async def reschedule(
        self,
        ids: Sequence[int],
        run_at: int | None = None,
        priority: int | None = None,
        attempts: int | None = None,
        max_attempts: int | None = None,
        tenant: str | None = None,
    ) -> list[Job]:
        """None leaves a value as it is. A failed job stays failed unless `attempts` is given."""

    async def retry(self, ids: Sequence[int], tenant: str | None = None) -> list[Job]:
        """Failed, cancelled and scheduled jobs run again now, with all their attempts."""

    async def delete(self, ids: Sequence[int], tenant: str | None = None) -> list[Job]:
        """Take jobs out of the database in whatever state, completed ones that are kept too; the
        jobs as they were. Jobs of open chains are skipped: `delete_chains` is for these."""

    async def remove(self, key: str, tenant: str = DEFAULT_TENANT) -> Job | None:
        """Delete the job with that key; one that runs loses its key and will not run again."""

    async def unlock(self, workers: Sequence[str], max_resets: int) -> list[Job]:
        """Treat these workers as dead now."""

    async def pause(
        self, *, task: str | None = None, queue: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> None: ...

    async def resume(
        self, *, task: str | None = None, queue: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> None: ...

    async def paused(self, tenant: str | None = None) -> Paused: ...

    async def workers(self, tenant: str | None = None) -> list[WorkerInfo]:
        """Those that serve the tenant; `running` counts its jobs alone."""

    async def delete_failed(self, limit: int, tenant: str | None = None) -> int: ...
