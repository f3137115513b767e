"""Tasks, queues, workers and counts: what there is besides single jobs.

A database holds names of tasks and queues in its jobs alone. So the tasks and queues told here are
those that this server's program declares, and those that are paused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from windlass.clock import to_datetime
from windlass.model import names
from windlass.model.job import DEFAULT_TENANT, JobState
from windlass.server.identity import Power
from windlass.server.rest.call import Call
from windlass.server.rest.routes import Answer, Nothing, Routes
from windlass.server.visible import seen_workers
from windlass.store.records import Paused

routes = Routes("names")

_Next = Annotated[None, Meta(description="Always null: there are no pages.")]
Named = Literal["task", "queue"]


class Name(msgspec.Struct, kw_only=True):
    """A task or a serial queue of a tenant."""

    name: Annotated[str, Meta(description="Its name.")]
    tenant: Annotated[str | None, Meta(description="Whose; null is the default tenant.")] = None
    paused: Annotated[bool, Meta(description="Whether no job of it is started.")]


class Tasks(msgspec.Struct):
    """Tasks that this server's program declares, and those that are paused."""

    tasks: Annotated[Sequence[Name], Meta(description="By tenant and name.")]
    next: _Next = None


class Queues(msgspec.Struct):
    """Queues that this server's program declares, and those that are paused."""

    queues: Annotated[Sequence[Name], Meta(description="By tenant and name.")]
    next: _Next = None


class Worker(msgspec.Struct):
    """A worker that the database knows."""

    id: Annotated[str, Meta(description="A readable name and a random part.")]
    expires_at: Annotated[datetime, Meta(description="When its lease ends, unless renewed.")]
    running: Annotated[int, Meta(description="Jobs that it has.")]


class Workers(msgspec.Struct):
    """The workers that the database knows."""

    workers: Annotated[Sequence[Worker], Meta(description="By id.")]
    next: _Next = None


class Counts(msgspec.Struct):
    """How many jobs are in each state; completed ones only where they are kept."""

    counts: Annotated[
        dict[JobState, int], Meta(description="By state.", examples=[{"ready": 3, "running": 1}])
    ]


@routes.get("/v1/tasks", Power.READ, answers={200: Answer(Tasks, "The tasks.")})
async def list_tasks(call: Call[Nothing, None]) -> Tasks:
    """List the tasks that this server's program declares, and those that are paused."""
    declared = call.service.app.registry.names
    named = _named(call, declared, await call.seen.paused(), "task")
    return Tasks([name for name in named if call.may_read(name.name)])


@routes.get("/v1/queues", Power.READ, answers={200: Answer(Queues, "The queues.")})
async def list_queues(call: Call[Nothing, None]) -> Queues:
    """List the queues that this server's program declares, and those that are paused."""
    call.require_all_tasks("queues")
    registry = call.service.app.registry
    queues = {registry.get(name).options.queue for name in registry.names}
    declared = [queue for queue in queues if queue is not None]
    return Queues(_named(call, declared, await call.seen.paused(), "queue"))


@routes.get("/v1/workers", Power.READ, answers={200: Answer(Workers, "The workers.")})
async def list_workers(call: Call[Nothing, None]) -> Workers:
    """List the workers that the database knows, with the jobs that each has."""
    call.require_all_tasks("workers")
    found = await seen_workers(call.identity, call.service.store, call.sees)
    return Workers(
        [
            Worker(worker.id, to_datetime(worker.expires_at), worker.running)
            for worker in sorted(found, key=lambda worker: worker.id)
        ]
    )


@routes.get("/v1/counts", Power.READ, answers={200: Answer(Counts, "The counts.")})
async def count_jobs(call: Call[Nothing, None]) -> Counts:
    """Count jobs by state."""
    call.require_all_tasks("counts")
    found = await call.seen.counts()
    return Counts({JobState(state): count for state, count in found.items()})


_NAME = {200: Answer(Name, "It, as it is now.")}


@routes.post("/v1/tasks/{name}/pause", Power.OPERATE, answers=_NAME)
async def pause_task(call: Call[Nothing, Nothing]) -> Name:
    """Start no jobs of a task, in any worker, until it is resumed."""
    return await _pause(call, "task")


@routes.post("/v1/tasks/{name}/resume", Power.OPERATE, answers=_NAME)
async def resume_task(call: Call[Nothing, Nothing]) -> Name:
    """Start jobs of a task again."""
    return await _resume(call, "task")


@routes.post("/v1/queues/{name}/pause", Power.OPERATE, answers=_NAME)
async def pause_queue(call: Call[Nothing, Nothing]) -> Name:
    """Start no jobs of a queue, in any worker, until it is resumed."""
    return await _pause(call, "queue")


@routes.post("/v1/queues/{name}/resume", Power.OPERATE, answers=_NAME)
async def resume_queue(call: Call[Nothing, Nothing]) -> Name:
    """Start jobs of a queue again."""
    return await _resume(call, "queue")


async def _pause(call: Call[Nothing, Nothing], kind: Named) -> Name:
    name = call.names["name"]
    await (call.own.pause(task=name) if kind == "task" else call.own.pause(queue=name))
    return Name(name=name, tenant=call.owns or None, paused=True)


async def _resume(call: Call[Nothing, Nothing], kind: Named) -> Name:
    name = call.names["name"]
    await (call.own.resume(task=name) if kind == "task" else call.own.resume(queue=name))
    return Name(name=name, tenant=call.owns or None, paused=False)


def _named(
    call: Call[Nothing, None], declared: Iterable[str], paused: Paused, kind: Named
) -> list[Name]:
    """What is declared, as the caller's own tenant has it, and what is paused wherever it looks."""
    own = call.sees or DEFAULT_TENANT
    here = paused.tasks if kind == "task" else paused.queues
    pauses = {(own, name) for name in here}
    pauses |= {(other.tenant, other.name) for other in paused.elsewhere if other.kind == kind}
    shown = pauses | {(own, name) for name in declared if not name.startswith(names.RESERVED)}
    return [
        Name(name=name, tenant=tenant or None, paused=(tenant, name) in pauses)
        for tenant, name in sorted(shown)
    ]
