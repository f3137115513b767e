"""The records that cross the store port, in both directions.

Instants are integers here (microseconds since 1970, UTC) and payloads are JSON text, so that a
batch crosses the port without a Python object per field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from typing import Any

import msgspec

from windlass.clock import to_datetime
from windlass.model import payload as payloads
from windlass.model.chain import Chain, ChainState
from windlass.model.job import (
    DEFAULT_TENANT,
    Carried,
    FailedAttempt,
    Flag,
    Instant,
    Job,
    JobState,
    JsonText,
    Micros,
    Progress,
)
from windlass.model.names import DEFAULT_MAX_ATTEMPTS, KeyMode

MAX_LOG = 200
"""Entries kept of a job's log; the oldest go first."""

MAX_ERRORS = 10
"""Failed attempts kept of a job; the oldest go first."""

MAX_ERROR_TEXT = 4_096
"""Characters kept of the error of each."""

CANCELLED_KEPT = 7 * 24 * 3600.0
"""Seconds a cancelled job can still be seen."""


class NewJob(Carried, array_like=True, kw_only=True, gc=False):
    """A validated request to add one job. None means *unset*, never zero.

    The job is due at `run_at`, or `delay` microseconds from the database's now.
    """

    run_at: Instant | None = None
    delay: Micros = 0
    key_mode: KeyMode = "replace"
    blockers: tuple[int, ...] = ()
    """Chains that must end before it may start. In a completion -1 is the first of the chains that
    start with it, -2 the second."""


class NewChain(msgspec.Struct, array_like=True, kw_only=True, gc=False):
    """A validated request to start a chain: its first job, which has no key of its own, and the
    chain's key. It counts for `key_window` microseconds after the chain's end, too."""

    job: NewJob
    key: str | None = None
    key_window: Micros = 0


class Lease(Carried, array_like=True, kw_only=True, gc=False):
    """One delivery of a job to a worker, proved by `token`. The order of fields is the wire's.

    It also carries the job as it was when claimed; `attempts` and `deliveries` already count this
    delivery. Two deliveries of one job never share a token.
    """

    job_id: int
    token: int
    worker: str
    attempts: int
    deliveries: int
    run_at: Instant
    revision: int
    resets: int
    suspect: bool
    created_at: Instant
    updated_at: Instant
    last_error: str | None
    chain: int | None = None
    step: int | None = None
    blockers_total: int | None = None
    blockers: JsonText | None = None
    """The chains it waited for as a list of ChainRow, where it named any and they are not too long;
    where they are, `store.blockers` tells them."""

    @property
    def record(self) -> Any:
        """What a generic handler is given: the job, or the row in a store of users' own tables."""
        return self.job

    @property
    def job(self) -> Job:
        """The job as a user sees it while it runs; built anew on each call."""
        known = {name: getattr(self, name) for name in _IN_LEASE}
        return Row(id=self.job_id, state=JobState.RUNNING, **known).job()


class Row(Carried, array_like=True, kw_only=True, gc=False):
    """One job with everything a store knows of it; the order of fields is the wire's.

    `expires_at` is set where a finished job is to be kept.
    """

    id: int
    state: JobState
    run_at: Instant
    attempts: int = 0
    deliveries: int = 0
    revision: int = 0
    resets: int = 0
    suspect: Flag = 0
    superseded: Flag = 0
    cancel_requested: Flag = 0
    holds: Flag = 0
    """It is strict, its last attempt failed, and no other job of its queue starts before it."""
    worker: str | None = None
    token: int | None = None
    lease_until: Instant | None = None
    last_error: str | None = None
    errors: JsonText | None = None
    """A list of [attempt, instant, worker, error]."""
    output: JsonText | None = None
    progress: JsonText | None = None
    log: JsonText | None = None
    created_at: Instant
    updated_at: Instant
    finished_at: Instant | None = None
    expires_at: Instant | None = None
    chain: int | None = None
    step: int | None = None
    """Its place in its chain, from 0; None where it is in none."""
    blockers_open: int | None = None
    """How many chains it still waits for, and how many it named; None where it named none."""
    blockers_total: int | None = None
    fingerprint: str | None = None
    """Of `last_error` (`model/fingerprint.py`); None where that is not known."""

    @property
    def order(self) -> tuple[int, int, int]:
        return (self.priority, self.run_at, self.id)

    @property
    def place(self) -> tuple[str, str] | None:
        """The serial queue it is in, which belongs to its tenant."""
        return None if self.queue is None else (self.tenant, self.queue)

    @property
    def limit(self) -> int:
        return DEFAULT_MAX_ATTEMPTS if self.max_attempts is None else self.max_attempts

    def job(self) -> Job:
        """The job as a user sees it."""
        values = [*_shown(self)]
        for place, show in _SHOWN_AS:
            values[place] = show(values[place])
        return Job(*values)


