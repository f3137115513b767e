"""Who holds SQLite's write lock: one of Windlass's own connections, or a stranger?

SQLite does not tell. So each of ours that holds it has a shared lock on the write-ahead log too,
by `flock`, which SQLite does not use and which ends with its process. This is a notice only: no
connection waits for it, and nothing goes wrong without it. Without `flock` all count as strangers.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from contextlib import suppress

_SHARED, _EXCLUSIVE, _NONE = 1 | 4, 2 | 4, 8
"""The modes of flock(2), none of which waits."""


def _find_flock() -> Callable[[int, int], int] | None:
    """Not the one in `fcntl`: that gives up the interpreter for each call, and beside a busy event
    loop it takes a while to get back, with the log locked for other processes that look."""
    if sys.platform == "win32":
        return None
    try:
        flock: Callable[[int, int], int] = ctypes.PyDLL(None).flock
    except (OSError, AttributeError):
        return None
    return flock


_flock = _find_flock()


class LockNotice:
    """The notice of one connection, which is open already: while it is, the log stays the same."""

    def __init__(self, path: str) -> None:
        self._file = -1
        if _flock is not None:
            with suppress(OSError):
                self._file = os.open(f"{path}-wal", os.O_RDONLY)

    def post(self) -> None:
        """Before the lock is asked for. Tried twice: another's `is_alone` blocks it briefly."""
        if not self._lock(_SHARED):
            self._lock(_SHARED)

    def withdraw(self) -> None:
        self._lock(_NONE)

    def is_alone(self) -> bool:
        """Whether no other connection of ours has posted its notice. This one's is withdrawn."""
        is_alone = self._lock(_EXCLUSIVE)
        self._lock(_NONE)
        return is_alone

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _lock(self, mode: int) -> bool:
        return _flock is None or self._file < 0 or _flock(self._file, mode) == 0
