"""A worker says once which tasks have jobs that no live worker runs."""

from __future__ import annotations

import asyncio
import logging

import pytest

from windlass import App
from windlass.testing import run_virtual
from windlass.testing.virtual import VirtualClock


def _told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if "no live worker runs it" in r.getMessage()]


def test_jobs_nobody_runs_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async def body(clock: VirtualClock) -> None:
        app = App("memory://", clock=clock, tasks={"known": lambda payload, helpers: None})
        await app.client.add_job("unknwon")
        await app.client.add_job("known")
        with caplog.at_level(logging.WARNING, "windlass"):
            runner = await app.run(handle_signals=False)
            await asyncio.sleep(600)
            await app.client.add_job("another")
            await app.client.add_job("unknwon")
            await asyncio.sleep(600)
            await runner.stop()
        await app.close()

    run_virtual(body)
    assert [text.split(" are ready")[0] for text in _told(caplog)] == [
        "jobs of task 'unknwon'",
        "jobs of task 'another'",
    ]


def test_what_another_worker_runs_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    """Also when both start together; once the other is gone, it is."""

    async def body(clock: VirtualClock) -> None:
        def idle(payload: object, helpers: object) -> None: ...

        app = App("memory://", clock=clock, tasks={"one": idle, "two": idle})
        await app.client.pause(task="two")
        await app.client.add_job("two")
        with caplog.at_level(logging.WARNING, "windlass"):
            first = await app.run(handle_signals=False, only=["one"])
            second = await app.run(handle_signals=False, only=["two"])
            await app.client.resume(task="two")
            await app.client.add_job("two", delay=150)
            await asyncio.sleep(100)
            assert _told(caplog) == []
            await second.stop()
            await asyncio.sleep(200)
            await first.stop()
        await app.close()

    run_virtual(body)
    assert len(_told(caplog)) == 1


def test_the_name_of_a_task_cannot_forge_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    async def body(clock: VirtualClock) -> None:
        app = App("memory://", clock=clock, tasks={"known": lambda payload, helpers: None})
        await app.client.add_job("x\nERROR all is lost")
        await app.client.add_job("two words")
        with caplog.at_level(logging.WARNING, "windlass"):
            runner = await app.run(handle_signals=False)
            await asyncio.sleep(60)
            await runner.stop()
        await app.close()

    run_virtual(body)
    told = _told(caplog)
    assert len(told) == 2 and not any("\n" in text for text in told)
    assert any(text.endswith("--task 'two words'") for text in told)