class BlockerState(StrEnum):
    """How it stands between a job and one chain that it named."""

    OPEN = "open"
    """It waits for the chain, or would if it were not over itself."""
    MET = "met"
    FAILED = "failed"
    """The job failed because the chain did."""


class Blocker(msgspec.Struct, array_like=True, gc=False):
    """A job, and a chain that it named at this place in its list."""

    job: int
    place: int
    chain: int
    state: BlockerState = BlockerState.OPEN


class ChainRow(msgspec.Struct, array_like=True, kw_only=True, gc=False):
    """One chain with everything a store knows of it; the order of fields is the wire's.

    It is written when the chain starts and when it ends. `length` is true once it has ended; while
    it is open its current job knows. `ended_by` is the token of the delivery that ended it.
    """

    id: int
    state: ChainState = ChainState.OPEN
    tenant: str = DEFAULT_TENANT
    key: str | None = None
    key_window: Micros = 0
    task: str
    payload: JsonText
    output: JsonText | None = None
    error: str | None = None
    length: int = 1
    created_at: Instant
    finished_at: Instant | None = None
    ended_by: int | None = None

    def end_by(self, token: int) -> JobState | None:
        """COMPLETED where it was the delivery with this token that completed the chain."""
        is_own = self.ended_by == token and self.state is ChainState.COMPLETED
        return JobState.COMPLETED if is_own else None

    def chain(self, job: Job | None = None, *, deduplicated: bool = False) -> Chain[Any]:
        """The chain as a user sees it; `job` is its current one, as far as it is stored."""
        return Chain(
            id=self.id,
            task=self.task,
            payload=_json(self.payload),
            state=self.state,
            output=_json(self.output),
            error=self.error,
            job=job,
            length=self.length if self.state.is_final or job is None else job.step + 1,
            key=self.key,
            tenant=self.tenant or None,
            deduplicated=deduplicated,
            created_at=to_datetime(self.created_at),
            finished_at=_instant(self.finished_at),
        )


MOST_BLOCKER_TEXT = 1024 * 1024
"""Characters of outputs that a lease carries; beyond, `store.blockers` tells them."""


def encode_blockers(chains: Sequence[ChainRow]) -> str | None:
    """What a lease carries of the chains its job named."""
    if sum(len(chain.output or "") for chain in chains) > MOST_BLOCKER_TEXT:
        return None
    return msgspec.json.encode(chains).decode()


def decode_blockers(text: str) -> list[Chain[Any]]:
    return [row.chain() for row in _chain_rows(text)]


CHAIN_DELETED = "this chain was deleted"


def deleted_chain(chain_id: int, tenant: str, at: int) -> ChainRow:
    """What is known of a chain that a job named, and that is deleted or was pruned."""
    return ChainRow(
        id=chain_id,
        state=ChainState.CANCELLED,
        tenant=tenant,
        task="",
        payload="null",
        error=CHAIN_DELETED,
        created_at=at,
        finished_at=at,
    )


def _instant(micros: int | None) -> datetime | None:
    return None if micros is None else to_datetime(micros)


def _json(text: str | None) -> Any:
    return None if text is None else payloads.shown(text)


def _progress(text: str | None) -> Progress | None:
    """What is no progress, because another program wrote it, is none."""
    match _json(text):
        case [int() | float() as fraction, str() as note]:
            return Progress(fraction, note)
        case _:
            return None


def _log(text: str | None) -> tuple[Any, ...]:
    entries = _json(text)
    return tuple(entries) if isinstance(entries, list) else ()


def _errors(text: str | None) -> tuple[FailedAttempt, ...]:
    entries = _json(text)
    if not isinstance(entries, list):
        return ()
    found = []
    for entry in entries:
        match entry:
            case [int() as attempt, int() as at, str() | None as worker, str() as error]:
                found.append(FailedAttempt(attempt, to_datetime(at), worker, error))
    return tuple(found)


def _max_attempts(most: int | None) -> int:
    return DEFAULT_MAX_ATTEMPTS if most is None else most


