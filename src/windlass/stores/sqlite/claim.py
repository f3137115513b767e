"""Taking claimable jobs: one statement that reads them as leases, one that marks them running.

A delivery's token is its job's id added to a number that is random for each claim, so that no two
share one and yet a batch of them is named by one number.

Pauses
    The default tenant's paused tasks, and those of tenants that a claim names, are left out by the
    statement. Where a claim is for all tenants that cannot be: another tenant's jobs of a task lie
    among those of all others. So a claim that meets jobs of a paused task parks them: they wait,
    where no claim reads them, until the task is resumed. A parked head leaves its queue without
    one, for as long as nothing of the queue changes; a look behind heads finds what may run there.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from windlass.model.job import DEFAULT_TENANT
from windlass.store.records import MOST_BLOCKER_TEXT, ClaimRequest, Lease, deleted_chain
from windlass.store.rules import micros
from windlass.stores.sqlite import heads, queues
from windlass.stores.sqlite.branches import (
    MOST_BRANCHES,
    Branch,
    Order,
    every_branch,
    in_order,
    numbered,
    owners_of,
    with_tasks,
)
from windlass.stores.sqlite.connection import Session
from windlass.stores.sqlite.queues import Place
from windlass.stores.sqlite.rows import json_text
from windlass.stores.sqlite.statements import for_branches

_MOST_PARKED = 2_000
_MOST_PARKINGS = 10
"""Jobs parked at once, and how often by one claim: others want the write lock too."""

_SOME_MAY_BE_PAUSED = 2
"""What `peek_others` says where other tenants have ready jobs and paused tasks."""


class Claimed(NamedTuple):
    """What a claim took: leases, or leases as JSON that is yet to be decoded; and, as JSON, the
    chains that these jobs named, if any did."""

    leases: list[Lease] | bytes
    blockers: bytes | None = None


_blockers = msgspec.json.Decoder(list[tuple[int, int, int, msgspec.Raw]]).decode
_leases = msgspec.json.Decoder(list[Lease], strict=False).decode
"""Not strict: SQLite says 0 and 1 for false and true."""


class ClaimMemory:
    """What a claim leaves for the next: where its look behind foreign heads ended, and whether
    tenants other than the default one had ready jobs."""

    __slots__ = ("after", "has_others")

    def __init__(self) -> None:
        self.after = heads.BEGINNING
        self.has_others = False


def must_write(db: Session, request: ClaimRequest, ticks: int, memory: ClaimMemory) -> bool:
    """A look without the write lock: whether a claim could find anything to do."""
    request = with_tasks(db, request)
    owners = owners_of(request)
    asked = {
        "worker": request.worker,
        "fresh": _fresh(request, ticks),
        "tasks": json_text(request.tasks),
        "of_default": DEFAULT_TENANT in owners,
        "of_others": None in owners,
        "tenants": json_text(owners),
    }
    if db.value("peek_ready", asked):
        return True
    if not request.past_heads:
        return False
    look = heads.look(db, request, memory.after)
    if not look.found:
        memory.after = look.after
    return bool(look.found)


def _fresh(request: ClaimRequest, ticks: int) -> int:
    """A lease that ends later than this needs no renewal by a claim that finds nothing."""
    return ticks + micros(request.lease) * 2 // 3


def leases_of(claimed: Claimed) -> list[Lease]:
    """For the caller's own thread."""
    taken = claimed.leases
    leases = _leases(taken) if isinstance(taken, bytes) else taken
    if claimed.blockers is not None:
        _add_blockers(leases, claimed.blockers)
    return leases


def _add_blockers(leases: Sequence[Lease], text: bytes) -> None:
    by_job: dict[int, list[tuple[int, int, bytes]]] = {}
    for job_id, place, chain_id, row in _blockers(text):
        by_job.setdefault(job_id, []).append((place, chain_id, bytes(row)))
    for lease in leases:
        named = by_job.get(lease.job_id)
        if named is not None:
            rows = [
                _deleted(chain_id, lease) if row == b"null" else row
                for _, chain_id, row in sorted(named)
            ]
            lease.blockers = f"[{b','.join(rows).decode()}]"


def _deleted(chain_id: int, lease: Lease) -> bytes:
    return msgspec.json.encode(deleted_chain(chain_id, lease.tenant, lease.updated_at))


def claim(db: Session, request: ClaimRequest, ticks: int, memory: ClaimMemory) -> Claimed:
    """Take jobs, leased from `ticks` on.

    Leases that the quick way took are still JSON: the caller's thread decodes them.
    """
    request = with_tasks(db, request)
    base = secrets.randbits(62)
    beat = _beat_of(request, ticks)
    quick = _read_quickly(db, request, base, beat, memory)
    if quick is not None:
        text, ids, have_blockers, must_beat = quick
        if must_beat:
            db.run("beat_worker", beat)
        _lease(db, request, base, ids, ticks)
        if not have_blockers:
            return Claimed(text)
        leases = _leases(text)
        return Claimed(leases, _blockers_of(db, leases))
    leases = _choose(db, request, base, memory)
    exchanged: set[Place] = set()
    if request.past_heads and len(leases) < request.limit:
        look = heads.look(db, request, memory.after)
        memory.after = look.after
        exchanged = heads.exchange(db, look)
        if exchanged:
            leases = _choose(db, request, base, memory)
    db.run("beat_worker", beat)
    if leases:
        _lease(db, request, base, json_text([lease.job_id for lease in leases]), ticks)
    queues.admit(db, exchanged - {(lease.tenant, lease.queue or "") for lease in leases})
    return Claimed(leases, _blockers_of(db, leases))


