"""What went wrong on a user's table, and whether one row alone is to blame."""

from __future__ import annotations

from typing import Any, TypeVar

import psycopg

from windlass.errors import StoreError, WindlassError
from windlass.stores.postgres_connections.address import ServerAddress
from windlass.stores.postgres_connections.call_threads import Call, CallThreads
from windlass.stores.postgres_connections.failures import is_lost, one_line

T = TypeVar("T")


def is_of_a_row(error: BaseException | None) -> bool:
    """Whether what a row holds may be to blame: a value that cannot be read, a trigger or a check
    that refuses it. Not a lost connection, a wrong statement or a right that is lacking."""
    if not isinstance(error, psycopg.Error):
        return isinstance(error, Exception) and not isinstance(error, WindlassError)
    if is_lost(error) or isinstance(error, psycopg.OperationalError | psycopg.NotSupportedError):
        return False
    is_raised = (error.sqlstate or "").startswith("P0")  # by RAISE or ASSERT
    return is_raised or not isinstance(error, psycopg.ProgrammingError)


def explained(error: StoreError, where: str, table: str) -> StoreError:
    """What it is on a table that is not ours to migrate: nothing that waiting would mend."""
    cause = error.__cause__
    if not isinstance(cause, psycopg.ProgrammingError):
        return error
    return refused(cause, where, table)


def refused(error: psycopg.Error, where: str, table: str) -> StoreError:
    return StoreError(f"{where} refused a statement on {table}: {one_line(error)}")


class TableCallThreads(CallThreads):
    """Says of which table a statement was refused."""

    def __init__(self, address: ServerAddress, borrow: Any, table: str) -> None:
        super().__init__(address, borrow)
        self._table = table

    def call(self, call: Call[T]) -> T:
        try:
            return super().call(call)
        except StoreError as error:
            raise explained(error, self._address.name, self._table) from error.__cause__
