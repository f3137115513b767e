"""A worker's liveness, on a connection of its own, used from the keeper's thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec
import psycopg

from windlass.errors import StoreClosedError, StoreUnavailableError
from windlass.store.records import Lease, LostReason, Renewal
from windlass.stores.postgres.connection import (
    Address,
    BoundedConnection,
    is_stale,
    one_line,
)
from windlass.stores.postgres.crew import fetch_rows


class PostgresLifeline:
    """Every call ends within a third of the lease, whatever the network does, so that the keeper
    can stop its handlers in time."""

    def __init__(self, address: Address, schema: str, now: Callable[[], datetime | None]) -> None:
        self._address = address
        self._schema = schema
        self._now = now
        self._lock = threading.Lock()
        self._connection: BoundedConnection | None = None
        self._limit = 10.0
        self._closed = False

    def renew(
        self,
        worker: str,
        lease: float,
        leases: Sequence[Lease],
        extend: Sequence[tuple[Lease, float]] = (),
    ) -> Renewal:
        self._limit = min(10.0, max(lease / 3, 0.5))
        longer = [(held.job_id, held.token, seconds) for held, seconds in extend]
        return self._ask(
            f"SELECT id, answer FROM {self._schema}._renew("  # noqa: S608
            "%s, %s::float8, %s::bigint[], %s::bigint[], %s::json, %s)",
            worker,
            lease,
            [held.job_id for held in leases],
            [held.token for held in leases],
            msgspec.json.encode(longer).decode(),
            self._now(),
        )

    def check(self, worker: str, leases: Sequence[Lease]) -> Renewal:
        return self._ask(
            f"SELECT id, answer FROM {self._schema}._check(%s::bigint[], %s::bigint[])",  # noqa: S608
            [held.job_id for held in leases],
            [held.token for held in leases],
        )

    def _ask(self, statement: str, *values: Any) -> Renewal:
        with self._lock:
            try:
                rows = fetch_rows(self._connected(), statement, values)
            except psycopg.Error as error:
                self._drop()
                raise StoreUnavailableError(
                    f"{self._address.name} does not renew leases: {one_line(error)}"
                ) from error
        answers = dict(rows)
        lost = {
            job_id: LostReason(answer)
            for job_id, answer in answers.items()
            if answer not in ("cancel", "locked")
        }
        return Renewal(
            lost=lost,
            cancel=frozenset(job_id for job_id, answer in rows if answer == "cancel"),
            locked=frozenset(job_id for job_id, answer in rows if answer == "locked"),
        )

    def _connected(self) -> BoundedConnection:
        if self._closed:
            raise StoreClosedError("this store was closed")
        if self._connection is None or is_stale(self._connection):
            self._drop()
            self._connection = self._address.connect(
                connect_limit=max(2, int(self._limit))  # libpq knows no shorter one
            )
        self._connection.limit = self._limit
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._drop()
