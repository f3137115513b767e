"""Every exception Windlass raises, and the three a handler may raise.

WindlassError
├── ValidationError (ValueError)      refused at the door; nothing was stored
│   ├── TaskNameError        GWBID    empty, longer than 128, or reserved
│   ├── QueueNameError       GWBQN    empty, or longer than 128
│   ├── KeyNameError         GWBJK    empty, or longer than 512
│   ├── MaxAttemptsError     GWBMA    below 1
│   ├── KeyModeError         GWBKM    not one of the three modes
│   ├── PriorityError                 not a 32-bit integer
│   ├── FlagsError                    not a list of short names
│   ├── InstantError                  naive datetime, or both run_at and delay
│   ├── DurationError                 negative or not finite
│   ├── CrontabError                  a schedule that cannot be understood
│   └── PayloadError                  not JSON, NaN, NUL, too deep, wrong types
│       └── PayloadTooLargeError WLPAY
├── ConfigError (ValueError)          a setting, a URL, a command line
│   └── MissingExtraError             names the install line
├── TaskError
│   ├── UnknownTaskError
│   ├── DuplicateTaskError
│   └── TaskLoadError                 a file in the tasks folder
├── StoreError                        the database said no
│   ├── StoreBusyError                another writer holds its lock: no call can write
│   ├── StoreUnavailableError         cannot be opened, read or written
│   │   └── OutcomeUnknownError       the answer was lost; it may have happened
│   ├── StoreClosedError
│   └── SchemaTooNewError             made by a newer Windlass (exit code 57)
├── JobNotFoundError (LookupError)
├── ScheduleNotFoundError (LookupError)
├── ChainNotFoundError (LookupError)
├── ChainClosedError                  the chain has ended, or its key is another's now
├── BlockerReferenceError             jobs wait for it, or it waits for what failed
├── JobNotKeptError                   its outcome will not be, or was not, kept
├── WaitTimeoutError (TimeoutError)
├── LeaseLostError                    this delivery is no longer ours
└── HandlerSignal                     raised by handlers, never by Windlass
    ├── Poison                        failed now, whatever attempts are left
    ├── RetryAfter                    attempt used; again after exactly this long
    └── RetryAt                       attempt used; again at exactly this instant
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Self


class WindlassError(Exception):
    """The root of everything Windlass raises."""

    def __copy__(self) -> Self:
        """The same error for another caller, whatever its class is made from: a traceback grows
        where an exception is raised, so no two callers share one."""
        twin = type(self).__new__(type(self), *self.args)
        twin.__dict__.update(self.__dict__)
        return twin


# ── refused at the door ─────────────────────────────────────────────────────────────────────


class ValidationError(WindlassError, ValueError):
    """Raised when a value breaks a documented limit; nothing was stored.

    `field` is the argument's name and `code` the SQLSTATE the SQL functions use, or "".
    """

    code = ""

    def __init__(self, message: str, *, field: str) -> None:
        super().__init__(message)
        self.field = field


class TaskNameError(ValidationError):
    """Raised when a task name is empty, longer than 128 characters, or begins with `windlass.`."""

    code = "GWBID"


class QueueNameError(ValidationError):
    """Raised when a queue name is empty or longer than 128 characters."""

    code = "GWBQN"


class KeyNameError(ValidationError):
    """Raised when a job key is empty or longer than 512 characters."""

    code = "GWBJK"


class MaxAttemptsError(ValidationError):
    """Raised when max_attempts is below 1."""

    code = "GWBMA"


class KeyModeError(ValidationError):
    """Raised when key_mode is not replace, preserve_run_at or unsafe_dedupe."""

    code = "GWBKM"


class PriorityError(ValidationError):
    """Raised when a priority is not a 32-bit integer."""


class FlagsError(ValidationError):
    """Raised when flags are not a list of names of at most 128 characters."""


class InstantError(ValidationError):
    """Raised when an instant has no time zone, or is given twice."""


class DurationError(ValidationError):
    """Raised when a duration is negative, not finite or out of its range."""


class PayloadError(ValidationError):
    """Raised when a payload is not JSON or does not fit the task's types."""


class PayloadTooLargeError(PayloadError):
    """Raised when a payload's JSON is larger than the limit (256 KiB by default)."""

    code = "WLPAY"


class CrontabProblem(NamedTuple):
    """One thing that cannot be understood, and what is allowed there.

    `line` and `column` count from 1; both are 0 where the schedule was not written as a line.
    """

    line: int
    column: int
    field: str
    message: str

    def __str__(self) -> str:
        where = f"line {self.line}, column {self.column}, " if self.line else ""
        return f"{where}{self.field}: {self.message}"


