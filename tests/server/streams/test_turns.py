"""Long work in slices: in order, and whatever becomes of the work before."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest

from tests.server.streams.desk import run
from windlass.server.streams.turns import Turns


def work(name: str, slices: int, done: list[str], *, fails_at: int | None = None) -> Iterator[None]:
    for number in range(slices):
        if number == fails_at:
            raise ValueError(name)
        done.append(f"{name}{number}")
        yield


def test_what_is_short_is_done_at_once_and_long_work_in_its_order() -> None:
    async def body() -> None:
        turns, done = Turns(), list[str]()
        turns.add(iter(()))
        turns.add(work("a", 3, done))
        turns.add(work("b", 2, done))
        assert done == ["a0"]
        while len(done) < 5:
            await asyncio.sleep(0)
        assert done == ["a0", "a1", "a2", "b0", "b1"]

    run(body)


def test_a_work_that_fails_ends_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        turns, done = Turns(), list[str]()
        with pytest.raises(ValueError, match="first"):
            turns.add(work("first", 1, done, fails_at=0))
        turns.add(work("a", 3, done, fails_at=1))
        turns.add(work("b", 2, done))
        while len(done) < 3:
            await asyncio.sleep(0)
        assert done == ["a0", "b0", "b1"]

    with caplog.at_level(logging.ERROR, "windlass.server"):
        run(body)
    assert [one for one in caplog.messages if "could not be dealt with" in one]
