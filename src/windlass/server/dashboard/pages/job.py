"""One job with all that is known of it, and what can be done with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from windlass.client import Client
from windlass.client.chain_trees import gather, gather_job
from windlass.errors import JobNotFoundError
from windlass.model.job import Job, JobState
from windlass.server.dashboard.answers import Answer, Page, See, address
from windlass.server.dashboard.notices import notice
from windlass.server.dashboard.picture import Picture, draw, draw_job
from windlass.server.dashboard.routes import Routes
from windlass.server.dashboard.visit import Visit
from windlass.server.identity import Power

routes = Routes()

_TO_RETRY = (JobState.FAILED, JobState.CANCELLED, JobState.SCHEDULED)


@routes.get("/jobs/{id}", Power.READ)
async def job(visit: Visit) -> Page:
    client = visit.seen()
    found = await client.get_job(visit.id)
    if found is None:
        raise JobNotFoundError(
            f"There is no job {visit.id} (any more). Completed jobs are deleted unless they are"
            " kept, which the option keep= says."
        )
    picture, waiting = await _around(client, found)
    values = {
        "notice_text": notice(visit.query),
        "job": found,
        "errors": list(reversed(found.errors)),
        "picture": picture,
        "waiting": waiting,
        "can_retry": found.state in _TO_RETRY,
        "can_cancel": not found.state.is_final,
        "can_delete": found.state is not JobState.RUNNING,
        "is_kept": client.is_kept(found),
    }
    return Page("job.html", values)


async def _around(client: Client, job: Job) -> tuple[Picture | None, list[Job]]:
    """The picture of its chain and of what it waits for, and the jobs that wait for its chain."""
    if job.chain is not None:
        tree = await gather(client, job.chain)
        return (None, []) if tree is None else (draw(tree, at=job.id), tree.waiting)
    if job.blockers_total:
        return draw_job(await gather_job(client, job)), []
    return None, []


@routes.post("/jobs/{id}/retry", Power.OPERATE)
async def retry(visit: Visit) -> Answer:
    return await _change(visit, "retry", visit.seen().retry_jobs)


@routes.post("/jobs/{id}/cancel", Power.OPERATE)
async def cancel(visit: Visit) -> Answer:
    return await _change(visit, "cancel", visit.seen().cancel_jobs)


async def _change(
    visit: Visit, name: str, verb: Callable[[list[int]], Awaitable[list[Job]]]
) -> Answer:
    changed = await verb([visit.id])
    return See(address(f"/jobs/{visit.id}", done=name, n=len(changed)))
