"""The handler that runs registered tasks: on the loop, in threads, or in processes."""

from __future__ import annotations

import asyncio
import functools
import inspect
import types
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.engine.delivery import Delivery
from windlass.engine.handler import Run, TaskPlan
from windlass.engine.threads import Threads
from windlass.model.names import DEFAULT_MAX_ATTEMPTS
from windlass.model.retry import DEFAULT_RETRY, Retry
from windlass.store.records import COMPLETE, Complete
from windlass.tasks.context import Context, SyncContext
from windlass.tasks.registry import AnyTask, Registry

if TYPE_CHECKING:
    from windlass.engine.processes import ProcessPool

CallNext = Callable[..., Awaitable[Any]]
Middleware = Callable[[Context, CallNext], Awaitable[Any]]


class Defaults(msgspec.Struct, frozen=True, kw_only=True):
    """What applies where a task says nothing."""

    retry: Retry = DEFAULT_RETRY
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    keep: float | None = None
    timeout: float | None = None


class TaskHandler:
    """Plans for every task in the registry that this worker may run."""

    def __init__(
        self,
        registry: Registry,
        names: Sequence[str],
        defaults: Defaults,
        *,
        middleware: Sequence[Middleware] = (),
        slots: int,
    ) -> None:
        self.tasks = tuple(names)
        self._registry = registry
        self._defaults = defaults
        self._middleware = tuple(middleware)
        self._threads = Threads(slots)
        self._slots = slots
        self._processes: ProcessPool | None = None

    def plan(self, task: str) -> TaskPlan:
        found = self._registry.get(task)
        options, defaults = found.options, self._defaults
        keep = defaults.keep if options.keep is None else options.keep
        run: Run
        match found.executor:
            case "async":
                run = _on_loop(found)
            case "thread":
                run = _in_thread(found, self._threads)
            case "process":
                run = _in_process(found, self._process_pool())
        return TaskPlan(
            run=_wrapped(run, self._middleware),
            retry=options.retry or defaults.retry,
            max_attempts=options.max_attempts or defaults.max_attempts,
            keep=keep,
            timeout=options.timeout or defaults.timeout,
            lease=options.lease,
            complete=Complete(keep=keep) if keep else COMPLETE,
            is_bare=(
                found.executor == "async" and not found.style.wants_context and not self._middleware
            ),
        )

    def _process_pool(self) -> ProcessPool:
        if self._processes is None:
            # What it needs takes as long to import as half of the engine, and few tasks need it.
            from windlass.engine.processes import ProcessPool

            self._processes = ProcessPool(self._slots)
        return self._processes

    def close(self) -> bool:
        """Let go of threads and processes; False if a thread is still busy."""
        if self._processes is not None:
            self._processes.close()
        return self._threads.close()


def _on_loop(task: AnyTask) -> Run:
    function, bind = task.function, task.style.bind
    if _makes_coroutines(function):

        def make(context: Context, delivery: Delivery) -> Coroutine[Any, Any, Any]:
            args, kwargs = bind(delivery.lease.payload, context)
            coroutine: Coroutine[Any, Any, Any] = function(*args, **kwargs)
            return coroutine

        return make

    async def run(context: Context, delivery: Delivery) -> Any:
        args, kwargs = bind(delivery.lease.payload, context)
        called = function(*args, **kwargs)
        return await called if inspect.isawaitable(called) else called

    return run


def _makes_coroutines(function: Callable[..., Any]) -> bool:
    """Whether it is an `async def` itself: called, it runs nothing yet and returns a coroutine."""
    return isinstance(function, types.FunctionType) and bool(
        function.__code__.co_flags & inspect.CO_COROUTINE
    )


def _in_thread(task: AnyTask, threads: Threads) -> Run:
    """A plain function gets the Context that blocks; an `async def` gets a loop of its own."""
    function, bind = task.function, task.style.bind

    def call(context: Context, payload: str) -> Any:
        args, kwargs = bind(payload, context)
        result = function(*args, **kwargs)
        return asyncio.run(result) if inspect.iscoroutine(result) else result

    async def run(context: Context, delivery: Delivery) -> Any:
        inner = context if task.is_async else SyncContext(context._around, delivery)
        return await threads.run(delivery, call, inner, delivery.lease.payload)

    return run


def _in_process(task: AnyTask, processes: ProcessPool) -> Run:
    async def run(context: Context, delivery: Delivery) -> Any:
        return await processes.run(task, context, delivery)

    return run


def _wrapped(run: Run, middleware: Sequence[Middleware]) -> Run:
    """The onion: the first middleware is outermost."""
    if not middleware:
        return run

    async def wrapped(context: Context, delivery: Delivery) -> Any:
        async def innermost(_: Any = None) -> Any:
            return await run(context, delivery)

        call: CallNext = innermost
        for layer in reversed(middleware):
            call = functools.partial(_layer, layer, context, call)
        return await call()

    return wrapped


async def _layer(layer: Middleware, context: Context, call_next: CallNext, _: Any = None) -> Any:
    return await layer(context, call_next)
