"""Who may call a route: identity, rate and power, judged before a body is read.

The power that a route needs is declared with it, and is the `power` of its handler's `opt`. A
handler without one does not fail open: the application refuses to start.
"""

from __future__ import annotations

from typing import Any

from litestar import Litestar
from litestar.connection import ASGIConnection
from litestar.exceptions import ImproperlyConfiguredException
from litestar.handlers.base import BaseRouteHandler
from litestar.routes import HTTPRoute

from windlass.errors import ValidationError
from windlass.model import names
from windlass.server.identity import Identity, Power
from windlass.server.peers import http_peer
from windlass.server.rest.problems import Kind, Refused
from windlass.server.rest.routes import Open
from windlass.server.rest.shared import shared_of

POWER = "power"
TENANT = "X-Windlass-Tenant"

Connection = ASGIConnection[Any, Any, Any, Any]

_IDENTITY = "windlass.identity"
_NAMED = "windlass.tenant"
_UNKNOWN = Identity(name="", roles=frozenset())
"""The caller of a route that needs no token: it may do nothing else."""


async def admit(connection: Connection, handler: BaseRouteHandler) -> None:
    """The guard of every route: raise unless the caller may call it. Its identity is kept for the
    handler."""
    power = handler.opt.get(POWER)
    if power is None and connection.scope["method"] == "OPTIONS":  # type: ignore[typeddict-item]
        return  # Litestar's own, which tells the methods of an address
    if not isinstance(power, Power | Open):
        raise Refused(Kind.FORBIDDEN, "this address declares no power, so none is enough")
    service = shared_of(connection).service
    peer = http_peer(connection.scope)
    if power is Open.ALWAYS or (isinstance(power, Open) and service.may_probe(peer)):
        return
    identity = await service.access.identify(_token(connection), peer=peer)
    service.limits.admit(identity)
    needed = power.needs if isinstance(power, Open) else power
    if not identity.may(needed):
        roles = ", ".join(sorted(identity.roles))
        raise Refused(
            Kind.FORBIDDEN, f"this needs the power to {needed}, which {roles} does not have"
        )
    named = _tenant(connection)
    if named is not None and not identity.is_admin and named != identity.tenant:
        raise Refused(
            Kind.FORBIDDEN, "the token is of another tenant; leave this out", field=TENANT
        )
    connection.scope["state"][_IDENTITY] = identity
    connection.scope["state"][_NAMED] = named


def caller_of(connection: Connection) -> tuple[Identity, str | None]:
    """Who was admitted, and the tenant that it named."""
    state = connection.scope["state"]
    return state.get(_IDENTITY, _UNKNOWN), state.get(_NAMED)


def _token(connection: Connection) -> str | None:
    """The token, if there is any; what is no Bearer token is refused and never repeated."""
    given = connection.headers.getall("authorization", [])
    if not given:
        return None
    scheme, _, text = given[0].strip().partition(" ")
    if len(given) > 1 or scheme.lower() != "bearer" or not text.strip():
        raise Refused(
            Kind.UNAUTHENTICATED,
            "show the token as Authorization: Bearer wl_…",
            field="Authorization",
            headers={"WWW-Authenticate": "Bearer"},
        )
    return text.strip()


def _tenant(connection: Connection) -> str | None:
    """The tenant that is named, if any; a header is bytes, tenants are text."""
    text = connection.headers.get(TENANT)
    try:
        return None if text is None else names.check_tenant(text.encode("latin-1").decode())
    except (ValidationError, UnicodeError) as error:
        raise Refused(Kind.INVALID, str(error), field=TENANT) from None


def require_powers(app: Litestar) -> None:
    """Refuse to start an application that has a handler which declares no power."""
    for route in app.routes:
        if isinstance(route, HTTPRoute):
            # Litestar answers OPTIONS itself; it tells the methods of an address, and no more.
            handlers = [one for one in route.route_handlers if one.http_methods != {"OPTIONS"}]
        else:
            handlers = []
        powers = [handler.opt.get(POWER) for handler in handlers]
        if not powers or not all(isinstance(power, Power | Open) for power in powers):
            raise ImproperlyConfiguredException(
                f"{route.path} declares no power; give its handler opt={{{POWER!r}: …}}"
            )
