"""Where a server is, and how this program shows who it is."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from windlass.errors import ConfigError

DEFAULT_PORT = 9091


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """`ca` is a file with the certificates to trust, instead of those that OpenSSL trusts (of the
    system, or of SSL_CERT_FILE). `certificate` is a file with a certificate of this program's own
    and its key, for servers that ask for one."""

    host: str
    port: int
    is_encrypted: bool = False
    token: str | None = field(default=None, repr=False)
    ca: str | None = None
    certificate: str | None = None

    @classmethod
    def parse(
        cls,
        url: str,
        *,
        token: str | None = None,
        ca: str | None = None,
        certificate: str | None = None,
    ) -> ServerAddress:
        """ConfigError where the URL does not say just which host and port."""
        try:
            parts = urlsplit(url)
            port = parts.port or DEFAULT_PORT
        except ValueError as error:
            raise ConfigError(f"this URL names no server: {error}") from None
        if parts.username is not None or parts.password is not None:
            raise ConfigError(
                f"a {parts.scheme}:// URL has no user and no password; give the token by the"
                " setting token, or by WINDLASS_TOKEN"
            )
        if not parts.hostname:
            raise ConfigError(f"{url!r} names no host; write {parts.scheme}://host:{DEFAULT_PORT}")
        if parts.path not in ("", "/") or parts.query or parts.fragment:
            raise ConfigError(
                f"{url!r} has more than a host and a port; write"
                f" {parts.scheme}://{parts.hostname}:{port}"
            )
        is_encrypted = parts.scheme == "grpcs"
        if not is_encrypted and (ca is not None or certificate is not None):
            raise ConfigError("tls_ca and tls_certificate are for grpcs:// URLs")
        return cls(parts.hostname, port, is_encrypted, token, ca, certificate)

    @property
    def name(self) -> str:
        """For messages and logs."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def tls(self) -> ssl.SSLContext | None:
        """ConfigError where a file cannot be used."""
        if not self.is_encrypted:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate)
        except (OSError, ssl.SSLError) as error:
            files = " or ".join(file for file in (self.ca, self.certificate) if file)
            raise ConfigError(f"{files or 'TLS'} cannot be used: {error}") from None
        context.set_alpn_protocols(["h2"])
        return context
