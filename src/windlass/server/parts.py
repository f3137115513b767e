"""What the surfaces share, as they see it: settling, and deliveries that clients hold."""

from __future__ import annotations

from typing import Protocol

from windlass.store.records import Lease, Outcome, Settled


class Settlements(Protocol):
    """Writes outcomes; while one write is in flight the next gathers."""

    async def settle(self, lease: Lease, outcome: Outcome) -> Settled: ...


class Deliveries(Protocol):
    """Turns leases into bytes that a client can hold, and that only the servers of this database
    can make."""

    def seal(self, lease: Lease) -> bytes: ...

    def open(self, delivery: bytes, tenant: str) -> Lease | None:
        """None for what no server of this database made, and for another tenant's."""
