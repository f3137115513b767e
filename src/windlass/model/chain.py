"""The chain: jobs that continue one another, and what may wait for its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Generic, TypeVar

import msgspec

from windlass.model.job import Job
from windlass.model.names import OnBlockerFailure

T = TypeVar("T")

KEEP_CHAINS = 3600.0
"""Seconds for which a completed chain can still be seen."""
KEEP_FAILED_CHAINS = 7 * 24 * 3600.0
"""The same for one that failed or was cancelled."""


class ChainState(StrEnum):
    """How far a chain is. All but the first are ends."""

    OPEN = "open"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self is not ChainState.OPEN


class Chain(msgspec.Struct, Generic[T], frozen=True):
    """A chain as the database had it when it was read.

    `id` is the id of its first job, `task` and `payload` are that job's. `output` is what its last
    job returned, once it has completed; `error` is why it failed. `job` is its current job, None
    when that is gone. `length` counts its jobs so far. `deduplicated` is set where a start was
    answered with a chain that was there already, because it has the key.
    """

    id: int
    task: str
    payload: Any
    state: ChainState
    output: T
    error: str | None
    job: Job | None
    length: int
    key: str | None
    tenant: str | None
    deduplicated: bool
    created_at: datetime
    finished_at: datetime | None


class ChainPlace(msgspec.Struct, frozen=True):
    """Where a job stands in its chain: `ctx.chain`. `index` is 0 for the first job."""

    id: int
    index: int


class Next(msgspec.Struct, frozen=True):
    """The job with which `complete_chain` lets a chain go on. Its fields are JobSpec's."""

    task: str
    payload: Any = None
    queue: str | None = None
    run_at: datetime | None = None
    delay: float | timedelta | None = None
    max_attempts: int | None = None
    priority: int | None = None
    flags: Sequence[str] | None = None
    keep: float | timedelta | None = None
    meta: Mapping[str, Any] | None = None
    strict: bool | None = None
    blockers: Sequence[Any] | None = None
    on_blocker_failure: OnBlockerFailure | None = None
