"""Adding jobs: `POST /v1/jobs`, one or many, all or none, under an idempotency key or without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from windlass.client.showing import ShownJob
from windlass.errors import ChainNotFoundError, ValidationError
from windlass.model import names
from windlass.model.job import Job
from windlass.server.idempotency import digest_of
from windlass.server.identity import Power
from windlass.server.rest.answers import Jobs
from windlass.server.rest.call import Call
from windlass.server.rest.preparing import MOST, blamed, keep, place_of, prepare, require_few
from windlass.server.rest.problems import Kind, Refused
from windlass.server.rest.reading import Either
from windlass.server.rest.routes import BULK, Answer, Nothing, Reply, Routes
from windlass.server.rest.specs import Spec
from windlass.server.visible import added as answered
from windlass.server.visible import require_own, seen_job
from windlass.store.records import NewJob
from windlass.store.server import Request

routes = Routes("jobs")

KEY = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"


class Specs(msgspec.Struct, forbid_unknown_fields=True):
    """Many jobs to add, all or none."""

    jobs: Annotated[
        list[Spec],
        Meta(
            min_length=1,
            description=f"The jobs, in order; {MOST:,} at most.",
            extra_json_schema={"maxItems": MOST},
        ),
    ]


@routes.post(
    "/v1/jobs",
    Power.ADD,
    body=Either(Spec, Specs, "jobs"),
    limit=BULK,
    answers={201: Answer(ShownJob | Jobs, "The job; or the jobs, in the order given.")},
    problems=(Kind.KEY_REUSED, Kind.GONE),
    headers=(KEY,),
)
async def add_jobs(call: Call[Nothing, Spec | Specs]) -> Reply:
    """Add one job, or many.

    The body is a job, or `{"jobs": […]}`; of many all are added or none. With an Idempotency-Key
    the same request may be sent again for 24 hours: it is answered with the same jobs, as they are
    then. Two jobs of one call with the same key: the last one wins.
    """
    body = call.body
    specs = body.jobs if isinstance(body, Specs) else [body]
    of = "jobs" if isinstance(body, Specs) else None
    require_few(specs, "jobs")
    new = await _prepared(call, specs, of)
    try:
        added, is_new = await _add(call, new)
    except ChainNotFoundError as error:
        raise Refused(Kind.INVALID, str(error), field="blockers") from None
    headers = {} if is_new else {REPLAYED: "true"}
    if isinstance(body, Specs):
        return Reply(Jobs(added), 201, headers)
    return Reply(await call.shown(added[0]), 201, headers)


async def _prepared(
    call: Call[Nothing, Spec | Specs], specs: Sequence[Spec], of: str | None
) -> list[NewJob]:
    new: list[NewJob] = []
    for number, spec in enumerate(specs):
        try:
            new += await prepare(call, [spec.job()])
        except ValidationError as error:
            raise blamed(error, place_of(number, of)) from None
    return new


async def _add(call: Call[Nothing, Spec | Specs], new: list[NewJob]) -> tuple[list[Job], bool]:
    """The jobs, and whether this request added them."""
    key = _key(call)
    digest = "" if key is None else digest_of(new)
    keep(call.service, new)
    store = call.service.store
    await require_own(call.identity, store, new)
    if key is None:
        return answered(call.identity, new, await store.enqueue(new)), True
    [answer] = await store.enqueue_once([Request(key, digest, tuple(new))])
    if answer.is_conflict:
        raise Refused(
            Kind.KEY_REUSED,
            "another request was sent with this key in the last 24 hours; use a key of its own for"
            " each request",
            field=KEY,
        )
    there = [job for job in answer.jobs if job is not None]
    if len(there) < len(answer.ids):
        named = ", ".join(map(str, answer.ids[:10]))
        raise Refused(
            Kind.GONE,
            f"the request with this key was served before; of its jobs ({named}) some are not"
            " stored any more: they were deleted, or finished and were not kept",
            field=KEY,
        )
    if answer.is_new:
        return answered(call.identity, new, there), True
    return [seen_job(call.identity, job) for job in there], False


def _key(call: Call[Nothing, Spec | Specs]) -> str | None:
    """The request's key, if it has one. A header is bytes; keys are text."""
    text = call.request.headers.get(KEY)
    if text is None:
        return None
    try:
        return names.check_one_key(text.encode("latin-1").decode())
    except (ValidationError, UnicodeError) as error:
        raise Refused(Kind.INVALID, str(error), field=KEY) from None
