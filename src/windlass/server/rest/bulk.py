"""Changing every job that a filter selects, in steps of a bounded size.

The answer is written while the steps are made, so that it costs little memory however many jobs
change. What cannot be done is refused with the first step; a failure later on cuts the answer off,
which a client notices, and what was answered has happened.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from windlass.client.showing import change_all
from windlass.model.job import Job
from windlass.server.identity import Power
from windlass.server.rest.answers import Jobs, encode
from windlass.server.rest.call import Call
from windlass.server.rest.problems import Kind, Refused
from windlass.server.rest.routes import Answer, Nothing, Routes, Streamed
from windlass.server.rest.specs import Filter

routes = Routes("jobs")

_CHANGED = {200: Answer(Jobs, "The jobs that changed, all of them: `next` is null.")}
Verb = Callable[[list[int]], Awaitable[list[Job]]]


@routes.post("/v1/jobs/cancel", Power.OPERATE, body=Filter, answers=_CHANGED)
async def cancel_jobs(call: Call[Nothing, Filter]) -> Streamed:
    """Cancel every job that a filter selects.

    Jobs that wait are cancelled, those that run are told to stop. An empty filter is refused.
    """
    return await _change_all(call, call.seen.cancel_jobs)


@routes.post("/v1/jobs/retry", Power.OPERATE, body=Filter, answers=_CHANGED)
async def retry_jobs(call: Call[Nothing, Filter]) -> Streamed:
    """Run the failed, cancelled and scheduled jobs that a filter selects now.

    An empty filter is refused.
    """
    return await _change_all(call, call.seen.retry_jobs)


@routes.post("/v1/jobs/delete", Power.OPERATE, body=Filter, answers=_CHANGED)
async def delete_jobs(call: Call[Nothing, Filter]) -> Streamed:
    """Delete every job that a filter selects.

    Those that run, and jobs of open chains, are passed over. The answer is the jobs as they were.
    An empty filter is refused.
    """
    return await _change_all(call, call.seen.delete_jobs)


async def _change_all(call: Call[Nothing, Filter], verb: Verb) -> Streamed:
    words = {name: value for name, value in call.body.words.items() if value is not None}
    if not words or words.get("state") == []:
        raise Refused(
            Kind.INVALID, "the filter is empty; name a state, task, queue or key of the jobs"
        )
    batches = change_all(call.seen, words, verb)
    nothing: list[Job] = []
    first = await anext(batches, nothing)
    return Streamed(_written(first, batches))


async def _written(first: list[Job], rest: AsyncIterator[list[Job]]) -> AsyncIterator[bytes]:
    yield b'{"jobs":['
    is_first = True
    batch: list[Job] | None = first
    while batch is not None:
        if batch:
            yield (b"" if is_first else b",") + encode(batch)[1:-1]
            is_first = False
        batch = await anext(rest, None)
    yield b'],"next":null}'
