"""Taking claimable jobs: one statement that reads them as leases, one that marks them running.

A delivery's token is its job's id added to a number that is random for each claim, so that no two
share one and yet a batch of them is named by one number.
"""

from __future__ import annotations

import secrets

import msgspec

from windlass.store.records import ClaimRequest, Lease
from windlass.store.rules import micros
from windlass.stores.sqlite import queues
from windlass.stores.sqlite.connection import Session
from windlass.stores.sqlite.rows import json_text
from windlass.stores.sqlite.statements import for_tasks

_MOST_BRANCHES = 64
"""Tasks read by one statement; more are read in several and merged here."""

_MOST_QUEUES = 200
"""Queues per task looked at in one go for a job behind a head that this worker may not run."""

Claimed = list[Lease] | bytes
"""What a claim took: leases, or leases as JSON that is yet to be decoded."""

_leases = msgspec.json.Decoder(list[Lease], strict=False).decode
"""Not strict: SQLite says 0 and 1 for false and true."""


class _Look(msgspec.Struct, array_like=True):
    """[priority, run_at, candidate, head, queue] of each, and the queue to go on after."""

    found: list[tuple[int, int, int, int, str]]
    after: str | None


_look = msgspec.json.Decoder(_Look).decode


class PastHeads:
    """Where the last look behind foreign heads ended, so that the next goes on from there."""

    __slots__ = ("after",)

    def __init__(self) -> None:
        self.after = ""


def must_write(db: Session, request: ClaimRequest, ticks: int, past_heads: PastHeads) -> bool:
    """A look without the write lock: whether a claim could find anything to do."""
    tasks = json_text(request.tasks)
    beat = {"worker": request.worker, "fresh": _fresh(request, ticks)}
    if db.value("peek_ready", {"tasks": tasks, **beat}):
        return True
    if not request.past_heads:
        return False
    look = _look_past_heads(db, request, past_heads)
    if not look.found:
        past_heads.after = look.after or ""
    return bool(look.found)


def _fresh(request: ClaimRequest, ticks: int) -> int:
    """A lease that ends later than this needs no renewal by a claim that finds nothing."""
    return ticks + micros(request.lease) * 2 // 3


def leases_of(claimed: Claimed) -> list[Lease]:
    return _leases(claimed) if isinstance(claimed, bytes) else claimed


def claim(db: Session, request: ClaimRequest, ticks: int, past_heads: PastHeads) -> Claimed:
    """Take jobs, leased from `ticks` on.

    Leases that the quick way took are still JSON: the caller's thread decodes them.
    """
    base = secrets.randbits(62)
    beat = _beat_of(request, ticks)
    quick = _read_quickly(db, request, base, beat)
    if quick is not None:
        text, ids, must_beat = quick
        if must_beat:
            db.run("beat_worker", beat)
        _lease(db, request, base, ids, ticks)
        return text
    leases = _choose(db, request, base)
    exchanged: set[str] = set()
    if request.past_heads and len(leases) < request.limit:
        exchanged = _exchange_heads(db, request, past_heads)
        if exchanged:
            leases = _choose(db, request, base)
    db.run("beat_worker", beat)
    if leases:
        _lease(db, request, base, json_text([lease.job_id for lease in leases]), ticks)
    queues.admit(db, exchanged - {lease.queue for lease in leases})
    return leases


def _read_quickly(
    db: Session, request: ClaimRequest, base: int, beat: dict[str, object]
) -> tuple[bytes, str, bool] | None:
    """The leases and their ids as JSON, and whether the worker's own lease is due for renewal;
    or None where the claim must choose them one by one."""
    if request.forbidden_flags or len(request.tasks) > _MOST_BRANCHES or not request.tasks:
        return None
    parameters = {**beat, "base": base, "limit": request.limit}
    named = {f"task{number}": task for number, task in enumerate(request.tasks)}
    sql = for_tasks("claim_ready", len(request.tasks))
    text, ids, count, suspects, must_beat = db.row_of(sql, {**parameters, **named})
    is_short = count < request.limit and request.past_heads
    if is_short or count == 0 or suspects > request.suspects:
        return None
    return text, ids, must_beat


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


def _choose(db: Session, request: ClaimRequest, base: int) -> list[Lease]:
    if not request.forbidden_flags:
        leases = _read(db, "claim_ready", request, base, request.limit)
        if sum([lease.suspect for lease in leases]) <= request.suspects:
            return leases
    leases = _read(db, "claim_chosen", request, base, request.limit, suspect=0)
    most = min(request.suspects, request.limit)
    if most > 0:
        leases += _read(db, "claim_chosen", request, base, most, suspect=1)
        leases.sort(key=_order)
    return leases[: request.limit]


def _read(
    db: Session, name: str, request: ClaimRequest, base: int, limit: int, suspect: int = 0
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
    for start in range(0, len(request.tasks), _MOST_BRANCHES):
        tasks = request.tasks[start : start + _MOST_BRANCHES]
        named = {f"task{number}": task for number, task in enumerate(tasks)}
        leases += _leases(db.value_of(for_tasks(name, len(tasks)), {**shared, **named}))
    if len(request.tasks) > _MOST_BRANCHES:
        leases.sort(key=_order)
    return leases[:limit]


def _order(lease: Lease) -> tuple[int, int, int]:
    return (lease.priority, lease.run_at, lease.job_id)


def _look_past_heads(db: Session, request: ClaimRequest, past_heads: PastHeads) -> _Look:
    return _look(
        db.value(
            "find_past_heads",
            {
                "tasks": json_text(request.tasks),
                "forbidden": json_text(request.forbidden_flags),
                "after": past_heads.after,
                "most": _MOST_QUEUES,
            },
        )
    )


def _exchange_heads(db: Session, request: ClaimRequest, past_heads: PastHeads) -> set[str]:
    """Put jobs this worker may run before heads it may not; the queues where that was done."""
    look = _look_past_heads(db, request, past_heads)
    past_heads.after = look.after or ""
    best: dict[str, tuple[int, int]] = {}
    for _, _, candidate, head, queue in sorted(look.found):
        best.setdefault(queue, (head, candidate))
    if not best:
        return set()
    demoted = json_text([head for head, _ in best.values()])
    admitted = json_text([candidate for _, candidate in best.values()])
    db.run("set_states", {"state": "waiting", "ids": demoted})
    db.run("set_states", {"state": "ready", "ids": admitted})
    return set(best)
