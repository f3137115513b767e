"""The pages, by subject. Each declares its addresses in `routes`."""

from __future__ import annotations

from windlass.server.dashboard.pages import bulk, files, job, jobs, overview, signing
from windlass.server.dashboard.routes import Route

PAGES: tuple[Route, ...] = tuple(
    route for subject in (overview, jobs, bulk, job, signing, files) for route in subject.routes.all
)
"""All of them."""
