"""How everything is: the first page."""

from __future__ import annotations

import msgspec

from windlass.model.job import JobState
from windlass.server.dashboard.answers import Page, Raw
from windlass.server.dashboard.figures import WINDOWS, History
from windlass.server.dashboard.forms import BadForm
from windlass.server.dashboard.notices import notice
from windlass.server.dashboard.plot import Plot, plot
from windlass.server.dashboard.routes import Routes
from windlass.server.dashboard.visit import Visit
from windlass.server.identity import Power
from windlass.store.figures import RATES_KEPT

routes = Routes()

_FAILURES = 6
_TASKS = 20
_NORMAL = 15


@routes.get("/", Power.READ)
async def overview(visit: Visit) -> Page:
    client, tenant = visit.seen(), visit.identity.sees
    minutes = _minutes(visit)
    history = await visit.figures.history(tenant, minutes)
    tasks = await visit.figures.by_task(tenant, minutes)
    values = {
        "notice_text": notice(visit.query),
        "depths": await visit.figures.depths(tenant),
        "states": list(JobState),
        "failures": await client.list_jobs(state=JobState.FAILED, limit=_FAILURES),
        "minutes": minutes,
        "windows": list(WINDOWS),
        "now_per_second": history.done[-1] if history.done else 0.0,
        "plots": plots(history),
        "tasks": dict(list(tasks.items())[:_TASKS]),
        "more_tasks": max(0, len(tasks) - _TASKS),
        "kept_hours": round(RATES_KEPT / 3600),
    }
    return Page("overview.html", values)


@routes.get("/history", Power.READ)
async def history_of(visit: Visit) -> Raw:
    """What charts draw."""
    found = await visit.figures.history(visit.identity.sees, _minutes(visit))
    return Raw(msgspec.json.encode(found), "application/json")


def plots(history: History) -> list[Plot]:
    return [
        plot("rates", "Attempts", "per second", done=history.done, failed=history.failed),
        plot("waits", "Wait, from due to start", "s", mean=history.wait, p95=history.wait95),
        plot("runs", "Run", "s", mean=history.run, p95=history.run95),
    ]


def _minutes(visit: Visit) -> int:
    minutes = visit.query.number("minutes") or _NORMAL
    if minutes not in WINDOWS:
        raise BadForm(f"minutes must be one of {', '.join(map(str, WINDOWS))}")
    return minutes
