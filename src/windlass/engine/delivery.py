"""One job in this worker's hands, from its claim until its settlement is written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from windlass.store.records import MAX_LOG, Lease, Note
from windlass.tasks.abort import Abort, AbortReason


class Delivery:
    """`stop`, `note` and `extend` may be called from any thread; the rest is the event loop's.

    The defaults below are the class's, so that a job which needs none of them pays for none.

    `owned_until` is the end of a lease of its own, where a longer one than the worker's was asked
    for, on the machine's monotonic clock.

    `is_fenced` is set when its lease could not be renewed in time, so that another worker may have
    the job, or have had it.

    `is_refused` is set once somebody was told that the database will not have its outcome.

    `remains` is a thread that could not be stopped: the job is settled, but its slot stays taken
    until the thread ends.
    """

    task: asyncio.Task[None] | None = None
    started_at = 0.0
    is_over = False
    settled_inside = False
    is_fenced = False
    is_refused = False
    keep: float | None = None
    error: BaseException | None = None
    notes: list[Note] | None = None
    on_note: Callable[[Delivery], None] | None = None
    on_stop: Callable[[], None] | None = None
    remains: asyncio.Future[Any] | None = None
    extension: float | None = None
    owned_until = 0.0
    _record: Any = None

    def __init__(self, lease: Lease, loop: asyncio.AbstractEventLoop, claimed_at: float) -> None:
        self.lease = lease
        self.loop = loop
        self.claimed_at = claimed_at
        self.abort = Abort()

    @property
    def record(self) -> Any:
        """What a handler's hooks are given, the same object each time."""
        if self._record is None:
            self._record = self.lease.record
        return self._record

    def stop(self, reason: AbortReason) -> None:
        """Tell the handler to stop, by whatever means it can be told.

        A process is killed and a thread sees the flag at once, even if the event loop is blocked;
        a coroutine is cancelled when the loop next turns.
        """
        if self.is_over or not self.abort.set(reason):
            return
        on_stop = self.on_stop
        if on_stop is not None:
            on_stop()
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self.task is not None and not self.is_over:
            self.task.cancel()

    def note(self, note: Note) -> None:
        """Remember something for the noter to write; from any thread."""
        if asyncio._get_running_loop() is self.loop:
            self._note(note)  # at once: the handler may be about to end
        else:
            self.loop.call_soon_threadsafe(self._note, note)

    def _note(self, note: Note) -> None:
        if self.notes is None:
            self.notes = []
        if note.progress is not None and self.notes and self.notes[-1].progress is not None:
            self.notes.pop()
        self.notes.append(note)
        if len(self.notes) > 2 * MAX_LOG:
            del self.notes[:MAX_LOG]  # no longer in the log by the time it could be read
        if self.on_note is not None:
            self.on_note(self)

    def extend(self, seconds: float) -> None:
        """Ask the keeper for a lease end of this job's own; from any thread."""
        self.extension = max(self.extension or 0.0, seconds)
