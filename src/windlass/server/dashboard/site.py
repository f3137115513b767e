"""The ASGI application of the dashboard: Litestar with one handler for each page of the table."""

from __future__ import annotations

import logging
from typing import Any

from litestar import HttpMethod, Litestar, Request, Response
from litestar.datastructures import Cookie
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.response import Stream
from litestar.types import ASGIApp, Receive, Scope, Send

from windlass import errors
from windlass.server.dashboard.admission import identify, must_sign_in
from windlass.server.dashboard.answers import (
    HEADERS,
    KEPT,
    NOT_STORED,
    Answer,
    Events,
    Page,
    Raw,
    See,
    address,
    is_local,
)
from windlass.server.dashboard.cookies import Cookies, make_visit
from windlass.server.dashboard.forms import (
    Form,
    Left,
    form_token,
    parse,
    read_form,
    require_same_site,
    require_token,
)
from windlass.server.dashboard.pages import PAGES
from windlass.server.dashboard.rendering import render
from windlass.server.dashboard.routes import Open, Route
from windlass.server.dashboard.visit import Shared, Visit
from windlass.server.refusals import Forbidden, Refusal, Unauthenticated
from windlass.server.service import Service

_logger = logging.getLogger("windlass.server")
_FIRST_PARTS = frozenset(route.path.split("/")[1] for route in PAGES)


_IDENTITY = "windlass.identity"
"""Where the caller is in the scope of a request, once it is known."""


def is_page(path: str) -> bool:
    """Whether an address is below one of the dashboard's, rather than REST's."""
    return path.split("/", 2)[1] in _FIRST_PARTS if path.startswith("/") else False


def make_dashboard(service: Service, *, is_read_only: bool = False) -> ASGIApp:
    """The pages of a started service: an ASGI application that needs no lifespan."""
    shared = Shared(service, is_read_only=is_read_only)
    site = _Site(shared)
    app = Litestar(
        [site.handler(route) for route in PAGES],
        exception_handlers={Exception: site.refuse},
        openapi_config=None,
        logging_config=None,
        request_max_body_size=None,
    )

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await app(scope, receive, send)

    return serve


