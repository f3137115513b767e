"""An HTTP transport that connects to addresses which were checked, and to no others.

httpx speaks HTTP, and httpcore keeps the connections. Below them is a network backend of ours: it
resolves a name once, checks what came of it, and connects to that very address. The URL stays as it
is above, so `Host` and the name that the certificate must have are the ones that were asked for.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import httpcore
import httpx

from windlass.server.webhooks.addresses import NOT_ALLOWED, Network, may_be_reached, parse_address

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""From a host and a port to addresses; OSError where there are none."""


class ForbiddenAddress(httpx.ConnectError):
    """Raised when a name leads to places that webhooks are not posted to."""


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host, by the system's resolver, in the order of its preference."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class CheckedBackend(httpcore.AsyncNetworkBackend):
    """Connects where it may."""

    def __init__(self, allow: Sequence[Network], resolver: Resolver) -> None:
        self._allow = allow
        self._resolver = resolver
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """The first of the host's allowed addresses that takes the connection. They share the
        time, so that one which answers nothing does not use it up."""
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._allowed(host, port)
                failure: Exception = httpcore.ConnectError("it has no address")
                share = None if timeout is None else timeout / max(1, len(addresses))
                for address in addresses:
                    try:
                        return await self._inner.connect_tcp(
                            address, port, share, local_address, socket_options
                        )
                    except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                        failure = error
        except TimeoutError:
            raise httpcore.ConnectTimeout(f"no connection to {host} in time") from None
        if isinstance(failure, httpcore.ConnectTimeout):
            raise failure
        raise httpcore.ConnectError(f"{host} cannot be reached: {failure}")

    async def _allowed(self, host: str, port: int) -> list[str]:
        try:
            found = await self._resolver(host, port)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(f"{host} cannot be resolved: {error}") from None
        allowed = [it for it in found if may_be_reached(parse_address(it), self._allow)]
        if found and not allowed:
            raise ForbiddenAddress(f"{host} leads to {found[0]}, which {NOT_ALLOWED}")
        return allowed

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        raise httpcore.ConnectError("webhooks are not posted to sockets of this machine")

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


class CheckedTransport(httpx.AsyncBaseTransport):
    """Carries requests of an httpx client over connections of a CheckedBackend."""

    def __init__(
        self,
        allow: Sequence[Network] = (),
        *,
        connections: int = 100,
        resolver: Resolver = resolve,
    ) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=httpx.create_ssl_context(),
            max_connections=connections,
            max_keepalive_connections=connections,
            keepalive_expiry=5.0,
            network_backend=CheckedBackend(allow, resolver),
        )

    async def __aenter__(self) -> Self:
        await self._pool.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        await self._pool.__aexit__(kind, error, trace)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        asked = httpcore.Request(
            method=request.method,
            url=httpcore.URL(
                scheme=request.url.raw_scheme,
                host=request.url.raw_host,
                port=request.url.port,
                target=request.url.raw_path,
            ),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _errors_of(request):
            answer = await self._pool.handle_async_request(asked)
        assert not isinstance(answer.stream, bytes)
        return httpx.Response(
            status_code=answer.status,
            headers=answer.headers,
            stream=_Body(answer, request),
            extensions=answer.extensions,
        )


class _Body(httpx.AsyncByteStream):
    def __init__(self, answer: httpcore.Response, request: httpx.Request) -> None:
        self._answer = answer
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _errors_of(self._request):
            async for piece in self._answer.aiter_stream():
                yield piece

    async def aclose(self) -> None:
        with _errors_of(self._request):
            await self._answer.aclose()


@contextmanager
def _errors_of(request: httpx.Request) -> Iterator[None]:
    """What went wrong, as httpx says it."""
    try:
        yield
    except httpcore.TimeoutException as error:
        raise httpx.TimeoutException(str(error), request=request) from error
    except (httpcore.NetworkError, httpcore.ProtocolError) as error:
        raise httpx.TransportError(str(error), request=request) from error
