"""Taking the write lock, and what happens to leases while nobody can.

SQLite has one write lock. While a user's transaction holds it no worker can renew, so no worker
may lose its lease for it: whoever had to wait first moves every lease by the time that passed,
before anything else in its transaction sees them. `last_extension_at` in the file keeps several
processes that waited for one lock from each moving them.

A process that did not try to write cannot know that others could not. So the reaper asks for how
long this process had not held the lock, and if that is long it first lets waiting workers renew.
"""

from __future__ import annotations

import math
import random
import sqlite3
import threading
import time
from collections.abc import Callable

from windlass.clock import SYSTEM, Clock
from windlass.errors import StoreBusyError
from windlass.stores.sqlite.connection import Session, is_busy, translate
from windlass.stores.sqlite.holding import Mark

NOTICED = 200_000
"""Microseconds of waiting that are worth a write."""

_FORGOTTEN = 30_000_000
"""Microseconds after which an unsuccessful wait no longer belongs to the next one."""

_QUICK = 0.0005
_SLOW = 0.01
_LONG = 0.2
"""Seconds between tries for the lock, at first and when that took long. Only a transaction of the
user's, or a very busy machine, makes it take that long."""


class LockWatch:
    """Since when nobody in this process could write; shared by all connections of a store."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: int | None = None
        self._seen = 0
        self._held_at: float | None = None
        self.silence = math.inf
        """Seconds from when this process last held the lock to when it began to wait for it."""

    def wait(self, now: int) -> int:
        """Somebody starts to wait; since when the wait counts."""
        with self._lock:
            if self._since is None or now - self._seen > _FORGOTTEN or self._since > now:
                self._since = now
            self._seen = now
            return self._since

    def give_up(self, now: int) -> None:
        with self._lock:
            self._seen = now

    def acquired(self, asked_at: float) -> None:
        with self._lock:
            self._since = None
            if self._held_at is not None:
                self.silence = asked_at - self._held_at
            self._held_at = SYSTEM.monotonic()

    def failed(self) -> None:
        """The wait ended with something else than the lock."""
        with self._lock:
            self._since = None


def begin(
    db: Session,
    clock: Clock,
    watch: LockWatch,
    path: str,
    limit: float,
    mark: Mark,
    meanwhile: Callable[[float], None] = time.sleep,
) -> int:
    """Start a write transaction within `limit` seconds; the database's now.

    `meanwhile` passes the time, a few milliseconds at once, while somebody else holds the lock.
    The mark is set, for the caller to clear after the transaction. Raises StoreBusyError.
    """
    since = watch.wait(clock.now())
    asked_at = SYSTEM.monotonic()
    db.waited = db.met_stranger = False
    while True:
        was_alone = mark.is_alone()
        mark.set()
        try:
            db.control("BEGIN IMMEDIATE")
            break
        except sqlite3.Error as error:
            is_alone = mark.is_alone()
            if not is_busy(error):
                watch.failed()
                raise translate(error, path) from error
            asked_for = SYSTEM.monotonic() - asked_at
            if asked_for > limit:
                watch.give_up(clock.now())
                raise StoreBusyError(
                    f"another transaction has held {path} for more than {limit:g} s;"
                    " end it, or keep it shorter"
                ) from error
        db.waited = True
        # One of ours may have come, or gone, between the try and one look, but not both.
        db.met_stranger = db.met_stranger or (was_alone and is_alone)
        delay = _QUICK if asked_for < _LONG else _SLOW
        meanwhile(delay * random.uniform(0.5, 1.5))  # noqa: S311
    now = clock.now()
    watch.acquired(asked_at)
    if now - since > NOTICED:
        _extend(db, since, now)
    return now


def _extend(db: Session, since: int, now: int) -> None:
    accounted: int = db.value("read_meta", {"key": "last_extension_at"}) or 0
    gap = now - max(since, accounted)
    if gap > 0:
        db.run("extend_workers", {"gap": gap})
        db.run("shift_leases", {"shift": gap})
        db.run("write_meta", {"key": "last_extension_at", "value": now})
