"""Renewing leases of claims, from one thread, on a connection that nothing else uses.

Each lease that is presented gets an end of its own in the store, whatever becomes of the claim it
came from: a client that renews one job of ten keeps that one alone.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import msgspec

from windlass.errors import StoreBusyError, StoreError
from windlass.store.port import Lifeline, WorkStore
from windlass.store.records import Lease, LostReason, Renewal

_MOST = 1_000
_LEAST_LEASE = 2.0
"""A lifeline answers within a third of the lease that it was last asked for, or gives up."""
_LAST_WRITE = 2.0
"""Seconds for the store to forget who renewed: it has no jobs, and its lease ends anyway."""
_PAUSE = 0.05
_TRIES = 20
"""How often a job that an open transaction has locked is asked for."""

Claim = tuple[int, int]
"""A job and the token of one delivery."""


class Told(msgspec.Struct, frozen=True):
    """Why a lease is no longer held, if it is not, and whether its job should stop."""

    lost: LostReason | None
    should_stop: bool


class Renewals:
    """The lifeline of one process's claims; opened when it is first needed."""

    def __init__(self, store: WorkStore, lease: float) -> None:
        """`lease` is that of the worker which renews; the store needs to know one."""
        self._store = store
        self._lease = max(lease, _LEAST_LEASE)
        self._worker = f"rest-renewals-{secrets.token_hex(8)}"
        self._thread: ThreadPoolExecutor | None = None
        self._lifeline: Lifeline | None = None

    async def renew(self, leases: Sequence[Lease], seconds: float) -> dict[Claim, Told]:
        """Move the ends of these leases `seconds` from now, if they are held."""
        if not leases:
            return {}
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="windlass-rest-renewals")
        loop = asyncio.get_running_loop()
        told: dict[Claim, Told] = {}
        for part in _apart(leases):
            left = part
            for _ in range(_TRIES):
                renewal = await loop.run_in_executor(self._thread, self._renew, left, seconds)
                locked = [lease for lease in left if lease.job_id in renewal.locked]
                told |= {_claim(lease): _told(lease, renewal) for lease in left}
                if not locked:
                    break
                left = locked
                await asyncio.sleep(_PAUSE)
            else:
                raise StoreBusyError("other transactions hold jobs whose leases are to be renewed")
        return told

    def _renew(self, leases: list[Lease], seconds: float) -> Renewal:
        """In the thread."""
        if self._lifeline is None:
            self._lifeline = self._store.lifeline()
        extend = [(lease, seconds) for lease in leases]
        return self._lifeline.renew(self._worker, self._lease, leases, extend)

    async def close(self) -> None:
        if self._thread is None:
            return
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._close)
        self._thread.shutdown()
        self._thread = None
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(_LAST_WRITE):
                await self._store.retire(self._worker)

    def _close(self) -> None:
        if self._lifeline is not None:
            self._lifeline.close()
            self._lifeline = None


def _claim(lease: Lease) -> Claim:
    return lease.job_id, lease.token


def _told(lease: Lease, renewal: Renewal) -> Told:
    return Told(renewal.lost.get(lease.job_id), lease.job_id in renewal.cancel)


def _apart(leases: Sequence[Lease]) -> Iterator[list[Lease]]:
    """Parts in which no job comes twice: the store names what it tells by job."""
    part: dict[int, Lease] = {}
    for lease in leases:
        known = part.get(lease.job_id)
        if known is not None and known.token == lease.token:
            continue
        if known is not None or len(part) == _MOST:
            yield list(part.values())
            part = {}
        part[lease.job_id] = lease
    if part:
        yield list(part.values())
