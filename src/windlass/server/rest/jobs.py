"""Looking at jobs: `GET /v1/jobs`, one of them, and its result."""

from __future__ import annotations

import heapq
from typing import Annotated

import msgspec
from msgspec import Meta

from windlass.client.showing import ShownJob
from windlass.model.job import Job, JobState
from windlass.server.identity import Power
from windlass.server.pages import page
from windlass.server.rest.answers import Jobs
from windlass.server.rest.call import Call
from windlass.server.rest.problems import Kind, Refused
from windlass.server.rest.routes import Answer, Nothing, Reply, Routes
from windlass.server.rest.specs import Filter
from windlass.store import rules

routes = Routes("jobs")

LONGEST_WAIT = 60.0
"""Seconds for which a call is held."""


class Page(Filter):
    """Which jobs to list."""

    limit: Annotated[
        Annotated[int, Meta(ge=1, le=10_000)], Meta(description="The most jobs of one page.")
    ] = 100
    after: Annotated[
        Annotated[int, Meta(ge=0, le=2**63 - 1)] | None,
        Meta(description="The last id of the page before: `next` of its answer."),
    ] = None


class Wait(msgspec.Struct, forbid_unknown_fields=True):
    """How long to wait for an end."""

    wait: Annotated[
        float,
        Meta(ge=0, le=LONGEST_WAIT, description="Seconds to wait while it has not finished."),
    ] = 0.0


@routes.get(
    "/v1/jobs", Power.READ, query=Page, answers={200: Answer(Jobs, "A page, the newest first.")}
)
async def list_jobs(call: Call[Page, None]) -> Jobs:
    """List jobs, a page at a time.

    The newest come first. Pages go by id, so none is missed or shown twice while jobs are added.
    A page of large jobs is shorter than `limit`, at about 16 MiB; `next` goes on from there.
    Without the chains that the jobs named as blockers: those are told for one job.
    """
    query = call.query
    reads = call.identity.reads
    if query.task is not None and not call.may_read(query.task):
        return Jobs([])

    async def some(after: int | None, limit: int) -> list[Job]:
        words = {**query.words, "after": after, "limit": limit}
        if reads is None or query.task is not None:
            return await call.seen.list_jobs(**words)
        pages = [await call.seen.list_jobs(**{**words, "task": task}) for task in sorted(reads)]
        merged = heapq.merge(*pages, key=lambda job: job.id, reverse=True)
        return [job for job, _ in zip(merged, range(limit), strict=False)]

    return Jobs(*await page(some, query.after, query.limit))


@routes.get(
    "/v1/jobs/{id}",
    Power.READ,
    answers={200: Answer(ShownJob, "The job.")},
    problems=(Kind.NOT_FOUND,),
)
async def get_job(call: Call[Nothing, None]) -> ShownJob:
    """Get a job with everything that is known of it."""
    job = await call.seen.get_job(call.id)
    if job is None or not call.may_read(job.task):
        raise no_job(call.id)
    return await call.shown(job)


@routes.get(
    "/v1/jobs/{id}/result",
    Power.READ,
    query=Wait,
    answers={
        200: Answer(ShownJob, "The job; it has finished."),
        202: Answer(ShownJob, "The job; it has not finished yet."),
    },
    problems=(Kind.NOT_FOUND, Kind.NOT_KEPT),
)
async def get_job_result(call: Call[Wait, None]) -> Reply:
    """Wait until a job has finished.

    The answer is the job: with its output if it has completed, with its error if it failed. 409
    where a job is not kept once it completes, so that there is nothing to wait for.
    """
    id = call.id
    job = await _visible(call, id)
    if call.query.wait and not job.state.is_final:
        async with call.caller as caller:
            await caller.wait(call.results.wait(id, call.query.wait))
        job = await _visible(call, id)
    status = 200 if job.state.is_final else 202
    return Reply(await call.shown(job), status)


async def _visible(call: Call[Wait, None], id: int) -> Job:
    job = await call.seen.get_job(id)
    if job is None or not call.may_read(job.task):
        raise no_job(id)
    if not job.state.is_final and not call.seen.is_kept(job):
        raise Refused(
            Kind.NOT_KEPT,
            f"job {id} is deleted when it completes, so there will be nothing to read; add jobs"
            " with `keep`",
        )
    return job


def no_job(id: int) -> Refused:
    return Refused(
        Kind.NOT_FOUND, f"there is no job {id}, or it is finished and was not kept", field="id"
    )


def wrong_state(job: Job, verb: str) -> Refused:
    """A verb that the state of a job forbids."""
    where = f" on {job.locked_by}" if job.state is JobState.RUNNING else ""
    states = ", ".join(rules.TOUCHED_BY[verb])
    return Refused(
        Kind.CONFLICT,
        f"job {job.id} is {job.state}{where}, and was not changed; {verb} applies to jobs that are"
        f" {states}",
    )
