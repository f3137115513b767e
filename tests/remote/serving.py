"""A server's streams in a thread of this process, with an event loop of its own.

Without `upkeep` the tests say when time passes, and what is reaped then.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from windlass import App
from windlass.clock import SYSTEM, Clock
from windlass.server.calls import CallService, open_calls
from windlass.server.identity import Role
from windlass.server.service import ServedStore, Service
from windlass.server.settings import make_settings
from windlass.server.streams import StreamServer, Works, open_works, start
from windlass.server.tokens import digest_of, make_token
from windlass.server.upkeep import Upkeep
from windlass.store.server import Token
from windlass.stores.remote import RemoteStore, ServerAddress

T = TypeVar("T")

ADMIN = make_token()


def token(name: str, *roles: Role, **more: Any) -> tuple[str, Token]:
    """The text of a token, and what the database keeps of it."""
    text = make_token()
    return text, Token(name=name, digest=digest_of(text), roles=roles, created_at=0, **more)


_ADMIN = Token(name="root", digest=digest_of(ADMIN), roles=(Role.ADMIN,), created_at=0)


class Serving:
    """`url` is where the served jobs are."""

    def __init__(
        self,
        url: str,
        clock: Clock = SYSTEM,
        *,
        grace: float = 5.0,
        upkeep: bool = False,
        **settings: Any,
    ) -> None:
        self.app = App(url, clock=clock, **settings)
        self._has_upkeep = upkeep
        self._upkeep: Upkeep | None = None
        self.service = Service(self.app, make_settings(grace=grace), clock=clock)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="test-server")
        self._works: Works
        self._streams: StreamServer
        self.calls: CallService
        self.port = 0
        self.texts: dict[str, str] = {}
        """Of the tokens, by their names."""

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something on the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def do(self, function: Callable[[], T]) -> T:
        async def run() -> T:
            return function()

        return self.call(run())

    @property
    def store(self) -> ServedStore:
        return self.service.store

    def start(self, tokens: Mapping[str, Token], tls: ssl.SSLContext | None) -> None:
        self._thread.start()
        self.texts = {known.name: text for text, known in tokens.items()}
        self.call(self._start({ADMIN: _ADMIN, **tokens}, tls))

    async def _start(self, tokens: Mapping[str, Token], tls: ssl.SSLContext | None) -> None:
        await self.service.start()
        for known in tokens.values():
            await self.store.add_token(known)
        self._works = await open_works(self.service)
        self.service.use(self._works)
        self.calls = self.service.calls = await open_calls(self.service)
        if self._has_upkeep:
            service = self.service
            self._upkeep = Upkeep(self.app, self.store, service.settings, service.clock)
            await self._upkeep.start()
        await self.serve(tls)

    async def serve(self, tls: ssl.SSLContext | None = None) -> None:
        """Open the port; the same again after `leave`."""
        self._streams = await start(self.service, "127.0.0.1", self.port, tls, works=self._works)
        self.port = self._streams.port

    async def leave(self) -> None:
        """Close the port, and all streams with it."""
        await self._streams.close()

    async def drain(self) -> None:
        self.service.draining.set()
        await self._streams.drain()

    def stop(self) -> None:
        self.call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _stop(self) -> None:
        await self._streams.close()
        if self._upkeep is not None:
            await self._upkeep.stop()
        await self.calls.close()
        await self._works.close()
        await self.service.close()
        await self.app.close()

    def remote(self, token: str = ADMIN, **more: Any) -> RemoteStore:
        return RemoteStore(self.address(token, **more))

    def address(self, token: str = ADMIN, **more: Any) -> ServerAddress:
        return ServerAddress("127.0.0.1", self.port, token=token, **more)

    @property
    def url(self) -> str:
        return f"grpc://127.0.0.1:{self.port}"


@contextmanager
def serving(
    url: str,
    clock: Clock = SYSTEM,
    tokens: Mapping[str, Token] | None = None,
    tls: ssl.SSLContext | None = None,
    **more: Any,
) -> Iterator[Serving]:
    served = Serving(url, clock, **more)
    served.start(tokens or {}, tls)
    try:
        yield served
    finally:
        served.stop()
