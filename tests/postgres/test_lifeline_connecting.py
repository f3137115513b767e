"""The lease keeper's connection to a server that is away, or does not answer."""

from __future__ import annotations

import threading
from typing import Any, cast

import psycopg
import pytest

from tests.patience import PATIENCE
from windlass.errors import StoreUnavailableError
from windlass.stores.postgres_connections.address import ServerAddress
from windlass.stores.postgres_connections.failures import translate
from windlass.stores.postgres_connections.lifeline import BoundedLifeline


class Address:
    """A server that answers nothing before it is let go on."""

    name = "shop on nowhere"

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.connection = Connection()
        self.tries = 0

    def connect(self, *, connect_limit: int) -> Any:
        self.tries += 1
        assert self.go_on.wait(PATIENCE)
        return self.connection


class Connection:
    def __init__(self) -> None:
        self.is_closed = threading.Event()

    def close(self) -> None:
        self.is_closed.set()


def test_an_attempt_to_connect_goes_on_while_calls_give_up() -> None:
    address = Address()
    line = BoundedLifeline(cast(ServerAddress, address))
    for _ in range(2):
        with pytest.raises(StoreUnavailableError, match="cannot connect to shop on nowhere within"):
            line._connect(0.001)
    assert address.tries == 1
    line.close()
    address.go_on.set()
    assert address.connection.is_closed.wait(PATIENCE), "it came too late, and is not kept"


def test_a_server_that_is_away_is_told_and_tried_again() -> None:
    address = ServerAddress("postgresql://127.0.0.1:1/shop")
    line = BoundedLifeline(address)
    for _ in range(2):
        with pytest.raises(StoreUnavailableError, match="cannot connect to"):
            line._connect(PATIENCE)
    line.close()


def test_what_the_server_says_of_itself_is_no_refusal_of_a_call() -> None:
    error = psycopg.errors.lookup("58030")("could not write a block")
    told = translate(error, "shop")
    assert isinstance(told, StoreUnavailableError) and told.is_temporary
