"""Changing every job that a search selects, or those that were ticked: first a page that says how
many there are, then the change itself, in steps.

One request changes jobs for a few seconds at most. What is left is told, and a button goes on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from windlass.client import Client
from windlass.model.job import Job
from windlass.server.dashboard import search as searches
from windlass.server.dashboard.answers import Answer, Page, See, address
from windlass.server.dashboard.figures import Count
from windlass.server.dashboard.forms import BadForm, Form
from windlass.server.dashboard.routes import Routes
from windlass.server.dashboard.visit import Visit
from windlass.server.identity import Power

routes = Routes()

LONGEST = 5.0
"""Seconds for which one request changes jobs."""

Verb = Callable[[list[int]], Awaitable[list[Job]]]

_NAMES = ("retry", "cancel", "delete")


@routes.get("/jobs/change", Power.OPERATE)
async def confirm(visit: Visit) -> Page:
    """How many jobs it is about, and a button."""
    search, name = _asked(visit.query)
    client = visit.seen(search.tenant)
    if search.ids:
        count = Count(len(await client.list_jobs(ids=search.ids, limit=len(search.ids))))
    else:
        count = await visit.figures.count(client, search)
    values = {"search": search, "name": name, "count_of": count, "changed": None}
    return Page("confirm.html", values)


@routes.post("/jobs/change", Power.OPERATE)
async def change(visit: Visit) -> Answer:
    search, name = _asked(visit.form)
    client = visit.seen(search.tenant)
    verb = _verb(client, name)
    clock = visit.service.clock
    end = clock.monotonic() + LONGEST
    total = visit.form.number("total") or 0
    async for batch in searches.batches(client, search):
        total += len(await verb([job.id for job in reversed(batch)]))
        if len(batch) == searches.BATCH and clock.monotonic() >= end:
            left = await visit.figures.count(client, search)
            values = {"search": search, "name": name, "count_of": left, "changed": total}
            return Page("confirm.html", values)
    if len(search.ids) == 1 and name != "delete":
        return See(address(f"/jobs/{search.ids[0]}", done=name, n=total))
    kept = {} if search.ids else search.words()
    return See(address("/jobs", **kept, done=name, n=total))


def _asked(form: Form) -> tuple[searches.Search, str]:
    search, name = searches.read(form), form.one("verb") or ""
    if name not in _NAMES:
        raise BadForm("say what is to be done: retry, cancel or delete")
    if form.one("of") == "ticked" and not search.ids:
        raise BadForm("tick the jobs that are meant first")
    if form.one("of") == "ticked":
        search = searches.Search(ids=search.ids)
    elif search.is_empty:
        raise BadForm(
            "this would be about every job there is; choose a state, task, queue or key first"
        )
    return search, name


def _verb(client: Client, name: str) -> Verb:
    return {
        "retry": client.retry_jobs,
        "cancel": client.cancel_jobs,
        "delete": client.delete_jobs,
    }[name]
