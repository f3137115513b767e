"""What keeps the queue going without anybody asking: reap, promote, prune.

Each first looks without the write lock, so that an idle worker's upkeep writes nothing.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from windlass.clock import Clock
from windlass.model.job import JobState
from windlass.store.records import CANCELLED_KEPT, RELEASE, Reaped
from windlass.store.rules import micros
from windlass.stores.sqlite import queues, rows
from windlass.stores.sqlite.connection import Session
from windlass.stores.sqlite.locking import LockWatch
from windlass.stores.sqlite.rows import json_text

_JUMP = 1_000_000
"""Microseconds by which the wall clock must leave the monotonic one to have jumped."""

_DRIFT = 250_000
"""Microseconds of slow drift after which the clocks are noted anew."""

_due = msgspec.json.Decoder(list[tuple[int, str | None]]).decode
_peek_reap = msgspec.json.Decoder(tuple[int, int, str | None]).decode
_clocks = msgspec.json.Decoder(tuple[str, int]).decode


@cache
def boot_id() -> str:
    """Which start of this machine this is, or "" where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


class Reaper:
    """Takes back what dead workers held, and keeps leases right when the wall clock jumps.

    Wall minus monotonic time is constant between jumps, on one start of the machine. It is noted
    in the file; when it changes by more than a second every lease moves along before any is reaped.
    """

    def __init__(self, clock: Clock, watch: LockWatch) -> None:
        self._clock = clock
        self._watch = watch

    def must_write(self, db: Session) -> bool:
        now = self._clock.now()
        overdue, too_late, noted = _peek_reap(db.value("peek_reap", {"now": now}))
        shift = self._shift(noted, now)
        return bool(overdue or too_late) or shift is None or abs(shift) > _DRIFT

    def reap(self, db: Session, limit: int, max_resets: int, now: int) -> Reaped | None:
        """What was taken back; None if live workers must first be given time to renew.

        Nobody else can have held the lock for longer than this process left it alone. Where that
        is less than a third of a lease, whoever is alive had a chance to renew.
        """
        self._follow_clock(db, now)
        shortest = db.value("shortest_overdue_lease", {"now": now})
        if shortest is not None and self._watch.silence > shortest / 3e6:
            return None
        expired = rows.read(db, "read_expired", now=now, limit=limit)
        reaped = Reaped()
        if expired:
            changes = rows.Changes()
            for row in expired:
                changes.take_back(row, max_resets, now)
            changes.save(db)
            ready = [row.id for row in expired if row.state is JobState.READY]
            ended = [row.id for row in expired if row.state is not JobState.READY]
            reaped = Reaped(requeued=tuple(ready), ended=tuple(ended))
        db.run("delete_dead_workers", {"now": now})
        return reaped

    def _shift(self, noted: str | None, now: int) -> int | None:
        """How far the wall clock left the monotonic one since it was noted; None: unknown."""
        if noted is None:
            return None
        boot, offset = _clocks(noted)
        if boot != boot_id():
            return None
        return self._offset(now) - offset

    def _offset(self, now: int) -> int:
        return now - micros(self._clock.monotonic())

    def _follow_clock(self, db: Session, now: int) -> None:
        shift = self._shift(db.value("read_meta", {"key": "clock"}), now)
        if shift is not None and abs(shift) > _JUMP and boot_id():
            db.run("shift_workers", {"shift": shift, "now": now})
            db.run("shift_leases", {"shift": shift})
        if shift is None or abs(shift) > _DRIFT:
            noted = json_text((boot_id(), self._offset(now)))
            db.run("write_meta", {"key": "clock", "value": noted})


def retire(db: Session, worker: str, now: int) -> None:
    held = rows.read(db, "read_held", workers=json_text([worker]))
    if held:
        changes = rows.Changes()
        for row in held:
            changes.end(row, RELEASE, now)
        changes.save(db)
    db.run("delete_workers", {"workers": json_text([worker])})


def promote(db: Session, limit: int, now: int) -> int:
    due = _due(db.value("read_due", {"now": now, "limit": limit}))
    if due:
        db.run("promote_jobs", {"ids": json_text([job_id for job_id, _ in due])})
        queues.admit(db, {queue for _, queue in due if queue is not None})
        db.made_ready = True
    return len(due)


def may_prune(db: Session, now: int) -> bool:
    return bool(db.value("peek_prune", {"now": now, "stale": now - micros(CANCELLED_KEPT)}))


def prune(db: Session, limit: int, now: int) -> int:
    pruned = db.run("prune_history", {"now": now, "limit": limit})
    if pruned < limit:
        stale = now - micros(CANCELLED_KEPT)
        pruned += db.run("prune_cancelled", {"stale": stale, "limit": limit - pruned})
    return pruned
