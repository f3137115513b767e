"""The verbs of the store port that can be called through a server, declared once for both sides.

A verb is its name in the port, a struct with its arguments, and the type of its answer; arguments
and answers cross as JSON. The records of `store/records.py` cross as they are. Two do not: an
outcome is one of four structs, so it crosses with its kind (`Ended`); and a lease crosses with the
server's seal (`Held`), which proves to any server of the same database that this delivery was given
to a worker of this token, whatever a client makes of the rest.

A verb `repeats` where asking a second time does no harm and gets the same answer: such a call is
made again when its connection was lost, while the caller of another one is told that its outcome is
not known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Literal

import msgspec

from windlass.model.chain import KEEP_CHAINS, KEEP_FAILED_CHAINS, Chain
from windlass.model.cron import Schedule
from windlass.model.job import DEFAULT_TENANT, Job, JobState
from windlass.store.records import (
    CANCEL,
    COMPLETE,
    RELEASE,
    Capabilities,
    ChainFilter,
    ClaimRequest,
    Complete,
    Fail,
    JobFilter,
    Lease,
    NewChain,
    NewJob,
    Note,
    Outcome,
    Paused,
    Reaped,
    Release,
    Renewal,
    Settled,
    Verdict,
    WorkerInfo,
)
from windlass.store.schedules import Fired, KnownSchedule

NEEDS_DATABASE = ("connection", "transaction", "joined")
"""What needs the database itself, so that no server can do it for another program."""

NO_CALLS = ("open", "close", "capabilities", "lifeline")
"""What a store elsewhere does by itself; `renew` and `check` are the lifeline's."""


# ── leases and outcomes ─────────────────────────────────────────────────────────────────────


class Held(Lease, array_like=True, kw_only=True, gc=False):
    """A lease as it crosses. The seal covers what `proof` tells."""

    seal: str = ""


_NOT_READ: dict[str, Any] = {
    "payload": "{}",
    "max_attempts": None,
    "key": None,
    "priority": 0,
    "flags": None,
    "run_at": 0,
    "revision": 0,
    "created_at": 0,
    "updated_at": 0,
    "last_error": None,
    "blockers": None,
}
"""What no verb about leases reads, and what would be sent there instead."""

_PROVED = tuple(name for name in Lease.__struct_fields__ if name not in _NOT_READ)

proof: Callable[[Lease], tuple[Any, ...]] = attrgetter(*_PROVED)
"""What a verb may learn from a lease about its delivery."""


def slim(lease: Lease) -> Held:
    """What proves a lease, without what no verb about leases reads, and what its holder may have
    written into it: it crosses once a second."""
    if not isinstance(lease, Held):
        lease = Held(**{name: getattr(lease, name) for name in _PROVED}, **_NOT_READ)
    return msgspec.structs.replace(lease, **_NOT_READ)


def sealed(lease: Lease, seal: bytes) -> msgspec.Raw:
    """The lease as a `Held` with this seal is written. A `Held` is a list that ends with the seal,
    so that none has to be made."""
    return msgspec.Raw(b'%b,"%b"]' % (encode(lease)[:-1], seal))


class Ended(msgspec.Struct, array_like=True):
    """One settlement: a lease, and its outcome with its kind."""

    lease: Held
    kind: Literal["complete", "fail", "release", "cancel"]
    complete: Complete | None = None
    fail: Fail | None = None

    @property
    def outcome(self) -> Outcome:
        match self.kind:
            case "complete":
                return self.complete or COMPLETE
            case "fail":
                return self.fail or Fail("")
            case "release":
                return RELEASE
            case "cancel":
                return CANCEL


def ended(lease: Lease, outcome: Outcome) -> Ended:
    held = slim(lease)
    match outcome:
        case Complete():
            return Ended(held, "complete", None if outcome == COMPLETE else outcome)
        case Fail():
            return Ended(held, "fail", None, outcome)
        case Release():
            return Ended(held, "release")
        case _:
            return Ended(held, "cancel")


# ── arguments ───────────────────────────────────────────────────────────────────────────────


