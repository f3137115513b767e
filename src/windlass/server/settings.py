"""What `windlass serve` can be told, and checks of it. Times are seconds."""

from __future__ import annotations

import ipaddress
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from windlass.errors import ConfigError
from windlass.model.names import LONGEST, MAX_INT32, brief
from windlass.server.peers import is_loopback, without_port

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

DEFAULT_BIND = "127.0.0.1:8080"
DEFAULT_GRPC_BIND = "127.0.0.1:9091"
DEFAULT_KEEP = 24 * 3600.0
DEFAULT_GRACE = 25.0


class Dashboard(StrEnum):
    """Whether the port of REST shows pages, and whether these change anything."""

    ON = "on"
    READ_ONLY = "read-only"
    OFF = "off"


class Address(msgspec.Struct, frozen=True):
    """Where a port is opened; port 0 lets the system choose one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ServeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Every setting with its default. Make it by `make_settings`, which checks them."""

    bind: Address = Address("127.0.0.1", 8080)
    """Of REST."""
    grpc_bind: Address = Address("127.0.0.1", 9091)
    """Of the streams."""
    processes: int = 1
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_client_ca: str | None = None
    """Whose certificates clients must show."""
    jwks: str | None = None
    """The file or URL with the keys of the issuer of JWTs."""
    jwt_issuer: str | None = None
    jwt_audience: str | None = None
    insecure: bool = False
    """Serve on other addresses than loopback without any token."""
    open_probes: bool = False
    """Answer /healthz, /readyz and /metrics to everyone, and not on loopback alone."""
    webhook_allow: tuple[Network, ...] = ()
    """Private networks that webhooks may be posted to."""
    grace: float = DEFAULT_GRACE
    """How long a stopping server takes results."""
    keep: float | None = None
    """How long completed jobs are kept that were added through the server and do not say; else the
    app's setting, or a day."""
    rate: float | None = None
    """Calls per second and token, in each process; None is any number."""
    dashboard: Dashboard = Dashboard.ON


def make_settings(**given: Any) -> ServeSettings:
    """The settings; ConfigError where one cannot be used. What is None is not given."""
    given = {name: value for name, value in given.items() if value is not None}
    for name in ("bind", "grpc_bind"):
        if isinstance(given.get(name), str):
            given[name] = parse_address(given[name], _flag(name))
    given["dashboard"] = Dashboard(given.get("dashboard", Dashboard.ON))
    given["webhook_allow"] = tuple(map(_network, given.get("webhook_allow", ())))
    settings = ServeSettings(**given)
    _check_ports(settings.bind, settings.grpc_bind)
    _check_numbers(settings)
    _check_tls(settings)
    _check_jwt(settings)
    return settings


def parse_address(text: str, flag: str) -> Address:
    """`127.0.0.1:8080`, `[::1]:8080`, `localhost:8080`; `:8080` is every address."""
    host, separator, port = text.strip().rpartition(":")
    bare = without_port(host) if host.startswith("[") else host
    if not separator or (":" in bare and not host.startswith("[")):
        raise ConfigError(f"{flag} must be HOST:PORT, such as 127.0.0.1:8080, not {brief(text)}")
    if not (port.isascii() and port.isdecimal() and int(port) < 65_536):
        raise ConfigError(f"{flag} has no port from 0 to 65535: {brief(text)}")
    return Address(bare or "0.0.0.0", int(port))  # noqa: S104


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _network(value: object) -> Network:
    try:
        return ipaddress.ip_network(str(value))
    except ValueError as error:
        raise ConfigError(
            f"--webhook-allow must be a network, such as 10.0.0.0/8 or 192.168.1.7: {error}"
        ) from None


def _check_ports(rest: Address, streams: Address) -> None:
    """Two sockets may have one port until they listen."""
    hosts = {rest.host, streams.host}
    if rest.port == streams.port != 0 and (len(hosts) == 1 or hosts & _EVERY_HOST):
        raise ConfigError(
            f"--bind and --grpc-bind are both port {rest.port}: REST and the streams need a port"
            " each"
        )


_EVERY_HOST = {"0.0.0.0", "::"}  # noqa: S104


def _check_numbers(settings: ServeSettings) -> None:
    if not 1 <= settings.processes <= 1_000:
        raise ConfigError(f"--processes must be from 1 to 1000, not {settings.processes}")
    if not 0 <= settings.grace <= 86_400:
        raise ConfigError(f"--grace must be from 0 seconds to a day, not {settings.grace:g}")
    if settings.keep is not None and not 0 <= settings.keep <= LONGEST:
        raise ConfigError(f"--keep must be at least 0 seconds and finite, not {settings.keep:g}")
    if settings.rate is not None and not 0 < settings.rate <= MAX_INT32:
        raise ConfigError(f"--rate must be more than 0 calls per second, not {settings.rate:g}")


def _check_tls(settings: ServeSettings) -> None:
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise ConfigError("--tls-cert and --tls-key go together")
    if settings.tls_client_ca is not None and settings.tls_cert is None:
        raise ConfigError("--tls-client-ca needs --tls-cert and --tls-key")
    for name in ("tls_cert", "tls_key", "tls_client_ca"):
        check_file(_flag(name), getattr(settings, name))


def _check_jwt(settings: ServeSettings) -> None:
    if settings.jwks is None:
        if settings.jwt_issuer is not None or settings.jwt_audience is not None:
            raise ConfigError("--jwt-issuer and --jwt-audience mean nothing without --jwks")
        return
    if not settings.jwt_issuer or not settings.jwt_audience:
        raise ConfigError(
            "--jwks needs --jwt-issuer and --jwt-audience: without them a token that the issuer"
            " made for another service would be good here"
        )
    if "://" not in settings.jwks:
        check_file("--jwks", settings.jwks)
        return
    url = urlsplit(settings.jwks)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ConfigError(
            f"--jwks must be a file, or a URL that begins with https://: {url.geturl()}"
        )
    if url.scheme == "http" and not is_loopback(url.hostname) and not settings.insecure:
        raise ConfigError(
            "--jwks by http:// lets the network choose the keys; use https://, or a file"
        )


def check_file(flag: str, name: str | None) -> None:
    if name is not None and not Path(name).is_file():
        raise ConfigError(f"{flag}: there is no file {name}")
