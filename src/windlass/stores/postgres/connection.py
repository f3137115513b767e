"""Connections whose every call ends in time, and what went wrong in plain words.

A server that accepts a statement and then falls silent (a black-holed network, a frozen host)
would block a thread for ever: no setting of the server can help there. So our own connections
count the time while they wait, and give up by closing themselves.
"""

from __future__ import annotations

import contextlib
import random
import re
import select
import time
from collections import deque
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg
from psycopg import conninfo, errors, pq

from windlass.errors import (
    ConfigError,
    OutcomeUnknownError,
    StoreBusyError,
    StoreError,
    StoreUnavailableError,
)
from windlass.observe.urls import without_password, without_secrets

T = TypeVar("T")

CONNECT_LIMIT = 5
"""Seconds to reach a server, where the URL says nothing."""

CALL_LIMIT = 30.0
"""Seconds a call of ours may take."""

PROBE_AFTER = 1.0
"""Seconds without use after which a connection must show that its server still answers."""

PROBE_LIMIT = 3.0
"""Seconds it has for that answer: an empty query needs no work."""

SILENCE = 20
"""Seconds after which the kernel gives up a peer that acknowledges nothing, where the URL says
nothing. It is the only limit of a handler's own statement, and shorter than the usual lease."""


MOST_TRIES = 6
ROLLED_BACK = (errors.DeadlockDetected, errors.SerializationFailure)
"""What the server undid, so that it may be asked for again, so many times."""


def pause_before(tries: int) -> float:
    """Seconds until a call that was rolled back is made again."""
    return random.uniform(0.5, 1.0) * 0.01 * 2.0**tries  # noqa: S311


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


class Stock:
    """Idle connections. The last one given back is the first one taken: the server has its plans
    and catalogues at hand there, and no more connections are made than are in use at once."""

    def __init__(self, address: Address) -> None:
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


class Address:
    """How to connect: what the user's URL says, and time limits where it says nothing.

    With `session=False` nothing is sent that a transaction pooler refuses or forgets.
    """

    def __init__(self, url: str, *, session: bool = True, **overrides: Any) -> None:
        try:
            given = conninfo.conninfo_to_dict(url, **overrides)
        except psycopg.ProgrammingError as error:
            raise ConfigError(
                f"{without_password(url)!r} is not a PostgreSQL address:"
                f" {without_secrets(one_line(error), url)}"
            ) from None
        if "@" in url.partition("://")[2].partition("?")[0].partition("/")[2]:
            # libpq would take the rest of the password for the database's name, and show it.
            raise ConfigError(
                f"{without_password(url)!r} has an @ behind its host; write %2F for a / in a"
                " password"
            )
        self.is_session_ours = session
        self._parameters: dict[str, Any] = {
            "connect_timeout": CONNECT_LIMIT,
            "tcp_user_timeout": SILENCE * 1000,
            "keepalives_idle": 5,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "application_name": "windlass",
            "target_session_attrs": "read-write",
            **given,
        }

    @property
    def name(self) -> str:
        """Host and database, for messages; never the password."""
        host = self._parameters.get("host") or self._parameters.get("hostaddr") or "local"
        return f"{self._parameters.get('dbname') or 'the default database'} on {host}"

    @property
    def conninfo(self) -> str:
        return conninfo.make_conninfo(**self._parameters)

    @property
    def prepare_threshold(self) -> int | None:
        """After how many uses a statement is prepared; never, where sessions are not ours."""
        return 5 if self.is_session_ours else None

    def connect(
        self, *, limit: float | None = CALL_LIMIT, connect_limit: int | None = None
    ) -> BoundedConnection:
        """An autocommit connection of ours; no call on it takes longer than `limit` seconds."""
        parameters = dict(self._parameters)
        if connect_limit is not None:
            parameters["connect_timeout"] = connect_limit
        if self.is_session_ours and limit is not None:
            # What comes last counts: the user may give other limits, but jobs are claimed in READ
            # COMMITTED transactions only. To compile one of our statements takes longer than to run
            # it a hundred times.
            parameters["options"] = " ".join(
                [
                    f"-c statement_timeout={int(limit * 1000)} -c jit=off",
                    parameters.get("options") or _given_options(),
                    "-c default_transaction_isolation=read\\ committed",
                ]
            )
        try:
            connection: BoundedConnection = BoundedConnection.connect(
                **parameters, autocommit=True, prepare_threshold=self.prepare_threshold
            )
        except psycopg.Error as error:
            text = one_line(error)
            if "startup parameter" in text:
                text += " (behind a pooler set prepared_statements=false)"
            raise StoreUnavailableError(
                f"cannot connect to {self.name}: {text}", is_temporary=is_temporary(str(error))
            ) from error
        connection.limit = limit
        return connection


def _given_options() -> str:
    """What libpq would send where an address has no `options`: PGOPTIONS, or a service's."""
    for option in pq.Conninfo.get_defaults():
        if option.keyword == b"options":
            return (option.val or b"").decode()
    return ""


_NOT_NOW = re.compile(
    "connection refused|timeout expired|timed out|no such file or directory|no route to host"
    "|network is unreachable|host is down|connection reset|broken pipe"
    "|could not translate host name|name resolution|name or service not known"
    "|server closed the connection|session is read-only|is not in hot standby"
    # What a server, or a pooler before it, says while it accepts no connection.
    "|starting up|shutting down|recovery mode|not yet accepting|not accepting connections"
    "|too many clients|too many connections|connection slots are reserved"
    "|cannot connect|connect failed|login has been failing",
    re.IGNORECASE,
)


def is_temporary(text: str) -> bool:
    """Whether a connection that failed so may be made later, with nothing changed here.

    libpq tells why in words only. With several hosts it is enough that one may answer later.
    What is not known to pass (a password, a role, a database, a certificate) does not.
    """
    return _NOT_NOW.search(text) is not None


def one_line(error: BaseException) -> str:
    """What went wrong, without the server's stack of callers."""
    if isinstance(error, psycopg.Error) and error.diag.message_primary:
        return " ".join(f"{error.diag.message_primary} {error.diag.message_hint or ''}".split())
    return " ".join(str(error).split())


def is_lost(error: psycopg.Error) -> bool:
    """Whether the connection was lost during a call, which may or may not have been committed."""
    if error.sqlstate:
        return error.sqlstate.startswith(("08", "57P"))
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)


def translate(error: psycopg.Error, where: str) -> StoreError:
    """The error a caller of the store sees."""
    text = one_line(error)
    if is_lost(error):
        return OutcomeUnknownError(
            f"lost the connection to {where} in the middle of a call: {text}"
        )
    if isinstance(error, errors.LockNotAvailable):
        return StoreBusyError(f"an open transaction in {where} holds these jobs: {text}")
    if isinstance(error, ROLLED_BACK):
        return StoreBusyError(f"other transactions in {where} were in the way each time: {text}")
    if isinstance(error, errors.QueryCanceled | errors.InsufficientResources):
        return StoreUnavailableError(f"{where} could not do it in time: {text}", is_temporary=True)
    if isinstance(error, errors.InsufficientPrivilege):
        return StoreUnavailableError(
            f"this role may not do that in {where}: {text}; see docs/postgres.md for the grants"
        )
    if isinstance(
        error, errors.UndefinedFunction | errors.UndefinedTable | errors.InvalidSchemaName
    ):
        return StoreUnavailableError(
            f"the Windlass schema in {where} is missing or too old: run `windlass migrate` ({text})"
        )
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return StoreUnavailableError(f"{where} does not answer: {text}", is_temporary=True)
    return StoreError(f"{where} refused a call: {text}")
