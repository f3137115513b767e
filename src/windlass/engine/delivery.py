"""One job in this worker's hands, from its claim until its settlement is written."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from windlass.model.chain import Chain
from windlass.store.records import (
    COMPLETE,
    MAX_LOG,
    Complete,
    Lease,
    LostReason,
    NewChain,
    Note,
    Outcome,
)
from windlass.tasks.abort import Abort, AbortReason

_lock = threading.Lock()

LOST = frozenset(AbortReason(reason.value) for reason in LostReason)
"""The reasons that come from the store: this delivery no longer owns its job."""


class Delivery(msgspec.Struct, eq=False):
    """`stop`, `note`, `extend` and `abort` are for any thread; the rest is the event loop's.

    It is a struct because one is made per job: its defaults cost nothing, and what few jobs need
    is made when it is asked for.

    `task` is the slot's, from when its handler first waits for something.

    `stopped` is why it was told to stop, if it was; only the first reason counts.

    `started_at` and `ended_at` are when its handler began and ended, on the event loop's clock; 0
    before that.

    `outcome` is what the store is asked to write, once the delivery `is_over`.

    `owned_until` is the end of a lease of its own, where a longer one than the worker's was asked
    for, on the machine's monotonic clock.

    `is_fenced` is set when its lease could not be renewed in time, so that another worker may have
    the job, or have had it.

    `settled_inside` is set while the handler's own transaction, which completes the job, commits,
    and stays set once it has committed. From then on the delivery is not cancelled: the code after
    the block must run, and the store's answer that the job is gone tells of this very commit.

    `is_refused` is set once it was logged that the database refuses its outcome.

    `remains` is the thread that a plain function runs in. It cannot be stopped, so the delivery
    lasts until it ends, whatever its handler was told.

    `completion` is how the handler's own transaction completes the job, from when it says so and as
    long as that transaction is not undone.

    `may_go_on` is set once its handler has made what its chain could go on with.

    `starts` are chains that its handler starts, and `blockers` the chains that its job waited for,
    where the lease does not have them.

    `hooked` is done when its `post_handle` has ended, where the handler has one; its slot stays
    taken until then.
    """

    lease: Lease
    loop: asyncio.AbstractEventLoop
    claimed_at: float
    on_note: Callable[[Delivery], None] | None = None
    task: asyncio.Task[None] | None = None
    started_at: float = 0.0
    ended_at: float = 0.0
    outcome: Outcome = COMPLETE
    stopped: AbortReason | None = None
    is_over: bool = False
    settled_inside: bool = False
    is_fenced: bool = False
    is_refused: bool = False
    keep: float | None = None
    error: BaseException | None = None
    notes: list[Note] | None = None
    on_stop: Callable[[], None] | None = None
    remains: asyncio.Future[Any] | None = None
    hooked: asyncio.Future[None] | None = None
    completion: Complete | None = None
    may_go_on: bool = False
    starts: list[NewChain] | None = None
    blockers: Sequence[Chain[Any]] | None = None
    extension: float | None = None
    owned_until: float = 0.0
    _record: Any = None
    _abort: Abort | None = None

    @property
    def record(self) -> Any:
        """What a handler's hooks are given, the same object each time."""
        if self._record is None:
            self._record = self.lease.record
        return self._record

    @property
    def title(self) -> str:
        """How a sentence names it."""
        return f"job {self.lease.job_id} ({self.lease.task})"

    @property
    def log_fields(self) -> dict[str, Any]:
        """What a log record about this delivery carries as `extra`."""
        lease = self.lease
        fields = {"label": "job", "task": lease.task, "job_id": lease.job_id}
        if lease.chain is not None:
            fields["chain"] = lease.chain
        return fields

    @property
    def abort(self) -> Abort:
        """What its handler can look at or wait for."""
        if self._abort is None:
            with _lock:
                if self._abort is None:
                    self._abort = Abort()
        return self._abort

    def stop(self, reason: AbortReason) -> bool:
        """Tell the handler to stop, by whatever means it can be told; False if it is too late.

        A process is killed and a thread sees the flag at once, even if the event loop is blocked;
        a coroutine is cancelled when the loop next turns.
        """
        with _lock:
            if self.is_over or self.stopped is not None:
                return False
            if self.settled_inside and reason in LOST:
                return False
            self.stopped = reason
        self.abort.set(reason)
        on_stop = self.on_stop
        if on_stop is not None:
            on_stop()
        self._cancel_soon()
        return True

    def _cancel_soon(self) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self.task is not None and not self.is_over and not self.settled_inside:
            self.task.cancel()

    def begin_commit(self) -> None:
        """The handler's transaction, which completes the job, is about to commit.

        A coroutine calls it on the event loop, so it was cancelled before this or will not be.
        """
        with _lock:
            self.settled_inside = True

    def commit_failed(self) -> None:
        """It did not commit; a handler that was told to stop meanwhile is cancelled now."""
        with _lock:
            self.settled_inside = False
        if self.stopped is not None:
            self._cancel_soon()

    def note(self, note: Note) -> None:
        """Remember something for the note writer; from any thread."""
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
