"""A worker's liveness, on a connection of its own: it goes on while the event loop is blocked."""

from __future__ import annotations

import math
import sqlite3
import threading
import time
from collections.abc import Sequence

import msgspec

from windlass.clock import Clock
from windlass.errors import StoreBusyError, StoreClosedError, StoreUnavailableError
from windlass.store.records import Lease, LostReason, Renewal
from windlass.store.rules import micros
from windlass.stores.sqlite.anchor import open_anchored
from windlass.stores.sqlite.connection import Session, patiently, translate
from windlass.stores.sqlite.lease_clock import ticks
from windlass.stores.sqlite.lock_notice import LockNotice
from windlass.stores.sqlite.locking import begin
from windlass.stores.sqlite.renewal_tries import RenewalTries
from windlass.stores.sqlite.rows import json_text
from windlass.stores.sqlite.schema import require

_PATIENCE = 1.0
"""Seconds one renewal waits for the write lock; the keeper asks again soon enough."""

_TIMES_SAID = 10
"""How often per lease a renewal that waits says so."""

_answers = msgspec.json.Decoder(list[tuple[int, LostReason | None]]).decode


class SqliteLifeline:
    """Renews and checks leases. It may be made in one thread and used in another.

    Its commits are not synced to disk: after a power loss no worker is alive anyway. While a
    renewal waits for the write lock it says so to reapers, so StoreBusyError means that the lease
    counts from now.
    """

    def __init__(self, path: str, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._tries = RenewalTries(path)
        connection, self._anchor = open_anchored(path, "normal")
        self._notice = LockNotice(path)
        self._db = Session(connection)
        self.is_closed = False
        self._lock = threading.Lock()
        """Keeps `close` from closing the connection while another thread runs a statement."""

    def renew(
        self,
        worker: str,
        lease: float,
        leases: Sequence[Lease],
        extend: Sequence[tuple[Lease, float]] = (),
    ) -> Renewal:
        with self._lock:
            self._check_open()
            self._check_file()
            return self._renew(worker, lease, leases, extend)

    def _renew(
        self,
        worker: str,
        lease: float,
        leases: Sequence[Lease],
        extend: Sequence[tuple[Lease, float]],
    ) -> Renewal:
        db = self._db
        try:
            self._begin(worker, lease)
            now = ticks(self._clock)
            end = now + micros(lease)
            beat = {"worker": worker, "expires_at": end, "lease": micros(lease), "fresh": end}
            db.run("beat_worker", beat)
            if extend:
                asked = [(one.job_id, one.token, micros(seconds)) for one, seconds in extend]
                db.run("extend_leases", {"leases": json_text(asked), "ticks": now})
            renewal = self._answer(leases)
            db.control("COMMIT")
            self._anchor.require()
        except sqlite3.Error as error:
            raise translate(error, self._path) from error
        finally:
            if db.connection.in_transaction:
                db.control("ROLLBACK")
            self._notice.withdraw()
        return renewal

    def _begin(self, worker: str, lease: float) -> None:
        said_at = -math.inf

        def say(now: float) -> None:
            nonlocal said_at
            if now - said_at >= lease / _TIMES_SAID:
                said_at = now
                self._say_that_it_waits(worker)

        def meanwhile(delay: float) -> None:
            say(self._clock.monotonic())
            time.sleep(delay)

        try:
            begin(self._db, self._clock, self._path, _PATIENCE, self._notice, meanwhile)
        except StoreBusyError:
            say(math.inf)
            raise

    def _say_that_it_waits(self, worker: str) -> None:
        number = patiently(
            lambda: self._db.value("read_worker", {"worker": worker}), self._path, limit=_PATIENCE
        )
        if number is None:
            return  # it holds nothing that could be taken back
        try:
            self._tries.record(number, ticks(self._clock))
        except OSError as error:
            raise StoreUnavailableError(
                f"another transaction holds {self._path}, and {self._tries.name} cannot be"
                f" written ({error}); make the directory writable"
            ) from error

    def check(self, worker: str, leases: Sequence[Lease]) -> Renewal:
        with self._lock:
            self._check_open()
            self._check_file()
            return patiently(lambda: self._answer(leases), self._path, limit=_PATIENCE)

    def _answer(self, leases: Sequence[Lease]) -> Renewal:
        if not leases:
            return Renewal()
        asked = json_text([_asked(lease) for lease in leases])
        answers = _answers(self._db.value("check_leases", {"leases": asked}))
        return Renewal(
            lost={job_id: reason for job_id, reason in answers if reason is not None},
            cancel=frozenset(job_id for job_id, reason in answers if reason is None),
        )

    def _check_file(self) -> None:
        """Go on with another file that has taken the place of this one."""
        if self._anchor.is_in_place():
            return
        if not self._anchor.is_replaced():
            raise self._anchor.explain()
        connection, anchor = open_anchored(self._path, "normal")
        try:
            require(connection, self._path, _PATIENCE)
        except BaseException:
            connection.close()
            raise
        self._db.connection.close()
        self._notice.close()
        self._notice = LockNotice(self._path)
        self._db.use(connection)
        self._anchor = anchor

    def _check_open(self) -> None:
        if self.is_closed:
            raise StoreClosedError("this lifeline was closed")

    def close(self) -> None:
        self.is_closed = True
        with self._lock:
            self._notice.close()
            self._db.connection.close()


def _asked(lease: Lease) -> tuple[int, ...]:
    if lease.chain is None:
        return (lease.job_id, lease.token)
    return (lease.job_id, lease.token, lease.chain)
