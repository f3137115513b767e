"""The job: what a caller asks for, and what it looks like afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, TypedDict

import msgspec

from windlass.model.names import KeyMode, OnBlockerFailure


class JobState(StrEnum):
    """Where a job is in its life. The last three are final."""

    BLOCKED = "blocked"
    SCHEDULED = "scheduled"
    READY = "ready"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self in (JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED)


class JobSpec(msgspec.Struct, frozen=True):
    """One job to add. Only `task` is needed; what is left None takes the task's own option.

    `run_at` is an aware datetime; `delay` and `keep` are seconds or a timedelta. `meta` is a small
    JSON object that goes along with the job: headers, a trace's context. A `strict` job that waits
    for its retry, or has failed, holds its queue: no other job of the queue starts before it.

    `blockers` are chains (or their ids) that must end before the job may start, and
    `on_blocker_failure` is what it does when one fails or is cancelled: "fail" too, "run" all the
    same, or "wait" until the chain is retried. `key_window` (seconds or a timedelta) is for chains
    that are started: the key counts that long after the end of the chain that has it.
    """

    task: str
    payload: Any = None
    queue: str | None = None
    run_at: datetime | None = None
    delay: float | timedelta | None = None
    max_attempts: int | None = None
    key: str | None = None
    key_mode: KeyMode = "replace"
    priority: int | None = None
    flags: Sequence[str] | None = None
    keep: float | timedelta | None = None
    meta: Mapping[str, Any] | None = None
    strict: bool | None = None
    blockers: Sequence[Any] | None = None
    on_blocker_failure: OnBlockerFailure | None = None
    key_window: float | timedelta | None = None


class JobOptions(TypedDict, total=False):
    """What `add_job` and `using` take by keyword: the fields of JobSpec."""

    queue: str | None
    run_at: datetime | None
    delay: float | timedelta | None
    max_attempts: int | None
    key: str | None
    key_mode: KeyMode
    priority: int | None
    flags: Sequence[str] | None
    keep: float | timedelta | None
    meta: Mapping[str, Any] | None
    strict: bool | None
    blockers: Sequence[Any] | None
    on_blocker_failure: OnBlockerFailure | None
    key_window: float | timedelta | None


Instant = Annotated[int, "instant"]
"""Microseconds since 1970, UTC. Marked, so that a store knows what to make of such a field."""
Micros = Annotated[int, "micros"]
"""A length of time, in microseconds."""
JsonText = Annotated[str, "json"]
Flag = Annotated[int, "flag"]
"""0 or 1."""


DEFAULT_TENANT = ""
"""What stores call the tenant of jobs that have none; outside it is None."""


class Carried(msgspec.Struct, array_like=True, gc=False):
    """What a job carries from its caller to its worker, as stores know it.

    The request for a job, its row and its lease have all of these fields, and so does the history.
    A field that is added here needs a column in each SQL store, and nothing else: the statements'
    lists of columns are made from this declaration.
    """

    task: str
    payload: JsonText = "{}"
    queue: str | None = None
    max_attempts: int | None = None
    key: str | None = None
    priority: int = 0
    flags: tuple[str, ...] | None = None
    keep: float | None = None
    meta: JsonText | None = None
    tenant: str = DEFAULT_TENANT
    is_strict: Flag = 0
    on_blocker_failure: OnBlockerFailure | None = None
    """None is "fail"."""


class Progress(msgspec.Struct, frozen=True):
    """How far a running job says it is: a fraction from 0 to 1, and a note."""

    fraction: float
    note: str = ""


class FailedAttempt(msgspec.Struct, frozen=True):
    """One of a job's failed attempts: its number, when it ended, on which worker, and why.

    `error` is the beginning of what `last_error` was then, 4,096 characters at most.
    """

    attempt: int
    at: datetime
    worker: str | None
    error: str


class Job(msgspec.Struct, frozen=True):
    """A job as the database had it when it was read."""

    id: int
    task: str
    payload: Any
    state: JobState
    priority: int
    run_at: datetime
    attempts: int
    max_attempts: int
    last_error: str | None
    key: str | None
    queue: str | None
    flags: tuple[str, ...] | None
    revision: int
    created_at: datetime
    updated_at: datetime
    locked_by: str | None
    output: Any = None
    progress: Progress | None = None
    log: tuple[Any, ...] = ()
    resets: int = 0
    deliveries: int = 0
    keep: float | None = None
    finished_at: datetime | None = None
    meta: Any = None
    tenant: str | None = None
    strict: bool = False
    errors: tuple[FailedAttempt, ...] = ()
    """The last ten failed attempts, the oldest first."""
    chain: int | None = None
    """The chain it belongs to, if any."""
    step: int = 0
    """Its place in that chain; the first job's is 0."""
    blockers_open: int = 0
    """How many chains it still waits for, and how many it named; one named twice counts once."""
    blockers_total: int = 0
