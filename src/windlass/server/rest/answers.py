"""Answers that several routes give: pages, and values as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from windlass.model.chain import Chain
from windlass.model.job import Job

Cursor = Annotated[
    int | None,
    Meta(
        description="Give it as `after` for the next page; null where this is the last.",
        examples=[41],
    ),
]


class Jobs(msgspec.Struct):
    """Many jobs."""

    jobs: Annotated[Sequence[Job], Meta(description="The jobs, the newest first where listed.")]
    next: Cursor = None


class Chains(msgspec.Struct):
    """Many chains."""

    chains: Annotated[
        Sequence[Chain[Any]], Meta(description="The chains, the newest first where listed.")
    ]
    next: Cursor = None


def encode(value: object) -> bytes:
    return msgspec.json.encode(value)
