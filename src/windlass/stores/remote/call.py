"""One call on its way, and the limits that hold for it."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any

import msgspec

from windlass.errors import (
    OutcomeUnknownError,
    StoreError,
    StoreUnavailableError,
    WindlassError,
)
from windlass.wire.calls import Verb

CALL_LIMIT = 30.0
"""Seconds a call may take."""
PATIENCE = 10.0
"""Seconds for which a call that was lost, and may be made again, waits for a connection."""


def read_answer(verb: Verb, answer: bytes, server: str) -> Any:
    """What a server has answered. StoreError where that cannot be read, and OutcomeUnknownError if
    the call may have changed something."""
    try:
        return verb.decode_answer(answer)
    except msgspec.MsgspecError as error:
        why = f"{server} answers {verb.name} with what cannot be read (another version?): {error}"
        if verb.repeats:
            raise StoreError(why) from error
        raise OutcomeUnknownError(f"{why}; {verb.name} may have happened") from error


async def until_over(call: Future[bytes]) -> None:
    """Return when a call was answered, or has failed. Its error is for its caller alone."""
    over = asyncio.wrap_future(call)
    over.add_done_callback(lambda done: done.cancelled() or done.exception())
    await asyncio.wait([over])


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
