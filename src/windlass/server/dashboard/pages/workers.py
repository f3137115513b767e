"""Workers: which are alive, and what each of them runs."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime

import msgspec

from windlass.clock import to_datetime
from windlass.model.job import Job, JobState
from windlass.server.dashboard.answers import Page
from windlass.server.dashboard.notices import notice
from windlass.server.dashboard.routes import Routes
from windlass.server.dashboard.visit import Visit
from windlass.server.identity import Power
from windlass.server.visible import seen_workers

routes = Routes()

MOST_RUNNING = 500
"""Running jobs that are looked at, the newest first."""


class Worker(msgspec.Struct, frozen=True):
    """A worker as it is shown. `left` are the seconds until its lease ends."""

    id: str
    ends_at: datetime
    left: float
    running: int
    jobs: list[Job]

    @property
    def is_alive(self) -> bool:
        return self.left > 0


@routes.get("/workers", Power.READ)
async def workers(visit: Visit) -> Page:
    client = visit.seen()
    now = await visit.service.store.now()  # leases end by the database's clock
    running = await client.list_jobs(state=JobState.RUNNING, limit=MOST_RUNNING)
    jobs: dict[str, list[Job]] = defaultdict(list)
    for job in running:
        jobs[visit.worker(job.locked_by)].append(job)
    infos = await seen_workers(visit.identity, visit.service.store, visit.identity.sees)
    found = [
        Worker(
            info.id,
            to_datetime(info.expires_at),
            (info.expires_at - now) / 1e6,
            info.running,
            jobs.get(info.id, []),
        )
        for info in infos
    ]
    values = {
        "notice_text": notice(visit.query),
        "workers": sorted(found, key=lambda worker: (not worker.is_alive, worker.id)),
        "alive": sum(worker.is_alive for worker in found),
        "is_cut": len(running) == MOST_RUNNING,
    }
    return Page("workers.html", values)
