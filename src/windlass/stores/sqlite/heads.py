"""Looking behind heads of serial queues that a worker may not run.

The head of a queue is of a task that the worker does not run, or has a flag that it refuses, or its
task is paused. A job behind it that the worker may run then takes its place, unless a job holds the
queue. One look is at some queues only; the next goes on where it ended.
"""

from __future__ import annotations

import msgspec

from windlass.store.records import ClaimRequest
from windlass.stores.sqlite.branches import owners_of
from windlass.stores.sqlite.connection import Session
from windlass.stores.sqlite.queues import Place
from windlass.stores.sqlite.rows import json_text

_MOST_QUEUES = 200
"""Queues per task looked at in one go, of all tenants together."""

BEGINNING: Place = ("", "")


class _Found(msgspec.Struct, array_like=True):
    """A job that could be a queue's head, and the head, if there is one."""

    priority: int
    run_at: int
    candidate: int
    head: int | None
    tenant: str
    queue: str


class Look(msgspec.Struct, array_like=True):
    """What a look found, and the queue after which the next goes on, if there are more."""

    found: list[_Found]
    last_tenant: str | None
    last_queue: str | None

    @property
    def after(self) -> Place:
        if self.last_tenant is None or self.last_queue is None:
            return BEGINNING
        return (self.last_tenant, self.last_queue)


_look = msgspec.json.Decoder(Look).decode


def look(db: Session, request: ClaimRequest, after: Place, most: int | None = None) -> Look:
    """Look at no more than `most` queues per task and owner, by default at so many that all owners'
    together are not too many."""
    owners = (None,) if request.tenants is None else owners_of(request)
    most = max(1, _MOST_QUEUES // max(1, len(owners))) if most is None else most
    tenant, queue = after
    return _look(
        db.value(
            "find_past_heads",
            {
                "owners": json_text(owners),
                "tasks": json_text(request.tasks),
                "forbidden": json_text(request.forbidden_flags),
                "tenant": tenant,
                "queue": queue,
                "most": most,
            },
        )
    )


def exchange(db: Session, seen: Look) -> set[Place]:
    """Put the best job that was found for each queue in its head's place; the queues."""
    best: dict[Place, _Found] = {}
    for found in sorted(seen.found, key=lambda each: (each.priority, each.run_at, each.candidate)):
        best.setdefault((found.tenant, found.queue), found)
    if best:
        demoted = json_text([found.head for found in best.values() if found.head is not None])
        admitted = json_text([found.candidate for found in best.values()])
        db.run("set_states", {"state": "waiting", "ids": demoted})
        db.run("set_states", {"state": "ready", "ids": admitted})
    return set(best)
