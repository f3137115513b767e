"""Chains: start them, look at them, and what operators do with them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from windlass.errors import ChainNotFoundError, ValidationError
from windlass.model.chain import Chain, ChainState, Next
from windlass.model.job import JobSpec
from windlass.server.identity import Power
from windlass.server.pages import page
from windlass.server.rest.adding import KEY
from windlass.server.rest.answers import Chains
from windlass.server.rest.call import Call
from windlass.server.rest.preparing import MOST, blamed, check_address, keep, place_of, require_few
from windlass.server.rest.problems import Kind, Refused
from windlass.server.rest.reading import Either
from windlass.server.rest.routes import BULK, Answer, Nothing, Reply, Routes
from windlass.server.rest.specs import ChainSpec, NextSpec, Task
from windlass.server.visible import require_own, seen_chain
from windlass.server.visible import started as answered
from windlass.store.records import NewChain

routes = Routes("chains")

AnyChain = Chain[Any]
_ONE = {200: Answer(AnyChain, "The chain as it is now.")}


class ChainSpecs(msgspec.Struct, forbid_unknown_fields=True):
    """Many chains to start, all or none."""

    chains: Annotated[
        list[ChainSpec],
        Meta(
            min_length=1,
            description=f"The chains, in order; {MOST:,} at most.",
            extra_json_schema={"maxItems": MOST},
        ),
    ]


class ChainPage(msgspec.Struct, forbid_unknown_fields=True):
    """Which chains to list; what is left out does not matter."""

    state: Annotated[
        ChainState | list[ChainState] | None,
        Meta(description="Chains in this state, or in one of these."),
    ] = None
    task: Annotated[Task | None, Meta(description="Chains whose first job is of this task.")] = None
    limit: Annotated[int, Meta(ge=1, le=10_000, description="The most chains of one page.")] = 50
    after: Annotated[
        Annotated[int, Meta(ge=0, le=2**63 - 1)] | None,
        Meta(description="The last id of the page before: `next` of its answer."),
    ] = None


class Completion(msgspec.Struct, forbid_unknown_fields=True):
    """How a chain's current job is completed by hand."""

    output: Annotated[
        Any, Meta(description="The chain's output, any JSON.", examples=[{"approved": True}])
    ] = None
    then: Annotated[
        NextSpec | None, Meta(description="Instead of an output: the job it goes on with.")
    ] = None


class Cascade(msgspec.Struct, forbid_unknown_fields=True):
    """How far a chain is deleted."""

    cascade: Annotated[
        bool, Meta(description="Delete the chains that its jobs named as blockers, too.")
    ] = False


@routes.post(
    "/v1/chains",
    Power.ADD,
    body=Either(ChainSpec, ChainSpecs, "chains"),
    limit=BULK,
    answers={
        201: Answer(AnyChain | Chains, "The chain; or the chains, in the order given."),
        200: Answer(AnyChain, "The open chain that has the key: nothing was started."),
    },
)
async def start_chains(call: Call[Nothing, ChainSpec | ChainSpecs]) -> Reply:
    """Start one chain, or many.

    The body is the first job of a chain, or `{"chains": […]}`; of many all are started or none.
    A `key` is the chain's: where an open chain has it, that one is the answer, `deduplicated`.
    """
    if KEY in call.request.headers:
        raise Refused(Kind.INVALID, "chains are told apart by `key`; give that", field=KEY)
    body = call.body
    specs = body.chains if isinstance(body, ChainSpecs) else [body]
    of = "chains" if isinstance(body, ChainSpecs) else None
    require_few(specs, "chains")
    new: list[NewChain] = []
    for number, spec in enumerate(specs):
        try:
            new += await call.own.prepare_chains([spec.job()])
            check_address(call.service, new[-1].job)
        except ValidationError as error:
            raise blamed(error, place_of(number, of)) from None
    keep(call.service, [chain.job for chain in new])
    try:
        await require_own(call.identity, call.service.store, [chain.job for chain in new])
        started = answered(call.identity, await call.service.store.start_chains(new))
    except ChainNotFoundError as error:
        raise Refused(Kind.INVALID, str(error), field="blockers") from None
    if isinstance(body, ChainSpecs):
        return Reply(Chains(started), 201)
    return Reply(started[0], 200 if started[0].deduplicated else 201)


