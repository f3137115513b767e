"""What pages load: scripts, styles, images, and the events that keep them up to date."""

from __future__ import annotations

from windlass.server.dashboard.answers import Events, Raw
from windlass.server.dashboard.assets import PATH, assets
from windlass.server.dashboard.routes import Open, Routes
from windlass.server.dashboard.visit import NotThere, Visit
from windlass.server.identity import Power

routes = Routes()


@routes.get(f"{PATH}/{{digest}}/{{name}}", Open.TO_ALL)
async def asset(visit: Visit) -> Raw:
    found = assets().get(str(visit.request.path_params["name"]))
    if found is None:
        raise NotThere("the dashboard has no such file; load the page again")
    is_current = found.digest == visit.request.path_params["digest"]
    return Raw(found.body, found.kind, is_kept=is_current)


@routes.get("/events", Power.READ)
async def events(visit: Visit) -> Events:
    return Events(visit.shared.watchers.events(visit.identity))
