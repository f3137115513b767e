"""What answers on the HTTP port: REST, and the dashboard's pages beside it."""

from __future__ import annotations

from litestar.types import ASGIApp, Receive, Scope, Send

from windlass.server.dashboard import is_page, make_dashboard
from windlass.server.rest import make_app
from windlass.server.service import Service
from windlass.server.settings import Dashboard


def make_web(service: Service) -> ASGIApp:
    """The application of a started service that has its works, to be served with its lifespan,
    which is REST's."""
    rest = make_app(service)
    if service.settings.dashboard is Dashboard.OFF:
        return rest
    is_read_only = service.settings.dashboard is Dashboard.READ_ONLY
    pages = make_dashboard(service, is_read_only=is_read_only)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        is_for_pages = "path" in scope and is_page(scope["path"])
        await (pages if is_for_pages else rest)(scope, receive, send)

    return serve
