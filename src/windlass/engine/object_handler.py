"""A user's own object, or function, as the handler of the records of a store."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from windlass.engine.delivery import Delivery
from windlass.engine.handler import TaskPlan
from windlass.engine.threads import Threads
from windlass.errors import ConfigError, StoreUnavailableError
from windlass.model.outcome import Abandon, Completed, Failed, Nack
from windlass.tasks.context import Context, SyncContext
from windlass.tasks.transaction import AsyncTransaction, JobTransaction, SyncTransaction

HOOKS = ("pre_dequeue", "pre_handle", "post_handle")


class BoundStore:
    """The store, bound to the transaction that ends with the job.

    What is written through `connection` or `execute` is committed with the job's completion, and
    rolled back if it fails. `execute` is awaited in an `async def`. `unbound` is the store itself.
    """

    def __init__(self, unbound: Any, transaction: AsyncTransaction | SyncTransaction) -> None:
        self.unbound = unbound
        self.connection: Any = transaction.connection
        self.execute: Callable[..., Any] = transaction.execute


class _NotDone(Exception):
    """Takes a handler's answer out of its transaction, which is rolled back."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer


class ObjectHandler:
    """`handle(ctx, store, record)` of a user's object; the other hooks are found by presence.

    A function is a handler too, and may take `(record)` or `(ctx, record)`. A plain `def` runs in
    a thread. With `transactional = True` on the object, `handle` gets a `BoundStore`.
    """

    def __init__(
        self, target: Any, store: Any, tasks: Sequence[str], *, slots: int, **plan: Any
    ) -> None:
        handle = getattr(target, "handle", target)
        if not callable(handle):
            raise ConfigError(
                f"a handler is a function or has a method handle(ctx, store, record);"
                f" {type(target).__name__} has none"
            )
        inner = inspect.unwrap(handle)
        if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
            raise ConfigError("a handler that is a generator would never run; use a function")
        self._call = _flexible(handle)
        self._is_async = inspect.iscoroutinefunction(handle) or (
            inspect.iscoroutinefunction(getattr(handle, "__call__", None))  # noqa: B004
        )
        self._is_transactional = bool(getattr(target, "transactional", False))
        self._store = store
        self._threads = Threads(slots)
        self.tasks = tuple(tasks)
        self._plan = TaskPlan(run=self._run, **plan)
        for hook in HOOKS:
            if (found := getattr(target, hook, None)) is not None:
                setattr(self, hook, found)

    def plan(self, task: str) -> TaskPlan:
        return self._plan

    def close(self) -> bool:
        """Let go of the threads; False if one is still busy."""
        return self._threads.close()

    async def _run(self, context: Context, delivery: Delivery) -> Any:
        if not self._is_async:
            inner = SyncContext(context._around, delivery)
            return await self._threads.run(
                delivery, self._run_here, inner, delivery, delivery.record
            )
        if not self._is_transactional:
            return await self._call(context, self._store, delivery.record)
        record = delivery.record
        transaction = context.transaction()
        try:
            tx = await transaction.__aenter__()
        except StoreUnavailableError as error:
            return _put_back(context, error)
        context._is_inside = True
        try:
            async with _entered(transaction):
                answer = await self._call(context, BoundStore(self._store, tx), record)
                if _is_not_done(answer):
                    raise _NotDone(answer)
                await tx.complete(_output(answer, delivery))
                return answer
        except _NotDone as end:
            return end.answer

    def _run_here(self, context: SyncContext, delivery: Delivery, record: Any) -> Any:
        """In a thread."""
        if not self._is_transactional:
            answer = self._call(context, self._store, record)
            return asyncio.run(answer) if inspect.iscoroutine(answer) else answer
        transaction = context.transaction()
        try:
            tx = transaction.__enter__()
        except StoreUnavailableError as error:
            return _put_back(context, error)
        context._is_inside = True
        try:
            with _entered(transaction):
                answer = self._call(context, BoundStore(self._store, tx), record)
                if inspect.iscoroutine(answer):
                    answer.close()
                    raise TypeError("handle returned a coroutine; make it an async def")
                if _is_not_done(answer):
                    raise _NotDone(answer)
                tx.complete(_output(answer, delivery))
                return answer
        except _NotDone as end:
            return end.answer


class _entered:
    """A transaction that was begun already: leaves it as `with` would."""

    def __init__(self, transaction: JobTransaction) -> None:
        self._transaction = transaction

    def __enter__(self) -> None: ...

    def __exit__(self, *error: Any) -> bool | None:
        return self._transaction.__exit__(*error)

    async def __aenter__(self) -> None: ...

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._transaction.__aexit__(*error)


def _put_back(context: Context, error: StoreUnavailableError) -> Abandon:
    """There was no connection for its transaction, which is no fault of the record's."""
    context.logger.warning("handed back, since its transaction could not begin: %s", error)
    return Abandon()


def _output(answer: Any, delivery: Delivery) -> Any:
    """What a job is completed with in its handler's transaction: in a chain others may wait for
    it."""
    if delivery.lease.chain is None:
        return None
    return answer.value if isinstance(answer, Completed) else answer


def _is_not_done(answer: Any) -> bool:
    return isinstance(answer, Failed | Nack | Abandon)


def _flexible(handle: Callable[..., Any]) -> Callable[[Any, Any, Any], Any]:
    """`handle` as a function of (ctx, store, record), however few of them it takes."""
    try:
        parameters = list(inspect.signature(handle).parameters.values())
    except (TypeError, ValueError):
        return handle
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [p for p in parameters if p.kind in kinds]
    needed = [p for p in positional if p.default is inspect.Parameter.empty]
    by_name = inspect.Parameter.KEYWORD_ONLY
    if len(needed) > 3 or any(
        p.kind is by_name and p.default is inspect.Parameter.empty for p in parameters
    ):
        raise ConfigError("a handler takes (ctx, store, record), (ctx, record) or (record)")
    count = len(needed) or len(positional)
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters) or count >= 3:
        return handle
    match count:
        case 1:
            return lambda ctx, store, record: handle(record)
        case 2:
            return lambda ctx, store, record: handle(ctx, record)
        case _:
            raise ConfigError("a handler takes (ctx, store, record), (ctx, record) or (record)")
