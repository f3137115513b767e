"""The ports of a server: opened before anything else is, so that what is wrong is said at once.

With several processes the parent opens the port of REST, and its children listen on that one
socket. The streams' port is opened by each child (SO_REUSEPORT); the parent only holds it, so that
no other program takes it and all children know its number.
"""

from __future__ import annotations

import errno
import socket

from windlass.errors import ConfigError
from windlass.server.settings import Address


def open_port(address: Address, flag: str, *, shared: bool = False) -> socket.socket:
    """A socket bound to the address, not listening. A shared one leaves the port to other sockets
    that are shared, too; ConfigError if any socket has it now."""
    family, where = _resolve(address, flag)
    opened = _bound(family, where, address, flag)
    if not shared:
        return opened
    where = opened.getsockname()
    opened.close()
    return _bound(family, where, address, flag, shared=True)


def address_of(opened: socket.socket) -> Address:
    host, port, *_ = opened.getsockname()
    return Address(host, port)


def _resolve(address: Address, flag: str) -> tuple[socket.AddressFamily, tuple[object, ...]]:
    try:
        found = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"{flag}: {address.host} cannot be resolved: {error}") from None
    family, _, _, _, where = found[0]
    return family, where


def _bound(
    family: socket.AddressFamily,
    where: tuple[object, ...],
    address: Address,
    flag: str,
    *,
    shared: bool = False,
) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, where[0] != "::")
        if shared:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        opened.bind(where)
    except OSError as error:
        opened.close()
        raise ConfigError(f"{flag}: {_why(error, address)}") from None
    return opened


def _why(error: OSError, address: Address) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return f"port {address.port} is in use; stop what listens there, or choose another"
        case errno.EACCES:
            return f"this user may not open port {address.port}; choose one from 1024"
        case errno.EADDRNOTAVAIL:
            return f"this machine has no address {address.host}"
        case _:
            return f"{address} cannot be opened: {error.strerror or error}"
