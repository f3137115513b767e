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
from windlass.tasks.context import Context

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

    * `pre_dequeue() -> bool`, or `(bool, conditions)`: False vetoes the next claim, conditions (in
      the store's own terms) narrow it. Jobs are then claimed one by one, each after the
      `pre_handle` of the one before.
    * `pre_handle(context, record)`: before the handler, as part of the job.
    * `post_handle(context, record)`: for every job that was begun, after its outcome is stored,
      whatever it was, and also where it was not stored because the job was lost.
    """

    @property
    def tasks(self) -> Sequence[str]: ...

    def plan(self, task: str) -> Plan: ...


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
