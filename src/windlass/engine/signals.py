"""Signals: the first asks for a drain, the second hurries it, the third is the system's own."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


_listening: list[Signals] = []
"""Several runners may share one loop, and with it the process's signals."""


class Signals:
    """Installed for one runner on the running loop; `remove` gives the handlers back."""

    def __init__(self, stop: Callable[[str], None], hurry: Callable[[], None]) -> None:
        self._stop = stop
        self._hurry = hurry
        self._count = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def install(self) -> bool:
        """False where signals cannot be caught, as outside the main thread."""
        loop = asyncio.get_running_loop()
        try:
            for number in _SIGNALS:
                loop.add_signal_handler(number, _caught, loop, number)
        except (NotImplementedError, RuntimeError, ValueError):
            return False
        self._loop = loop
        _listening.append(self)
        return True

    def remove(self) -> None:
        loop, self._loop = self._loop, None
        if self in _listening:
            _listening.remove(self)
        if loop is None or loop.is_closed() or any(other._loop is loop for other in _listening):
            return
        for number in _SIGNALS:
            loop.remove_signal_handler(number)

    def tell(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        if self._loop is not loop:
            return
        self._count += 1
        if self._count == 1:
            self._stop(name)
        else:
            self._hurry()
            self.remove()


def _caught(loop: asyncio.AbstractEventLoop, number: signal.Signals) -> None:
    for listener in tuple(_listening):
        listener.tell(loop, signal.Signals(number).name)
