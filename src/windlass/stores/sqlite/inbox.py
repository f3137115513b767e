"""What a thread is asked to do: put in by any thread, taken out by one.

`queue.SimpleQueue` is not used here, because its `get` with a timeout can wait for ever: where the
timeout has passed before the wait begins, CPython (seen in 3.11) takes the time that is left, a
negative one, for no limit. A writer that paused for a moment then never came back to what
it had to write.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Inbox(Generic[Item]):
    """Items in the order in which they were put in. One thread waits and takes."""

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self._bell = threading.Lock()
        """Free once something was put in; the thread that takes acquires it and so waits."""
        self._bell.acquire()

    def put(self, item: Item) -> None:
        """From any thread. The item is there before the bell rings, so that no ring is in vain."""
        self._items.append(item)
        if self._bell.locked():
            try:
                self._bell.release()
            except RuntimeError:
                pass  # another thread has just rung it

    def wait(self, timeout: float | None) -> None:
        """Return when something was put in since the last call, or after `timeout` seconds."""
        self._bell.acquire(timeout=-1 if timeout is None else max(0.0, timeout))

    def take(self) -> list[Item]:
        """All that was put in so far."""
        taken = []
        while self._items:
            taken.append(self._items.popleft())
        return taken
