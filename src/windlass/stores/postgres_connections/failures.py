"""What went wrong on a connection: in plain words, and whether to try again."""

from __future__ import annotations

import random
import re

import psycopg
from psycopg import errors

from windlass.errors import (
    OutcomeUnknownError,
    StoreBusyError,
    StoreError,
    StoreUnavailableError,
)

MOST_TRIES = 6
ROLLED_BACK = (errors.DeadlockDetected, errors.SerializationFailure)
"""What the server undid, so that it may be asked for again, so many times."""


def pause_before(tries: int) -> float:
    """Seconds until a call that was rolled back is made again."""
    return random.uniform(0.5, 1.0) * 0.01 * 2.0**tries  # noqa: S311


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
