"""Who asks for a page: the token of the cookie or, as everywhere in the server, a program of this
machine as long as there is no token at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from windlass.server.identity import Identity
from windlass.server.peers import http_peer
from windlass.server.refusals import Forbidden, Unauthenticated
from windlass.server.service import Service


async def identify(service: Service, scope: Mapping[str, Any], token: str | None) -> Identity:
    """The caller. Unauthenticated if it must sign in first, Forbidden if no page is for it.

    Where a request is a form, it has been found to come from one of our own pages, which is what a
    body of JSON shows elsewhere.
    """
    peer = replace(http_peer(scope), may_be_a_page=False)
    identity = await service.access.identify(token, peer=peer)
    if identity.reads is not None:
        raise Forbidden(
            "this token is for the jobs of some tasks alone, and the dashboard shows those of all"
            " tasks; sign in with one of the role producer, operator or admin"
        )
    return identity


def must_sign_in(error: Unauthenticated, token: str | None) -> str:
    """What the page for signing in says: nothing is wrong where no token was shown."""
    return "" if token is None else str(error)
