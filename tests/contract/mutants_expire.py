"""Stores that take single deliveries back wrongly, each in one named way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.contract.mutant import killed_by
from windlass.model.job import JobState
from windlass.store.records import RELEASE, ClaimRequest, Lease, Row, Settled, Verdict
from windlass.stores.memory import MemoryStore


@killed_by(
    "expire.the_job_is_ready_again_and_suspect",
    "expire.at_the_reset_limit_the_job_fails",
    "expire.the_next_of_its_queue_waits_for_it",
)
class AnExpiredDeliveryMakesNoSuspect(MemoryStore):
    async def expire(self, leases: Sequence[Lease], max_resets: int) -> list[Settled]:
        return await self.settle([(lease, RELEASE) for lease in leases])


@killed_by("expire.only_the_delivery_that_owns_the_job")
class ExpireIgnoresTheToken(MemoryStore):
    async def expire(self, leases: Sequence[Lease], max_resets: int) -> list[Settled]:
        for lease in leases:
            row = self._rows.get(lease.job_id)
            lease.token = lease.token if row is None or row.token is None else row.token
        return await super().expire(leases, max_resets)


@killed_by("expire.others_of_that_worker_stay", "expire.some_of_many")
class ExpireTakesAllFromTheWorker(MemoryStore):
    async def expire(self, leases: Sequence[Lease], max_resets: int) -> list[Settled]:
        workers = {lease.worker for lease in leases}
        answers = await super().expire(leases, max_resets)
        rows = [row for row in self._rows.values() if row.worker in workers]
        self._take_back(rows, max_resets, self._clock.now())
        return answers


@killed_by("expire.some_of_many")
class ExpireTakesOneInACall(MemoryStore):
    async def expire(self, leases: Sequence[Lease], max_resets: int) -> list[Settled]:
        return await super().expire(leases[:1], max_resets)


@killed_by("expire.at_the_reset_limit_the_job_fails")
class ExpireIgnoresTheResetLimit(MemoryStore):
    async def expire(self, leases: Sequence[Lease], max_resets: int) -> list[Settled]:
        return await super().expire(leases, 10**6)


@killed_by("expire.none_of_none")
class NoDeliveriesAreAnsweredAsMissing(MemoryStore):
    async def expire(self, leases: Sequence[Lease], max_resets: int) -> list[Settled]:
        return await super().expire(leases, max_resets) or [Settled(Verdict.MISSING)]


@killed_by("expire.a_cancelled_or_replaced_job_ends")
class AnExpiredDeliveryIsAlwaysReadyAgain(MemoryStore):
    async def expire(self, leases: Sequence[Lease], max_resets: int) -> list[Settled]:
        for lease in leases:
            row = self._rows[lease.job_id]
            row.cancel_requested = row.superseded = 0
        return await super().expire(leases, max_resets)


@killed_by("expire.the_next_of_its_queue_waits_for_it")
class AQueueGoesOnWithoutItsExpiredJob(MemoryStore):
    def _claimable(self, request: ClaimRequest) -> Iterable[Row]:
        for row in super()._claimable(request):
            if request.suspects or not row.suspect:
                yield row


@killed_by("expire.the_job_is_ready_again_and_suspect")
class AnExpiredDeliveryFailsItsJob(MemoryStore):
    async def expire(self, leases: Sequence[Lease], max_resets: int) -> list[Settled]:
        answers = await super().expire(leases, max_resets)
        for lease in leases:
            if lease.job_id in self._rows:
                self._rows[lease.job_id].state = JobState.FAILED
        return answers
