"""Whether the server lives, and whether it can be sent requests."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from windlass.errors import StoreError
from windlass.server.rest.call import Call
from windlass.server.rest.problems import Kind, Refused
from windlass.server.rest.routes import Answer, Nothing, Open, Routes

routes = Routes("health")

PATIENCE = 5.0
"""Seconds within which the database must answer."""


class Health(msgspec.Struct):
    """It is well."""

    status: Annotated[Literal["ok"], Meta(description="Always `ok`; else there is a problem.")]


_OK = Health("ok")
_WELL = {200: Answer(Health, "It is well.")}


@routes.get("/healthz", Open.ON_LOOPBACK, answers=_WELL)
async def get_health(call: Call[Nothing, None]) -> Health:
    """Tell whether this process answers; it asks nothing of the database."""
    return _OK


@routes.get("/readyz", Open.ON_LOOPBACK, answers=_WELL, problems=(Kind.UNAVAILABLE,))
async def get_readiness(call: Call[Nothing, None]) -> Health:
    """Tell whether this server takes requests: its database answers, and it is not stopping."""
    if call.service.draining.is_set():
        raise _not_ready("this server is stopping")
    try:
        async with asyncio.timeout(PATIENCE):
            await call.service.store.now()
    except (StoreError, TimeoutError):
        raise _not_ready("the database does not answer") from None
    return _OK


def _not_ready(why: str) -> Refused:
    return Refused(Kind.UNAVAILABLE, why, headers={"Retry-After": "1"})
