"""What a worker and its child process say to each other: JSON, one message at a time."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.model.chain import Chain
from windlass.model.job import JobSpec
from windlass.store.records import Lease


class FunctionRef(msgspec.Struct, frozen=True):
    """Where the child finds the function: a module's attribute, or a file of a tasks folder."""

    module: str
    qualname: str
    file: str | None
    typed: bool


# ── to the child ──


class RunJob(msgspec.Struct, tag=True, frozen=True):
    function: FunctionRef
    lease: Lease
    worker_id: str
    blockers: list[Chain[Any]] | None = None
    """The chains that the job waited for, where the lease does not have them."""
    headers: dict[str, str] | None = None
    """The context of the trace that the job runs in."""


class Answer(msgspec.Struct, tag=True, frozen=True):
    """The reply to AddJobs (the jobs), or to GoOn (a number that stands for it); or why not."""

    jobs: list[Any] | None = None
    error: str | None = None
    place: int = 0


# ── to the worker ──


class AddJobs(msgspec.Struct, tag=True, frozen=True):
    specs: list[JobSpec]


class GoOn(msgspec.Struct, tag=True, frozen=True):
    """A job that the chain is to go on with, or a chain that starts with the delivery; blockers
    below zero are chains that it started before."""

    spec: JobSpec
    starts: bool


class Said(msgspec.Struct, tag=True, frozen=True):
    """A note or an extension, passed on to the delivery."""

    progress: str | None = None
    entry: str | None = None
    extend: float | None = None


class Returned(msgspec.Struct, tag=True, frozen=True):
    """`kind` names an outcome class, or is empty for a plain value."""

    kind: str
    value: Any


class Items(msgspec.Struct, tag=True, frozen=True):
    """A list answers an array payload: one entry per item, each returned or raised."""

    items: list[Returned | Raised]


class Raised(msgspec.Struct, tag=True, frozen=True):
    """An exception: its class by name, its text, and what a signal carries."""

    module: str
    qualname: str
    message: str
    text: str
    number: float | None = None


ToChild = RunJob | Answer
ToWorker = AddJobs | GoOn | Said | Returned | Items | Raised

encode = msgspec.json.Encoder().encode
decode_for_child = msgspec.json.Decoder(ToChild).decode
decode_for_worker = msgspec.json.Decoder(ToWorker).decode
