"""What a task may say about its jobs; what it leaves None is the app's setting."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal, get_args

import msgspec

from windlass.errors import ConfigError, ValidationError
from windlass.model import names
from windlass.model.retry import Retry

Executor = Literal["async", "thread", "process"]


class TaskOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a task. Durations are seconds.

    `queue`, `strict`, `priority` and `flags` apply when this program enqueues; `max_attempts`,
    `keep`, `retry`, `timeout` and `lease` when a job left them unset, wherever it came from.
    """

    queue: str | None = None
    priority: int | None = None
    flags: tuple[str, ...] | None = None
    max_attempts: int | None = None
    keep: float | None = None
    retry: Retry | None = None
    timeout: float | None = None
    lease: float | None = None
    executor: Executor | None = None
    strict: bool | None = None


def make_options(
    *,
    queue: str | None = None,
    priority: int | None = None,
    flags: Sequence[str] | None = None,
    max_attempts: int | None = None,
    keep: float | timedelta | None = None,
    retry: Retry | None = None,
    timeout: float | timedelta | None = None,
    lease: float | timedelta | None = None,
    executor: Executor | None = None,
    strict: bool | None = None,
) -> TaskOptions:
    """The options, checked; each refusal names the field."""
    if retry is not None and not isinstance(retry, Retry):
        retry = Retry(retry) if callable(retry) else _refuse_retry(retry)
    if executor is not None and executor not in get_args(Executor):
        raise ConfigError(f"executor {executor!r} is unknown; use thread or process")
    return TaskOptions(
        queue=names.check_queue(queue),
        priority=None if priority is None else names.check_priority(priority),
        flags=names.check_flags(flags),
        max_attempts=names.check_max_attempts(max_attempts),
        keep=names.check_seconds(keep, "keep"),
        retry=retry,
        timeout=positive(timeout, "timeout"),
        lease=positive(lease, "lease"),
        executor=executor,
        strict=None if strict is None else bool(names.check_strict(strict)),
    )


def _refuse_retry(value: Any) -> Retry:
    raise ConfigError(
        f"retry must be a Retry or a function of (attempt, error), not {type(value).__name__}"
    )


def positive(value: float | timedelta | None, field: str) -> float | None:
    seconds = names.check_seconds(value, field)
    if seconds == 0:
        raise ValidationError(f"{field} must be more than 0 seconds", field=field)
    return seconds
