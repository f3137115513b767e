"""What a caller may name, count and time, with one clear refusal for each."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Literal, cast, get_args

from windlass import errors

MAX_TASK = 128
MAX_QUEUE = 128
MAX_KEY = 512
MAX_FLAG = 128
MAX_FLAGS = 64
MAX_WORKER = 1_024
MAX_TENANT = 128
MAX_INT32 = 2**31 - 1
DEFAULT_MAX_ATTEMPTS = 25
DEFAULT_MAX_RESETS = 5
RESERVED = "windlass."
"""Names of tasks that begin so are those of jobs that Windlass adds for itself. A worker of every
task takes none of them."""
LONGEST_POLL = 300.0
"""Seconds: no worker looks for jobs more seldom than this."""

_FIRST_INSTANT = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_INSTANT = datetime(9999, 1, 1, tzinfo=UTC)
LONGEST = (_LAST_INSTANT - datetime(2026, 1, 1, tzinfo=UTC)).total_seconds()

OnBlockerFailure = Literal["fail", "run", "wait"]
"""What a job does when a chain it waits for fails or is cancelled."""
ON_BLOCKER_FAILURE: tuple[str, ...] = get_args(OnBlockerFailure)

KeyMode = Literal["replace", "preserve_run_at", "unsafe_dedupe"]
KEY_MODES: tuple[str, ...] = get_args(KeyMode)


def brief(value: object, most: int = 80) -> str:
    """How a refusal shows the value it is about: in short, and even where `repr` raises, as it does
    for integers of more than 4,300 digits."""
    try:
        text = repr(value)
    except Exception:
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= most else f"{text[:most]}…"


def check_task(name: object) -> str:
    """The name of a task of the caller's own."""
    task = check_any_task(name)
    if task.startswith(RESERVED):
        raise errors.TaskNameError(refusal_of_reserved(task), field="task")
    return task


def refusal_of_reserved(task: str) -> str:
    return (
        f"{brief(task)}: names that begin with {RESERVED!r} are for Windlass itself; choose another"
    )


def check_any_task(name: object) -> str:
    """The name of a task that is only asked about: it may be one of Windlass's own."""
    return _name(name, "task", MAX_TASK, errors.TaskNameError)


def check_queue(name: object) -> str | None:
    return None if name is None else _name(name, "queue", MAX_QUEUE, errors.QueueNameError)


def check_key(name: object) -> str | None:
    return None if name is None else check_one_key(name)


def check_one_key(name: object) -> str:
    """A key that must be there."""
    return _name(name, "key", MAX_KEY, errors.KeyNameError)


def check_tenant(name: object) -> str | None:
    """A tenant's name; '' is the default tenant, None is all of them."""
    if name is None or name == "":
        return name if name is None else ""
    return _name(name, "tenant", MAX_TENANT, errors.ValidationError)


def check_strict(value: object) -> int:
    """Whether a job is strict, as stores know it."""
    if value is not None and not isinstance(value, bool):
        raise errors.ValidationError(
            f"strict must be True or False, not {brief(value)}", field="strict"
        )
    return int(value or False)


def _name(value: object, field: str, most: int, error: type[errors.ValidationError]) -> str:
    if not isinstance(value, str):
        raise error(f"{field} must be a string, not {type(value).__name__}", field=field)
    if not value:
        raise error(f"{field} must not be empty", field=field)
    if len(value) > most:
        raise error(f"{field} is {len(value)} characters long; the limit is {most}", field=field)
    if "\x00" in value:
        raise error(f"{field} must not contain NUL", field=field)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise error(f"{field} is not valid Unicode text", field=field) from None
    return value


def check_workers(ids: object) -> tuple[str, ...]:
    """Ids of workers. A lone text is refused, because its letters would be taken for ids."""
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise errors.ValidationError(
            f"ids must be a list of worker ids, not {brief(ids)}", field="ids"
        )
    return tuple(_name(worker, "ids", MAX_WORKER, errors.ValidationError) for worker in ids)


def check_jobs(ids: object, kind: str = "job") -> tuple[int, ...]:
    """Ids of jobs, or of chains, from anything that can be read once."""
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise errors.ValidationError(
            f"ids must be a list of {kind} ids, not {brief(ids)}", field="ids"
        )
    return tuple(check_job(job_id, "ids", kind) for job_id in ids)


def check_blockers(blockers: object) -> tuple[int, ...]:
    """Chains that a job waits for: their ids, or the chains themselves."""
    if blockers is None:
        return ()
    if isinstance(blockers, str | bytes) or not isinstance(blockers, Iterable):
        raise errors.ValidationError(
            f"blockers must be a list of chains or of their ids, not {brief(blockers)}",
            field="blockers",
        )
    return tuple(check_blocker(blocker) for blocker in blockers)


