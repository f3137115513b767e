"""What these routes need of the server around them."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from windlass.app import App
from windlass.client import Client
from windlass.server.identity import Identity


class Service(Protocol):
    app: App
    store: Any
    settings: Any
    access: Any
    settlements: Any
    dispatcher: Any
    deliveries: Any
    draining: asyncio.Event

    def client(self, identity: Identity, tenant: str | None = None) -> Client: ...
