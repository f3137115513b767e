"""Idle connections of the store's own."""

from __future__ import annotations

import contextlib
import time
from collections import deque

from windlass.stores.postgres_connections.address import ServerAddress
from windlass.stores.postgres_connections.connection import (
    PROBE_LIMIT,
    BoundedConnection,
    answers,
    has_lain,
    is_stale,
)


class Stock:
    """Idle connections. The last one given back is the first one taken: the server has its plans
    and catalogues at hand there, and no more connections are made than are in use at once."""

    def __init__(self, address: ServerAddress) -> None:
        self._address = address
        self._idle: deque[tuple[BoundedConnection, float]] = deque()
        self._is_closed = False

    def take(self) -> BoundedConnection:
        """One whose server answers; a new one if need be."""
        while True:
            try:
                connection, since = self._idle.pop()
            except IndexError:
                return self._address.connect()
            if is_stale(connection):
                connection.close()
            elif has_lain(since) and not answers(connection, PROBE_LIMIT):
                connection.close()
                self.drop_idle()
            else:
                return connection

    def give(self, connection: BoundedConnection) -> None:
        self._idle.append((connection, time.monotonic()))
        if self._is_closed:
            self.drop_idle()

    def drop_idle(self) -> None:
        """Close what is idle: where one connection went silent, the others did too."""
        while self._idle:
            with contextlib.suppress(IndexError):
                self._idle.pop()[0].close()

    def close(self) -> None:
        """Close what is idle, and what is given back from now on."""
        self._is_closed = True
        self.drop_idle()
