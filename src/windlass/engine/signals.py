"""Signals: the first asks for a drain, the second hurries it, the third is the system's own.

They are counted where Python runs signal handlers, between two steps of the main thread, and not
by the event loop: so the third ends the process also while a handler keeps the loop for itself.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

_listening: list[Signals] = []
"""Several runners may share one process, and with it the process's signals."""

_before: dict[signal.Signals, Any] = {}
"""What the process did at each signal before the first runner listened."""

_count = 0


def stop_signals() -> list[signal.Signals]:
    """The signals that mean "stop" here. SIGHUP is left alone where it is ignored: under nohup a
    process is to outlive its terminal."""
    wanted = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        wanted.append(signal.SIGHUP)
    return wanted


class Signals:
    """Installed for one runner on the running loop; `remove` gives the handlers back."""

    def __init__(self, stop: Callable[[str], None], hurry: Callable[[], None]) -> None:
        self._stop = stop
        self._hurry = hurry
        self._is_told = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def install(self) -> bool:
        """False where signals cannot be caught, which is outside the main thread."""
        if threading.current_thread() is not threading.main_thread():
            return False
        self._loop = asyncio.get_running_loop()
        if not _listening:
            for number in stop_signals():
                _before[number] = signal.signal(number, _on_signal)
        _listening.append(self)
        return True

    def remove(self) -> None:
        global _count
        if self not in _listening:
            return
        _listening.remove(self)
        if _listening:
            return
        _count = 0
        while _before:
            number, before = _before.popitem()
            signal.signal(number, signal.SIG_DFL if before is None else before)

    def pass_on(self, name: str) -> None:
        """Tell the runner, on its loop's next turn."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tell, name)

    def _tell(self, name: str) -> None:
        if not self._is_told:
            self._is_told = True
            self._stop(name)
        else:
            self._hurry()


def _in_child() -> None:
    """A forked child runs no worker: signals do to it what they do to any process."""
    global _count
    _count = 0
    _listening.clear()
    while _before:
        number, _ = _before.popitem()
        is_int = number is signal.SIGINT
        signal.signal(number, signal.default_int_handler if is_int else signal.SIG_DFL)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def _on_signal(number: int, frame: Any) -> None:
    global _count
    _count += 1
    if _count > 2:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    for listener in tuple(_listening):
        listener.pass_on(signal.Signals(number).name)
