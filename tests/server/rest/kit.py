"""A served app in memory, and a client that calls it without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx

from windlass import App
from windlass.clock import SYSTEM, Clock
from windlass.server.rest import make_app
from windlass.server.service import Service
from windlass.server.settings import make_settings
from windlass.server.streams import open_works
from windlass.server.tokens import digest_of, make_token
from windlass.store.server import Token
from windlass.testing import VirtualClock, run_virtual

HERE = ("127.0.0.1", 50_000)


class Kit:
    """One server, and callers of it."""

    def __init__(self, app: App, service: Service, clock: Clock) -> None:
        self.app = app
        self.service = service
        self.clock = clock
        self.asgi: Any = make_app(service)
        self._callers: list[httpx.AsyncClient] = []

    @property
    def store(self) -> Any:
        return self.app.store

    def caller(self, token: str | None = None, *, address: str = "127.0.0.1") -> httpx.AsyncClient:
        """A client that shows this token, or none."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        transport = httpx.ASGITransport(self.asgi, raise_app_exceptions=False, client=(address, 1))
        caller = httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1:8080", headers=headers, timeout=None
        )
        self._callers.append(caller)
        return caller

    async def token(
        self, *roles: str, tenant: str = "", tasks: tuple[str, ...] | None = None, **more: Any
    ) -> str:
        text = make_token()
        name = f"{'-'.join(roles)}-{len(await self.service.store.tokens())}"
        await self.service.store.add_token(
            Token(
                name=name,
                digest=digest_of(text),
                tenant=tenant,
                roles=roles,
                tasks=tasks,
                created_at=self.clock.now(),
                **more,
            )
        )
        return text

    async def as_role(self, *roles: str, **more: Any) -> httpx.AsyncClient:
        return self.caller(await self.token(*roles, **more))

    async def close(self) -> None:
        for caller in self._callers:
            await caller.aclose()


@asynccontextmanager
async def serving(
    url: str = "memory://", *, clock: Clock = SYSTEM, app: App | None = None, **settings: Any
) -> AsyncIterator[Kit]:
    """A started server, without ports."""
    async with AsyncExitStack() as stack:
        served = await stack.enter_async_context(app or App(url, clock=clock))
        service = Service(served, make_settings(**settings), clock=clock)
        await service.start()
        stack.push_async_callback(service.close)
        works = await open_works(service)
        stack.push_async_callback(works.close)
        service.use(works)
        kit = Kit(served, service, clock)
        await stack.enter_async_context(_lifespan(kit.asgi))
        stack.push_async_callback(kit.close)
        yield kit


@asynccontextmanager
async def _lifespan(asgi: Any) -> AsyncIterator[None]:
    said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
    task = asyncio.create_task(asgi(scope, said.get, heard.put))
    await said.put({"type": "lifespan.startup"})
    assert (await heard.get())["type"] == "lifespan.startup.complete"
    try:
        yield
    finally:
        await said.put({"type": "lifespan.shutdown"})
        assert (await heard.get())["type"] == "lifespan.shutdown.complete"
        await task


Check = Callable[[Kit], Awaitable[None]]


def served(check: Check, **settings: Any) -> None:
    """Run a check against a server in memory, in virtual time."""

    async def body(clock: VirtualClock) -> None:
        async with serving(clock=clock, **settings) as kit:
            await check(kit)

    run_virtual(body)


def problem(answer: httpx.Response, status: int, end: str = "", field: str | None = None) -> Any:
    """What a refusal says; it must be a problem of this status and kind."""
    assert answer.status_code == status, (answer.status_code, answer.text)
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert {"type", "title", "status", "detail"} <= told.keys()
    assert told["status"] == status
    if end:
        assert told["type"] == f"urn:windlass:problem:{end}", told
    if field is not None:
        assert told.get("field") == field, told
    return told


def counted(store: Any, verb: str) -> list[Any]:
    """The calls of a verb of the store from now on."""
    calls: list[Any] = []
    inner = getattr(store, verb)

    async def counting(*args: Any, **more: Any) -> Any:
        calls.append(args)
        return await inner(*args, **more)

    setattr(store, verb, counting)
    return calls