_SHOW: dict[str, Callable[[Any], Any]] = {
    "payload": _json,
    "meta": _json,
    "max_attempts": _max_attempts,
    "tenant": lambda tenant: tenant or None,
    "strict": bool,
    "run_at": _instant,
    "created_at": _instant,
    "updated_at": _instant,
    "finished_at": _instant,
    "output": _json,
    "progress": _progress,
    "log": _log,
    "errors": _errors,
    "step": lambda step: step or 0,
    "blockers_open": lambda count: count or 0,
    "blockers_total": lambda count: count or 0,
}
"""What a job shows otherwise than its row has it."""
_SHOWN_AS = [(Job.__struct_fields__.index(name), show) for name, show in _SHOW.items()]
_NAMED = {"locked_by": "worker", "strict": "is_strict"}
"""What a job calls otherwise than its row does."""
_shown = attrgetter(*(_NAMED.get(name, name) for name in Job.__struct_fields__))
_IN_LEASE = [name for name in Row.__struct_fields__ if name in Lease.__struct_fields__]


_chain_rows = msgspec.json.Decoder(list[ChainRow]).decode


def sees(tenant: str | None, row: Row | ChainRow) -> bool:
    """Whether a caller of this tenant, or of all (None), may see the job or chain."""
    return tenant is None or row.tenant == tenant


def lease_of(row: Row) -> Lease:
    """The delivery of a running job."""
    known = {name: getattr(row, name) for name in _IN_LEASE if name != "suspect"}
    return Lease(job_id=row.id, suspect=bool(row.suspect), **known)


class ClaimRequest(msgspec.Struct, frozen=True):
    """What a worker may be given.

    Jobs of `tasks`, or of every task that has ready jobs (but for those of Windlass's own,
    `names.RESERVED`) where it is None; of `tenants`, or of all
    tenants where it is None. At most `limit` jobs, of which at most `suspects` are suspects (jobs
    whose last worker died; a claim takes as many as slots are free, and starts them at once).
    `lease` is the worker's own lease in seconds, `longer_leases` the tasks that asked for more.
    With `past_heads` the store also looks behind heads of serial queues that this worker may not
    run (unknown task, forbidden flag).
    `conditions` are what a `pre_dequeue` hook adds, in the store's own terms; most know none.
    """

    worker: str
    tasks: tuple[str, ...] | None
    limit: int
    tenants: tuple[str, ...] | None = None
    suspects: int = 0
    lease: float = 30.0
    longer_leases: dict[str, float] = {}
    forbidden_flags: tuple[str, ...] = ()
    past_heads: bool = False
    conditions: tuple[Any, ...] = ()


# ── how a delivery ended ────────────────────────────────────────────────────────────────────


class Complete(msgspec.Struct, frozen=True):
    """Done. `output` is JSON text; `keep` the seconds to keep it where the job says nothing.

    With `next` the job's chain goes on with that job; a job of no chain becomes the first of one.
    `starts` are chains that start with this completion.
    """

    output: str | None = None
    keep: float | None = None
    next: NewJob | None = None
    starts: tuple[NewChain, ...] = ()


class Fail(msgspec.Struct, frozen=True):
    """The attempt is used: again at `run_at`, or else after `delay` seconds, or failed for good.

    The store decides from the row as it is now. `max_attempts` counts where the job has none of
    its own; `final` fails whatever is left; `payload` replaces the job's (partial success).
    """

    error: str
    delay: float = 0.0
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    final: bool = False
    payload: str | None = None
    run_at: int | None = None


class Release(msgspec.Struct, frozen=True):
    """Handed back: ready at once, the attempt given back."""


class Cancel(msgspec.Struct, frozen=True):
    """Stopped because a caller cancelled it: cancelled, and its key is free."""


Outcome = Complete | Fail | Release | Cancel

COMPLETE = Complete()
RELEASE = Release()
CANCEL = Cancel()


class Verdict(StrEnum):
    """What became of one write by a worker."""

    APPLIED = "applied"
    LOST = "lost"
    """The job is there, but this delivery no longer owns it."""
    MISSING = "missing"
    """There is no such job any more."""
    BUSY = "busy"
    """Nothing was written: an open transaction has locked the job. Ask again."""
    REFUSED = "refused"
    """Nothing was written: what the job asks for cannot be stored (an unknown blocker, a cycle)."""


