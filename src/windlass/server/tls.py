"""TLS for both ports, from the files of the settings."""

from __future__ import annotations

import ssl

from windlass.errors import ConfigError
from windlass.server.settings import ServeSettings


def server_context(settings: ServeSettings) -> ssl.SSLContext | None:
    """None without TLS. ConfigError where a file holds something else than it should."""
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        # A key with a passphrase cannot be used: a server has no terminal to ask for it.
        context.load_cert_chain(settings.tls_cert, settings.tls_key, password="")
    except (ssl.SSLError, OSError, ValueError) as error:
        raise ConfigError(
            f"--tls-cert {settings.tls_cert} and --tls-key {settings.tls_key} cannot be used"
            f" together: {error}; both must be PEM, and the key without a passphrase"
        ) from None
    if settings.tls_client_ca is not None:
        try:
            context.load_verify_locations(settings.tls_client_ca)
        except (ssl.SSLError, OSError) as error:
            raise ConfigError(
                f"--tls-client-ca {settings.tls_client_ca} cannot be used: {error}; it must be PEM"
            ) from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context
