"""Where a call comes from, as far as that decides whether it may come without a token.

Without a token the caller must be a program on this machine that speaks to the server itself. A
proxy on this machine passes on what others say, and a web page makes the browser of this machine's
user say it; both come from a loopback address. A proxy is told by the headers that it adds, and by
HTTP/1.0; a page by the name in `Host` (its own, also where that name leads here), by `Origin`, and
by bodies that are no JSON: those are the ones that a browser sends to other sites without asking
them first.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

_PROXY_HEADERS = frozenset({"forwarded", "via", "x-real-ip"})
_PROXY_PREFIX = "x-forwarded-"
_READING = frozenset({"GET", "HEAD", "OPTIONS"})


class Peer(msgspec.Struct, frozen=True):
    """The other end of one call or stream."""

    address: str | None = None
    """Of the other end of the connection."""
    host: str = ""
    """The name by which it was called, with or without a port."""
    is_forwarded: bool = False
    """Whether a proxy has passed it on."""
    is_old: bool = False
    """Whether it came as HTTP/1.0, which proxies speak that add no header, and programs do not."""
    may_be_a_page: bool = False
    """Whether a web page of another site could have made a browser send it."""

    @property
    def doubt(self) -> str | None:
        """Why it may be no program on this machine, if anything says so."""
        if not is_loopback(self.address or ""):
            return "it does not come from this machine"
        if not is_loopback(without_port(self.host)):
            return "its Host is not a name of this machine, such as localhost or 127.0.0.1"
        if self.is_forwarded:
            return "it came through a proxy"
        if self.is_old:
            return "it came as HTTP/1.0, as through a proxy"
        if self.may_be_a_page:
            return "its body is not declared as JSON; send Content-Type: application/json"
        return None

    @property
    def is_local(self) -> bool:
        return self.doubt is None


def http_peer(scope: Mapping[str, Any]) -> Peer:
    """Of one request, from its ASGI scope."""
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        headers[name.decode("latin-1").lower()] = value.decode("latin-1")
    client = scope.get("client")
    return Peer(
        address=client[0] if client else None,
        host=headers.get("host", ""),
        is_forwarded=_is_forwarded(headers),
        is_old=scope.get("http_version", "1.1") in ("0.9", "1.0"),
        may_be_a_page=_may_be_a_page(scope["method"], headers),
    )


def stream_peer(address: str | None, metadata: Iterable[str], host: str = "localhost") -> Peer:
    """Of one stream, from the names of its metadata. No web page can open one: its content type is
    none that a browser sends to other sites."""
    return Peer(address=address, host=host, is_forwarded=_is_forwarded(metadata))


def _is_forwarded(names: Iterable[str]) -> bool:
    return any(name in _PROXY_HEADERS or name.startswith(_PROXY_PREFIX) for name in names)


def _may_be_a_page(method: str, headers: Mapping[str, str]) -> bool:
    if method in _READING:
        return False  # it changes nothing, and no page of another site can read the answer
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return False
    has_body = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
    return has_body or "origin" in headers


def is_loopback(name: str) -> bool:
    """Whether an address, or the name of a host, is this machine's own."""
    if name.lower().rstrip(".") == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def without_port(authority: str) -> str:
    """The host of `host`, `host:port` or `[address]:port`."""
    if authority.startswith("["):
        return authority[1:].partition("]")[0]
    return authority if authority.count(":") > 1 else authority.partition(":")[0]
