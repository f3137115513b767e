"""What `@app.task(…)` and `@app.cron(…)` return, for type checkers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar, overload

from windlass.tasks.context import SyncContext
from windlass.tasks.task import Task

P = ParamSpec("P")
R = TypeVar("R")


class TaskDecorator(Protocol):
    """A function becomes a task; a Context as its first parameter is no argument of the job."""

    @overload
    def __call__(self, function: Callable[Concatenate[SyncContext, P], R], /) -> Task[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...


class CronDecorator(Protocol):
    """The same, and a task stays as it is."""

    @overload
    def __call__(self, task: Task[P, R], /) -> Task[P, R]: ...

    @overload
    def __call__(self, function: Callable[Concatenate[SyncContext, P], R], /) -> Task[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...
