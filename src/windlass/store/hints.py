"""Wake-up hints: how a store tells workers that there may be something to do.

There are two kinds. *Ready*: a claim may find a job. *Due*: a job was scheduled for a time that is
not far off, so that a worker which sleeps until its next poll must wake up before. A worker polls
at least every `SOON` seconds, so jobs that are due later than that need no hint: the next poll
comes before they are due and says when they are.

Hints may be lost or spurious. Polling stays on, and nothing depends on them but the time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from windlass.model.names import LONGEST_POLL

SOON = LONGEST_POLL
"""Seconds from now within which a scheduled job is hinted at."""

Ready = Callable[[], None]
Due = Callable[[float | None], None]
"""Is told in how many seconds a job is due, or None where the store does not know it exactly."""

_log = logging.getLogger("windlass.store")


def ignore_due(seconds: float | None) -> None:
    """The default `due` of subscribers that do not use due times."""


class Hints:
    """The subscribers of one store; any thread may tell them."""

    def __init__(self) -> None:
        self._subscribers: list[tuple[Ready, Due]] = []

    def __bool__(self) -> bool:
        return bool(self._subscribers)

    def subscribe(self, ready: Ready, due: Due = ignore_due) -> Callable[[], None]:
        """The way to stop it, which may be called twice."""
        subscriber = (ready, due)
        self._subscribers.append(subscriber)

        def stop() -> None:
            self._subscribers = [each for each in self._subscribers if each is not subscriber]

        return stop

    def clear(self) -> None:
        self._subscribers = []

    def ready(self) -> None:
        """A claim may find something."""
        for ready, _ in tuple(self._subscribers):
            try:
                ready()
            except Exception:  # a subscriber must not stop the store's own work
                _log.exception("a subscriber to hints raised")

    def due(self, seconds: float | None) -> None:
        """A job was scheduled for so many seconds from now; beyond SOON no subscriber is told."""
        if seconds is not None and seconds > SOON:
            return
        for _, due in tuple(self._subscribers):
            try:
                due(seconds)
            except Exception:  # as above
                _log.exception("a subscriber to hints raised")
