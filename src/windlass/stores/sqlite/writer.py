"""The writer thread: everything a store does to its file happens here, one transaction at a time.

Callers put operations in an inbox and await their answers. The thread takes all writes that wait,
runs them as one transaction and answers after the commit; one wake-up per event loop carries all
its answers. If an operation fails the transaction is done again with a savepoint around each, so
that it fails its own caller only. If the commit fails, every call in it fails.

Reads are served outside the transaction, also while another connection holds the write lock.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from copy import copy
from typing import Any

import msgspec

from windlass.clock import SYSTEM, Clock
from windlass.errors import StoreClosedError, StoreError
from windlass.store.hints import Hints
from windlass.stores.sqlite.anchor import Anchor
from windlass.stores.sqlite.connection import (
    Session,
    check_version,
    is_busy,
    patiently,
    translate,
)
from windlass.stores.sqlite.holding import Mark
from windlass.stores.sqlite.inbox import Inbox
from windlass.stores.sqlite.locking import begin
from windlass.stores.sqlite.pace import Pace
from windlass.stores.sqlite.settle import NotAllHeld

Write = Callable[[Session, int], Any]
Read = Callable[[Session], Any]

LOOK_SOON = 0.005
LOOK_LATER = 0.04
"""Seconds between looks for other processes' commits, while there is a subscriber: soon while
there is news now and then, later when there was none for a while. Waking up is what it costs."""

_A_WHILE = 2.0

CHECK_AGAIN = 0.05
"""Seconds after which the path is looked at again, to see whether it still names the open file."""

MOST_ROWS = 2000
"""Rows after which a transaction takes no further operation: others want the lock too."""

_log = logging.getLogger("windlass.sqlite")
_news = msgspec.json.Decoder(tuple[int, int | None]).decode


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


class _Ask:
    """Wakes the thread for something other than an operation."""


_CLOSE = _Ask()
_LOOK = _Ask()


class Writer:
    """Owns the thread and its connection. `start` once, `submit` often, `close` once."""

    def __init__(
        self,
        path: str,
        clock: Clock,
        open_file: Callable[[bool], tuple[sqlite3.Connection, Anchor]],
        busy_timeout: float,
        hints: Hints,
    ) -> None:
        self._path = path
        self._open_file = open_file
        self._clock = clock
        self._busy_timeout = busy_timeout
        self._inbox: Inbox[Operation | _Ask] = Inbox()
        self._gate = threading.Lock()
        self._closing = False
        self._reads: deque[Operation] = deque()
        self._writes: deque[Operation] = deque()
        self._hints = hints
        self._closed = Operation()
        self._has_news = False
        """Whether the last transaction made something claimable, so that a claim need not peek."""
        self._news: int | None = None
        """The data_version that was looked at last."""
        self._looked_at = 0.0
        self._news_at = 0.0
        self._look_interval = LOOK_SOON
        self._checked_at = 0.0
        self._told = ""
        self._pace = Pace()
        self._held = 0.0
        self._resume_at = 0.0
        self.commits = 0
        self.looks = 0
        self._thread = threading.Thread(
            target=self._main, name="windlass-sqlite-writer", daemon=True
        )

    # ── called by others ──

    async def start(self) -> None:
        """Open the file and bring its schema up to date; raises what is wrong with it."""
        opened = Operation()
        answer = opened.expect()
        self._inbox.put(opened)
        self._thread.start()
        try:
            await answer
        except asyncio.CancelledError:
            self._inbox.put(_CLOSE)
            raise

    async def submit(self, operation: Operation) -> Any:
        answer = operation.expect()
        self.post(operation)
        return await answer

    def post(self, operation: Operation) -> None:
        """Have it done without waiting for it; from any thread."""
        with self._gate:
            if self._closing:
                raise StoreClosedError("this store was closed")
            self._inbox.put(operation)

    def wake(self) -> None:
        """There is a subscriber: start to look for other processes' commits."""
        self._inbox.put(_LOOK)

    async def close(self) -> None:
        """Finish what is queued, then end the thread. Call it once."""
        closed = self._closed.expect()
        with self._gate:
            self._closing = True
            self._inbox.put(_CLOSE)
        await closed
        self._thread.join()

    # ── the thread ──

    def _main(self) -> None:
        opened, *rest = self._inbox.take()  # `start` put it in before it started the thread
        assert isinstance(opened, Operation)
        for item in rest:
            self._inbox.put(item)
        try:
            check_version()
            connection, self._anchor = self._open_file(False)
        except BaseException as error:  # whatever it is, `start` must raise it
            opened.error = error
            _answer([opened])
            return
        _answer([opened])
        self._mark = Mark(self._path)
        db = Session(connection)
        try:
            self._serve(db)
        finally:
            self._mark.close()
            db.connection.close()
            self._refuse_the_rest()
            _answer([self._closed])

    def _refuse_the_rest(self) -> None:
        """Fail the calls that are left, so that no caller waits for an answer for ever."""
        with self._gate:
            self._closing = True
            self._take_all()
        left = [*self._reads, *self._writes]
        _fail_all(left, StoreClosedError("this store was closed"))
        _answer(left)

    def _serve(self, db: Session) -> None:
        open_for_more = True
        while open_for_more or self._reads or self._writes:
            pause = self._resume_at - SYSTEM.monotonic() if self._writes else 0.0
            if not self._reads and (pause > 0 or not self._writes):
                self._wait(pause)
            open_for_more = self._take_all() and open_for_more
            self._serve_reads(db)
            if self._writes and SYSTEM.monotonic() >= self._resume_at:
                self._write(db, self._gather([]))
            self._look(db)
        if self._anchor.holds():
            self._checkpoint(db)

    def _checkpoint(self, db: Session) -> None:
        try:
            db.control("PRAGMA wal_checkpoint(PASSIVE)")
        except sqlite3.Error as error:
            _log.debug("no checkpoint of %s at the end: %s", self._path, error)

    # ── the file ──

    def _check_file(self, db: Session) -> None:
        """Whether the path still names the file that is open; another in its place is used.

        While there is none, raises what happened to it. Asked again after a while only: each
        commit looks too, before its callers are answered.
        """
        now = SYSTEM.monotonic()
        if now - self._checked_at < CHECK_AGAIN:
            return
        if not self._anchor.holds():
            self._use_another(db)
        self._checked_at = now

    def _use_another(self, db: Session) -> None:
        gone = self._anchor.explain()
        if not self._anchor.is_replaced():
            self._tell(gone)
            raise gone
        try:
            connection, anchor = self._open_file(True)
        except StoreError as error:
            self._tell(error)
            raise
        self._tell(gone)
        _log.warning("using the file that is there now at %s", self._path)
        db.connection.close()
        self._mark.close()
        self._mark = Mark(self._path)
        db.use(connection)
        self._anchor = anchor
        self._has_news = False
        self._news = None
        self._told = ""

    def _tell(self, error: StoreError) -> None:
        """Say once what happened to the file."""
        if str(error) != self._told:
            self._told = str(error)
            _log.error("%s", error)

    def _wait(self, pause: float) -> None:
        """Sleep until there is something to do, or for `pause` seconds if that is more than 0."""
        self._inbox.wait(pause if pause > 0 else self._look_interval if self._hints else None)

    def _take_all(self) -> bool:
        """Sort what came; False when asked to close."""
        going_on = True
        for item in self._inbox.take():
            going_on = self._put(item) and going_on
        return going_on

    def _put(self, item: Operation | _Ask) -> bool:
        if isinstance(item, Operation):
            (self._writes if item.read is None else self._reads).append(item)
        return item is not _CLOSE

    # ── reads ──

    def _serve_reads(self, db: Session) -> None:
        if not self._reads:
            return
        served = list(self._reads)
        self._reads.clear()
        for operation in served:
            assert operation.read is not None
            try:
                if not db.connection.in_transaction:
                    self._check_file(db)
                operation.result = self._read(db, operation.read)
            except Exception as error:  # it belongs to the caller
                operation.error = error
        _answer(served)

    def _read(self, db: Session, read: Read) -> Any:
        return patiently(lambda: read(db), self._path, limit=self._busy_timeout)

    # ── writes ──

    def _gather(self, batch: list[Operation]) -> list[Operation]:
        """The batch, with as many of those that wait as there is room for."""
        total = sum([operation.rows for operation in batch])
        while self._writes and (not batch or total + self._writes[0].rows <= MOST_ROWS):
            operation = self._writes.popleft()
            total += operation.rows
            batch.append(operation)
        return batch

    def _write(self, db: Session, batch: list[Operation]) -> None:
        try:
            self._check_file(db)
        except StoreError as error:
            _fail_all(batch, error)
            _answer(batch)
            return
        if not self._has_news and all(operation.peek is not None for operation in batch):
            batch = self._peek(db, batch)
            if not batch:
                return
        self._has_news = False
        try:
            made_ready = self._commit(db, batch)
        except Exception as error:  # it belongs to the callers
            _fail_all(batch, self._plainly(error))
            made_ready = False
        self._has_news = made_ready
        _answer(batch)
        if made_ready:
            self._hints.ready()
        if db.made_scheduled and self._hints:
            self._hint_due(db)
        now = SYSTEM.monotonic()
        self._resume_at = now + self._pace.pause(db.waited, db.met_stranger, self._held, now)

    def _plainly(self, error: Exception) -> Exception:
        """What went wrong, as callers are told: what happened to the file goes before all else."""
        if not self._anchor.holds():
            self._checked_at = 0.0
            return self._anchor.explain()
        return translate(error, self._path) if isinstance(error, sqlite3.Error) else error

    def _peek(self, db: Session, batch: list[Operation]) -> list[Operation]:
        """Answer those that have nothing to write; the others."""
        answered, left = [], []
        for operation in batch:
            assert operation.peek is not None
            try:
                needed = self._read(db, operation.peek)
            except Exception as error:  # it belongs to the caller
                operation.error = error
                answered.append(operation)
                continue
            if needed:
                left.append(operation)
            else:
                operation.result = operation.nothing
                answered.append(operation)
        _answer(answered)
        return left

    def _commit(self, db: Session, batch: list[Operation]) -> bool:
        """Run all of them in one transaction; whether anything became claimable."""
        try:
            return self._transact(db, batch)
        finally:
            self._mark.clear()

    def _transact(self, db: Session, batch: list[Operation]) -> bool:
        db.careful = False
        now = self._begin(db)
        began_at = SYSTEM.monotonic()
        self._gather(batch)  # what came while others held the lock
        try:
            self._run_plainly(db, batch, now)
        except Exception as error:
            _roll_back(db)
            if len(batch) == 1 and not isinstance(error, NotAllHeld):
                raise
            db.careful = True
            self._run_apart(db, batch, self._begin(db))
        try:
            db.control("COMMIT")
        except BaseException:
            _roll_back(db)
            raise
        self.commits += 1
        self._anchor.require()  # else a process that opens the path now would not find the rows
        self._held = SYSTEM.monotonic() - began_at
        return db.made_ready

    def _begin(self, db: Session) -> int:
        def meanwhile(delay: float) -> None:
            self._take_reads(delay)
            self._serve_reads(db)

        db.made_ready = db.made_scheduled = False
        return begin(db, self._clock, self._path, self._busy_timeout, self._mark, meanwhile)

    def _take_reads(self, delay: float) -> None:
        """New operations while the lock is awaited; being asked to close is kept for later."""
        if self._closing:
            time.sleep(delay)  # the inbox would answer at once
        else:
            self._wait(delay)
        if not self._take_all():
            self._inbox.put(_CLOSE)

    def _run_plainly(self, db: Session, batch: list[Operation], now: int) -> None:
        for operation in batch:
            assert operation.write is not None
            operation.result = operation.write(db, now)

    def _run_apart(self, db: Session, batch: list[Operation], now: int) -> None:
        for operation in batch:
            assert operation.write is not None
            db.control("SAVEPOINT operation")
            try:
                operation.result = operation.write(db, now)
            except Exception as error:
                # It belongs to its caller, unless SQLite gave up the whole transaction.
                if not db.connection.in_transaction:
                    raise
                db.control("ROLLBACK TO operation")
                operation.error = (
                    translate(error, self._path) if isinstance(error, sqlite3.Error) else error
                )
            db.control("RELEASE operation")

    # ── hints ──

    def _look(self, db: Session) -> None:
        """Tell subscribers when another connection committed something worth a claim, and when
        the next job is due, which that commit may have changed."""
        now = SYSTEM.monotonic()
        if not self._hints or now - self._looked_at < self._look_interval * 0.9:
            return
        self._looked_at = now
        self.looks += 1
        try:
            self._check_file(db)
            version = db.connection.execute("PRAGMA data_version").fetchone()[0]
            if self._news == version:
                if now - self._news_at > _A_WHILE:
                    self._look_interval = LOOK_LATER
                return
            self._look_interval = LOOK_SOON
            self._news_at = now
            is_first, news = self._news is None, _news(db.value("peek_news"))
        except sqlite3.Error as error:
            if not is_busy(error):
                _log.warning("cannot look for news in %s: %s", self._path, error)
            return
        except StoreError:
            return  # told when it was found out
        self._news = version
        ready, due = news
        if ready or is_first:
            self._hints.ready()
        self._tell_due(due)

    def _hint_due(self, db: Session) -> None:
        """Tell subscribers when the next job is due, after one was scheduled here."""
        try:
            self._tell_due(db.value("next_due"))
        except sqlite3.Error as error:  # what was scheduled is committed: a poll will find it
            _log.debug("cannot read the next due time in %s: %s", self._path, error)

    def _tell_due(self, due: int | None) -> None:
        if due is not None:
            self._hints.due(max(0.0, (due - self._clock.now()) / 1e6))


def _roll_back(db: Session) -> None:
    """Undo the transaction; SQLite has done so itself after some errors."""
    if db.connection.in_transaction:
        db.control("ROLLBACK")


def _fail_all(batch: Iterable[Operation], error: BaseException) -> None:
    """Each caller gets an exception of its own: a traceback grows where it is raised."""
    for operation in batch:
        operation.error = copy(error)


def _answer(operations: Iterable[Operation]) -> None:
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
