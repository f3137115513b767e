"""The lease keeper's calls on our own schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from windlass.store.records import Lease, Renewal
from windlass.stores.postgres.wire import array
from windlass.stores.postgres_connections.address import ServerAddress
from windlass.stores.postgres_connections.lifeline import BoundedLifeline


class PostgresLifeline(BoundedLifeline):
    """The lifeline of our own schema."""

    def __init__(
        self, address: ServerAddress, schema: str, now: Callable[[], datetime | None]
    ) -> None:
        super().__init__(address)
        self._schema = schema
        self._now = now

    def renew(
        self,
        worker: str,
        lease: float,
        leases: Sequence[Lease],
        extend: Sequence[tuple[Lease, float]] = (),
    ) -> Renewal:
        longer = [(held.job_id, held.token, seconds) for held, seconds in extend]
        return self._ask_to_renew(
            lease,
            f"SELECT id, answer FROM {self._schema}._renew("  # noqa: S608
            "%s, %s::float8, %s::bigint[], %s::bigint[], %s::bigint[], %s::json, %s)",
            [
                worker,
                lease,
                array([held.job_id for held in leases]),
                array([held.token for held in leases]),
                _chains(leases),
                msgspec.json.encode(longer).decode(),
                self._now(),
            ],
        )

    def check(self, worker: str, leases: Sequence[Lease]) -> Renewal:
        return self._ask(
            f"SELECT id, answer FROM {self._schema}._check("  # noqa: S608
            "%s::bigint[], %s::bigint[], %s::bigint[], %s)",
            [
                array([held.job_id for held in leases]),
                array([held.token for held in leases]),
                _chains(leases),
                self._now(),
            ],
        )


def _chains(leases: Sequence[Lease]) -> str | None:
    """The chains of the jobs, where one is in any."""
    chains = [held.chain for held in leases]
    return array(chains) if any(chains) else None
