"""Signatures as Standard Webhooks say: HMAC-SHA256 of id, time and body under the tenant's secret.

A secret is `whsec_` and 32 random bytes in base64. It is made when it is first needed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets

from windlass.store.server import ServerStore

SECRET = "webhook"  # noqa: S105
"""Its name among the secrets of a tenant."""
_PREFIX = "whsec_"
_BYTES = 32


def make_secret() -> str:
    return _PREFIX + base64.b64encode(secrets.token_bytes(_BYTES)).decode()


async def secret_of(store: ServerStore, tenant: str) -> str:
    return await store.secret(SECRET, make_secret(), tenant)


async def rotate_secret(store: ServerStore, tenant: str) -> str:
    """A new secret; what is posted from now on is signed with it alone."""
    fresh = make_secret()
    await store.replace_secret(SECRET, fresh, tenant)
    return fresh


def sign(secret: str, id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of one call. `timestamp` is in seconds. ValueError for what is no secret."""
    signed = f"{id}.{timestamp}.".encode() + body
    mac = hmac.digest(_key(secret), signed, hashlib.sha256)
    return {
        "webhook-id": id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{base64.b64encode(mac).decode()}",
    }


def _key(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        raise ValueError(
            "the webhook secret of this tenant is not base64; make a new one with"
            " windlass token webhook-secret --rotate"
        ) from None