def _blockers_of(db: Session, leases: Sequence[Lease]) -> bytes | None:
    """The chains that these jobs named, as JSON; None where none did."""
    waited = [lease.job_id for lease in leases if lease.blockers_total is not None]
    if not waited:
        return None
    asked = {"jobs": json_text(waited), "most": MOST_BLOCKER_TEXT}
    text: bytes = db.value("read_lease_blockers", asked)
    return text


def _read_quickly(
    db: Session, request: ClaimRequest, base: int, beat: dict[str, object], memory: ClaimMemory
) -> tuple[bytes, str, bool, bool] | None:
    """The leases and their ids as JSON, whether any of the jobs named chains, and whether the
    worker's own lease is due for renewal; or None where the claim must choose them one by one."""
    branches = every_branch(owners_of(request, has_others=memory.has_others), _named(request))
    if request.forbidden_flags or not 0 < len(branches) <= MOST_BRANCHES:
        return None
    shape, values = numbered(branches)
    parameters = {**beat, **values, "base": base, "limit": request.limit}
    row = db.row_of(for_branches("claim_ready", shape), parameters)
    text, ids, count, suspects, blockers, must_beat, others = row
    if request.tenants is None:
        has_missed_others = others and not memory.has_others
        memory.has_others = bool(others)
        if has_missed_others:
            return _read_quickly(db, request, base, beat, memory)
        if others == _SOME_MAY_BE_PAUSED and _park(db, ids):
            return None
    is_short = count < request.limit and request.past_heads
    if is_short or count == 0 or suspects > request.suspects:
        return None
    return text, ids, bool(blockers), must_beat


def _named(request: ClaimRequest) -> tuple[str, ...]:
    assert request.tasks is not None, "with_tasks has named them"
    return request.tasks


def _park(db: Session, ids: str) -> bool:
    """Whether some of these jobs were of paused tasks, and are ready no more."""
    return db.run("park_jobs", {"ids": ids, "most": _MOST_PARKED}) > 0


def _beat_of(request: ClaimRequest, ticks: int) -> dict[str, object]:
    lease = micros(request.lease)
    return {
        "worker": request.worker,
        "expires_at": ticks + lease,
        "lease": lease,
        "fresh": _fresh(request, ticks),
    }


def _lease(db: Session, request: ClaimRequest, base: int, ids: str, ticks: int) -> None:
    chosen = {"worker": request.worker, "base": base, "ids": ids}
    if request.longer_leases:
        longer = {task: micros(seconds) for task, seconds in request.longer_leases.items()}
        db.run("lease_jobs_longer", {**chosen, "ticks": ticks, "longer": json_text(longer)})
    else:
        db.run("lease_jobs", chosen)


def _choose(db: Session, request: ClaimRequest, base: int, memory: ClaimMemory) -> list[Lease]:
    """The best jobs; those that a pause of their tenant keeps back make room for others."""
    if request.tenants is not None:
        return _choose_ready(db, request, base, has_others=True)
    for _ in range(_MOST_PARKINGS):
        others = db.value("peek_others")
        memory.has_others = bool(others)
        leases = _choose_ready(db, request, base, has_others=memory.has_others)
        ids = json_text([lease.job_id for lease in leases])
        if others != _SOME_MAY_BE_PAUSED or not _park(db, ids):
            return leases
    db.made_ready = True  # there may be more: the next claim goes on
    return []


def _choose_ready(
    db: Session, request: ClaimRequest, base: int, *, has_others: bool
) -> list[Lease]:
    def read(name: str, limit: int, suspect: int = 0) -> list[Lease]:
        return _read(db, name, request, base, limit, suspect, has_others=has_others)

    if not request.forbidden_flags:
        leases = read("claim_ready", request.limit)
        if sum([lease.suspect for lease in leases]) <= request.suspects:
            return leases
    leases = read("claim_chosen", request.limit)
    most = min(request.suspects, request.limit)
    if most > 0:
        leases += read("claim_chosen", most, suspect=1)
        leases.sort(key=_order)
    return leases[: request.limit]


def _read(
    db: Session,
    name: str,
    request: ClaimRequest,
    base: int,
    limit: int,
    suspect: int,
    *,
    has_others: bool,
) -> list[Lease]:
    shared = {
        "base": base,
        "worker": request.worker,
        "limit": limit,
        "suspect": suspect,
        "forbidden": json_text(request.forbidden_flags),
        "fresh": 0,  # the beat is not asked about here
        "expires_at": 0,
    }
    leases: list[Lease] = []
    owners = owners_of(request, has_others=has_others)
    for number, branches in enumerate(in_order(db, owners, _named(request))):
        if number and _is_enough(leases, limit, branches[0]):
            break
        shape, values = numbered(branches)
        leases += _leases(db.value_of(for_branches(name, shape), {**shared, **values}))
        if number:
            leases.sort(key=_order)
    return leases[:limit]


def _is_enough(leases: list[Lease], limit: int, following: Branch) -> bool:
    """Whether no branch from this one on has a job that comes before these."""
    return len(leases) >= limit and (limit == 0 or _order(leases[limit - 1]) < following.best)


def _order(lease: Lease) -> Order:
    return (lease.priority, lease.run_at, lease.job_id)
