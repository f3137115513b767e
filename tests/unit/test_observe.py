"""Events and log records."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from typing import Any

import pytest

from windlass import Abort, AbortReason, Events
from windlass.observe.logs import LogFormat, configure, scoped, shown_logging


def test_listeners_come_and_go() -> None:
    events, said = Events(), []

    @events.on("stop")
    def listener() -> None:
        said.append(1)

    assert events.wants("stop")
    events.emit("stop")
    events.off("stop", listener)
    events.off("stop", listener)
    events.emit("stop")
    assert said == [1]
    assert not events.wants("stop")


def test_an_abort_calls_what_asked_for_it() -> None:
    abort, called = Abort(), []

    def fails() -> None:
        raise LookupError

    abort.call(fails)
    forget = abort.call(lambda: called.append("forgotten"))
    abort.call(lambda: called.append("before"))
    forget()
    abort.set(AbortReason.TIMEOUT)
    abort.set(AbortReason.SHUTDOWN)
    abort.call(lambda: called.append("after"))
    abort.call(fails)
    assert called == ["before", "after"]


def test_a_coroutine_listener_runs_to_its_end() -> None:
    async def body() -> None:
        events, said = Events(), []

        async def listener() -> None:
            await asyncio.sleep(0)
            said.append("heard")

        events.on("stop", listener)
        events.emit("stop")
        while not said:
            await asyncio.sleep(0)

    asyncio.run(body())


@pytest.fixture
def stream() -> Any:
    stream = io.StringIO()
    logger = logging.getLogger("windlass")
    before = logger.level, logger.handlers[:], logging.lastResort
    yield stream
    logger.level, logger.handlers[:], logging.lastResort = before


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_libraries_say_has_the_same_form(stream: io.StringIO, form: LogFormat) -> None:
    """Such as a database driver's warnings, where nobody has added a handler for them."""
    root = logging.getLogger()
    before = root.level, root.handlers[:]
    library = logging.getLogger("some.library")
    library.propagate = False  # as without the handlers that pytest adds to the root
    try:
        configure("info", form, stream)
        library.warning("discarding %s", "a connection")
        library.info("growing")
        assert (root.level, root.handlers) == before
    finally:
        library.propagate = True
    [line] = stream.getvalue().splitlines()
    if form == "json":
        said = json.loads(line)
        assert (said["logger"], said["level"]) == ("some.library", "warning")
        assert said["message"] == "discarding a connection"
    else:
        assert line.endswith("WARNING [some.library] discarding a connection")


def test_text_records(stream: io.StringIO) -> None:
    configure("info", "text", stream)
    configure("debug", "text", stream)
    log = scoped(None, "worker", worker_id="w-1")
    log.info("hello %s", "you")
    log.scope(task="t", job_id=7).warning("of a job")
    try:
        raise ValueError("x")
    except ValueError:
        log.exception("failed", extra={"label": "core"})
    lines = stream.getvalue().splitlines()
    assert lines[0].endswith("INFO    [worker] hello you"), "one handler, however often configured"
    assert lines[1].endswith("WARNING [job 7 t] of a job")
    assert lines[2].endswith("ERROR   [core] failed")
    assert lines[-1] == "ValueError: x"


def test_a_child_shows_records_as_its_parent_does(stream: io.StringIO) -> None:
    assert shown_logging() is None
    configure("warning", "json", stream)
    assert shown_logging() == ("WARNING", "json")
    configure("debug", "text", stream)
    assert shown_logging() == ("DEBUG", "text")


def test_json_records(stream: io.StringIO) -> None:
    configure("info", "json", stream)
    scoped(None, "job", worker_id="w-1", task="t", job_id=7).info("done")
    try:
        raise ValueError("x")
    except ValueError:
        scoped(None, "core").exception("bad")
    one, two = map(json.loads, stream.getvalue().splitlines())
    assert (one["message"], one["level"], one["job_id"], one["task"]) == ("done", "info", 7, "t")
    assert one["time"].endswith("+00:00")
    assert "ValueError: x" in two["error"]


def test_an_abort_is_one_way() -> None:
    abort = Abort()
    assert not abort.is_set()
    assert not abort.wait(0)
    assert abort.set(AbortReason.TIMEOUT)
    assert not abort.set(AbortReason.CANCELLED)
    assert abort.reason is AbortReason.TIMEOUT
    assert abort.wait(0)
    late = Abort()
    late.set(AbortReason.ERROR)
    assert late.wait(0)
