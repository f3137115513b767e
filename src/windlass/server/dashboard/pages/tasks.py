"""Tasks and queues: how much of each there is, how it goes, and pausing it.

A database holds the names of tasks and queues in its jobs alone. So those are shown that this
program declares, that are paused, that ran in the last hour, and that the newest jobs are of.
"""

from __future__ import annotations

import msgspec

from windlass.errors import ValidationError
from windlass.model.job import DEFAULT_TENANT
from windlass.model.names import RESERVED
from windlass.server.dashboard.answers import Answer, Page, See, address
from windlass.server.dashboard.figures import MOST_NAMES, Work
from windlass.server.dashboard.notices import notice
from windlass.server.dashboard.routes import Routes
from windlass.server.dashboard.visit import Visit
from windlass.server.identity import Power
from windlass.store.figures import Depths

routes = Routes()

MINUTES = 60


class Named(msgspec.Struct, frozen=True):
    """A task or a queue; of a tenant where it is paused there."""

    name: str
    tenant: str | None
    is_paused: bool
    depths: Depths | None
    work: Work | None = None


@routes.get("/tasks", Power.READ)
async def tasks(visit: Visit) -> Page:
    client, tenant = visit.seen(), visit.identity.sees
    registry = visit.service.app.registry
    seen_tasks, seen_queues = await visit.figures.names(client)
    work = await visit.figures.by_task(tenant, MINUTES)
    paused = await client.paused()
    declared = {registry.get(name).options.queue for name in registry.names}
    known = (seen_tasks | set(registry.names) | set(work)) - set(paused.tasks)
    queues = (seen_queues | {queue for queue in declared if queue}) - set(paused.queues)
    own = [Named(name, None, False, None) for name in sorted(known)]
    own += [Named(name, None, True, None) for name in paused.tasks]
    lines = [Named(name, None, False, None) for name in sorted(queues)]
    lines += [Named(name, None, True, None) for name in paused.queues]
    for other in paused.elsewhere:
        found = Named(other.name, other.tenant or DEFAULT_TENANT, True, None)
        (own if other.kind == "task" else lines).append(found)
    own = sorted((one for one in own if not one.name.startswith(RESERVED)), key=_order)
    lines.sort(key=_order)
    values = {
        "notice_text": notice(visit.query),
        "tasks": [
            msgspec.structs.replace(
                one,
                depths=await visit.figures.depths(_of(one, tenant), task=one.name),
                work=work.get(one.name) if one.tenant is None else None,
            )
            for one in own[:MOST_NAMES]
        ],
        "queues": [
            msgspec.structs.replace(
                one, depths=await visit.figures.depths(_of(one, tenant), queue=one.name)
            )
            for one in lines[:MOST_NAMES]
        ],
        "more_tasks": max(0, len(own) - MOST_NAMES),
        "more_queues": max(0, len(lines) - MOST_NAMES),
        "minutes": MINUTES,
        "has_tenants": any(one.tenant for one in (*own, *lines)),
    }
    return Page("tasks.html", values)


def _order(named: Named) -> tuple[str, str]:
    return named.name, named.tenant or ""


def _of(named: Named, tenant: str | None) -> str | None:
    return tenant if named.tenant is None else named.tenant


@routes.post("/tasks/pause", Power.OPERATE)
async def pause(visit: Visit) -> Answer:
    task, queue = _which(visit)
    await visit.own(visit.form.one("tenant")).pause(task=task, queue=queue)
    return See(address("/tasks", done="pause"))


@routes.post("/tasks/resume", Power.OPERATE)
async def resume(visit: Visit) -> Answer:
    task, queue = _which(visit)
    await visit.own(visit.form.one("tenant")).resume(task=task, queue=queue)
    return See(address("/tasks", done="resume"))


def _which(visit: Visit) -> tuple[str | None, str | None]:
    """They are named in the form, since a name may have any character."""
    task, queue = visit.form.one("task"), visit.form.one("queue")
    if (task is None) == (queue is None):
        raise ValidationError("name a task or a queue", field="task")
    return task, queue
