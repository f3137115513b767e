"""The verbs of workers: a caller's own workers, and its own leases."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue

from msgspec.structs import replace

from windlass.errors import ValidationError
from windlass.server.calls.desk import Desk, Given
from windlass.server.calls.refusals import Stopping
from windlass.server.pages import that_fit
from windlass.server.visible import require_own
from windlass.store.port import Lifeline, WorkStore
from windlass.store.records import (
    COMPLETE,
    RELEASE,
    ClaimRequest,
    Complete,
    Lease,
    LostReason,
    NewJob,
    Outcome,
    Renewal,
    Settled,
    Verdict,
)
from windlass.wire import calls
from windlass.wire.calls import Held

MOST_CLAIMED = 20_000
LONGEST_LEASE = 86_400.0
LIFELINES = 4
"""Renewals that are made at a time, for all workers of this server."""
LEAST_LEASE = 2.0
"""A lifeline answers within a third of the lease that it was last asked for, or gives up: one that
many workers share is not asked for less. What a client gives up, by a lease of 0, ends then."""
_MISSING = Settled(Verdict.MISSING)


async def claim(desk: Desk, asked: calls.Claim) -> Given:
    if desk.is_draining():
        raise Stopping("the server is stopping, and hands out no job")
    caller, request = desk.caller, asked.request
    leases = await desk.store.claim(
        replace(
            request,
            worker=caller.worker(request.worker),
            tasks=caller.claims(request.tasks),
            tenants=caller.tenants(request.tenants),
            limit=min(max(request.limit, 0), MOST_CLAIMED),
            lease=_lease(request.lease),
            longer_leases=_longer(request),
        )
    )
    count = that_fit(leases)
    if left := leases[count:]:
        leases = leases[:count]
        await desk.store.settle([(lease, RELEASE) for lease in left])
    return Given([caller.hand_out(lease) for lease in leases], leases)


def _longer(request: ClaimRequest) -> dict[str, float]:
    return {task: _lease(seconds) for task, seconds in request.longer_leases.items()}


def _lease(seconds: float) -> float:
    """A lease of a worker; 0 ends it."""
    if not 0 <= seconds <= LONGEST_LEASE:
        raise ValidationError("lease must be between 0 seconds and a day", field="lease")
    return seconds


async def settle(desk: Desk, asked: calls.Settle) -> list[Settled]:
    known: list[tuple[Lease, Outcome]] = []
    places: list[int] = []
    answers = [_MISSING] * len(asked.settlements)
    for place, ended in enumerate(asked.settlements):
        lease = desk.caller.take_back(ended.lease)
        if lease is None:
            continue
        outcome = ended.outcome
        if outcome is not COMPLETE:  # which says nothing that could be wrong
            if isinstance(outcome, Complete):
                desk.checks.completion(outcome, desk.caller)
                await require_own(desk.caller.identity, desk.store, _added(outcome))
            try:
                outcome = desk.checks.outcome(outcome)
            except ValidationError as error:  # the others of this call are good nevertheless
                answers[place] = Settled(Verdict.REFUSED, reason=str(error))
                continue
        known.append((lease, outcome))
        places.append(place)
    if known:
        settled = await desk.writers.settlements.add(known)
        for place, answer in zip(places, settled, strict=True):
            answers[place] = answer
    return answers


def _added(outcome: Complete) -> list[NewJob]:
    """The jobs that a completion adds."""
    starts = [chain.job for chain in outcome.starts]
    return starts if outcome.next is None else [*starts, outcome.next]


async def note(desk: Desk, asked: calls.NoteOf) -> Verdict:
    desk.checks.note(asked.note)
    lease = desk.caller.take_back(asked.lease)
    return Verdict.MISSING if lease is None else await desk.store.note(lease, asked.note)


async def expire(desk: Desk, asked: calls.Expire) -> list[Settled]:
    taken = [desk.caller.take_back(lease) for lease in asked.leases]
    known = [lease for lease in taken if lease is not None]
    settled = iter(await desk.store.expire(known, asked.max_resets) if known else [])
    return [_MISSING if lease is None else next(settled) for lease in taken]


async def retire(desk: Desk, asked: calls.Retire) -> None:
    await desk.store.retire(desk.caller.worker(asked.worker))


class Renewals:
    """Renewals and checks, which a store answers on lifelines. A lifeline is used from one thread
    at a time and may block it, so these have threads of their own."""

    def __init__(self, store: WorkStore) -> None:
        self._store = store
        self._idle: SimpleQueue[Lifeline] = SimpleQueue()
        self._threads = ThreadPoolExecutor(LIFELINES, thread_name_prefix="windlass-renewals")

    async def renew(self, desk: Desk, asked: calls.Renew) -> Renewal:
        caller = desk.caller
        extend = [
            (lease, _lease(seconds))
            for given, seconds in asked.extend
            if (lease := caller.take_back(given)) is not None
        ]
        worker, seconds = caller.worker(asked.worker), max(_lease(asked.lease), LEAST_LEASE)
        leases, foreign = _sorted(desk, asked.leases)
        answer = await self._ask(lambda line: line.renew(worker, seconds, leases, extend))
        return _with(answer, foreign)

    async def check(self, desk: Desk, asked: calls.Check) -> Renewal:
        worker = desk.caller.worker(asked.worker)
        leases, foreign = _sorted(desk, asked.leases)
        return _with(await self._ask(lambda line: line.check(worker, leases)), foreign)

    async def _ask(self, ask: Callable[[Lifeline], Renewal]) -> Renewal:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._on_one, ask)

    def _on_one(self, ask: Callable[[Lifeline], Renewal]) -> Renewal:
        try:
            line = self._idle.get_nowait()
        except Empty:
            line = self._store.lifeline()
        try:
            return ask(line)
        finally:
            self._idle.put(line)

    def close(self) -> None:
        """Return when those under way are answered; it may block."""
        self._threads.shutdown(wait=True)
        while not self._idle.empty():
            self._idle.get_nowait().close()


def _sorted(desk: Desk, given: Sequence[Held]) -> tuple[list[Lease], list[int]]:
    """The leases that are this caller's, and the jobs of the others."""
    leases: list[Lease] = []
    foreign = []
    for each in given:
        lease = desk.caller.take_back(each)
        if lease is None:
            foreign.append(each.job_id)
        else:
            leases.append(lease)
    return leases, foreign


def _with(renewal: Renewal, foreign: Sequence[int]) -> Renewal:
    if not foreign:
        return renewal
    gone = dict.fromkeys(foreign, LostReason.NOT_FOUND)
    return replace(renewal, lost={**renewal.lost, **gone})


async def introduce(desk: Desk, asked: calls.Introduce) -> bool:
    caller = desk.caller
    return await desk.store.introduce(
        caller.worker(asked.worker),
        caller.claims(asked.tasks) or (),
        caller.tenants(asked.tenants),
    )


async def stranded(desk: Desk, asked: calls.Nothing) -> list[str]:
    """The store tells of all tenants together, so an admin alone hears of it."""
    return await desk.store.stranded() if desk.caller.is_admin else []
