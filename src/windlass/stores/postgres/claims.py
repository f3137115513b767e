"""The claim protocol: where a claim starts, when it asks again, and what becomes of its jobs when
its caller goes away or its answer is lost.

* Each call gives its jobs tokens made from a random number, its *base*. If the answer is lost, the
  worker's next claim asks what was taken under that base, before it takes more.
* If the caller is cancelled, the call goes on, and what it took is handed back.
* One call answers a part of the bells only, behind a latch that another call may have. So an empty
  answer that says `is_more` is no sign that nothing is left, and the claim asks again.
* Where it starts is in `marks`; what is known of each worker is in `known_workers`.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable

from windlass.errors import OutcomeUnknownError, StoreError
from windlass.store.records import RELEASE, ClaimRequest, Lease
from windlass.stores.postgres.calls import Calls
from windlass.stores.postgres.known_workers import KnownWorker, KnownWorkers
from windlass.stores.postgres.marks import Start
from windlass.stores.postgres.settling import Settling
from windlass.stores.postgres.wire import CLAIM, Claimed, claim_values, decode_leases
from windlass.stores.postgres_connections.under_way import UnderWay

_MOST_REFUSALS = 20
_REFUSED_PAUSE = 0.002
"""How often a claim asks again without finding a job, and seconds in between."""

LEAST_BATCH = 20
"""From so many jobs on, one lease for all of them costs less than one for each."""


class Claims:
    """`hint` wakes the workers of this process."""

    def __init__(
        self, calls: Calls, workers: KnownWorkers, settling: Settling, hint: Callable[[], None]
    ) -> None:
        self._calls = calls
        self._workers = workers
        self._settling = settling
        self._hint = hint
        self._under_way = UnderWay()
        self.least_batch = LEAST_BATCH
        """How many jobs a claim must take to hold them by one lease."""

    async def claim(self, request: ClaimRequest) -> list[Lease]:
        worker = self._workers.claiming(request.worker)
        worker.serve(request.tenants)
        marks = worker.marks
        refusals = 0
        start = marks.start()
        while refusals < _MOST_REFUSALS:
            claimed = await self._claim_once(request, worker, start)
            if claimed.leases:
                if claimed.is_more and len(claimed.leases) < request.limit:
                    self._hint()  # what comes short for this reason is no sign that all is done
                return claimed.leases
            if claimed.is_more and claimed.next_bell > start.bell:
                # It has heard bells, and there are more. What it left there is for another look.
                start = start.after(claimed.next_bell, claimed.entries)
                continue
            if start.began is not None or marks.pause > 0.0:
                if not claimed.is_more:
                    break
                await asyncio.sleep(_REFUSED_PAUSE)
            refusals += 1
            start = marks.start()
        if start.began is None:
            # What lies before the marks is looked for soon, hint or no hint.
            asyncio.get_running_loop().call_later(marks.pause, self._hint)
        return []

    async def _claim_once(
        self, request: ClaimRequest, worker: KnownWorker, start: Start
    ) -> Claimed:
        base = secrets.randbits(62)
        call = asyncio.ensure_future(self._ask(request, base, worker.after, start))
        self._under_way.add(call, request.worker)
        try:
            claimed = await asyncio.shield(call)
        except asyncio.CancelledError:
            call.add_done_callback(lambda done: self._hand_back(done, base, request.worker))
            raise
        except OutcomeUnknownError:
            self._workers.add_unresolved(request.worker, base)
            raise
        if claimed.is_batch:
            self._workers.begin_batch(request.worker, base, claimed.leases)
        worker.after = claimed.next_after
        worker.marks.learn(
            request, claimed.leases, start, bell=claimed.next_bell, entries=claimed.entries
        )
        return claimed

    async def _ask(self, request: ClaimRequest, base: int, after: str, start: Start) -> Claimed:
        ended = self._workers.ended_batches()
        values = claim_values(
            request,
            base,
            after=after,
            start=start,
            least_batch=self.least_batch,
            ended=ended,
            now=self._calls.now,
        )
        claimed = Claimed.decode(await self._calls.texts(CLAIM, values, changes=True))
        self._workers.forget_batches(ended)
        return claimed

    def _hand_back(self, call: asyncio.Future[Claimed], base: int, worker: str) -> None:
        """Release the jobs of a claim whose caller was cancelled: no slot will run them."""
        if call.cancelled() or call.exception() is not None or not self._calls.is_open:
            return
        if leases := call.result().leases:
            self._workers.begin_batch(worker, base, leases)
            released = [(lease, RELEASE) for lease in leases]
            with contextlib.suppress(StoreError):
                handing = self._calls.threads.submit(self._settling.settle_now, released)
                self._under_way.add(handing, worker)

    async def resolve(self, worker: str, lease: float) -> list[Lease]:
        """What claims of this worker took whose answers were lost. They are asked about until there
        is an answer, which is final: a claim that has not happened by then cannot any more."""
        bases = list(self._workers.claiming(worker).unresolved)
        if not bases:
            return []
        [text] = await self._calls.row(
            "SELECT {schema}._claimed(%s, %s::float8, %s::bigint[], %s)",
            worker,
            lease,
            bases,
            self._calls.now,
        )
        leases = [] if text is None else decode_leases(text)
        for base in bases:
            taken = [held for held in leases if held.token - held.job_id == base]
            self._workers.resolve(worker, base, taken)
        return leases

    async def ended(self, worker: str) -> None:
        """Return when no call is made for this worker, also none whose caller was cancelled."""
        await self._under_way.ended(worker)
