"""Callers that go away while they wait, or whose tokens end: the server notices, and stops waiting
for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, TypeVar

from litestar import Request

from windlass.server.refusals import Unauthenticated
from windlass.server.rest.problems import Gone

T = TypeVar("T")
Watch = Callable[[Callable[[str], None]], Callable[[], None]]


async def until(awaited: asyncio.Future[Any], seconds: float, stopping: asyncio.Event) -> None:
    """Return when it is there, after so many seconds, or when the server stops."""
    stopped = asyncio.ensure_future(stopping.wait())
    try:
        first = asyncio.FIRST_COMPLETED
        await asyncio.wait((awaited, stopped), timeout=seconds, return_when=first)
    finally:
        stopped.cancel()
        await asyncio.gather(stopped, return_exceptions=True)


class Caller:
    """Whether the caller of a request still listens. Use it by `async with`, after the body was
    read: whatever comes then is the end of the connection."""

    def __init__(self, request: Request[Any, Any, Any], watch: Watch) -> None:
        """`watch` calls back when the caller's token is no longer good."""
        self._request = request
        self._watch = watch
        self._why: str | None = None

    async def __aenter__(self) -> Caller:
        self._leaving = asyncio.create_task(self._left(), name="windlass caller")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leaving.cancel()
        await asyncio.gather(self._leaving, return_exceptions=True)

    async def _left(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":
            pass

    async def is_gone(self) -> bool:
        """Whether it has left; what has arrived is looked at first."""
        await asyncio.sleep(0)
        return self._leaving.done()

    async def wait(self, waiting: Awaitable[T]) -> T:
        """What is waited for; Gone, and the wait is cancelled, if the caller leaves before.
        Unauthenticated if its token ends."""
        work = asyncio.ensure_future(waiting)
        over = asyncio.Event()

        def ended(why: str) -> None:
            self._why = why
            over.set()

        unwatch = self._watch(ended)
        ending = asyncio.ensure_future(over.wait())
        try:
            first = asyncio.FIRST_COMPLETED
            await asyncio.wait((work, self._leaving, ending), return_when=first)
            if self._why is not None:
                raise Unauthenticated(self._why)
            if work.done():
                return work.result()
            raise Gone
        finally:
            unwatch()
            work.cancel()
            ending.cancel()
            await asyncio.gather(work, ending, return_exceptions=True)