def check_blocker(blocker: object) -> int:
    """Above zero: stores know the chains that start with a completion by numbers below."""
    chain_id = getattr(blocker, "id", blocker)
    if isinstance(chain_id, bool) or not isinstance(chain_id, int):
        raise errors.ValidationError(
            f"{brief(blocker)} is neither a chain nor the id of one", field="blockers"
        )
    if not 0 < chain_id < 2**63:
        raise errors.ValidationError(f"no chain has the id {brief(chain_id)}", field="blockers")
    return int.__int__(chain_id)  # a plain one, as of jobs


def check_on_blocker_failure(choice: object) -> OnBlockerFailure | None:
    """None is "fail", and so stores know it."""
    match choice:
        case None:
            return None
        case str() if choice in ON_BLOCKER_FAILURE:
            return None if choice == "fail" else cast(OnBlockerFailure, str(choice))
    raise errors.ValidationError(
        f'on_blocker_failure must be "fail", "run" or "wait", not {brief(choice)}',
        field="on_blocker_failure",
    )


def check_job(job_id: object, field: str = "id", kind: str = "job") -> int:
    """`kind` is what has the id: a job, or a chain."""
    if isinstance(job_id, bool) or not isinstance(job_id, int):
        raise errors.ValidationError(
            f"{brief(job_id)} is not a {kind} id, which is a whole number", field=field
        )
    if not 0 <= job_id < 2**63:
        raise errors.ValidationError(
            f"{brief(job_id)} is out of range for a {kind} id", field=field
        )
    return int.__int__(job_id)  # a plain one, whatever a class of the caller's makes of it


def check_count(value: object, field: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise errors.ValidationError(
            f"{field} must be a whole number from {least} to {most}, not {brief(value)}",
            field=field,
        )
    return value


def check_reason(text: object) -> str:
    if not isinstance(text, str):
        raise errors.ValidationError(
            f"reason must be a string, not {type(text).__name__}", field="reason"
        )
    return text


def check_schedule(name: object) -> str:
    return _name(name, "id", MAX_TASK, errors.ValidationError)


def check_key_mode(mode: object) -> KeyMode:
    if not isinstance(mode, str) or mode not in KEY_MODES:
        raise errors.KeyModeError(
            f"key_mode {brief(mode)} is unknown; use one of {', '.join(KEY_MODES)}",
            field="key_mode",
        )
    return mode  # type: ignore[return-value]


def check_max_attempts(count: object) -> int | None:
    if count is None:
        return None
    value = _integer(count, "max_attempts", errors.MaxAttemptsError)
    if value < 1:
        raise errors.MaxAttemptsError(
            f"max_attempts must be at least 1, not {brief(value)}", field="max_attempts"
        )
    return value


def check_attempts(count: object) -> int | None:
    if count is None:
        return None
    value = _integer(count, "attempts", errors.ValidationError)
    if value < 0:
        raise errors.ValidationError(
            f"attempts must be at least 0, not {brief(value)}", field="attempts"
        )
    return value


def check_priority(value: object) -> int:
    return _integer(value, "priority", errors.PriorityError)


def _integer(value: object, field: str, error: type[errors.ValidationError]) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise error(f"{field} must be an integer, not {type(value).__name__}", field=field)
    if not -MAX_INT32 - 1 <= value <= MAX_INT32:
        raise error(f"{field} {brief(value)} does not fit 32 bits", field=field)
    return value


def check_flags(flags: object) -> tuple[str, ...] | None:
    if flags is None:
        return None
    if isinstance(flags, str) or not isinstance(flags, Iterable):
        raise errors.FlagsError("flags must be a list of strings", field="flags")
    names = tuple(dict.fromkeys(_name(flag, "flag", MAX_FLAG, errors.FlagsError) for flag in flags))
    if len(names) > MAX_FLAGS:
        raise errors.FlagsError(
            f"a job may have at most {MAX_FLAGS} flags, not {len(names)}", field="flags"
        )
    return names or None


def check_instant(instant: object, field: str = "run_at") -> datetime | None:
    if instant is None:
        return None
    if not isinstance(instant, datetime):
        raise errors.InstantError(
            f"{field} must be a datetime, not {type(instant).__name__}", field=field
        )
    if instant.utcoffset() is None:
        raise errors.InstantError(
            f"{field} has no time zone; use an aware datetime such as datetime.now(UTC)",
            field=field,
        )
    if not _FIRST_INSTANT <= instant <= _LAST_INSTANT:
        raise errors.InstantError(f"{field} must lie between 1970 and 9999", field=field)
    return instant


def check_seconds(value: object, field: str) -> float | None:
    """A duration: seconds as a number, or a timedelta; None stays None."""
    if value is None:
        return None
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise errors.DurationError(
            f"{field} must be seconds or a timedelta, not {type(value).__name__}", field=field
        )
    if not 0 <= value <= LONGEST:
        raise errors.DurationError(
            f"{field} must be at least 0 and finite, not {brief(value)}", field=field
        )
    return float(value)
