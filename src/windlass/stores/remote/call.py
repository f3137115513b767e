"""One call on its way, and the limits that hold for it."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

from windlass.errors import OutcomeUnknownError, StoreUnavailableError, WindlassError
from windlass.wire.calls import Verb

CALL_LIMIT = 30.0
"""Seconds a call may take."""
PATIENCE = 10.0
"""Seconds for which a call that was lost, and may be made again, waits for a connection."""


class CallUnderWay:
    """`future` gets the answer's bytes, or the error. The link's own thread changes it."""

    def __init__(self, number: int, verb: Verb, arguments: bytes, limit: float) -> None:
        self.number = number
        self.verb = verb
        self.arguments = arguments
        self.limit = limit
        self.future: Future[bytes] = Future()
        self.parts: list[bytes] = []
        self.sent_at = 0.0
        self.patient_until = 0.0
        self.timer: asyncio.TimerHandle | None = None

    @property
    def is_done(self) -> bool:
        return self.future.done()

    def answer(self, value: bytes, *, more: bool) -> None:
        if more:
            self.parts.append(value)
        elif not self.is_done:
            self._end()
            if self.future.set_running_or_notify_cancel():
                self.future.set_result(b"".join([*self.parts, value]) if self.parts else value)

    def fail(self, error: WindlassError) -> None:
        if self.is_done:
            return
        self._end()
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)

    def lose(self, why: str) -> None:
        """The answer will not come, and the call may have been carried out."""
        if self.verb.repeats:
            self.fail(StoreUnavailableError(why, is_temporary=True))
        else:
            self.fail(OutcomeUnknownError(f"{why}; {self.verb.name} may have happened"))

    def _end(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
