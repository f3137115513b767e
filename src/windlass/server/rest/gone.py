"""Callers that go away while they wait: the server notices, and stops waiting for them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from litestar import Request

from windlass.server.rest.problems import Gone

T = TypeVar("T")


async def unless_gone(request: Request[Any, Any, Any], waiting: Coroutine[Any, Any, T]) -> T:
    """What is waited for; Gone, and the wait is cancelled, if the caller closes the connection.

    The body must have been read. If the wait ends at the same moment, its result is the answer: it
    may own something that must be given back.
    """
    work = asyncio.ensure_future(waiting)
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait((work, leaving), return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        raise Gone
    finally:
        for task in (work, leaving):
            task.cancel()
        await asyncio.gather(work, leaving, return_exceptions=True)


async def _left(request: Request[Any, Any, Any]) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
