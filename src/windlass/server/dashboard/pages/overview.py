"""How everything is: the first page."""

from __future__ import annotations

from windlass.model.job import JobState
from windlass.server.dashboard.answers import Page
from windlass.server.dashboard.notices import notice
from windlass.server.dashboard.routes import Routes
from windlass.server.dashboard.visit import Visit
from windlass.server.identity import Power

routes = Routes()

_FAILURES = 8


@routes.get("/", Power.READ)
async def overview(visit: Visit) -> Page:
    client = visit.seen()
    values = {
        "notice_text": notice(visit.query),
        "depths": await visit.figures.depths(client),
        "states": list(JobState),
        "failures": await client.list_jobs(state=JobState.FAILED, limit=_FAILURES),
    }
    return Page("overview.html", values)
