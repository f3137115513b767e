"""Group commit of concurrent enqueues: while one call is in flight, the next one gathers.

Only jobs without keys are gathered. A key may be held by somebody's open transaction, and nobody
else's jobs should wait for that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from windlass.errors import StoreError, StoreUnavailableError
from windlass.model.job import Job
from windlass.store.records import NewJob

MOST_AT_ONCE = 2_000
MOST_TEXT = 8_000_000
"""Characters of payload in one call, unless one caller has more."""

Waiting = tuple[Sequence[NewJob], "Future[list[Job]]"]


class Gather:
    """`add` writes many jobs in one call; `start` runs a function in a thread of the crew."""

    def __init__(
        self,
        add: Callable[[Sequence[NewJob]], list[Job]],
        start: Callable[[Callable[[], None]], object],
    ) -> None:
        self._add = add
        self._start = start
        self._lock = threading.Lock()
        self._waiting: list[Waiting] = []
        self._is_writing = False

    def submit(self, jobs: Sequence[NewJob]) -> Future[list[Job]]:
        answer: Future[list[Job]] = Future()
        with self._lock:
            self._waiting.append((jobs, answer))
            starts = not self._is_writing
            self._is_writing = True
        if starts:
            try:
                self._start(self._write)
            except BaseException as error:  # nobody will write; everybody who waits must know
                with self._lock:
                    self._is_writing = False
                    waiting, self._waiting = self._waiting, []
                for _, each in waiting:
                    if each.set_running_or_notify_cancel():
                        each.set_exception(error)
        return answer

    def _write(self) -> None:
        while True:
            batch = self._next()
            if not batch:
                return
            self._write_batch(batch)

    def _next(self) -> list[Waiting]:
        with self._lock:
            batch: list[Waiting] = []
            size = text = 0
            while self._waiting:
                jobs, answer = self._waiting[0]
                size += len(jobs)
                text += sum([len(job.payload) for job in jobs])
                if batch and (size > MOST_AT_ONCE or text > MOST_TEXT):
                    break
                del self._waiting[0]
                if answer.set_running_or_notify_cancel():
                    batch.append((jobs, answer))
            if not batch and not self._waiting:
                self._is_writing = False
            return batch

    def _write_batch(self, batch: Sequence[Waiting]) -> None:
        try:
            added = self._add([job for jobs, _ in batch for job in jobs])
        except BaseException as error:
            is_refusal = isinstance(error, StoreError)
            is_refusal = is_refusal and not isinstance(error, StoreUnavailableError)
            if not is_refusal or len(batch) == 1:
                for _, answer in batch:
                    answer.set_exception(error)
            else:  # something in it was refused, which is only its own caller's affair
                for each in batch:
                    self._write_batch([each])
            return
        start = 0
        for jobs, answer in batch:
            answer.set_result(added[start : start + len(jobs)])
            start += len(jobs)
