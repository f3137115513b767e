"""Taking the write lock, which has no queue: try, wait a little, try again."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable

from windlass.clock import SYSTEM, Clock
from windlass.errors import StoreBusyError
from windlass.stores.sqlite.connection import Session, is_busy, translate
from windlass.stores.sqlite.lock_notice import LockNotice

_QUICK = 0.0005
_SLOW = 0.002
_LONG = 0.2
"""Seconds between tries for the lock, at first and when that took long. Only a transaction of the
user's, or a very busy machine, makes it take that long."""


def begin(
    db: Session,
    clock: Clock,
    path: str,
    limit: float,
    notice: LockNotice,
    meanwhile: Callable[[float], None] = time.sleep,
) -> int:
    """Start a write transaction within `limit` seconds; the database's now.

    `meanwhile` passes the time, a few milliseconds at once, while another connection has the lock.
    The notice is posted, for the caller to withdraw after the transaction. Raises StoreBusyError.
    """
    asked_at = SYSTEM.monotonic()
    db.waited = db.met_stranger = False
    while True:
        was_alone = notice.is_alone()
        notice.post()
        try:
            db.control("BEGIN IMMEDIATE")
            break
        except sqlite3.Error as error:
            is_alone = notice.is_alone()
            if not is_busy(error):
                raise translate(error, path) from error
            asked_for = SYSTEM.monotonic() - asked_at
            if asked_for > limit:
                raise StoreBusyError(
                    f"another transaction has held {path} for more than {limit:g} s;"
                    " end it, or keep it shorter"
                ) from error
        db.waited = True
        # One of ours may have come, or gone, between the try and one look, but not both.
        db.met_stranger = db.met_stranger or (was_alone and is_alone)
        delay = _QUICK if asked_for < _LONG else _SLOW
        meanwhile(delay * random.uniform(0.5, 1.5))  # noqa: S311
    return clock.now()
