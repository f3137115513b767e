"""What happens in a run: settings and events, readable as JSON."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

LEASE = 6.0
REAP = 2.0
CHAOS = 14.0
"""Seconds in which events happen; then the run is drained."""
WORKERS = ("w0", "w1", "w2")
PRODUCER, OPERATOR = "producer", "operator"
QUEUES = ("q0", "q1")
KEYS = ("k0", "k1", "k2")
FLAGS = ("red", "blue")
TENANT = "acme"
"""Of jobs that are not the default tenant's."""

FaultKind = Literal["refused", "request lost", "answer lost", "late", "slow"]
"""How a call fares: it fails and was not carried out; fails after a while, carried out or not;
is carried out at once and answered late; is carried out late."""

Act = list[Any]
"""What a handler does in one delivery: a word, and numbers."""


class Action(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something is done at `at` seconds. `what` are its arguments."""

    at: float
    do: str
    what: dict[str, Any] = {}


class Fault(msgspec.Struct, frozen=True):
    """The `nth` call (from 1) of `verb` by `actor`, over all its lives, fares as `kind` says."""

    actor: str
    verb: str
    nth: int
    kind: FaultKind
    seconds: float = 0.0


class Settings(msgspec.Struct, frozen=True):
    """What a run is like; `delay` bounds how long a call without a fault takes."""

    workers: int = 1
    slots: int = 2
    delay: float = 0.0
    prefetch: int | None = None
    is_deaf: bool = False
    """Hints are lost; only polling finds new jobs."""
    listens: bool = False
    """Listeners of events are there, and some raise."""
    logs_info: bool = False
    begins_at: float = 0.0
    """Seconds past the minute at the start, for schedules."""
    has_schedule: bool = False
    forbids: bool = False
    """Worker w1 runs no job with the flag red."""
    divides: bool = False
    """Worker w1 runs jobs of acme alone."""


class SimulationPlan(msgspec.Struct, frozen=True):
    """One run."""

    seed: int
    settings: Settings
    actions: tuple[Action, ...] = ()
    faults: tuple[Fault, ...] = ()

    @property
    def events(self) -> tuple[Action | Fault, ...]:
        return (*self.actions, *self.faults)

    def with_events(self, events: list[Action | Fault]) -> SimulationPlan:
        return msgspec.structs.replace(
            self,
            actions=tuple(event for event in events if isinstance(event, Action)),
            faults=tuple(event for event in events if isinstance(event, Fault)),
        )


def encode(plan: SimulationPlan) -> str:
    return msgspec.json.format(msgspec.json.encode(plan), indent=1).decode()


decode = msgspec.json.Decoder(SimulationPlan).decode
