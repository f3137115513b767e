"""Connections whose every call ends in time.

A server that accepts a statement and then falls silent (a black-holed network, a frozen host)
would block a thread for ever: no setting of the server can help there. So our own connections
count the time while they wait, and give up by closing themselves.
"""

from __future__ import annotations

import select
import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg
from psycopg import pq

T = TypeVar("T")

CALL_LIMIT = 30.0
"""Seconds a call of ours may take."""

PROBE_AFTER = 1.0
"""Seconds without use after which a connection must show that its server still answers."""

PROBE_LIMIT = 3.0
"""Seconds it has for that answer: an empty query needs no work."""


class BoundedConnection(psycopg.Connection[Any]):
    """A psycopg connection that closes itself when an answer takes longer than `limit` seconds."""

    limit: float | None = CALL_LIMIT

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        if self.limit is not None:
            gen = self._bounded(gen, time.monotonic() + self.limit)
            if not args:  # how often to look at the time
                options.setdefault("interval", min(0.1, max(self.limit / 10, 0.01)))
        return super().wait(gen, *args, **options)

    def _bounded(self, gen: Generator[Any, Any, T], deadline: float) -> Generator[Any, Any, T]:
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() > deadline:
                    self.pgconn.finish()
                    raise psycopg.OperationalError(
                        f"the server did not answer within {self.limit:g} s"
                    )
                wanted = gen.send(ready)
        except StopIteration as end:
            result: T = end.value
            return result


AnyConnection = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]


def is_stale(connection: AnyConnection) -> bool:
    """Whether the server has hung up on this idle connection, as far as one can see."""
    if connection.closed or connection.pgconn.transaction_status != pq.TransactionStatus.IDLE:
        return True
    return bool(watch(connection).poll(0))


def has_lain(since: float) -> bool:
    """Whether a connection used at `since` may have gone silent: a router that forgot it tells
    neither side, so nothing can be seen until the server is asked."""
    return time.monotonic() - since >= PROBE_AFTER


def answers(connection: psycopg.Connection[Any], limit: float) -> bool:
    """Whether the server answers an empty query within `limit` seconds."""
    pgconn = connection.pgconn
    end = time.monotonic() + limit
    try:
        pgconn.send_query(b"")
        is_sending = pgconn.flush() != 0
        while True:
            poll = select.poll()
            poll.register(pgconn.socket, select.POLLIN | (select.POLLOUT if is_sending else 0))
            if not poll.poll(max(0.0, end - time.monotonic()) * 1000):
                return False
            pgconn.consume_input()
            is_sending = is_sending and pgconn.flush() != 0
            while not pgconn.is_busy():
                if pgconn.get_result() is None:
                    return pgconn.transaction_status == pq.TransactionStatus.IDLE
    except psycopg.Error:
        return False


def watch(connection: AnyConnection) -> select.poll:
    """What tells whether something can be read from it."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return poll
