"""The pages, by subject. Each declares its addresses in `routes`."""

from __future__ import annotations

from windlass.server.dashboard.pages import (
    bulk,
    chains,
    failures,
    files,
    job,
    jobs,
    overview,
    schedules,
    signing,
    tasks,
    workers,
)
from windlass.server.dashboard.routes import Route

PAGES: tuple[Route, ...] = tuple(
    route
    for subject in (
        overview,
        jobs,
        bulk,
        job,
        failures,
        chains,
        tasks,
        schedules,
        workers,
        signing,
        files,
    )
    for route in subject.routes.all
)
"""All of them."""
