"""The upkeep that workers do by themselves: reap, promote, prune.

Each first looks without the write lock, so that an idle worker's upkeep writes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from windlass.clock import Clock
from windlass.model.chain import KEEP_CHAINS, KEEP_FAILED_CHAINS
from windlass.model.job import JobState
from windlass.store.port import MOST_STRANDED
from windlass.store.records import CANCELLED_KEPT, RELEASE, Reaped
from windlass.store.rules import micros
from windlass.store.server import REQUESTS_KEPT
from windlass.stores.sqlite import queues
from windlass.stores.sqlite.book import SqliteBook
from windlass.stores.sqlite.connection import Session
from windlass.stores.sqlite.lease_clock import ticks
from windlass.stores.sqlite.renewal_tries import RenewalTries
from windlass.stores.sqlite.rows import json_text

_due = msgspec.json.Decoder(list[tuple[int, str, str | None]]).decode
_names = msgspec.json.Decoder(list[str]).decode
_known = msgspec.json.Decoder(tuple[bool, bool], strict=False).decode
_overdue = msgspec.json.Decoder(tuple[list[tuple[int, int]], bool], strict=False).decode


class Reaper:
    """Takes back what dead workers held.

    A worker is dead when its lease has ended and it does not wait to renew. Leases are counted on
    the machine's monotonic clock, so a wall clock that jumps changes nothing. That clock begins
    anew when the machine is started, so what was leased before may seem to end long from now: a
    lease never ends later than its length from when it is looked at.
    """

    def __init__(self, path: str, clock: Clock) -> None:
        self._clock = clock
        self._tries = RenewalTries(path)

    def must_write(self, db: Session) -> bool:
        dead, too_late = self._look(db, ticks(self._clock))
        return bool(dead or too_late)

    def _look(self, db: Session, now: int) -> tuple[list[int], bool]:
        """Which workers are dead, and whether any lease ends too late."""
        overdue, too_late = _overdue(db.value("read_overdue", {"ticks": now}))
        trying = self._tries.recent(overdue, now)
        return [worker for worker, _ in overdue if worker not in trying], too_late

    def stranded(self, db: Session) -> list[str]:
        """Tasks with ready jobs of a tenant for which no worker runs them who lives."""
        dead, _ = self._look(db, ticks(self._clock))
        return _names(db.value("find_stranded", {"dead": json_text(dead), "most": MOST_STRANDED}))

    def reap(self, db: Session, limit: int, max_resets: int, now: int) -> Reaped:
        since_start = ticks(self._clock)
        dead, too_late = self._look(db, since_start)
        if dead or too_late:
            db.run("clamp_leases", {"ticks": since_start})
        if too_late:
            db.run("clamp_workers", {"ticks": since_start})
        if not dead:
            return Reaped()
        workers = json_text(dead)
        book = SqliteBook(db, now)
        expired = book.read("read_expired", workers=workers, ticks=since_start, limit=limit)
        reaped = Reaped()
        if expired:
            for row in expired:
                book.take_back(row, max_resets)
            book.save()
            ready = [row.id for row in expired if row.state is JobState.READY]
            ended = [row.id for row in expired if row.state is not JobState.READY]
            reaped = Reaped(requeued=tuple(ready), ended=tuple(ended))
        db.run("delete_dead_workers", {"workers": workers})
        return reaped


def is_introduced(
    db: Session, worker: str, tasks: Sequence[str], tenants: Sequence[str] | None
) -> bool | None:
    """Whether it is known to run these tasks for these tenants; None if it is not known at all."""
    known, as_said = _known(db.value("peek_worker", _introduction(worker, tasks, tenants)))
    return as_said if known else None


def introduce(
    db: Session, worker: str, tasks: Sequence[str], tenants: Sequence[str] | None
) -> bool:
    db.run("introduce_worker", _introduction(worker, tasks, tenants))
    return is_introduced(db, worker, tasks, tenants) is not None


def _introduction(
    worker: str, tasks: Sequence[str], tenants: Sequence[str] | None
) -> dict[str, object]:
    served = None if tenants is None else json_text(sorted(tenants))
    return {"worker": worker, "tasks": json_text(sorted(tasks)), "tenants": served}


def retire(db: Session, worker: str, now: int) -> None:
    book = SqliteBook(db, now)
    held = book.read("read_held", workers=json_text([worker]))
    if held:
        for row in held:
            book.end(row, RELEASE)
        book.save()
    db.run("delete_workers", {"workers": json_text([worker])})


def promote(db: Session, limit: int, now: int) -> int:
    due = _due(db.value("read_due", {"now": now, "limit": limit}))
    if due:
        db.run("promote_jobs", {"ids": json_text([job_id for job_id, _, _ in due])})
        queues.admit(db, {(tenant, queue) for _, tenant, queue in due if queue is not None})
        db.made_ready = True
    return len(due)


class Pruning(NamedTuple):
    """What was kept long enough at one instant."""

    now: int
    keep_chains: float = KEEP_CHAINS
    keep_failed_chains: float = KEEP_FAILED_CHAINS

    def values(self) -> dict[str, int]:
        return {
            "now": self.now,
            "stale": self.now - micros(CANCELLED_KEPT),
            "completed": self.now - micros(self.keep_chains),
            "failed": self.now - micros(self.keep_failed_chains),
            "asked": self.now - micros(REQUESTS_KEPT),
        }


def may_prune(db: Session, pruning: Pruning) -> bool:
    return bool(db.value("peek_prune", pruning.values()))


def prune(db: Session, limit: int, pruning: Pruning) -> int:
    """Remove jobs that were kept long enough, chains, and requests, `limit` in all."""
    values = pruning.values()
    has_blockers = db.value("peek_blockers")
    pruned = 0
    for kind in ("history", "cancelled"):
        room = {**values, "limit": limit - pruned}
        if has_blockers:
            db.run(f"prune_{kind}_blockers", room)
        pruned += db.run(f"prune_{kind}", room)
    for kind in ("chains", "requests"):
        pruned += db.run(f"prune_{kind}", {**values, "limit": limit - pruned})
    return pruned