class _Site:
    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def handler(self, route: Route) -> HTTPRouteHandler:
        async def handle(request: Request[Any, Any, Any]) -> Response[Any]:
            visit = await self._admit(route, request)
            if isinstance(visit, See):
                return self._answer(visit, None)
            return self._answer(await route.serve(visit), visit)

        path = "/".join(
            f"{{{part[1:-1]}:str}}" if part.startswith("{") else part
            for part in route.path.split("/")
        )
        handler = HTTPRouteHandler(
            path, http_method=HttpMethod(route.method), name=f"{route.method} {route.path}"
        )
        return handler(handle)

    async def _admit(self, route: Route, request: Request[Any, Any, Any]) -> Visit | See:
        """The visit; or where a caller without a token goes."""
        cookies = Cookies(request.scope)
        form = Form([])
        if route.method == "POST":
            require_same_site(request.headers)
            form = await read_form(request)
            require_token(form, cookies.visit)
        identity = None
        if not isinstance(route.power, Open):
            try:
                identity = await identify(self._shared.service, request.scope, cookies.token)
            except Unauthenticated as error:
                if must_sign_in(error, cookies.token) or route.method == "POST":
                    return See("/sign-in?why=ended")
                return See(address("/sign-in", next=_back(request)))
            if not identity.may(route.power):
                roles = ", ".join(sorted(identity.roles))
                raise Forbidden(
                    f"this needs the power to {route.power}, which {roles} does not have"
                )
            if route.changes and self._shared.is_read_only:
                raise Forbidden(
                    "this dashboard was started with --read-only, so nothing can be changed here"
                )
        query = parse(request.scope["query_string"])
        request.scope["state"][_IDENTITY] = identity
        visit = cookies.visit or make_visit()
        return Visit(self._shared, request, identity, cookies, visit, query, form)

    # ── answers ──

    def _answer(self, found: Answer, visit: Visit | None) -> Response[Any]:
        match found:
            case Page(template, values, status):
                body = render(template, {**values, **_common(visit)})
                return _response(body, status=status, cookies=_new_visit(visit))
            case See(place, cookies):
                made = _response(b"", status=303, cookies=cookies)
                made.headers["Location"] = place
                return made
            case Raw(body, kind, is_kept):
                return _response(body, kind=kind, caching=KEPT if is_kept else NOT_STORED)
            case Events(pieces):
                return Stream(
                    pieces,
                    media_type="text/event-stream",
                    headers={**HEADERS, **NOT_STORED, "X-Accel-Buffering": "no"},
                )

    def refuse(self, request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
        """A page for what went wrong, which says what to do."""
        if isinstance(error, Left):
            return Response(b"", status_code=499)
        status, title, words = _told(error)
        if status >= 500:
            level = logging.ERROR if status == 500 else logging.WARNING
            _logger.log(level, "%s %s failed", request.method, request.url.path, exc_info=error)
        values = {"status": status, "title": title, "words": words}
        cookies = Cookies(request.scope)
        visit = Visit(
            self._shared,
            request,
            request.scope["state"].get(_IDENTITY),
            cookies,
            cookies.visit or make_visit(),
            Form([]),
            Form([]),
        )
        return self._answer(Page("refused.html", values, status), visit)


def _response(
    body: bytes,
    *,
    status: int = 200,
    kind: str = "text/html",
    caching: dict[str, str] = NOT_STORED,
    cookies: tuple[Cookie, ...] = (),
) -> Response[Any]:
    headers = {**HEADERS, **caching}
    return Response(body, status_code=status, media_type=kind, headers=headers, cookies=cookies)


def _common(visit: Visit | None) -> dict[str, Any]:
    """What every template may use."""
    assert visit is not None
    return {
        "visit": visit,
        "now": visit.now,
        "form_token": form_token(visit.visit),
        "may_change": visit.may_change,
    }


def _new_visit(visit: Visit | None) -> tuple[Cookie, ...]:
    """The visit's cookie, where the browser does not have it yet."""
    if visit is None or visit.cookies.visit == visit.visit:
        return ()
    return (visit.cookies.with_visit(visit.visit),)


def _back(request: Request[Any, Any, Any]) -> str | None:
    """Where a caller wanted to go."""
    path = str(request.scope["path"])
    query = request.scope["query_string"].decode("latin-1")
    wanted = f"{path}?{query}" if query else path
    return wanted if wanted != "/" and is_local(wanted) else None


# ── what went wrong ──

_NOT_THERE = (errors.JobNotFoundError, errors.ScheduleNotFoundError, errors.ChainNotFoundError)
_CONFLICTS = (errors.ChainClosedError, errors.BlockerReferenceError)
_TITLES = {
    400: "This cannot be done",
    403: "Not allowed",
    404: "There is nothing here",
    405: "Not like this",
    409: "The state of the job or chain forbids this",
    500: "The dashboard failed",
    503: "The database does not answer",
}


def _told(error: Exception) -> tuple[int, str, str]:
    """The status, a title and what to do."""
    status, words = 500, "The server's log says more. Nothing is known of what was asked for."
    match error:
        case Refusal():
            status, words = error.status, str(error)
        case HTTPException() if error.status_code in (404, 405):
            status, words = error.status_code, "No page is at this address."
        case HTTPException() if error.status_code < 500:
            status, words = 400, "The request is not valid HTTP."
        case _ if isinstance(error, _NOT_THERE):
            status, words = 404, str(error)
        case _ if isinstance(error, _CONFLICTS):
            status, words = 409, str(error)
        case errors.ValidationError():
            status, words = 400, str(error)
        case errors.OutcomeUnknownError():
            status = 503
            words = (
                "The connection was lost in the middle, and what was asked for may have happened:"
                " look before you repeat it."
            )
        case errors.StoreError():
            status = 503
            words = "It cannot be reached or is busy, and nothing was changed. Try again soon."
    return status, _TITLES.get(status, "This cannot be done"), words
