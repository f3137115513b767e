"""Schedules: those that the database knows, and what operators do with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from windlass.client.schedules import ScheduleInfo
from windlass.client.showing import ShownJob, with_blockers
from windlass.server.identity import Power
from windlass.server.rest.call import Call
from windlass.server.rest.problems import Kind
from windlass.server.rest.routes import Answer, Nothing, Reply, Routes

routes = Routes("schedules")

_CHANGED = {200: Answer(ScheduleInfo, "The schedule as it is now.")}


class Schedules(msgspec.Struct):
    """The schedules that the database knows."""

    schedules: Annotated[
        Sequence[ScheduleInfo], Meta(description="All of them, by tenant and identifier.")
    ]
    next: Annotated[None, Meta(description="Always null: there are no pages.")] = None


@routes.get(
    "/v1/schedules", Power.READ, answers={200: Answer(Schedules, "All schedules, on one page.")}
)
async def list_schedules(call: Call[Nothing, None]) -> Schedules:
    """List the schedules that workers had when they started."""
    found = await call.seen.list_schedules()
    return Schedules([info for info in found if call.may_read(info.task)])


@routes.post(
    "/v1/schedules/{id}/pause", Power.OPERATE, answers=_CHANGED, problems=(Kind.NOT_FOUND,)
)
async def pause_schedule(call: Call[Nothing, Nothing]) -> ScheduleInfo:
    """Fire a schedule no more, until it is resumed."""
    return await call.own.pause_schedule(call.names["id"])


@routes.post(
    "/v1/schedules/{id}/resume", Power.OPERATE, answers=_CHANGED, problems=(Kind.NOT_FOUND,)
)
async def resume_schedule(call: Call[Nothing, Nothing]) -> ScheduleInfo:
    """Fire a schedule again; instants that passed while it was paused are skipped."""
    return await call.own.resume_schedule(call.names["id"])


@routes.post(
    "/v1/schedules/{id}/trigger",
    Power.OPERATE,
    answers={201: Answer(ShownJob, "The job that was added.")},
    problems=(Kind.NOT_FOUND,),
)
async def trigger_schedule(call: Call[Nothing, Nothing]) -> Reply:
    """Add one job of a schedule now, paused or not."""
    job = await call.own.trigger_schedule(call.names["id"])
    return Reply(await with_blockers(call.own, job), 201)
