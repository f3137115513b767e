"""Which addresses webhooks may be posted to.

Public ones, and those of the networks that `--webhook-allow` names. An address that carries another
one inside (IPv4 in IPv6, in whatever form) is judged by both.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from windlass.errors import ValidationError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

LONGEST_URL = 2_048

_UNICAST = ipaddress.IPv6Network("2000::/3")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_SPECIAL: tuple[Network, ...] = (
    ipaddress.IPv4Network("192.0.0.0/24"),  # of protocols
    ipaddress.IPv4Network("192.88.99.0/24"),  # relays of 6to4, which pass on what they are sent
    ipaddress.IPv6Network("3fff::/20"),  # for documents
)
"""Not public, although some versions of Python take them for that."""


def check_address(url: object, allow: Sequence[Network] = ()) -> str:
    """The URL, if jobs may be given it: what can be refused before any name is resolved, is.

    Raises ValidationError for what is no address of a webhook, and for one that says by itself that
    it leads to a place which is not allowed.
    """
    if not isinstance(url, str):
        raise _refused("must be a URL")
    if len(url) > LONGEST_URL:
        raise _refused(f"is {len(url)} characters long; the limit is {LONGEST_URL}")
    if not url.isprintable() or " " in url:
        raise _refused("contains a character that must be percent-encoded")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise _refused("is not a URL") from None
    if parts.scheme not in ("http", "https") or not host:
        raise _refused("must begin with https:// or http://, and name a host")
    if parts.username is not None or parts.password is not None:
        raise _refused("must not contain a user or a password; put a secret into the path")
    address = _literal(host)
    if address is not None and not may_be_reached(address, allow):
        raise _refused(f"leads to {address}, which {NOT_ALLOWED}")
    return url


NOT_ALLOWED = "is no public address, and not one of --webhook-allow"


def may_be_reached(address: Address, allow: Sequence[Network]) -> bool:
    """Whether a connection may be made to it."""
    return all(_is_public(face) or _is_in(face, allow) for face in _faces(address))


def parse_address(text: str) -> Address:
    """Of what a resolver answered; ValueError for what is no address."""
    return ipaddress.ip_address(text)


def _refused(why: str) -> ValidationError:
    return ValidationError(f"webhook {why}", field="webhook")


def _literal(host: str) -> Address | None:
    """The address that a host is, rather than names. Resolvers take `127.1` and `0x7f000001` for
    addresses, too; `localhost` is always this machine."""
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return ipaddress.IPv4Address("127.0.0.1")
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(name)) if name.isascii() else None
    except OSError:
        return None


def _is_in(address: Address, networks: Sequence[Network]) -> bool:
    return any(it.version == address.version and address in it for it in networks)


def _faces(address: Address) -> Iterator[Address]:
    """The address, and those that it carries inside."""
    if isinstance(address, ipaddress.IPv4Address):
        yield address
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped  # it is nothing else: this is how sockets write IPv4
        return
    if address in _NAT64:
        yield ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        return
    yield address
    if address.sixtofour is not None:
        yield address.sixtofour


def _is_public(address: Address) -> bool:
    if address.is_multicast or not address.is_global:
        return False
    if address.is_reserved or _is_in(address, _SPECIAL):
        return False
    return isinstance(address, ipaddress.IPv4Address) or address in _UNICAST
