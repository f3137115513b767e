"""What the engine runs. The task registry is one handler; a user's own object is another."""

from __future__ import annotations

import contextvars
import inspect
import types
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, Protocol

import msgspec

from windlass.engine.delivery import Delivery
from windlass.model.names import DEFAULT_MAX_ATTEMPTS
from windlass.model.retry import DEFAULT_RETRY, Retry
from windlass.store.records import COMPLETE, Complete
from windlass.tasks.context import Context, Surroundings

Run = Callable[[Context, Delivery], Coroutine[Any, Any, Any]]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How the jobs of one task are run and judged, worked out once."""

    run: Run
    retry: Retry = DEFAULT_RETRY
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    keep: float | None = None
    timeout: float | None = None
    lease: float | None = None
    complete: Complete = COMPLETE
    """What a handler that returns None settles to."""


class Handler(Protocol):
    """Which tasks there are and how each runs.

    Three hooks are found by presence; each may be a coroutine function or a plain one:

    * `pre_dequeue() -> bool`: False vetoes the next claim. Jobs are then claimed one by one.
    * `pre_handle(context, record)`: before the handler, as part of the job.
    * `post_handle(context, record)`: after the outcome is stored, whatever it was.
    """

    @property
    def tasks(self) -> Sequence[str]: ...

    def plan(self, task: str) -> Plan: ...


class ObjectHandler:
    """Serves one or more tasks with a user's object: `handle(context, store, record)`.

    The optional hooks are found by presence. A plain function is a handler too.
    """

    def __init__(
        self, target: Any, tasks: Sequence[str], around: Surroundings, **plan: Any
    ) -> None:
        self._handle = getattr(target, "handle", target)
        self._around = around
        self.tasks = tuple(tasks)
        self._plan = Plan(run=self._run, **plan)
        for hook in ("pre_dequeue", "pre_handle", "post_handle"):
            if hasattr(target, hook):
                setattr(self, hook, getattr(target, hook))

    def plan(self, task: str) -> Plan:
        return self._plan

    async def _run(self, context: Context, delivery: Delivery) -> Any:
        return await maybe_await(self._handle(context, self._around.store, context.job))


async def maybe_await(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


@types.coroutine
def isolated(coroutine: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Await `coroutine` in a context of its own, in the task that awaits this.

    Slots are long-lived tasks, so without it a context variable set by one job would be seen by
    the next; a task per job would do the same at ten times the cost.
    """
    context = contextvars.copy_context()
    step: Callable[..., Any] = coroutine.send
    value: Any = None
    while True:
        try:
            wanted = context.run(step, value)
        except StopIteration as done:
            return done.value
        try:
            value = yield wanted
            step = coroutine.send
        except BaseException as error:
            value = error
            step = coroutine.throw
