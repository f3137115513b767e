"""REST: `/v1` as JSON, on Litestar.

`routes.py` is the table of routes, and the other modules declare them by subject. This one turns
each into a handler of Litestar: admit the caller (`admission.py`), read what it says strictly
(`reading.py`), call the function, and answer with JSON or a problem (`problems.py`).
"""

from __future__ import annotations

from functools import cache
from typing import Any
from urllib.parse import unquote

from litestar import HttpMethod, Litestar, Request, Response
from litestar.handlers import HTTPRouteHandler
from litestar.response import Stream
from litestar.types import ASGIApp, Receive, Scope, Send

from windlass.server.rest import (
    adding,
    bulk,
    chains,
    changes,
    claims,
    health,
    jobs,
    metrics,
    names,
    openapi,
    schedules,
    settling,
)
from windlass.server.rest.admission import POWER, admit, caller_of, require_powers
from windlass.server.rest.answers import encode
from windlass.server.rest.call import Call
from windlass.server.rest.lifespan import live
from windlass.server.rest.metrics import counted
from windlass.server.rest.problems import Kind, Refused, answer
from windlass.server.rest.reading import decode_body, decode_query, read_body
from windlass.server.rest.routes import Reply, Route, Streamed, Text
from windlass.server.rest.shared import SHARED, Shared, shared_of
from windlass.server.service import Service

ROUTES: tuple[Route, ...] = tuple(
    route
    for subject in (
        *(adding, jobs, bulk, changes, claims, settling, chains, schedules, names),
        *(health, metrics),
    )
    for route in subject.routes.all
)
"""All routes but that of the document, which is made from these."""


def make_app(service: Service) -> ASGIApp:
    """The REST surface of a started service that has its works: an ASGI application, to be served
    with its lifespan."""
    shared = Shared(service)
    app = _app()

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":  # type: ignore[comparison-overlap]
            await live(shared, receive, send)  # type: ignore[arg-type]
            return
        scope[SHARED] = shared  # type: ignore[literal-required]
        raw = scope.get("raw_path")
        if isinstance(raw, bytes) and raw:  # paths are matched as they were sent
            scope["path"] = raw.partition(b"?")[0].decode("ascii", "replace")
        await counted(service, app, scope, receive, send)

    return serve


@cache
def _app() -> Litestar:
    """All routes. What they work on comes with each request, so this is made once."""
    app = Litestar(
        [_handler(route) for route in (*ROUTES, openapi.route(ROUTES))],
        guards=[admit],
        exception_handlers={Exception: answer},
        openapi_config=None,
        logging_config=None,
        request_max_body_size=None,
    )
    require_powers(app)
    return app


def _handler(route: Route) -> HTTPRouteHandler:
    async def handle(request: Request[Any, Any, Any]) -> Response[Any]:
        identity, tenant = caller_of(request)
        query = decode_query(request.scope["query_string"], route.query)
        body = None
        if route.body is not None:
            body = decode_body(await read_body(request, route.limit), route.body)
        found = await route.serve(
            Call(shared_of(request), request, identity, tenant, _names(request, route), query, body)
        )
        return _response(found, route)

    path = "/".join(
        f"{{{part[1:-1]}:str}}" if part.startswith("{") else part for part in route.path.split("/")
    )
    handler = HTTPRouteHandler(
        path,
        http_method=HttpMethod(route.method),
        name=route.id,
        opt={POWER: route.power},
        status_code=200,
    )
    return handler(handle)


def _names(request: Request[Any, Any, Any], route: Route) -> dict[str, str]:
    """What stands in the path. It is matched before it is decoded, so a name may have a slash."""
    try:
        return {
            name: unquote(request.path_params[name], errors="strict") for name in route.parameters
        }
    except UnicodeDecodeError:
        raise Refused(Kind.NOT_FOUND, "the address is not UTF-8") from None


def _response(found: object, route: Route) -> Response[Any]:
    match found:
        case Streamed(pieces):
            return Stream(pieces, media_type="application/json", status_code=route.status)
        case Text(body, media_type):
            return Response(body, media_type=media_type, status_code=route.status)
        case Reply(value, status, headers):
            pass
        case value:
            status, headers = route.status, {}
    return Response(
        value if isinstance(value, bytes) else encode(value),
        media_type="application/json",
        status_code=status,
        headers=headers,
    )
