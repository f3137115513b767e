"""Virtual threads: they wait in virtual time, look like threads, and end with their process."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.simulation.virtual_threads import (
    PROCESS,
    SimulationLoop,
    VirtualExecutor,
    VirtualThread,
    sleep,
    wait_for,
)
from windlass.testing.virtual import DeadlockError


def on_loop(body: Coroutine[Any, Any, None]) -> None:
    loop = SimulationLoop(1_000)
    try:
        loop.run_until_complete(body)
    finally:
        loop.close()


class Place:
    """A process."""

    def __init__(self) -> None:
        self.is_dead = False
        self.tasks: list[asyncio.Task[Any]] = []
        self.threads: list[VirtualThread] = []


def test_threads_wait_in_virtual_time_side_by_side() -> None:
    seen: list[tuple[float, str]] = []

    async def body() -> None:
        loop = asyncio.get_running_loop()
        begin = loop.time()

        def work(name: str, seconds: float) -> str:
            for _ in range(2):
                sleep(seconds)
                seen.append((round(loop.time() - begin, 3), name))
            return name

        executor = VirtualExecutor(2)
        answers = [
            loop.run_in_executor(executor, work, name, seconds)
            for name, seconds in (("a", 1.0), ("b", 1.5), ("c", 0.25))
        ]
        assert await asyncio.gather(*answers) == ["a", "b", "c"]

    on_loop(body())
    assert seen == [(1, "a"), (1.5, "b"), (2, "a"), (2.25, "c"), (2.5, "c"), (3, "b")]


def test_a_thread_sees_no_running_loop_and_can_ask_the_loop() -> None:
    async def body() -> None:
        async def answer() -> int:
            await asyncio.sleep(5)
            return 7

        def work() -> int:
            with pytest.raises(RuntimeError):
                asyncio.get_running_loop()
            return wait_for(answer())

        loop = asyncio.get_running_loop()
        assert await loop.run_in_executor(VirtualExecutor(1), work) == 7
        assert asyncio.get_running_loop() is loop

    on_loop(body())


def test_what_a_thread_raises_is_its_answer() -> None:
    async def body() -> None:
        def work() -> None:
            sleep(1)
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            await asyncio.get_running_loop().run_in_executor(VirtualExecutor(1), work)

    on_loop(body())


def test_threads_and_tasks_belong_to_a_process_and_end_with_it() -> None:
    async def body() -> None:
        place = Place()
        seen: list[str] = []

        def work() -> None:
            seen.append("began")
            sleep(1)
            seen.append("went on")

        async def main() -> None:
            VirtualThread(work, lambda answer, error: seen.append("ended"))

        variables = contextvars.copy_context()
        variables.run(PROCESS.set, place)
        loop = asyncio.get_running_loop()
        task = loop.create_task(main(), context=variables)
        await asyncio.sleep(0.5)
        place.is_dead = True
        await asyncio.sleep(5)
        assert seen == ["began"]
        assert place.tasks == [task]
        [thread] = place.threads
        thread.end()
        assert seen == ["began", "ended"]
        assert task.done()

    on_loop(body())


def test_a_run_that_waits_for_ever_is_told() -> None:
    async def body() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(DeadlockError, match="nothing ever will be"):
        on_loop(body())
