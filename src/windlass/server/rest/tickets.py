"""Leases as REST clients hold them: opaque text, made of sealed deliveries."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta

from windlass.server.rest.call import Call
from windlass.store.records import Lease

LeaseText = Annotated[str, Meta(max_length=8_192, examples=["AcVuZg…"])]


def ticket(delivery: bytes) -> str:
    return base64.urlsafe_b64encode(delivery).decode()


def leases_of(call: Call[Any, Any], texts: Sequence[str]) -> list[Lease | None]:
    """What each text proves; None for what no server of this database made, and for what this
    caller may not settle."""
    return [_lease(call, text) for text in texts]


def _lease(call: Call[Any, Any], text: str) -> Lease | None:
    try:
        raw = base64.b64decode(text, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    lease = call.service.deliveries.open(raw, call.sees)
    tasks = call.identity.tasks
    return None if lease is None or (tasks is not None and lease.task not in tasks) else lease
