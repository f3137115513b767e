"""The thread of the lifeline goes on, whatever a step or a question meets."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from tests.patience import PATIENCE
from tests.server.streams.desk import run
from windlass.clock import SYSTEM
from windlass.errors import StoreClosedError, StoreUnavailableError
from windlass.server.streams import lease_thread
from windlass.server.streams.lease_thread import LeaseThread
from windlass.store.port import Lifeline
from windlass.store.records import Renewal


class Line:
    is_closed = False

    def renew(self, *asked: Any) -> Renewal:
        return Renewal()

    def check(self, *asked: Any) -> Renewal:
        return Renewal()

    def close(self) -> None:
        self.is_closed = True


def fail(lifeline: Lifeline) -> Renewal:
    raise StoreUnavailableError("away")


@pytest.mark.parametrize("error", [StoreClosedError("closed"), ValueError("odd")])
def test_a_step_that_fails_is_made_again(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lease_thread, "AFTER_AN_ERROR", 0.01)
    again = threading.Event()
    steps = 0

    def step(lifeline: Lifeline) -> float:
        nonlocal steps
        steps += 1
        if steps < 3:
            raise error
        again.set()
        return PATIENCE

    async def body() -> None:
        line = Line()
        thread = LeaseThread(line, step, SYSTEM)
        thread.start()
        assert await asyncio.to_thread(again.wait, PATIENCE)
        with pytest.raises(StoreUnavailableError):
            await asyncio.wrap_future(thread.ask(fail))
        assert await asyncio.wrap_future(thread.ask(lambda it: it.check("", []))) == Renewal()
        last = thread.ask(lambda it: it.check("", []))
        await thread.stop()
        assert last.done() and line.is_closed
        await thread.stop()

    with caplog.at_level(logging.WARNING, "windlass.server"):
        run(body)
    told = [one for one in caplog.messages if "tried again: odd" in one]
    assert len(told) == (0 if isinstance(error, StoreClosedError) else 2)


def test_a_question_that_is_not_waited_for_is_not_asked() -> None:
    begun, release = threading.Event(), threading.Event()
    asked = list[str]()

    def hang(lifeline: Lifeline) -> Renewal:
        begun.set()
        release.wait(PATIENCE)
        return Renewal()

    def ask(lifeline: Lifeline) -> Renewal:
        asked.append("asked")
        return Renewal()

    async def body() -> None:
        thread = LeaseThread(Line(), lambda lifeline: PATIENCE, SYSTEM)
        thread.start()
        first = thread.ask(hang)
        assert await asyncio.to_thread(begun.wait, PATIENCE)
        assert thread.ask(ask).cancel()
        release.set()
        await asyncio.wrap_future(first)
        await thread.stop()
        assert asked == []

    run(body)
