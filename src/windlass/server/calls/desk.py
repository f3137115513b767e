"""What the verbs of one caller work with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from windlass.model.job import Job
from windlass.server.calls.caller import Caller
from windlass.server.calls.checks import JobChecks
from windlass.server.calls.gathering import Gathered
from windlass.server.identity import Power
from windlass.store.port import Store
from windlass.store.records import Lease, NewJob, Outcome, Settled


@dataclass(frozen=True, slots=True)
class Writers:
    """Writes of all callers of this process, gathered."""

    settlements: Gathered[tuple[Lease, Outcome], Settled]
    jobs: Gathered[NewJob, Job]


@dataclass(frozen=True, slots=True)
class Desk:
    store: Store
    caller: Caller
    checks: JobChecks
    writers: Writers
    is_draining: Callable[[], bool]
    """Whether the server has been told to stop: no job is handed out any more."""
    hint: Callable[[], Awaitable[None]]
    """Push hints to this caller's stream from now on."""


@dataclass(frozen=True, slots=True)
class Given:
    """An answer that is to be taken back if it cannot be delivered."""

    value: Any
    leases: Sequence[Lease]


Run = Callable[[Desk, Any], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Rule:
    """What a verb needs, and how it is done for a caller."""

    power: Power
    run: Run
