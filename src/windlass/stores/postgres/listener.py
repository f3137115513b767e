"""Wake-up hints: LISTEN on a connection of its own, probed, and made again when it is lost.

A hint only says that there may be something new; polling stays on, so nothing depends on it. After
every reconnect one hint of each kind is given, because notifications may have been missed.
"""

from __future__ import annotations

import logging
import os
import random
import secrets
import select
import threading
import time
from collections.abc import Callable

import psycopg
from psycopg import sql
from psycopg.pq.abc import PGconn

from windlass.errors import StoreError
from windlass.store.hints import Due
from windlass.store.port import Listening
from windlass.stores.postgres_connections.address import ServerAddress
from windlass.stores.postgres_connections.connection import BoundedConnection, watch
from windlass.stores.postgres_connections.failures import one_line

PROBE_EVERY = 10.0
"""Seconds of silence after which the connection is asked for a sign of life."""

_ANSWER_LIMIT = 5.0
_PARTING_LIMIT = 1.0
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
_ECHO_LIMIT = 3.0

_logger = logging.getLogger("windlass.postgres")


class Listener:
    """A daemon thread. `is_listening` says whether notifications do arrive at the moment."""

    def __init__(
        self,
        address: ServerAddress,
        channel: str,
        hint: Callable[[], None],
        due: Due,
        on_migration: Callable[[], None],
        told: Listening,
    ) -> None:
        self._address = address
        self._channel = channel
        self._hint = hint
        self._due = due
        self._on_migration = on_migration
        self._told = told
        self._stopping = threading.Event()
        self._failures = 0
        self.is_listening = False
        self._woken, self._wake = os.pipe()
        self._thread = threading.Thread(target=self._run, name="windlass-listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stopping.set()
        os.write(self._wake, b"x")
        self._thread.join()
        os.close(self._wake)
        os.close(self._woken)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._listen()
            except (psycopg.Error, StoreError, OSError) as error:
                self.is_listening = False
                if self._stopping.is_set():
                    return
                self._failures += 1
                if self._failures == 1:
                    _logger.info("not listening for new jobs, polling only: %s", one_line(error))
                    self._told(error)
                self._stopping.wait(self._pause())

    def _pause(self) -> float:
        longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(self._failures - 1, 10))
        return longest * random.uniform(0.5, 1.0)  # noqa: S311

    def _listen(self) -> None:
        connection = self._address.connect(limit=_ANSWER_LIMIT)
        try:
            self._begin(connection)
            while not self._stopping.is_set():
                self._wait(connection)
            # Else the server may be writing to us as we hang up, and complain in its log.
            connection.limit = _PARTING_LIMIT
            connection.execute("UNLISTEN *")
        finally:
            self.is_listening = False
            connection.close()

    def _begin(self, connection: BoundedConnection) -> None:
        """Listen, and hear one's own voice: a transaction pooler accepts LISTEN and forgets it."""
        echo = f"windlass:{secrets.token_hex(8)}"
        for name in (self._channel, echo):
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(name)))
        connection.execute("SELECT pg_catalog.pg_notify(%s, '')", [echo])
        end = time.monotonic() + _ECHO_LIMIT
        while not self.is_listening and not self._stopping.is_set():
            for notice in self._notices(connection, _ECHO_LIMIT):
                self.is_listening = self.is_listening or notice.channel == echo
            if time.monotonic() > end:
                raise StoreError(
                    "LISTEN is accepted, but notifications do not arrive (is there a transaction"
                    " pooler in between? then use --no-listen)"
                )
        connection.execute(sql.SQL("UNLISTEN {}").format(sql.Identifier(echo)))
        if self._failures:
            _logger.info("listening for new jobs again")
        self._failures = 0
        self._told(None)
        self._hint()
        self._due(None)

    def _wait(self, connection: BoundedConnection) -> None:
        """Hints, until there is silence for so long that the connection is asked for an answer."""
        payloads = [notice.payload.encode() for notice in connection.notifies(timeout=0)]
        poll = self._poll(connection)
        while not self._stopping.is_set():
            if b"migrate" in payloads:
                self._on_migration()
            if any(payload != b"due" for payload in payloads):
                self._hint()
            if b"due" in payloads:
                self._due(None)
            # Back to waiting at once: the worker who got the hint needs the interpreter now.
            if not poll.poll(PROBE_EVERY * 1000):
                connection.execute("SELECT 1")
                return
            payloads = _heard(connection.pgconn)

    def _notices(self, connection: BoundedConnection, patience: float) -> list[psycopg.Notify]:
        """What arrives first, within that many seconds."""
        if here := list(connection.notifies(timeout=0)):
            return here
        if any(ready != self._woken for ready, _ in self._poll(connection).poll(patience * 1000)):
            return list(connection.notifies(timeout=0))
        return []

    def _poll(self, connection: BoundedConnection) -> select.poll:
        poll = watch(connection)
        poll.register(self._woken, select.POLLIN)
        return poll


def _heard(pgconn: PGconn) -> list[bytes]:
    """The payloads of what has arrived; together they are one hint. The driver's own generator
    would take several times as long, while a job waits."""
    pgconn.consume_input()
    payloads = []
    while notice := pgconn.notifies():
        payloads.append(notice.extra)
    return payloads
