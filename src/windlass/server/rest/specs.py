"""The job that a caller asks for, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from windlass.errors import ValidationError
from windlass.model.job import JobSpec, JobState
from windlass.model.names import (
    DEFAULT_MAX_ATTEMPTS,
    LONGEST,
    MAX_FLAG,
    MAX_FLAGS,
    MAX_INT32,
    MAX_KEY,
    MAX_QUEUE,
    MAX_TASK,
    KeyMode,
    OnBlockerFailure,
)
from windlass.store.webhooks import WEBHOOK

_LEAST = -MAX_INT32 - 1
_PRINTED = {"pattern": "^[^\\u0000]*$"}
"""For the document: names hold no NUL. It is `names` that refuses one, in words."""

Id = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Seconds = Annotated[float, Meta(ge=0, le=LONGEST)]
Task = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_TASK,
        description="The task's name.",
        examples=["welcome"],
        extra_json_schema=_PRINTED,
    ),
]
_Queue = Annotated[str, Meta(min_length=1, max_length=MAX_QUEUE, extra_json_schema=_PRINTED)]
Queue = Annotated[
    _Queue | None,
    Meta(description="The serial queue: its jobs run one at a time.", examples=["user-7"]),
]
Priority = Annotated[
    Annotated[int, Meta(ge=_LEAST, le=MAX_INT32)] | None,
    Meta(description="Smaller numbers run first; 0 where nothing is said.", examples=[-5]),
]
RunAt = Annotated[
    Annotated[datetime, Meta(tz=True)] | None,
    Meta(
        description="When it may start, in ISO 8601 with a zone; now where nothing is said.",
        examples=["2030-01-31T09:00:00Z"],
    ),
]
MaxAttempts = Annotated[
    Annotated[int, Meta(ge=1, le=MAX_INT32)] | None,
    Meta(description=f"Attempts before it fails for good; {DEFAULT_MAX_ATTEMPTS} by default."),
]


class _Common(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    task: Task
    payload: Annotated[
        Any,
        Meta(
            description="Any JSON value; `{}` where nothing is said.",
            examples=[{"user_id": 7}],
        ),
    ] = None
    queue: Queue = None
    run_at: RunAt = None
    delay: Annotated[
        Seconds | None,
        Meta(description="Instead of `run_at`: seconds from now until it may start."),
    ] = None
    max_attempts: MaxAttempts = None
    priority: Priority = None
    flags: Annotated[
        Annotated[
            list[
                Annotated[str, Meta(min_length=1, max_length=MAX_FLAG, extra_json_schema=_PRINTED)]
            ],
            Meta(max_length=MAX_FLAGS),
        ]
        | None,
        Meta(description="Labels by which a worker may skip it.", examples=[["gpu"]]),
    ] = None
    keep: Annotated[
        Seconds | None,
        Meta(
            description="Seconds to keep it once it has completed; a day unless the server says"
            " otherwise, 0 deletes it at once."
        ),
    ] = None
    meta: Annotated[
        dict[str, Any] | None,
        Meta(description="A small object that goes along with it.", examples=[{"user": "ada"}]),
    ] = None
    strict: Annotated[
        bool | None,
        Meta(description="While it waits for a retry, or has failed, its queue waits too."),
    ] = None
    blockers: Annotated[
        list[Id] | None,
        Meta(description="Chains that must end before it may start."),
    ] = None
    on_blocker_failure: Annotated[
        OnBlockerFailure | None,
        Meta(description="What it does when one of them fails; `fail` by default."),
    ] = None
    webhook: Annotated[
        Annotated[str, Meta(min_length=1, max_length=2048)] | None,
        Meta(
            description="The address to which its end is posted.",
            examples=["https://example.com/hooks/jobs"],
        ),
    ] = None

    def job(self) -> JobSpec:
        """The same as the client takes it. Raises ValidationError for two addresses."""
        said = msgspec.structs.asdict(self)
        url = said.pop("webhook")
        if url is not None:
            meta = said["meta"] or {}
            if meta.get(WEBHOOK, url) != url:
                raise ValidationError(
                    "meta has another address; give the field webhook alone", field="webhook"
                )
            said["meta"] = {**meta, WEBHOOK: url}
        return JobSpec(**said)


Key = Annotated[str, Meta(min_length=1, max_length=MAX_KEY, extra_json_schema=_PRINTED)]


class Spec(_Common):
    """A job to add."""

    key: Annotated[
        Key | None,
        Meta(
            description="Its unique name: adding it again changes the job that waits under it.",
            examples=["welcome-7"],
        ),
    ] = None
    key_mode: Annotated[
        KeyMode, Meta(description="What becomes of the job that has the key already.")
    ] = "replace"


class ChainSpec(_Common):
    """A chain to start, by its first job."""

    key: Annotated[
        Key | None,
        Meta(
            description="The chain's unique name: where an open chain has it, that one is the"
            " answer.",
            examples=["order-7"],
        ),
    ] = None
    key_window: Annotated[
        Seconds | None,
        Meta(description="Seconds after its end for which the key counts, too."),
    ] = None


class NextSpec(_Common):
    """The job with which a chain goes on."""


class Filter(msgspec.Struct, forbid_unknown_fields=True):
    """Which jobs are meant; what is left out does not matter."""

    state: Annotated[
        JobState | list[JobState] | None,
        Meta(description="Jobs in this state, or in one of these.", examples=["failed"]),
    ] = None
    task: Annotated[Task | None, Meta(description="Jobs of this task.")] = None
    queue: Annotated[_Queue | None, Meta(description="Jobs of this serial queue.")] = None
    key: Annotated[Key | None, Meta(description="The job with this key.")] = None

    @property
    def words(self) -> dict[str, Any]:
        """The arguments of `client.list_jobs` that select the same."""
        return {"state": self.state, "task": self.task, "queue": self.queue, "key": self.key}
