"""A process that a handler forks is not a second worker.

It has a copy of everything (the event loop, the jobs, the connections) and shares the files behind
them, so a child that comes back from the handler's code into the engine would run the worker's
jobs a second time and take away what the worker waits for. It ends there instead.

`lives` counts the forks this process has come through: what was begun in another life is not to be
gone on with. The engine compares it wherever handlers' code returns to it; an asyncio loop that
the child returns to on another way finds nothing but the end.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from typing import NoReturn
from weakref import WeakSet

lives = 0

_loops: WeakSet[asyncio.AbstractEventLoop] = WeakSet()


def watch(loop: asyncio.AbstractEventLoop) -> None:
    """Make sure that no forked child goes on with this loop."""
    _loops.add(loop)


def leave(what: str, error: BaseException | None = None) -> NoReturn:
    """End the child, which came back from `what`, and nothing else: what it shares with the worker
    is neither closed nor flushed."""
    if isinstance(error, SystemExit):
        os._exit(error.code if isinstance(error.code, int) else int(error.code is not None))
    logging.getLogger("windlass").error(
        "%s forked this process (%d) and let it come back into the worker, which goes on as its"
        " parent only: this process ends. Let a child end with os._exit(), or run the task with"
        " executor='process'",
        what,
        os.getpid(),
    )
    os._exit(0 if error is None else 1)


def _in_child() -> None:
    global lives
    lives += 1
    for loop in list(_loops):
        ready = getattr(loop, "_ready", None)
        if isinstance(ready, deque):
            # A turn of the loop that is under way runs as many as there were.
            end = asyncio.Handle(leave, ("something on the event loop",), loop, None)
            count = len(ready) + 1
            ready.clear()
            ready.extend([end] * count)
    _loops.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
