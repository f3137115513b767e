"""Claims: a worker without a stream takes jobs, settles them and renews its leases.

Each call that claims is a worker of the store by itself, and its jobs are its own until the lease
ends. A client holds *leases*: opaque text that proves them on every server of the database. One
that was made for another tenant, or for a task that the token may not claim, is as if its job did
not exist.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from windlass.client.showing import ShownJob, shown, with_blockers
from windlass.server.identity import Power, claimable
from windlass.server.pages import that_fit
from windlass.server.rest.call import Call
from windlass.server.rest.gone import Caller, until
from windlass.server.rest.jobs import LONGEST_WAIT
from windlass.server.rest.problems import Gone, Kind, Refused
from windlass.server.rest.routes import Answer, Nothing, Routes
from windlass.server.rest.specs import Task
from windlass.server.rest.tickets import LeaseText, ticket
from windlass.server.streams.dispatcher import Want
from windlass.server.streams.readies import worker_name
from windlass.store.records import RELEASE, ClaimRequest, Lease, decode_blockers
from windlass.store.server import ClaimScope

routes = Routes("claims")

MOST_CLAIMED = 1_000
LONGEST_LEASE = 86_400.0

LeaseSeconds = Annotated[
    Annotated[float, Meta(ge=1, le=LONGEST_LEASE)] | None,
    Meta(description="Seconds for which they are yours; the server's setting by default."),
]


class ClaimCall(msgspec.Struct, forbid_unknown_fields=True):
    """Which jobs to claim, how many and for how long."""

    tasks: Annotated[
        Annotated[list[Task], Meta(max_length=1_000)] | None,
        Meta(
            description="Of these tasks; of all that the token allows where none is named.",
            examples=[["welcome"]],
        ),
    ] = None
    count: Annotated[
        int, Meta(ge=1, le=MOST_CLAIMED, description="The most jobs of this call.", examples=[10])
    ] = 1
    lease: LeaseSeconds = None
    wait: Annotated[
        float,
        Meta(ge=0, le=LONGEST_WAIT, description="Seconds to wait while there is none."),
    ] = 0.0


class Claim(msgspec.Struct):
    """A job that is yours until its lease ends."""

    lease: Annotated[LeaseText, Meta(description="Proves the claim: settle and renew by it.")]
    job: ShownJob


class Claims(msgspec.Struct):
    """What was claimed."""

    claims: Annotated[
        list[Claim], Meta(description="In the order in which to run them; none after the wait.")
    ]


@routes.post(
    "/v1/claims",
    Power.CLAIM,
    body=ClaimCall,
    answers={200: Answer(Claims, "What was claimed, at once or within the wait; or nothing.")},
    problems=(Kind.UNAVAILABLE,),
)
async def claim_jobs(call: Call[Nothing, ClaimCall]) -> Claims:
    """Claim jobs to work on.

    The answer comes as soon as there is one job, and has those that are ready then. Settle each
    before its lease ends, or renew it: else it goes to another worker. Where the caller goes away
    before it is answered, nothing is claimed for it.
    """
    if call.service.draining.is_set():
        raise Refused(
            Kind.UNAVAILABLE,
            "this server stops and hands out no more jobs; ask again, another one will answer",
            headers={"Retry-After": "1"},
        )
    seconds = call.body.lease or call.service.app.settings.lease
    want = _Wanted(call, _scope(call), seconds)
    async with call.caller as caller:
        leases = await want.claim(caller)
        try:
            count = that_fit(leases)
            leases, too_many = leases[:count], leases[count:]
            if too_many:
                await want.release(too_many)
            jobs = [await _job(call, lease) for lease in leases]
            if leases and await caller.is_gone():
                raise Gone
        except BaseException:
            await want.release(leases)
            raise
    deliveries = call.service.deliveries
    tickets = [ticket(deliveries.seal(lease)) for lease in leases]
    return Claims([Claim(lease, job) for lease, job in zip(tickets, jobs, strict=True)])


def _scope(call: Call[Nothing, ClaimCall]) -> ClaimScope:
    """What the caller asks for, cut to what its token allows."""
    tasks = claimable(call.identity, call.body.tasks or None)
    if tasks == ():
        raise Refused(Kind.FORBIDDEN, "the token allows none of these tasks", field="tasks")
    return ClaimScope(tasks, None if call.sees is None else (call.sees,))


async def _job(call: Call[Nothing, ClaimCall], lease: Lease) -> ShownJob:
    """The job with the chains that it waited for, which a lease carries unless they are long."""
    job = lease.job
    if lease.blockers is None:
        return await with_blockers(call.seen, job)
    return shown(job, decode_blockers(lease.blockers))


class _Wanted:
    """The jobs that one call waits for."""

    def __init__(self, call: Call[Nothing, ClaimCall], scope: ClaimScope, seconds: float) -> None:
        self._service = call.service
        self._scope = scope
        self._seconds = seconds
        self._count = call.body.count
        self._wait = call.body.wait
        self._worker = worker_name(f"rest-{call.identity.name}")

    async def claim(self, caller: Caller) -> list[Lease]:
        """What there is, or what comes within the wait."""
        leases = await self._claim_now()
        return leases if leases or not self._wait else await self._wait_for(caller)

    async def _claim_now(self) -> list[Lease]:
        """A look costs no write, so callers who find nothing leave nothing behind."""
        store = self._service.store
        if not (await store.claimable([self._scope]))[0]:
            return []
        request = ClaimRequest(
            worker=self._worker,
            tasks=self._scope.tasks,
            tenants=self._scope.tenants,
            limit=self._count,
            suspects=1,
            lease=self._seconds,
            past_heads=True,
        )
        claiming = asyncio.ensure_future(store.claim(request))
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            await self.release(await claiming)
            raise

    async def _wait_for(self, caller: Caller) -> list[Lease]:
        """Let the dispatcher claim, together with all who want the same. What it claims for a want
        that is gone it hands back itself."""
        given: asyncio.Future[list[Lease]] = asyncio.get_running_loop().create_future()
        want = Want(
            scope=self._scope,
            worker=self._worker,
            lease=self._seconds,
            count=self._count,
            give=given.set_result,
            can_take=lambda: not given.done(),
        )
        dispatcher = self._service.dispatcher
        dispatcher.add(want)
        try:
            await caller.wait(until(given, self._wait, self._service.draining))
        except BaseException:
            dispatcher.remove(want)
            if given.done():
                await self.release(given.result())
            raise
        dispatcher.remove(want)
        return given.result() if given.done() else []

    async def release(self, leases: Sequence[Lease]) -> None:
        """Hand back what cannot be given to the caller: ready at once, no attempt used."""
        await self._service.settlements.settle_all([(lease, RELEASE) for lease in leases])
