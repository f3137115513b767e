"""What these routes need of the server around them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from windlass.server.service import Service
from windlass.store.records import Lease
from windlass.store.server import ClaimScope

__all__ = ["Service", "Want", "check_webhook"]


@dataclass(slots=True, eq=False)
class Want:
    scope: ClaimScope
    worker: str
    lease: float
    count: int
    give: Callable[[list[Lease]], None]
    can_take: Callable[[], bool]


def check_webhook(service: Service, url: str) -> None:
    pass
