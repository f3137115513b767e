"""Stopping a process where it does the least harm."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path


def freeze(send: Callable[[signal.Signals], None], file: Path) -> None:
    """SIGSTOP a worker, but not in the middle of a write: it would keep SQLite's only lock."""
    while True:
        send(signal.SIGSTOP)
        own = sqlite3.connect(file, isolation_level=None, timeout=0.5)
        try:
            own.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError:
            send(signal.SIGCONT)
        finally:
            own.close()
