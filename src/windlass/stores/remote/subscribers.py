"""Who is told of new jobs, and whether the server's hints arrive."""

from __future__ import annotations

import threading
from collections.abc import Callable

from windlass.store.hints import Due, Hints, Ready
from windlass.store.port import Listening


class Subscribers:
    """Any thread may subscribe; the link's thread tells."""

    def __init__(self) -> None:
        self._hints = Hints()
        self._lock = threading.Lock()
        self._listening: list[Listening] = []
        self._is_heard = False
        """Whether the server's hints arrive."""

    def __bool__(self) -> bool:
        return bool(self._hints)

    def subscribe(self, ready: Ready, listening: Listening, due: Due) -> Callable[[], None]:
        with self._lock:
            self._listening.append(listening)
            is_heard = self._is_heard
        stop = self._hints.subscribe(ready, due)
        if is_heard:
            listening(None)

        def end() -> None:
            stop()
            with self._lock:
                self._listening = [each for each in self._listening if each is not listening]

        return end

    def hint(self) -> None:
        self._hints.ready()

    def hinted(self, is_ready: bool, seconds: float | None, is_due: bool) -> None:
        if is_ready:
            self._hints.ready()
        if is_due:
            self._hints.due(seconds)

    def found(self) -> None:
        """Hints arrive from now on."""
        self._tell(None, is_heard=True)

    def lost(self, error: BaseException) -> None:
        """They do not; told once."""
        self._tell(error, is_heard=False)

    def _tell(self, error: BaseException | None, *, is_heard: bool) -> None:
        with self._lock:
            if self._is_heard == is_heard:
                return
            self._is_heard = is_heard
            listening = list(self._listening)
        for tell in listening:
            tell(error)
