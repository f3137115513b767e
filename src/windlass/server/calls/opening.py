"""Makes the calls of a server, from its service."""

from __future__ import annotations

import secrets

from windlass.server.calls.service import CallService
from windlass.server.service import Service

SECRET = "calls"  # noqa: S105
"""The name of the database's secret with which leases are sealed: all its servers share it."""


async def open_calls(service: Service) -> CallService:
    """The store must be open, and stay open until the calls are closed."""
    secret = await service.store.secret(SECRET, secrets.token_hex(32))
    return CallService(
        service.store,
        secret,
        max_payload=service.app.settings.max_payload,
        check_webhook=service.check_webhook,
        is_draining=service.draining.is_set,
    )
