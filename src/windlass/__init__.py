"""Windlass: background jobs for Python.

from windlass import App

app = App()

@app.task
async def welcome(user_id: int) -> None: ...

welcome.enqueue(user_id=7)      # then: windlass run module:app
"""

import typing as _typing

from windlass.app import App, quick_add_job
from windlass.client import Client, ScheduleInfo, SyncClient
from windlass.engine.object_handler import BoundStore
from windlass.errors import (
    BlockerReferenceError,
    ChainClosedError,
    ChainNotFoundError,
    ConfigError,
    CrontabError,
    JobNotFoundError,
    JobNotKeptError,
    LeaseLostError,
    Poison,
    RetryAfter,
    RetryAt,
    ScheduleNotFoundError,
    StoreError,
    ValidationError,
    WaitTimeoutError,
    WindlassError,
)
from windlass.model.chain import Chain, ChainState, Next
from windlass.model.cron import CronItem, Schedule, parse_cron_items, parse_crontab
from windlass.model.job import FailedAttempt, Job, JobSpec, JobState, Progress
from windlass.model.outcome import Abandon, Completed, Failed, Nack
from windlass.model.retry import Retry
from windlass.observe.events import Events
from windlass.runner import Runner
from windlass.tasks.abort import Abort, AbortReason
from windlass.tasks.context import Context, SyncContext
from windlass.tasks.task import Task
from windlass.version import __version__
from windlass.worker import Handler, Resetter, Worker, WorkerOptions, run_all

if _typing.TYPE_CHECKING:
    from windlass.table import TableOptions, TableStore


__all__ = [
    "Abandon",
    "Abort",
    "AbortReason",
    "App",
    "BlockerReferenceError",
    "BoundStore",
    "Chain",
    "ChainClosedError",
    "ChainNotFoundError",
    "ChainState",
    "Client",
    "Completed",
    "ConfigError",
    "Context",
    "CronItem",
    "CrontabError",
    "Events",
    "Failed",
    "FailedAttempt",
    "Handler",
    "Job",
    "JobNotFoundError",
    "JobNotKeptError",
    "JobSpec",
    "JobState",
    "LeaseLostError",
    "Nack",
    "Next",
    "Poison",
    "Progress",
    "Resetter",
    "Retry",
    "RetryAfter",
    "RetryAt",
    "Runner",
    "Schedule",
    "ScheduleInfo",
    "ScheduleNotFoundError",
    "StoreError",
    "SyncClient",
    "SyncContext",
    "TableOptions",
    "TableStore",
    "Task",
    "ValidationError",
    "WaitTimeoutError",
    "WindlassError",
    "Worker",
    "WorkerOptions",
    "__version__",
    "parse_cron_items",
    "parse_crontab",
    "quick_add_job",
    "run_all",
]


def __getattr__(name: str) -> _typing.Any:
    """`TableStore` and its options need the extra `postgres`, so they are loaded when asked for."""
    if name in ("TableOptions", "TableStore"):
        from windlass import table

        return getattr(table, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
