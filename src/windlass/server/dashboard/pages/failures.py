"""Failed jobs, the dead letters, in groups of one error each, and retrying a group."""

from __future__ import annotations

from windlass.server.dashboard.answers import Page
from windlass.server.dashboard.notices import notice
from windlass.server.dashboard.routes import Routes
from windlass.server.dashboard.visit import Visit
from windlass.server.identity import Power

routes = Routes()


@routes.get("/failures", Power.READ)
async def failures(visit: Visit) -> Page:
    found = await visit.figures.groups(visit.identity.sees)
    values = {
        "notice_text": notice(visit.query),
        "groups": found.groups,
        "is_cut": found.is_cut,
        "has_tenants": visit.sees_tenants and any(group.tenant for group in found.groups),
    }
    return Page("failures.html", values)
