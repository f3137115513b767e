"""One call to the store: what the writer thread does for it, and how its caller is answered.

One wake-up of an event loop carries all the answers that its callers are owed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from copy import copy
from typing import Any

from windlass.stores.sqlite.connection import Session

Write = Callable[[Session, int], Any]
Read = Callable[[Session], Any]


class Operation:
    """One call: what to do, and whom to tell.

    `peek` runs first, without the write lock; when it says False there is nothing to write and
    `nothing` is the answer. `abandoned` is told the result of a write whose caller has gone.
    """

    __slots__ = ("abandoned", "error", "future", "loop", "nothing", "peek", "read", "result",
                 "rows", "write")  # fmt: skip

    def __init__(
        self,
        write: Write | None = None,
        read: Read | None = None,
        *,
        rows: int = 1,
        peek: Read | None = None,
        nothing: Any = None,
        abandoned: Callable[[Any], None] | None = None,
    ) -> None:
        self.write = write
        self.read = read
        self.rows = rows
        self.peek = peek
        self.nothing = nothing
        self.abandoned = abandoned
        self.result: Any = None
        self.error: BaseException | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.future: asyncio.Future[Any] | None = None

    def expect(self) -> asyncio.Future[Any]:
        """The future that will have the answer, on the running event loop."""
        self.loop = asyncio.get_running_loop()
        self.future = self.loop.create_future()
        return self.future


def fail_all(batch: Iterable[Operation], error: BaseException) -> None:
    """Each caller gets an exception of its own: a traceback grows where it is raised."""
    for operation in batch:
        operation.error = copy(error)


def answer(operations: Iterable[Operation]) -> None:
    """Wake each event loop once for all the answers it is owed."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Operation]] = {}
    for operation in operations:
        if operation.loop is not None:
            by_loop.setdefault(operation.loop, []).append(operation)
    for loop, owed in by_loop.items():
        try:
            loop.call_soon_threadsafe(_deliver, owed)
        except RuntimeError:
            # The loop was closed: no caller waits there any more.
            for operation in owed:
                _abandon(operation)


def _deliver(owed: list[Operation]) -> None:
    for operation in owed:
        future = operation.future
        if future is None or future.done():
            _abandon(operation)
        elif operation.error is not None:
            future.set_exception(operation.error)
        else:
            future.set_result(operation.result)


def _abandon(operation: Operation) -> None:
    if operation.abandoned is not None and operation.error is None:
        operation.abandoned(operation.result)
