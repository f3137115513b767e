"""How the store calls its SQL functions: in its threads, or from the event loop itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Protocol

import psycopg

from windlass.clock import SYSTEM, Clock, to_datetime
from windlass.errors import StoreClosedError
from windlass.stores.postgres_connections.address import ServerAddress
from windlass.stores.postgres_connections.call_threads import (
    THREADS,
    CallThreads,
    fetch_row,
)
from windlass.stores.postgres_connections.loop_calls import LoopCalls
from windlass.stores.postgres_connections.stock import Stock

PATIENT_THREADS = 8


class Closable(Protocol):
    def close(self) -> None:
        """Return when the calls that are under way are answered."""


class Calls:
    """In a statement `{schema}` stands for the schema, whose name is given here in quotes.

    Where the caller of the store gave a pool, `borrow` lends its connections.
    """

    def __init__(
        self,
        address: ServerAddress,
        borrow: Callable[[], AbstractContextManager[psycopg.Connection[Any]]] | None,
        schema: str,
        clock: Clock,
    ) -> None:
        self._address = address
        self._borrow = borrow
        self._schema = schema
        self._clock = clock
        self._stock: Stock
        self._threads: CallThreads
        self._patient_threads: CallThreads
        self._loop_calls: LoopCalls | None = None
        self.is_open = False

    def open(self) -> None:
        self._stock = Stock(self._address)
        self._threads = self.new_threads()
        self._patient_threads = self.new_threads(PATIENT_THREADS)
        if self._borrow is None:
            self._loop_calls = LoopCalls(self._address, self._stock, self._threads.submit)
        self.is_open = True

    def new_threads(self, number: int = THREADS) -> CallThreads:
        """More threads, which share the connections of these; their owner closes them."""
        return CallThreads(self._address, self._borrow, threads=number, stock=self._stock)

    def stop(self) -> list[Closable]:
        """Refuse new calls; the parts to close, in this order."""
        self.is_open = False
        parts: list[Closable] = [self._patient_threads, self._threads, self._stock]
        return parts if self._loop_calls is None else [self._loop_calls, *parts]

    @property
    def now(self) -> datetime | None:
        """NULL for the server's own clock, which decides; tests bring one of their own."""
        return None if self._clock is SYSTEM else to_datetime(self._clock.now())

    @property
    def statements(self) -> int:
        """How many calls were made since the store was opened."""
        on_loops = 0 if self._loop_calls is None else self._loop_calls.calls
        return self.threads.statements + on_loops

    def sql(self, statement: str) -> str:
        return statement.replace("{schema}", self._schema)

    # ── from an event loop ──

    @property
    def threads(self) -> CallThreads:
        self.refuse_closed()
        return self._threads

    @property
    def patient_threads(self) -> CallThreads:
        """For calls that may wait for a locked row, so that the calls of workers need not."""
        self.refuse_closed()
        return self._patient_threads

    def refuse_closed(self) -> None:
        if not self.is_open:
            raise StoreClosedError("this store is not open; call open() first")

    async def row(self, statement: str, *values: Any) -> tuple[Any, ...]:
        """The one row that a statement answers with."""
        return await self.threads.row(self.sql(statement), values)

    async def patient_row(self, statement: str, *values: Any) -> tuple[Any, ...]:
        """The same for a call that may wait for a locked row."""
        return await self.patient_threads.row(self.sql(statement), values)

    async def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return await self.threads.rows(self.sql(statement), values)

    async def texts(
        self, statement: str, values: Sequence[str | None], *, changes: bool = False
    ) -> Sequence[str | None]:
        """The row that a statement with $1, $2, … answers with, all texts, without a thread.

        Event loops cannot wait for connections of the caller's own pool; and the threads know what
        to do where `changes` to jobs need another isolation than the session's.
        """
        threads, text = self.threads, self.sql(statement)
        if self._loop_calls is None or (changes and not self._address.is_session_ours):
            return await threads.row(re.sub(r"\$\d+", "%s", text), values)
        return await self._loop_calls.row(text, values)

    # ── in a thread, on a connection that it has ──

    def fetch_row(
        self, connection: psycopg.Connection[Any], statement: str, *values: Any
    ) -> tuple[Any, ...]:
        return fetch_row(connection, self.sql(statement), values)
