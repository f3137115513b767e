"""Heartbeats, on a connection of their own, used from the keeper's thread."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from windlass.errors import StoreError
from windlass.store.records import Lease, LostReason, Renewal
from windlass.stores.postgres_connections.address import ServerAddress
from windlass.stores.postgres_connections.lifeline import BoundedLifeline
from windlass.stores.table.faults import explained, is_of_a_row
from windlass.stores.table.statements import Statements

_SOON = 1.0
"""Seconds after which the keeper tries again what could not be renewed."""

_logger = logging.getLogger("windlass")


class TableLifeline(BoundedLifeline):
    """One statement writes the heartbeats of all rows; it does not wait for locked ones."""

    def __init__(
        self, address: ServerAddress, statements: Statements, now: Callable[[], datetime | None]
    ) -> None:
        super().__init__(address)
        self._statements = statements
        self._now = now

    def renew(
        self,
        worker: str,
        lease: float,
        leases: Sequence[Lease],
        extend: Sequence[tuple[Lease, float]] = (),
    ) -> Renewal:
        # A row is held for `lease` from its heartbeat, so a longer hold is a later heartbeat.
        longer = {held.job_id: max(0.0, seconds - lease) for held, seconds in extend}
        values = {
            "ahead": [longer.get(held.job_id, 0.0) for held in leases],
            "now": self._now(),
        }
        try:
            return self._ask_to_renew(lease, self._statements.renew, {**_named(leases), **values})
        except StoreError as error:
            if not is_of_a_row(error.__cause__):
                raise explained(
                    error, self._address.name, self._statements.table
                ) from error.__cause__
        return self._renew_one_by_one(leases, values)

    def _renew_one_by_one(self, leases: Sequence[Lease], values: dict[str, Any]) -> Renewal:
        """A row that refuses its heartbeat is tried again as long as its last one holds. It is
        given up before another worker may take it."""
        lost: dict[int, LostReason] = {}
        cancel: set[int] = set()
        locked: set[int] = set()
        has_told = False
        for held, ahead in zip(leases, values["ahead"], strict=True):
            try:
                one = self._ask(
                    self._statements.renew, {**values, **_named([held]), "ahead": [ahead]}
                )
            except StoreError as error:
                if not is_of_a_row(error.__cause__):
                    raise
                if not has_told:
                    has_told = True
                    _logger.warning("no heartbeat for record %d: %s", held.job_id, error)
                if time.monotonic() + _SOON < self._held_until:
                    locked.add(held.job_id)
                else:
                    lost[held.job_id] = LostReason.TAKEN_BY_ANOTHER_WORKER
            else:
                lost |= one.lost
                cancel |= one.cancel
                locked |= one.locked
        return Renewal(lost=lost, cancel=frozenset(cancel), locked=frozenset(locked))

    def check(self, worker: str, leases: Sequence[Lease]) -> Renewal:
        try:
            return self._ask(self._statements.check, _named(leases))
        except StoreError as error:
            raise explained(error, self._address.name, self._statements.table) from error.__cause__


def _named(leases: Sequence[Lease]) -> dict[str, object]:
    return {
        "ids": [held.job_id for held in leases],
        "tokens": [held.token for held in leases],
        "workers": [held.worker for held in leases],
    }
