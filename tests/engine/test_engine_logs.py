"""What the log says of jobs: which one it was, and where it failed."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from tests.engine import process_tasks
from tests.engine.engine_kit import Bench, virtual
from windlass import App, Failed, Nack, Poison, RetryAfter
from windlass.model.retry import Retry
from windlass.observe import logs


class Own(Exception):
    pass


@pytest.fixture(params=["text", "json"])
def shown(request: pytest.FixtureRequest) -> Iterator[Shown]:
    """The log as `windlass run` shows it."""
    logger = logging.getLogger("windlass")
    level = logger.level
    stream = io.StringIO()
    handler = logs.configure("info", request.param, stream)
    yield Shown(stream, is_json=request.param == "json")
    logger.removeHandler(handler)
    logger.setLevel(level)


class Shown:
    def __init__(self, stream: io.StringIO, *, is_json: bool) -> None:
        self._stream = stream
        self._is_json = is_json

    def traces(self) -> dict[str, str]:
        """Message → traceback, of the records about a job that did not complete."""
        if self._is_json:
            lines = [json.loads(line) for line in self._stream.getvalue().splitlines()]
            return {
                line["message"]: line.get("error", "")
                for line in lines
                if "job_id" in line and line["level"] != "info"
            }
        found: dict[str, str] = {}
        message = ""
        for line in self._stream.getvalue().splitlines():
            if "[job " in line:
                message = line.partition("] ")[2] if " INFO " not in line else ""
                found |= {message: ""} if message else {}
            elif message:
                found[message] += f"{line}\n"
        return found


def _deep(error: BaseException) -> None:
    raise error


@virtual
async def test_a_failed_attempt_shows_where_it_failed(bench: Bench, shown: Shown) -> None:
    @bench.app.task(max_attempts=2, retry=Retry.fixed(1))
    async def awaits() -> None:
        await asyncio.sleep(1)
        _deep(Own("boom"))

    @bench.app.task(max_attempts=1)
    def plain() -> None:
        try:
            _deep(Own("inner"))
        except Own as error:
            raise ValueError("outer") from error

    @bench.app.task
    async def poisoned() -> None:
        _deep(Poison("never"))

    await awaits.aenqueue()
    await plain.aenqueue()
    await poisoned.aenqueue()
    await bench.start()
    await asyncio.sleep(10)
    traces = shown.traces()
    again = traces["attempt 1 of 2 failed, again in 1.0 s: Own: boom"]
    final = traces["failed for good: Own: boom"]
    for trace in (again, final):
        assert trace.startswith("Traceback (most recent call last):\n")
        assert "in awaits\n    _deep(Own(" in trace
        assert "in _deep\n    raise error" in trace
        assert "windlass/engine" not in trace, "the way to the handler is left out"
    chained = traces["failed for good: ValueError: outer"]
    assert "test_engine_logs.Own: inner" in chained
    assert "The above exception was the direct cause" in chained
    assert "in _deep" in traces["failed for good: Poison: never"]


@virtual
async def test_what_has_no_traceback_shows_none(bench: Bench, shown: Shown) -> None:
    @bench.app.task(max_attempts=1, timeout=5)
    async def t(kind: str) -> Any:
        match kind:
            case "failed":
                return Failed("as told")
            case "nack":
                return Nack(3600, "later")
            case "timeout":
                await asyncio.sleep(10)
            case "payload":
                pass
        return None

    @bench.app.task
    async def waits() -> None:
        raise RetryAfter(3600, "not yet")

    for kind in ("failed", "nack", "timeout"):
        await t.aenqueue(kind=kind)
    await waits.aenqueue()
    await bench.add("t", {"wrong": 1})
    await bench.start()
    await asyncio.sleep(10)
    traces = shown.traces()
    assert len(traces) == 5
    assert set(traces.values()) == {""}
    assert "failed for good: as told" in traces


@virtual
async def test_failed_items_show_where_each_failed(bench: Bench, shown: Shown) -> None:
    @bench.app.task(max_attempts=1)
    async def items(payload: Any) -> list[Any]:
        return [_later(item) for item in payload]

    await bench.add("items", [1, 2, 3])
    await bench.start()
    await bench.idle()
    [(message, trace)] = shown.traces().items()
    assert message == "failed for good: 2 of 3 items failed"
    assert trace.count("in _later") == 2


async def _later(item: int) -> int:
    await asyncio.sleep(1)
    if item > 1:
        raise Own(f"item {item}")
    return item


def test_an_error_in_another_process_shows_where_it_failed(shown: Shown) -> None:
    async def main() -> None:
        app = App("memory://", max_attempts=1)
        app.task(executor="process", name="work")(process_tasks.work)
        await app.client.add_job("work", {"kind": "own"})
        await app.run_once(concurrency=1)
        await app.close()

    asyncio.run(main())
    [(message, trace)] = shown.traces().items()
    assert message == "failed for good: Own: mine"
    assert "process_tasks.py" in trace
    assert 'raise Own("mine")' in trace


@pytest.mark.parametrize("executor", ["async", "process"])
def test_a_complaint_names_its_job(
    executor: Any, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger("windlass")
    level = logger.level
    handler = logs.configure("warning", "json")

    async def main() -> int:
        app = App("memory://", keep=60)
        app.task(executor=executor, name="work")(process_tasks.work)
        job = await app.client.add_job("work", {"kind": "not json"})
        await app.run_once(concurrency=1)
        await app.close()
        return job.id

    try:
        job_id = asyncio.run(main())
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    [line] = [line for line in capfd.readouterr().err.splitlines() if "cannot be kept" in line]
    said = json.loads(line)
    assert (said["job_id"], said["task"], said["label"]) == (job_id, "work", "job")
