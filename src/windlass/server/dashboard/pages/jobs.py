"""The jobs that a search selects, a page at a time."""

from __future__ import annotations

from windlass.model.job import JobState
from windlass.server.dashboard import search as searches
from windlass.server.dashboard.answers import Answer, Page, See, address
from windlass.server.dashboard.notices import notice
from windlass.server.dashboard.routes import Routes
from windlass.server.dashboard.visit import Visit
from windlass.server.identity import Power

routes = Routes()

PAGE = 50


@routes.get("/jobs", Power.READ)
async def jobs(visit: Visit) -> Answer:
    search = searches.read(visit.query)
    after = visit.query.number("after")
    client = visit.seen(search.tenant)
    within = await searches.bounds(client, search)
    found = await searches.page(client, search, within, after, PAGE + 1)
    shown = found[:PAGE]
    values = {
        "notice_text": notice(visit.query),
        "search": search,
        "jobs": shown,
        "states": list(JobState),
        "depths": await visit.figures.depths(visit.scope(search.tenant)),
        "newest": search.at("/jobs") if after is not None else None,
        "older": search.at("/jobs", after=shown[-1].id) if len(found) > PAGE else None,
        "has_tenants": visit.sees_tenants and any(job.tenant for job in shown),
    }
    return Page("jobs.html", values)


@routes.get("/jobs/find", Power.READ)
async def find(visit: Visit) -> Answer:
    """The page of the job whose id is typed in."""
    return See(address(f"/jobs/{visit.query.number('number') or 0}"))
