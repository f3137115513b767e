"""Schedules: when each ran and runs next, and pausing, resuming and triggering one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from windlass.client import Client
from windlass.server.dashboard.answers import Answer, Page, See, address
from windlass.server.dashboard.forms import BadForm
from windlass.server.dashboard.notices import notice
from windlass.server.dashboard.routes import Routes
from windlass.server.dashboard.visit import Visit
from windlass.server.identity import Power

routes = Routes()


@routes.get("/schedules", Power.READ)
async def schedules(visit: Visit) -> Page:
    found = await visit.seen().list_schedules()
    values = {
        "notice_text": notice(visit.query),
        "schedules": found,
        "has_tenants": visit.sees_tenants and any(info.tenant for info in found),
    }
    return Page("schedules.html", values)


@routes.post("/schedules/pause", Power.OPERATE)
async def pause(visit: Visit) -> Answer:
    return await _change(visit, "pause-schedule", Client.pause_schedule)


@routes.post("/schedules/resume", Power.OPERATE)
async def resume(visit: Visit) -> Answer:
    return await _change(visit, "resume-schedule", Client.resume_schedule)


@routes.post("/schedules/trigger", Power.OPERATE)
async def trigger(visit: Visit) -> Answer:
    return await _change(visit, "trigger", Client.trigger_schedule)


async def _change(visit: Visit, done: str, verb: Callable[[Client, str], Awaitable[Any]]) -> Answer:
    """Schedules are named in the form, since a name may have any character."""
    id = visit.form.one("id")
    if id is None:
        raise BadForm("name the schedule")
    await verb(visit.own(visit.form.one("tenant")), id)
    return See(address("/schedules", done=done))
