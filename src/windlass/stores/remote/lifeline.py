"""A worker's liveness, asked for from the keeper's thread over the store's link."""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Sequence

from windlass.errors import StoreClosedError, StoreUnavailableError
from windlass.store.records import Lease, Renewal
from windlass.stores.remote.call import read_answer
from windlass.stores.remote.link import Link
from windlass.stores.remote.workers import KnownWorkers
from windlass.wire import calls
from windlass.wire.calls import VERBS, slim

_MOST = 10.0
"""Seconds a call may take at most, however long the lease is."""
_SLACK = 1.0
"""Seconds that the link has to say that a call's time is over."""


class RemoteLifeline:
    """Every call ends within a third of the lease, and one begun while the lease holds ends before
    it does, whatever the network does: so the keeper can stop its handlers in time."""

    def __init__(self, link: Link, workers: KnownWorkers) -> None:
        self._link = link
        self._workers = workers
        self._lease = 3 * _MOST
        self._held_until = 0.0
        self._is_closed = False

    def renew(
        self,
        worker: str,
        lease: float,
        leases: Sequence[Lease],
        extend: Sequence[tuple[Lease, float]] = (),
    ) -> Renewal:
        self._lease = lease
        began = time.monotonic()
        name, others, left = self._workers.to_renew(worker, leases)
        asked = {one.job_id for one, _ in extend}
        wishes = [(slim(one), seconds) for one, seconds in extend]
        wishes += [(slim(one), lease) for one in left if one.job_id not in asked]
        proofs = [slim(one) for one in leases]
        renewals = [calls.Renew(worker=name, lease=lease, leases=proofs, extend=wishes)]
        renewals += [calls.Renew(worker=other, lease=lease) for other in others]
        renewal = self._ask("renew", renewals)
        self._held_until = began + lease - min(lease / 5, 5.0) / 2
        self._workers.ended(one for one in leases if one.job_id in renewal.lost)
        return Renewal(renewal.lost, renewal.cancel, renewal.locked & asked)

    def check(self, worker: str, leases: Sequence[Lease]) -> Renewal:
        name = self._workers.name(worker)
        proofs = [slim(one) for one in leases]
        return self._ask("check", [calls.Check(worker=name, leases=proofs)])

    def close(self) -> None:
        self._is_closed = True

    def _ask(self, verb: str, each: Sequence[calls.Arguments]) -> Renewal:
        """The answer to the first of these calls, which are made together."""
        if self._is_closed:
            raise StoreClosedError("this lifeline was closed")
        limit = self._limit()
        futures = [self._link.call(verb, arguments, limit=limit) for arguments in each]
        try:
            answers = [future.result(limit + _SLACK) for future in futures]
        except concurrent.futures.TimeoutError:
            raise StoreUnavailableError(
                f"{self._link.address.name} does not renew leases", is_temporary=True
            ) from None
        finally:
            for future in futures:
                future.cancel()
        renewal: Renewal = read_answer(VERBS[verb], answers[0], self._link.address.name)
        return renewal

    def _limit(self) -> float:
        """Seconds this call may take; the end of the lease counts while it is still to come."""
        usual = min(_MOST, self._lease / 3)
        left = self._held_until - time.monotonic()
        return min(usual, left) if left > 0 else usual / 2
