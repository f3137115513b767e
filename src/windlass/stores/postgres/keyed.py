"""Adding jobs and chains with keys. An open transaction may hold a key, and then only adds with
that key wait.

Every add is tried at once, and waits for a lock for a moment only. One that meets a held key goes
to a lane of its own, and with it each later add with one of its keys. The lane has a few threads
and connections, which take turns with whatever waits there, so it never takes more of them, and
all other adds go on as if it were empty.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg

from windlass.errors import StoreBusyError
from windlass.stores.postgres_connections.call_threads import CallThreads

FIRST_WAIT = 0.02
"""Seconds for which an add waits for a lock before it counts as held up."""

TURN = 0.25
"""Seconds for which one that was held up waits before the next one has its turn."""

MOST_WAIT = 20.0
"""Seconds after which an add that is held up gives up."""

T = TypeVar("T")


class KeyedAdds:
    """Calls with these keys, first in the `quick` threads and then in those of the `lane`."""

    def __init__(self, quick: CallThreads, lane: CallThreads) -> None:
        self._quick = quick
        self._lane = lane
        self._lock = threading.Lock()
        self._keys_in_lane: Counter[str] = Counter()
        """Keys of the adds in the lane."""

    async def add(self, keys: set[str], add: Callable[[psycopg.Connection[Any], float], T]) -> T:
        """`add` writes what has these keys in one call, or raises StoreBusyError after waiting so
        many seconds."""
        if not self._are_in_lane(keys):
            try:
                return await self._quick.run(lambda it: add(it, FIRST_WAIT))
            except StoreBusyError:
                pass  # in the lane there is time
        end = time.monotonic() + MOST_WAIT
        self._change(keys, 1)
        try:
            while True:
                try:
                    return await self._lane.run(lambda it: add(it, TURN))
                except StoreBusyError:
                    if time.monotonic() >= end:
                        raise
        finally:
            self._change(keys, -1)

    def _are_in_lane(self, keys: set[str]) -> bool:
        with self._lock:
            return any(key in self._keys_in_lane for key in keys)

    def _change(self, keys: set[str], by: int) -> None:
        with self._lock:
            for key in keys:
                self._keys_in_lane[key] += by
                if not self._keys_in_lane[key]:
                    del self._keys_in_lane[key]

    def close(self) -> None:
        """Calls that are under way are answered first."""
        self._quick.close()
        self._lane.close()
