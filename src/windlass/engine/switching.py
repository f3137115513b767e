"""How soon Python lets another thread run.

A store's writer thread leaves the interpreter for every statement and needs it back after each.
Beside an event loop that is busy with quick jobs it waits for it up to the interpreter's switch
interval, 5 ms by default, several times per transaction: longer than the statements take. While a
worker runs the interval is therefore shorter; afterwards it is what it was.
"""

from __future__ import annotations

import sys
import threading

INTERVAL = 0.0002

_lock = threading.Lock()
_workers = 0
_before = 0.0


def quicken() -> None:
    """A worker starts. A shorter interval that the program has set stays."""
    global _workers, _before
    with _lock:
        _workers += 1
        if _workers == 1:
            _before = sys.getswitchinterval()
            sys.setswitchinterval(min(_before, INTERVAL))


def relax() -> None:
    """A worker ended; after the last one the interval is as before."""
    global _workers
    with _lock:
        _workers -= 1
        if _workers == 0:
            sys.setswitchinterval(_before)
