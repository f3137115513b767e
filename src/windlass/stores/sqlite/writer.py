"""The writer thread: everything a store does to its file happens here, one transaction at a time.

Callers put operations in an inbox and await their answers. The thread takes all writes that wait,
runs them as one transaction and answers after the commit (group commit). If an operation fails the
transaction is done again with a savepoint around each, so that it fails its own caller only. If the
commit fails, every call in it fails.

Reads are served outside the transaction, also while another connection holds the write lock.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections import deque
from typing import Any

from windlass.clock import SYSTEM, Clock
from windlass.errors import StoreClosedError, StoreError
from windlass.store.hints import Hints
from windlass.stores.sqlite.completions import NotAllHeld
from windlass.stores.sqlite.connection import Session, check_version, patiently, translate
from windlass.stores.sqlite.inbox import Inbox
from windlass.stores.sqlite.lock_pauses import LockPauses
from windlass.stores.sqlite.locking import begin
from windlass.stores.sqlite.news import News
from windlass.stores.sqlite.open_file import Opener, OpenFile
from windlass.stores.sqlite.operation import Operation, Read, answer, fail_all

MOST_ROWS = 2000
"""Rows after which a transaction takes no further operation: others want the lock too."""


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
        opener: Opener,
        busy_timeout: float,
        hints: Hints,
    ) -> None:
        self._path = path
        self._opener = opener
        self._clock = clock
        self._busy_timeout = busy_timeout
        self._inbox: Inbox[Operation | _Ask] = Inbox()
        self._gate = threading.Lock()
        self._closing = False
        self._reads: deque[Operation] = deque()
        self._writes: deque[Operation] = deque()
        self._closed = Operation()
        self._news = News(path, clock, hints)
        self._last_made_ready = False
        """Whether the last transaction made something claimable, so that a claim need not peek."""
        self._pauses = LockPauses()
        self._held_for = 0.0
        """Seconds for which the last transaction held the write lock."""
        self._resume_at = 0.0
        self.commits = 0
        self._thread = threading.Thread(
            target=self._main, name="windlass-sqlite-writer", daemon=True
        )

    # ── called by others ──

    @property
    def looks(self) -> int:
        return self._news.looks

    async def start(self) -> None:
        """Open the file and bring its schema up to date; raises what is wrong with it."""
        opened = Operation()
        is_open = opened.expect()
        self._inbox.put(opened)
        self._thread.start()
        try:
            await is_open
        except asyncio.CancelledError:
            self._inbox.put(_CLOSE)
            raise

    async def submit(self, operation: Operation) -> Any:
        answered = operation.expect()
        self.post(operation)
        return await answered

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
            self._file = OpenFile(self._path, self._opener, self._forget_file)
        except BaseException as error:  # whatever it is, `start` must raise it
            opened.error = error
            answer([opened])
            return
        answer([opened])
        try:
            self._serve(self._file.db)
        finally:
            self._file.close()
            self._refuse_the_rest()
            answer([self._closed])

    def _forget_file(self) -> None:
        """Another file is used: what is known of the one before does not count."""
        self._last_made_ready = False
        self._news.forget()

    def _refuse_the_rest(self) -> None:
        """Fail the calls that are left, so that no caller waits for an answer for ever."""
        with self._gate:
            self._closing = True
            self._take_all()
        left = [*self._reads, *self._writes]
        fail_all(left, StoreClosedError("this store was closed"))
        answer(left)

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
            self._news.look(self._file)
        self._file.checkpoint()

    def _wait(self, pause: float) -> None:
        """Sleep until there is something to do, or for `pause` seconds if that is more than 0."""
        self._inbox.wait(pause if pause > 0 else self._news.interval)

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
                    self._file.check()
                operation.result = self._read(db, operation.read)
            except Exception as error:  # it belongs to the caller
                operation.error = error
        answer(served)

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
            self._file.check()
        except StoreError as error:
            fail_all(batch, error)
            answer(batch)
            return
        if not self._last_made_ready and all(operation.peek is not None for operation in batch):
            batch = self._peek(db, batch)
            if not batch:
                return
        self._last_made_ready = False
        try:
            self._last_made_ready = self._commit(db, batch)
        except Exception as error:  # it belongs to the callers
            fail_all(batch, self._file.explain(error))
        answer(batch)
        self._news.tell(db, made_ready=self._last_made_ready)
        now = SYSTEM.monotonic()
        self._resume_at = now + self._pauses.pause(db.waited, db.met_stranger, self._held_for, now)

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
        answer(answered)
        return left

    def _commit(self, db: Session, batch: list[Operation]) -> bool:
        """Run all of them in one transaction; whether anything became claimable."""
        try:
            return self._transact(db, batch)
        finally:
            self._file.notice.withdraw()

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
        self._file.require()  # else a process that opens the path now would not find the rows
        self._held_for = SYSTEM.monotonic() - began_at
        return db.made_ready

    def _begin(self, db: Session) -> int:
        def meanwhile(delay: float) -> None:
            self._take_reads(delay)
            self._serve_reads(db)

        db.made_ready = db.made_scheduled = False
        return begin(db, self._clock, self._path, self._busy_timeout, self._file.notice, meanwhile)

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


def _roll_back(db: Session) -> None:
    """Undo the transaction; SQLite has done so itself after some errors."""
    if db.connection.in_transaction:
        db.control("ROLLBACK")
