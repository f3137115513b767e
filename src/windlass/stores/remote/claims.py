"""Claims, and what becomes of the jobs when an answer is lost or its caller goes away.

* An answer that is lost turns the worker to another name (`workers`), and ends the lease of the old
  one, so that what the claim took is taken back.
* If the caller is cancelled the call goes on, and what it took is handed back.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from concurrent.futures import CancelledError, Future

import msgspec

from windlass.errors import OutcomeUnknownError, StoreClosedError, StoreError, WindlassError
from windlass.store.records import RELEASE, ClaimRequest, Lease, Renewal
from windlass.stores.remote.call import read_answer, until_over
from windlass.stores.remote.link import Link
from windlass.stores.remote.workers import KnownWorkers
from windlass.wire import calls
from windlass.wire.calls import VERBS, Held, ended, slim

_CLAIM = VERBS["claim"]
_RENEW = VERBS["renew"]
_LONGEST_PAUSE = 2.0
AGAIN = 1.0
"""Seconds after which the lease of an old name is ended once more: a renewal of it may have been on
its way."""


class Claims:
    """On one link."""

    def __init__(self, link: Link, workers: KnownWorkers) -> None:
        self._link = link
        self._workers = workers
        self._under_way: dict[Future[bytes], str] = {}

    async def claim(self, request: ClaimRequest) -> list[Lease]:
        base = request.worker
        name = self._workers.name(base)
        wanted = msgspec.structs.replace(request, worker=name)
        call = self._link.call("claim", calls.Claim(request=wanted))
        self._under_way[call] = base
        call.add_done_callback(lambda done: self._under_way.pop(done, None))
        try:
            leases = self._read(await asyncio.shield(asyncio.wrap_future(call)))
        except asyncio.CancelledError:
            call.add_done_callback(lambda done: self._hand_back(done, request, name))
            raise
        except OutcomeUnknownError:
            self._lost(request, name)
            raise
        self._workers.took(base, leases)
        if self._workers.name(base) != name:
            # Another claim was lost meanwhile, and with it the lease of this name.
            await self._keep(base, name, request.lease)
        return list(leases)

    async def ended(self, base: str) -> None:
        """Return when no claim of this worker is under way, also none whose caller is gone."""
        while left := [call for call, worker in tuple(self._under_way.items()) if worker == base]:
            await until_over(left[0])

    def _hand_back(self, done: Future[bytes], request: ClaimRequest, name: str) -> None:
        """In the link's thread: no slot will run these."""
        try:
            released = [ended(lease, RELEASE) for lease in self._read(done.result())]
        except (CancelledError, OutcomeUnknownError):
            self._lost(request, name)
        except WindlassError:
            return  # it took nothing
        else:
            if released:
                with contextlib.suppress(StoreError):
                    self._link.call("settle", calls.Settle(settlements=released))

    def _read(self, answer: bytes) -> list[Held]:
        leases: list[Held] = read_answer(_CLAIM, answer, self._link.address.name)
        return leases

    # ── lost answers ──

    def _lost(self, request: ClaimRequest, name: str) -> None:
        self._workers.lost(request.worker, name)
        with contextlib.suppress(StoreClosedError):
            self._link.spawn(lambda: self._leave(request.worker, name, request.lease))

    async def _leave(self, base: str, name: str, lease: float) -> None:
        """Keep what is known to be held under this name, and end the lease of the rest."""
        tries = 0
        while self._workers.knows(base):
            try:
                if await self._keep(base, name, lease):
                    self._workers.end(base, name)
                    await self._renew(calls.Renew(worker=name, lease=0.0))
                    await asyncio.sleep(AGAIN)
                    await self._renew(calls.Renew(worker=name, lease=0.0))
                    return
            except StoreClosedError:
                return
            except StoreError:  # the keeper tells of an outage; this waits for its end
                pass
            tries += 1
            await asyncio.sleep(min(_LONGEST_PAUSE, 0.1 * 2.0**tries) * random.uniform(0.5, 1.0))  # noqa: S311

    async def _keep(self, base: str, name: str, lease: float) -> bool:
        """Give what is held under this name leases of its own; whether all of it has them."""
        leases = self._workers.under(base, [name])
        if not leases:
            return True
        proofs = [slim(each) for each in leases]
        extend = [(proof, lease) for proof in proofs]
        asked = calls.Renew(worker=name, lease=lease, leases=proofs, extend=extend)
        renewal = await self._renew(asked)
        self._workers.ended(each for each in leases if each.job_id in renewal.lost)
        return not renewal.locked

    async def _renew(self, asked: calls.Renew) -> Renewal:
        answer = await asyncio.wrap_future(self._link.call("renew", asked))
        renewal: Renewal = read_answer(_RENEW, answer, self._link.address.name)
        return renewal