class CrontabError(ValidationError):
    """Raised when a crontab or another schedule cannot be understood; `problems` has them all."""

    def __init__(self, problems: Sequence[CrontabProblem], source: str) -> None:
        first, *others = problems
        more = f" (and {len(others)} more; windlass cron check shows all)" if others else ""
        super().__init__(f"{source}: {first}{more}", field=first.field)
        self.problems = tuple(problems)
        self.source = source


# ── configuration and tasks ─────────────────────────────────────────────────────────────────


class ConfigError(WindlassError, ValueError):
    """Raised when a setting, a URL or an argument cannot be used."""


class MissingExtraError(ConfigError):
    """Raised when a feature needs an optional package that is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an extra: pip install 'windlass[{extra}]'")
        self.extra = extra


class TaskError(WindlassError):
    """Raised when tasks are declared or looked up wrongly."""


class UnknownTaskError(TaskError):
    """Raised when a task by that name is not registered in this program."""


class DuplicateTaskError(TaskError):
    """Raised when two functions claim one task name."""


class TaskLoadError(TaskError):
    """Raised when a file of the tasks folder cannot be loaded."""


# ── stores and jobs ─────────────────────────────────────────────────────────────────────────


class StoreError(WindlassError):
    """Raised when the database refuses or fails a call; the call had no effect, or it says so."""


class StoreBusyError(StoreError):
    """Raised when another writer held the database for too long.

    While it does no process can write, so no worker can take a lease either.
    """


class StoreUnavailableError(StoreError):
    """Raised when the database cannot be opened, read or written.

    `is_temporary` says whether waiting may help: the server is down or cannot be reached, rather
    than that it refuses this user or has no such database.
    """

    is_temporary = False

    def __init__(self, *args: object, is_temporary: bool | None = None) -> None:
        super().__init__(*args)
        if is_temporary is not None:
            self.is_temporary = is_temporary


class OutcomeUnknownError(StoreUnavailableError):
    """Raised when the connection was lost in the middle of a call.

    The call may or may not have happened. Adding a job again is safe under the same key.
    """

    is_temporary = True


class StoreClosedError(StoreError):
    """Raised when a store is used after it was closed."""


class SchemaTooNewError(StoreError):
    """Raised when the database was made by a newer Windlass; the program exits with 57."""


class JobNotFoundError(WindlassError, LookupError):
    """Raised when no job has that id or key."""


class ScheduleNotFoundError(WindlassError, LookupError):
    """Raised when the database knows no schedule of that identifier."""


class ChainNotFoundError(WindlassError, LookupError):
    """Raised when no chain has that id; `ids` are all that were not found."""

    def __init__(self, ids: Sequence[int]) -> None:
        named = ", ".join(map(str, ids))
        super().__init__(
            f"there is no chain {named} (any more); a chain has the id of its first job, and a job"
            " that was added by enqueue is no chain before it continues"
        )
        self.ids = tuple(ids)


class ChainClosedError(WindlassError):
    """Raised when a chain that has ended is completed or cancelled, or cannot be opened again."""


class BlockerReferenceError(WindlassError):
    """Raised when a chain cannot be deleted, because open jobs name it, or a job cannot be retried,
    because a chain it waits for has failed. `references` are the ids of those jobs or chains;
    nothing was changed."""

    def __init__(self, message: str, references: Sequence[int]) -> None:
        super().__init__(message)
        self.references = tuple(references)


class JobNotKeptError(WindlassError):
    """Raised by wait_for when the job's outcome is not kept, so it can never be read."""


class WaitTimeoutError(WindlassError, TimeoutError):
    """Raised when a job did not finish within the time given; the job goes on."""


class LeaseLostError(WindlassError):
    """Raised when a delivery tries to write after its job passed to another worker."""


# ── raised by handlers ──────────────────────────────────────────────────────────────────────


class HandlerSignal(WindlassError):
    """What a handler raises to choose an outcome."""


class Poison(HandlerSignal):
    """Raise to fail the job now, whatever attempts are left."""


class RetryAfter(HandlerSignal):
    """Raise to use the attempt and run again after exactly `seconds` (0 means now)."""

    def __init__(self, seconds: float | timedelta, reason: str = "") -> None:
        if isinstance(seconds, timedelta):
            seconds = seconds.total_seconds()
        super().__init__(reason or f"asked to be retried after {seconds:g} s")
        self.seconds = float(seconds)


class RetryAt(HandlerSignal):
    """Raise to use the attempt and run again at exactly `instant` (an aware datetime)."""

    def __init__(self, instant: datetime, reason: str = "") -> None:
        if instant.tzinfo is None:
            raise InstantError(
                "RetryAt needs an aware datetime, such as datetime.now(UTC)", field="instant"
            )
        super().__init__(reason or f"asked to be retried at {instant.isoformat()}")
        self.instant = instant
