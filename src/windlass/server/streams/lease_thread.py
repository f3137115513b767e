"""The thread that has the server's lifeline: it makes steps when they are due, and answers
questions in between."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Protocol

from windlass.clock import Clock
from windlass.errors import StoreClosedError
from windlass.store.port import Lifeline
from windlass.store.records import Renewal

_log = logging.getLogger("windlass.server")

Question = Callable[[Lifeline], Renewal]
AFTER_AN_ERROR = 0.5


class LeaseHost(Protocol):
    """Has the lifeline, and makes steps until it is stopped."""

    def start(self) -> None: ...

    def wake_by(self, at: float) -> None: ...

    def ask(self, question: Question) -> Future[Renewal]: ...

    def tell(self, what: Callable[[], None]) -> None: ...

    async def stop(self) -> None: ...


class LeaseThread:
    """Makes `step`, which says in how many seconds to come back, until it is stopped."""

    def __init__(self, lifeline: Lifeline, step: Callable[[Lifeline], float], clock: Clock) -> None:
        self._lifeline = lifeline
        self._step = step
        self._clock = clock
        self._next_at = -math.inf
        """When the next step is made at the latest, on the monotonic clock; infinite while one is
        being made."""
        self._loop = asyncio.get_running_loop()
        self._questions: deque[tuple[Question, Future[Renewal]]] = deque()
        self._wake = threading.Event()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="windlass-leases", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake_by(self, at: float) -> None:
        """Make a step by then."""
        if self._next_at > at:
            self._wake.set()

    def ask(self, question: Question) -> Future[Renewal]:
        answer: Future[Renewal] = Future()
        self._questions.append((question, answer))
        self._wake.set()
        return answer

    def tell(self, what: Callable[[], None]) -> None:
        """Let the event loop do something."""
        with suppress(RuntimeError):  # it is closed
            self._loop.call_soon_threadsafe(what)

    async def stop(self) -> None:
        """Answer what was asked, and end."""
        self._is_stopping = True
        self._wake.set()
        if not self._thread.is_alive():
            return
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    def _run(self) -> None:
        try:
            while not self._is_stopping and not self._loop.is_closed():
                self._answer()
                self._next_at = math.inf
                pause = self._make_step()
                self._next_at = self._clock.monotonic() + pause
                self._wake.wait(pause)
                self._wake.clear()
            self._answer()
        finally:
            self._lifeline.close()

    def _make_step(self) -> float:
        if self._questions:
            return 0.0
        try:
            return self._step(self._lifeline)
        except StoreClosedError:
            return AFTER_AN_ERROR
        except Exception as error:  # without leases nothing is safe: go on whatever happened
            _log.warning("leases could not be renewed, and this is tried again: %s", error)
            return AFTER_AN_ERROR

    def _answer(self) -> None:
        while self._questions:
            question, answer = self._questions.popleft()
            if not answer.set_running_or_notify_cancel():
                continue
            try:
                answer.set_result(question(self._lifeline))
            except BaseException as error:
                answer.set_exception(error)
