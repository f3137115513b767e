"""A server in a thread of this process, with an event loop of its own."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from tests.remote.plain_server import PlainServer
from windlass.server.calls import CallService, fresh_secret
from windlass.server.identity import Identity, Role
from windlass.store.port import Store
from windlass.stores.remote import RemoteStore, ServerAddress

T = TypeVar("T")

ADMIN = Identity(name="root", roles=frozenset({Role.ADMIN}), digest="0")
ADMIN_TOKEN = "wl_admin"


def person(name: str, *roles: Role, **more: Any) -> Identity:
    return Identity(name=name, roles=frozenset(roles), digest=name, **more)


class Serving:
    """`store` is served; it is opened here, and closed."""

    def __init__(self, store: Store, tokens: Mapping[str, Identity] | None = None) -> None:
        self.store = store
        self.tokens = {ADMIN_TOKEN: ADMIN, **(tokens or {})}
        self.is_draining = False
        self.secret = fresh_secret()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="test-server")
        self.service: CallService
        self.server: PlainServer
        self.port = 0

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def start(self, tls: ssl.SSLContext | None = None) -> None:
        self._thread.start()
        self.call(self._start(tls))

    async def _start(self, tls: ssl.SSLContext | None) -> None:
        await self.store.open()
        self.service = CallService(
            self.store, self.secret, is_draining=lambda: self.is_draining
        )
        self.server = PlainServer(self.service, self.tokens)
        await self.server.start(tls=tls)
        self.port = self.server.port

    def stop(self) -> None:
        self.call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _stop(self) -> None:
        await self.server.close()
        await self.service.close()
        await self.store.close()

    def do(self, function: Callable[[], T]) -> T:
        """Call a plain function on the server's loop."""

        async def run() -> T:
            return function()

        return self.call(run())

    def remote(self, token: str = ADMIN_TOKEN, **more: Any) -> RemoteStore:
        return RemoteStore(self.address(token, **more))

    def address(self, token: str = ADMIN_TOKEN, **more: Any) -> ServerAddress:
        return ServerAddress("127.0.0.1", self.port, token=token, **more)


@contextmanager
def serving(
    store: Store,
    tokens: Mapping[str, Identity] | None = None,
    tls: ssl.SSLContext | None = None,
) -> Iterator[Serving]:
    served = Serving(store, tokens)
    served.start(tls)
    try:
        yield served
    finally:
        served.stop()
