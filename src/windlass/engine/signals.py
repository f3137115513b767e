"""Signals: the first asks for a drain, the second hurries it, the third is the system's own."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


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
                loop.add_signal_handler(number, self._caught, number)
        except (NotImplementedError, RuntimeError, ValueError):
            return False
        self._loop = loop
        return True

    def remove(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None and not loop.is_closed():
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    def _caught(self, number: signal.Signals) -> None:
        self._count += 1
        if self._count == 1:
            self._stop(signal.Signals(number).name)
        else:
            self._hurry()
            self.remove()