class Settled(msgspec.Struct, frozen=True):
    """The answer to one settlement, the state the job is in if it was applied, and why it was
    refused if it was. A delivery that is *lost* because it has completed its chain before, and asks
    again, is answered with that state, too."""

    verdict: Verdict
    state: JobState | None = None
    reason: str | None = None


class LostReason(StrEnum):
    """Why a lease is no longer held."""

    TAKEN_BY_ANOTHER_WORKER = "taken_by_another_worker"
    ALREADY_COMPLETED = "already_completed"
    NOT_FOUND = "not_found"


class Renewal(msgspec.Struct, frozen=True):
    """The leases among those asked about that are lost, and those whose jobs should stop.

    They are named by job, because one call asks about at most one delivery of a job. The answer
    is about that delivery alone, however late it comes.

    `locked` are those that could not be extended now: an open transaction has locked the job.
    """

    lost: dict[int, LostReason] = {}
    cancel: frozenset[int] = frozenset()
    locked: frozenset[int] = frozenset()


class Reaped(msgspec.Struct, frozen=True):
    """Jobs taken back from dead workers: requeued, and ended (failed, or cancelled as asked)."""

    requeued: tuple[int, ...] = ()
    ended: tuple[int, ...] = ()

    @property
    def total(self) -> int:
        return len(self.requeued) + len(self.ended)


# ── for operators ───────────────────────────────────────────────────────────────────────────


class JobFilter(msgspec.Struct, frozen=True):
    """Which jobs to list or change; what is None does not matter.

    The newest come first; `after` is the last id of the page before. `fingerprint` is that of the
    error of failed jobs: others have none, and are not found by it.
    """

    states: tuple[JobState, ...] | None = None
    task: str | None = None
    queue: str | None = None
    key: str | None = None
    ids: tuple[int, ...] | None = None
    after: int | None = None
    limit: int = 100
    tenant: str | None = None
    fingerprint: str | None = None


class ChainFilter(msgspec.Struct, frozen=True):
    """Which chains to list; what is None does not matter.

    The newest come first; `after` is the last id of the page before.
    """

    states: tuple[ChainState, ...] | None = None
    task: str | None = None
    after: int | None = None
    limit: int = 50
    tenant: str | None = None


class WorkerInfo(msgspec.Struct, frozen=True):
    """A worker the database knows; it is alive while `expires_at` lies in the future."""

    id: str
    expires_at: int
    running: int


class PausedName(msgspec.Struct, frozen=True, order=True, array_like=True):
    """One paused task or queue (`kind` says which) of a tenant."""

    tenant: str
    kind: str
    name: str


class Paused(msgspec.Struct, frozen=True):
    """What is paused in one tenant, the default one where none was named: tasks and queues.

    `elsewhere` is what is paused in other tenants, where the caller sees all of them.
    """

    tasks: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    elsewhere: tuple[PausedName, ...] = ()


def paused_in(tenant: str | None, names: Iterable[PausedName]) -> Paused:
    """What `tenant` sees of these, or a caller who sees all tenants (None)."""
    ordered = sorted(names)
    own = [name for name in ordered if name.tenant == (tenant or DEFAULT_TENANT)]
    return Paused(
        tasks=tuple(name.name for name in own if name.kind == "task"),
        queues=tuple(name.name for name in own if name.kind == "queue"),
        elsewhere=tuple(name for name in ordered if tenant is None and name not in own),
    )


class Capabilities(msgspec.Struct, frozen=True):
    """What a store can do beyond the port's common ground.

    `shared`: other processes see the same jobs. `durable`: jobs outlive the process.
    `transactions`: a handler can settle its job and add others in one step. `sql`: handlers and
    callers can write data of their own with them, on connections to the same database. `upkeep`:
    the workers of this store promote, reap and prune; where it is False, another program does.
    `roster`: it is a `Roster`. `examination`: it is a `findings.Examinable`. `chains`: it is a
    `ChainStore`. `server`: it is a `server.ServerStore`. `figures`: it is a `figures.FigureStore`.
    """

    shared: bool
    durable: bool
    transactions: bool
    sql: bool
    upkeep: bool = True
    roster: bool = False
    examination: bool = False
    chains: bool = False
    server: bool = False
    figures: bool = False


class Note(msgspec.Struct, frozen=True):
    """What a running job says of itself: progress, or one entry for its log (JSON text)."""

    progress: str | None = None
    entry: str | None = None
