"""What the engine runs. The task registry is one handler; a user's own object is another."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextvars import Context as Variables
from typing import Any, Protocol

import msgspec

from windlass.engine import forking
from windlass.engine.delivery import Delivery
from windlass.model.names import DEFAULT_MAX_ATTEMPTS
from windlass.model.retry import DEFAULT_RETRY, Retry
from windlass.store.records import COMPLETE, Complete
from windlass.tasks.context import Context

Run = Callable[[Context, Delivery], Coroutine[Any, Any, Any]]


class TaskPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How the jobs of one task are run and judged, worked out once."""

    run: Run
    retry: Retry = DEFAULT_RETRY
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    keep: float | None = None
    timeout: float | None = None
    lease: float | None = None
    complete: Complete = COMPLETE
    """What a handler that returns None settles to."""
    is_bare: bool = False
    """Whether `run` never looks at its Context, so that none need be made."""


class EngineHandler(Protocol):
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

    def plan(self, task: str) -> TaskPlan: ...


async def maybe_await(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


class Waiting:
    """A handler's coroutine that waits for something; await it for what the handler returns."""

    __slots__ = ("_coroutine", "_life", "_variables", "_wanted")

    def __init__(
        self, variables: Variables, coroutine: Coroutine[Any, Any, Any], wanted: Any
    ) -> None:
        self._variables = variables
        self._coroutine = coroutine
        self._wanted = wanted
        self._life = forking.lives

    def __await__(self) -> Generator[Any, Any, Any]:
        coroutine, wanted = self._coroutine, self._wanted
        while True:
            step: Callable[..., Any] = coroutine.send
            try:
                value = yield wanted
            except BaseException as error:
                step, value = coroutine.throw, error
            try:
                wanted = self._variables.run(step, value)
            except StopIteration as done:
                return done.value
            if forking.lives != self._life:
                forking.leave("a handler")


def run_until_wait(variables: Variables, run: Run, context: Context, delivery: Delivery) -> Any:
    """Run a handler up to where it first waits, if it does: its answer, or `Waiting`.

    To be called in `variables`, a copied context. Slots are long-lived tasks, so without one of
    its own a context variable set by one job would be seen by the next; a task per job would do
    the same at ten times the cost.
    """
    coroutine = run(context, delivery)
    try:
        wanted = coroutine.send(None)
    except StopIteration as done:
        return done.value
    return Waiting(variables, coroutine, wanted)
