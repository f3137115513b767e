"""What all requests of one process share."""

from __future__ import annotations

from typing import Any, cast

from litestar.connection import ASGIConnection

from windlass.server.rest.renewals import Renewals
from windlass.server.rest.results import Results
from windlass.server.service import Service
from windlass.server.streams.rulings import Rulings

SHARED = "windlass.shared"
"""Where it is in the scope of a request."""


class Shared:
    """A service, and what REST adds to it."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.results = Results(service.store, service.draining)
        settings = service.app.settings
        self.renewals = Renewals(service.store, settings.lease)
        self.rulings = Rulings(
            service.app.registry,
            retry=service.app.retry,
            max_attempts=settings.max_attempts,
            keep=settings.keep,
            max_output=settings.max_payload,
        )

    async def close(self) -> None:
        """After the last request."""
        await self.results.close()
        await self.renewals.close()


def shared_of(connection: ASGIConnection[Any, Any, Any, Any]) -> Shared:
    return cast(Shared, connection.scope[SHARED])  # type: ignore[literal-required]
