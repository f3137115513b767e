"""Array payloads: only the failed items stay for the retry."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.engine.engine_kit import Bench, virtual
from windlass import Context, Failed, JobState, Retry


@virtual
async def test_only_the_failed_items_stay(bench: Bench) -> None:
    async def later(item: int) -> int:
        await asyncio.sleep(1)
        if item == 5:
            raise KeyError(item)
        return item * 10

    @bench.app.task(keep=60, retry=Retry.fixed(10))
    async def t(items: list[int], ctx: Context) -> list[Any]:
        bench.seen.append((bench.clock.elapsed, items))
        if ctx.job.attempts > 1:
            return [item * 10 for item in items]
        answers: dict[int, Any] = {
            1: 10,
            2: Failed("two"),
            3: ValueError("three"),
            4: later(4),
            5: later(5),
        }
        return [answers[item] for item in items]

    job = await bench.add("t", [1, 2, 3, 4, 5])
    await bench.start()
    await asyncio.sleep(5)
    waiting = await bench.get(job)
    assert (waiting.state, waiting.payload) == (JobState.SCHEDULED, [2, 3, 5])
    assert (waiting.last_error or "").startswith("3 of 5 items failed\nHandlerFailed: two")
    await asyncio.sleep(10)
    assert bench.seen == [(0.0, [1, 2, 3, 4, 5]), (11.0, [2, 3, 5])]
    assert (await bench.get(job)).output == [20, 30, 50]


@virtual
async def test_a_list_of_another_length_counts_as_done(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    async def item() -> int:
        return 1

    @bench.app.task(keep=60)
    async def t(items: list[int]) -> list[Any]:
        return [item()]

    job = await bench.add("t", [1, 2])
    await bench.start()
    done = await bench.app.client.wait_for(job.id)
    assert done.output == [1]
    assert "returned 1 results for 2 items" in caplog.text


@virtual
async def test_a_list_that_answers_an_object_is_only_an_output(bench: Bench) -> None:
    @bench.app.task(keep=60)
    async def t(n: int) -> list[int]:
        return [n]

    job = await t.aenqueue(n=1)
    await bench.start()
    assert (await bench.app.client.wait_for(job.id)).output == [1]


@virtual
async def test_items_that_never_work_fail_at_the_limit(bench: Bench) -> None:
    @bench.app.task(max_attempts=2, retry=Retry.fixed(1))
    def t(items: list[str]) -> list[Any]:
        return [Failed(item) if item == "bad" else None for item in items]

    job = await bench.add("t", ["good", "bad", "good"])
    await bench.start()
    await asyncio.sleep(5)
    failed = await bench.get(job)
    assert (failed.state, failed.payload) == (JobState.FAILED, ["bad"])
    assert (failed.last_error or "").startswith("1 of 1 items failed")
