"""What a caller is told who waits in vain for a connection, or comes after the store was closed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.patience import PATIENCE
from tests.postgres.cluster import Cluster
from windlass.errors import StoreClosedError, StoreUnavailableError
from windlass.stores.postgres_connections import pool as pools
from windlass.stores.postgres_connections.address import ServerAddress
from windlass.stores.postgres_connections.call_threads import CallThreads, fetch_row
from windlass.stores.postgres_connections.connection import BoundedConnection
from windlass.stores.postgres_connections.lifeline import _discard
from windlass.stores.postgres_connections.loop_calls import LoopCalls
from windlass.stores.postgres_connections.pool import Pool
from windlass.stores.postgres_connections.stock import Stock

Take = Callable[[Pool], Any]


def _take(pool: Pool) -> Any:
    return pool.take()


def _atake(pool: Pool) -> Any:
    return asyncio.run(pool.atake())


WAYS = pytest.mark.parametrize("take", [_take, _atake], ids=["blocking", "awaited"])


@pytest.fixture
def address(pg: Cluster) -> ServerAddress:
    return ServerAddress(pg.url("postgres"))


@WAYS
def test_a_turn_that_does_not_come(
    address: ServerAddress, monkeypatch: pytest.MonkeyPatch, take: Take
) -> None:
    monkeypatch.setattr(pools, "WAIT_LIMIT", 0.05)
    pool = Pool(address, 1)
    lent = pool.take()
    with pytest.raises(StoreUnavailableError, match="connection"):
        take(pool)
    pool.give(lent)
    again = pool.take()
    assert again is lent, "the one who gave up keeps no turn from others"
    pool.give(again)
    pool.close()


@WAYS
def test_a_pool_that_was_closed(address: ServerAddress, take: Take) -> None:
    pool = Pool(address, 1)
    pool.close()
    with pytest.raises(StoreClosedError):
        take(pool)


@WAYS
def test_a_server_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, take: Take
) -> None:
    monkeypatch.setattr(pools, "WAIT_LIMIT", 0.2)
    pool = Pool(ServerAddress(f"postgresql:///shop?host={tmp_path}"), 1)
    for _ in range(2):
        with pytest.raises(StoreUnavailableError, match="cannot connect"):
            take(pool)
    pool.close()


def test_a_connection_that_is_given_back_after_the_end_is_closed(address: ServerAddress) -> None:
    pool = Pool(address, 1)
    lent = pool.take()
    pool.close()
    pool.give(lent)
    assert lent.closed


def test_calls_after_the_end(address: ServerAddress) -> None:
    threads = CallThreads(address)
    assert threads.call(lambda it: fetch_row(it, "SELECT 1", ())) == (1,)
    threads.close()
    with pytest.raises(StoreClosedError):
        threads.submit(lambda: None)
    stock = Stock(address)
    calls = LoopCalls(address, stock, threads.submit)
    calls.close()
    with pytest.raises(StoreClosedError):
        asyncio.run(calls.row("SELECT 1", ()))
    stock.close()


def test_a_connection_that_is_made_for_a_cancelled_call_is_closed_at_the_end(
    address: ServerAddress,
) -> None:
    made: list[psycopg.Connection[Any]] = []
    begins, goes_on = threading.Event(), threading.Event()

    class SlowStock(Stock):
        def take(self) -> BoundedConnection:
            begins.set()
            assert goes_on.wait(PATIENCE)
            connection = super().take()
            made.append(connection)
            return connection

    async def cancelled(calls: LoopCalls) -> None:
        call = asyncio.create_task(calls.row("SELECT 1", ()))
        assert await asyncio.to_thread(begins.wait, PATIENCE)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    threads = CallThreads(address)
    calls = LoopCalls(address, SlowStock(address), threads.submit)
    asyncio.run(cancelled(calls))
    calls.close()
    goes_on.set()
    threads.close()
    assert [connection.closed for connection in made] == [True]


def test_a_call_that_the_server_rolls_back_every_time(address: ServerAddress) -> None:
    threads = CallThreads(address)
    tries = []

    def call(connection: psycopg.Connection[Any]) -> None:
        tries.append(1)
        connection.execute(
            "DO $$ BEGIN RAISE EXCEPTION 'rolled back' USING ERRCODE = '40001'; END $$"
        )

    with pytest.raises(Exception, match="rolled back"):
        threads.call(call)
    assert len(tries) > 1
    threads.close()


def test_a_statement_that_fails_in_a_transaction_of_its_own(address: ServerAddress) -> None:
    """Where the session is not ours each statement brings its transaction, and takes it back."""
    threads = CallThreads(address)
    threads._begins = True
    for _ in range(2):
        with pytest.raises(Exception, match="no such thing"):
            threads.call(
                lambda it: it.execute("DO $$ BEGIN RAISE EXCEPTION 'no such thing'; END $$")
            )
        assert threads.call(lambda it: fetch_row(it, "SELECT 1", ())) == (1,)
    threads.close()


def test_a_connection_that_comes_after_the_lifeline_was_closed(address: ServerAddress) -> None:
    late: Future[Any] = Future()
    late.set_result(address.connect())
    _discard(late)
    assert late.result().closed
