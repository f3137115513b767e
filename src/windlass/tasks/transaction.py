"""`ctx.transaction()`: a handler's writes and its job's completion, committed together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, Protocol

from windlass.errors import WindlassError
from windlass.model import payload as payloads
from windlass.store.port import Transaction, WorkStore
from windlass.store.records import Complete, Lease, NewChain
from windlass.tasks.abort import Abort
from windlass.tasks.awaited import OwnThread
from windlass.tasks.connection import entered, is_on_a_loop
from windlass.tasks.continuing import Continuation, completion, payloads_of_others


class Completable(Protocol):
    """A running delivery, as far as a transaction must know it to complete its job."""

    lease: Lease
    keep: float | None
    """How long the completed job is kept where the job itself does not say."""
    may_go_on: bool
    """Whether its handler has made what its chain could go on with."""
    starts: list[NewChain] | None
    """Chains that start when the delivery completes."""
    completion: Complete | None
    """How its own transaction completes it, if one does."""

    @property
    def abort(self) -> Abort: ...

    def begin_commit(self) -> None:
        """The commit that completes the job is about to be sent."""

    def commit_failed(self) -> None:
        """That commit did not succeed; the job is still this delivery's."""


class OpenTransaction:
    """The transaction a handler is inside of; jobs that the handler adds meanwhile join it."""

    def __init__(self, store: WorkStore, connection: Any) -> None:
        self.store = store
        self.connection: Any = connection


_inside: ContextVar[OpenTransaction | None] = ContextVar("windlass_transaction", default=None)


def connection_inside(store: WorkStore) -> Any:
    """The connection of the `ctx.transaction()` this code runs in, if it is on `store`, or None.

    Jobs added on another connection would wait for the write lock that the handler itself holds.
    """
    found = _inside.get()
    return found.connection if found is not None and found.store is store else None


class JobTransaction:
    """One transaction of the store, for both kinds of `with`.

    Before a transaction that completes its job commits, it calls `begin_commit`, and from then on
    the engine does not cancel the handler. The commit itself ends the lease, so a keeper that
    looks before the answer arrives finds the job gone; a cancel for that, or for any other reason,
    would keep the code after the block from running.
    """

    def __init__(self, store: WorkStore, delivery: Completable) -> None:
        self._store = store
        self._delivery = delivery
        self._opened = store.transaction(delivery.lease)
        self._current: OpenTransaction | None = None
        self._thread = OwnThread()
        self._forget: Callable[[], None] = lambda: None
        self._is_unsettled = False
        """Whether the job was to be completed by a commit that has not succeeded."""
        self._sync: SyncTransaction

    def __enter__(self) -> SyncTransaction:
        if is_on_a_loop():
            raise WindlassError("in an async def write `async with ctx.transaction()`")
        self._begin(self._opened.__enter__())
        return self._sync

    def __exit__(self, *error: Any) -> bool | None:
        self._finish(*error)
        try:
            return self._end(*error)
        finally:
            self._tell_failure()

    async def __aenter__(self) -> AsyncTransaction:
        self._begin(await entered(self._opened, self._thread))
        return AsyncTransaction(self._sync, self._thread)

    async def __aexit__(self, *error: Any) -> bool | None:
        self._finish(*error)
        try:
            ended: bool | None = await self._thread.run_out(self._end, *error)
            return ended
        finally:
            self._thread.close()
            self._tell_failure()

    def _begin(self, inner: Transaction) -> None:
        self._sync = SyncTransaction(inner, self._delivery)
        self._forget = self._delivery.abort.call(inner.interrupt)
        self._current = OpenTransaction(self._store, inner.connection)
        _inside.set(self._current)

    def _finish(self, *error: Any) -> None:
        """The block has ended; the next step may be the commit that completes the job."""
        self._forget()
        _inside.set(None)
        if self._current is not None:
            self._current.connection = None  # tasks started inside the block may outlive it
        if self._sync.is_completing:
            if error[0] is None:
                self._is_unsettled = True
                self._delivery.begin_commit()
            else:
                self._delivery.completion = None

    def _end(self, *error: Any) -> bool | None:
        answer = self._opened.__exit__(*error)
        self._is_unsettled = False
        return answer

    def _tell_failure(self) -> None:
        if self._is_unsettled:
            self._delivery.completion = None
            self._delivery.commit_failed()


class SyncTransaction:
    """The transaction inside a plain function."""

    def __init__(self, inner: Transaction, delivery: Completable) -> None:
        self._inner = inner
        self._delivery = delivery
        self.is_completing = False
        """Whether the job completes when this block commits."""

    @property
    def connection(self) -> Any:
        return self._inner.connection

    def execute(self, sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[Any]:
        """Run one statement. A value of a row is read by its place or by its column's name."""
        return self._inner.execute(sql, values)

    def complete(self, output: Any = None) -> None:
        """Complete the job when this block commits, with this output or by what
        `ctx.continue_with` returned; LeaseLostError if it is no longer ours."""
        delivery = self._delivery
        next_job = output.job_in(delivery) if isinstance(output, Continuation) else None
        is_output = output is not None and next_job is None
        with payloads_of_others:  # one that is not JSON costs the attempt, not the job
            text = payloads.encode_value(output, field="output") if is_output else None
        outcome = completion(next_job, text, delivery.keep, delivery.starts)
        self._inner.complete(outcome)
        delivery.completion = outcome
        self.is_completing = True


class AsyncTransaction:
    """The transaction inside an `async def`."""

    def __init__(self, sync: SyncTransaction, thread: OwnThread) -> None:
        self._sync = sync
        self._thread = thread

    @property
    def connection(self) -> Any:
        return self._sync.connection

    async def execute(self, sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[Any]:
        try:
            rows: list[Any] = await self._thread.run(self._sync.execute, sql, values)
        except asyncio.CancelledError:
            self._sync._inner.interrupt()
            raise
        return rows

    async def complete(self, output: Any = None) -> None:
        """Complete the job when this block commits; LeaseLostError if it is no longer ours."""
        await self._thread.run(self._sync.complete, output)