@routes.get(
    "/v1/chains",
    Power.READ,
    query=ChainPage,
    answers={200: Answer(Chains, "A page, the newest first.")},
)
async def list_chains(call: Call[ChainPage, None]) -> Chains:
    """List chains, a page at a time.

    The newest come first. A worker's token for some tasks sees the chains whose first jobs are of
    these, and needs `task`.
    """
    query = call.query
    if query.task is None:
        call.require_all_tasks("chains, unless `task` names one,")
    elif not call.may_read(query.task):
        return Chains([])

    async def some(after: int | None, limit: int) -> list[AnyChain]:
        words = {**msgspec.structs.asdict(query), "after": after, "limit": limit}
        return await call.seen.list_chains(**words)

    found, more = await page(some, query.after, query.limit)
    return Chains([seen_chain(call.identity, chain) for chain in found], more)


@routes.get("/v1/chains/{id}", Power.READ, answers=_ONE, problems=(Kind.NOT_FOUND,))
async def get_chain(call: Call[Nothing, None]) -> AnyChain:
    """Get a chain with its current job."""
    chain = await call.seen.get_chain(call.id)
    if chain is None or not call.may_read(chain.task):
        raise ChainNotFoundError([call.id])
    return seen_chain(call.identity, chain)


@routes.post(
    "/v1/chains/{id}/complete",
    Power.OPERATE,
    body=Completion,
    answers=_ONE,
    problems=(Kind.NOT_FOUND, Kind.CONFLICT),
)
async def complete_chain(call: Call[Nothing, Completion]) -> AnyChain:
    """Complete the current job of a chain without a worker.

    The chain completes with `output`, or goes on with another job, `then`. A worker that runs the
    job is told, and its answer is lost.
    """
    body = call.body
    if body.then is None:
        return await call.seen.complete_chain(call.id, body.output)
    if body.output is not None:
        raise Refused(Kind.INVALID, "give an output or then, not both", field="then")
    spec: JobSpec = body.then.job()
    said = {name: getattr(spec, name) for name in Next.__struct_fields__}
    new, _ = call.own.prepare_next(spec)
    check_address(call.service, new)
    return await call.seen.complete_chain(call.id, then=Next(**said))


@routes.post(
    "/v1/chains/{id}/cancel", Power.OPERATE, answers=_ONE, problems=(Kind.NOT_FOUND, Kind.CONFLICT)
)
async def cancel_chain(call: Call[Nothing, Nothing]) -> AnyChain:
    """Cancel the current job of a chain; one that runs is told to stop."""
    return (await call.seen.cancel_chains([call.id]))[0]


@routes.post(
    "/v1/chains/{id}/retry", Power.OPERATE, answers=_ONE, problems=(Kind.NOT_FOUND, Kind.CONFLICT)
)
async def retry_chain(call: Call[Nothing, Nothing]) -> AnyChain:
    """Run the failed or cancelled job of a chain again."""
    opened = await call.seen.retry_chains([call.id])
    if not opened:
        raise Refused(
            Kind.CONFLICT, f"chain {call.id} has not failed and is not cancelled; nothing to retry"
        )
    return opened[0]


@routes.delete(
    "/v1/chains/{id}",
    Power.OPERATE,
    query=Cascade,
    answers={200: Answer(Chains, "The chains that were deleted, as they were.")},
    problems=(Kind.NOT_FOUND, Kind.CONFLICT),
)
async def delete_chain(call: Call[Cascade, None]) -> Chains:
    """Delete a chain with its jobs.

    Refused where an open job of another chain waits for it. The answer is a list, since `cascade`
    deletes others along with it.
    """
    deleted = await call.seen.delete_chains([call.id], call.query.cascade)
    if not deleted:
        raise ChainNotFoundError([call.id])
    return Chains(deleted)