class Arguments(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a verb is called with; the fields have the names of the port's parameters."""


class Nothing(Arguments):
    pass


class Seen(Arguments):
    tenant: str | None = None


class Claim(Arguments):
    request: ClaimRequest


class Settle(Arguments):
    settlements: list[Ended]


class NoteOf(Arguments):
    lease: Held
    note: Note


class Renew(Arguments):
    worker: str
    lease: float
    leases: list[Held] = []
    extend: list[tuple[Held, float]] = []


class Check(Arguments):
    worker: str
    leases: list[Held] = []


class Retire(Arguments):
    worker: str


class Expire(Arguments):
    leases: list[Held]
    max_resets: int


class Limit(Arguments):
    limit: int


class Reap(Arguments):
    limit: int
    max_resets: int


class Prune(Arguments):
    limit: int
    keep_chains: float = KEEP_CHAINS
    keep_failed_chains: float = KEEP_FAILED_CHAINS


class Introduce(Arguments):
    worker: str
    tasks: tuple[str, ...]
    tenants: tuple[str, ...] | None = None


class OneJob(Arguments):
    job_id: int
    tenant: str | None = None


class OneChain(Arguments):
    chain_id: int
    tenant: str | None = None


class Ids(Arguments):
    ids: tuple[int, ...]
    tenant: str | None = None


class StartChains(Arguments):
    chains: list[NewChain]


class FindChains(Arguments):
    wanted: ChainFilter


class CompleteChain(Arguments):
    chain_id: int
    completion: Complete
    inherits: tuple[str, ...] = ()
    tenant: str | None = None


class DeleteChains(Arguments):
    ids: tuple[int, ...]
    cascade: bool = False
    tenant: str | None = None


class Enqueue(Arguments):
    jobs: list[NewJob]


class Enqueued(msgspec.Struct, array_like=True):
    """What became of a request to add jobs. Where each is a new one, its id, the instant, and the
    tenant of those that name none say everything; else they cross as they are."""

    jobs: list[Job] | None = None
    ids: list[int] = []
    at: int = 0
    tenant: str = DEFAULT_TENANT


class Register(Arguments):
    wanted: list[Schedule]
    tenant: str = DEFAULT_TENANT


class Fire(Arguments):
    identifier: str
    expected: int
    until: int
    jobs: list[NewJob]
    tenant: str = DEFAULT_TENANT


class OneSchedule(Arguments):
    identifier: str
    tenant: str = DEFAULT_TENANT


class OneKey(Arguments):
    key: str
    tenant: str = DEFAULT_TENANT


class Find(Arguments):
    wanted: JobFilter


class FailJobs(Arguments):
    ids: tuple[int, ...]
    reason: str
    tenant: str | None = None


class Reschedule(Arguments):
    ids: tuple[int, ...]
    run_at: int | None = None
    priority: int | None = None
    attempts: int | None = None
    max_attempts: int | None = None
    tenant: str | None = None


class Unlock(Arguments):
    workers: tuple[str, ...]
    max_resets: int


class TaskOrQueue(Arguments):
    task: str | None = None
    queue: str | None = None
    tenant: str = DEFAULT_TENANT


class DeleteFailed(Arguments):
    limit: int
    tenant: str | None = None


# ── the table ───────────────────────────────────────────────────────────────────────────────


class Verb:
    """How one verb is written and read, and whether it may be asked for a second time."""

    def __init__(
        self, name: str, arguments: type[Arguments], answer: Any, *, repeats: bool
    ) -> None:
        self.name = name
        self.arguments = arguments
        self.answer = answer
        self.repeats = repeats
        self.decode_arguments: Callable[[bytes], Arguments] = msgspec.json.Decoder(arguments).decode
        self.decode_answer: Callable[[bytes], Any] = msgspec.json.Decoder(answer).decode


_Jobs = list[Job]
_Chains = list[Chain[Any]]

_REPEAT: dict[str, tuple[type[Arguments], Any]] = {
    # Of the stream itself: what this token's store can do, and hints from now on.
    "describe": (Nothing, Capabilities),
    "subscribe": (Nothing, None),
    "now": (Nothing, int),
    "renew": (Renew, Renewal),
    "check": (Check, Renewal),
    "retire": (Retire, None),
    "introduce": (Introduce, bool),
    "stranded": (Nothing, list[str]),
    "next_due": (Nothing, float | None),
    "get": (OneJob, Job | None),
    "get_by_key": (OneKey, Job | None),
    "find": (Find, _Jobs),
    "counts": (Seen, dict[JobState, int]),
    "workers": (Seen, list[WorkerInfo]),
    "paused": (Seen, Paused),
    "pause": (TaskOrQueue, None),
    "resume": (TaskOrQueue, None),
    "schedules": (Seen, list[KnownSchedule]),
    "register": (Register, list[KnownSchedule]),
    "pause_schedule": (OneSchedule, KnownSchedule | None),
    "get_chain": (OneChain, Chain[Any] | None),
    "find_chains": (FindChains, _Chains),
    "chain_jobs": (OneChain, _Jobs),
    "blocked_jobs": (OneChain, _Jobs),
    "blockers": (OneJob, _Chains),
}

_ONCE: dict[str, tuple[type[Arguments], Any]] = {
    "claim": (Claim, list[Held]),
    "settle": (Settle, list[Settled]),
    "note": (NoteOf, Verdict),
    "expire": (Expire, list[Settled]),
    "reap": (Reap, Reaped),
    "promote": (Limit, int),
    "prune": (Prune, int),
    "enqueue": (Enqueue, Enqueued),
    "start_chains": (StartChains, _Chains),
    "fire": (Fire, Fired),
    "resume_schedule": (OneSchedule, KnownSchedule | None),
    "forget_schedule": (OneSchedule, KnownSchedule | None),
    "complete_chain": (CompleteChain, Chain[Any]),
    "cancel_chains": (Ids, _Chains),
    "retry_chains": (Ids, _Chains),
    "delete_chains": (DeleteChains, _Chains),
    "cancel": (Ids, _Jobs),
    "complete": (Ids, _Jobs),
    "fail": (FailJobs, _Jobs),
    "reschedule": (Reschedule, _Jobs),
    "retry": (Ids, _Jobs),
    "delete": (Ids, _Jobs),
    "remove": (OneKey, Job | None),
    "unlock": (Unlock, _Jobs),
    "delete_failed": (DeleteFailed, int),
}

VERBS: dict[str, Verb] = {
    name: Verb(name, arguments, answer, repeats=table is _REPEAT)
    for table in (_REPEAT, _ONCE)
    for name, (arguments, answer) in table.items()
}

encode: Callable[[Any], bytes] = msgspec.json.Encoder().encode


def encode_list(parts: Sequence[bytes]) -> bytes:
    """The JSON array of these texts."""
    return b"[" + b",".join(parts) + b"]"
