"""Changing one job by its id or key: the verbs of operators."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from windlass.client.showing import ShownJob, with_blockers
from windlass.model.job import Job
from windlass.model.names import MAX_INT32
from windlass.server.identity import Power
from windlass.server.rest.call import Call
from windlass.server.rest.jobs import no_job, wrong_state
from windlass.server.rest.problems import Kind, Refused
from windlass.server.rest.routes import Answer, Nothing, Routes
from windlass.server.rest.specs import Key, MaxAttempts, Priority, RunAt

routes = Routes("jobs")

_CHANGED = {200: Answer(ShownJob, "The job as it is now.")}


class Reason(msgspec.Struct, forbid_unknown_fields=True):
    """Why a job is failed by hand."""

    reason: Annotated[str, Meta(max_length=16_384, description="Its last error.")] = (
        "Manually marked as failed"
    )


class Reschedule(msgspec.Struct, forbid_unknown_fields=True):
    """When and how a job runs; what is left out stays as it is."""

    run_at: RunAt = None
    priority: Priority = None
    attempts: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_INT32)] | None,
        Meta(description="Attempts used so far; given, it opens a failed job again."),
    ] = None
    max_attempts: MaxAttempts = None


class ByKey(msgspec.Struct, forbid_unknown_fields=True):
    """The job that is meant."""

    key: Annotated[Key, Meta(description="The job's key.")]


@routes.post(
    "/v1/jobs/{id}/cancel",
    Power.OPERATE,
    answers=_CHANGED,
    problems=(Kind.NOT_FOUND, Kind.CONFLICT),
)
async def cancel_job(call: Call[Nothing, Nothing]) -> ShownJob:
    """Cancel a job.

    One that waits is cancelled; one that runs is told to stop, and is cancelled when it does.
    """
    return await _change(call, "cancel", call.seen.cancel_jobs)


@routes.post(
    "/v1/jobs/{id}/retry", Power.OPERATE, answers=_CHANGED, problems=(Kind.NOT_FOUND, Kind.CONFLICT)
)
async def retry_job(call: Call[Nothing, Nothing]) -> ShownJob:
    """Run a failed, cancelled or scheduled job now, with all its attempts."""
    return await _change(call, "retry", call.seen.retry_jobs)


@routes.post(
    "/v1/jobs/{id}/complete",
    Power.OPERATE,
    answers=_CHANGED,
    problems=(Kind.NOT_FOUND, Kind.CONFLICT),
)
async def complete_job(call: Call[Nothing, Nothing]) -> ShownJob:
    """Mark a job as completed without running it."""
    return await _change(call, "complete", call.seen.complete_jobs)


@routes.post(
    "/v1/jobs/{id}/fail",
    Power.OPERATE,
    body=Reason,
    answers=_CHANGED,
    problems=(Kind.NOT_FOUND, Kind.CONFLICT),
)
async def fail_job(call: Call[Nothing, Reason]) -> ShownJob:
    """Mark a job as failed for good."""

    async def fail(ids: list[int]) -> list[Job]:
        return await call.seen.permanently_fail_jobs(ids, call.body.reason)

    return await _change(call, "fail", fail)


@routes.post(
    "/v1/jobs/{id}/reschedule",
    Power.OPERATE,
    body=Reschedule,
    answers=_CHANGED,
    problems=(Kind.NOT_FOUND, Kind.CONFLICT),
)
async def reschedule_job(call: Call[Nothing, Reschedule]) -> ShownJob:
    """Change when and how a job runs.

    A failed job stays failed unless `attempts` is given.
    """

    async def reschedule(ids: list[int]) -> list[Job]:
        return await call.seen.reschedule_jobs(ids, **msgspec.structs.asdict(call.body))

    return await _change(call, "reschedule", reschedule)


@routes.delete(
    "/v1/jobs",
    Power.OPERATE,
    query=ByKey,
    answers={200: Answer(ShownJob, "The job as it was.")},
    problems=(Kind.NOT_FOUND,),
)
async def delete_job_by_key(call: Call[ByKey, None]) -> ShownJob:
    """Delete the job with a key.

    One that runs loses its key, and will not run again.
    """
    job = await call.own.remove_job(call.query.key)
    if job is None:
        raise Refused(Kind.NOT_FOUND, "there is no job with this key", field="key")
    return await with_blockers(call.own, job)


async def _change(
    call: Call[Any, Any], name: str, verb: Callable[[list[int]], Awaitable[list[Job]]]
) -> ShownJob:
    """Change the job of this call. A verb passes over what it does not apply to; why, is asked
    afterwards, when the job may have changed again."""
    changed = await verb([call.id])
    if not changed:
        job = await call.seen.get_job(call.id)
        raise no_job(call.id) if job is None else wrong_state(job, name)
    return await with_blockers(call.seen, changed[0])
