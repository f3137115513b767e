"""Payloads that no program can decode, put there by other programs: each costs only its own job."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.engine.engine_kit import Bench, virtual
from windlass import Events, Job, JobState

TOO_DEEP = "[" * 100_000 + "]" * 100_000
"""Deeper than the stack of any Python: 3.13 decodes ten thousand levels."""
UNDECODABLE = {
    "too deep": TOO_DEEP,
    "too large a number": "1e400",
    "half a character": r'"\ud800"',
    "no JSON": "{",
}
CASES = pytest.mark.parametrize("text", UNDECODABLE.values(), ids=UNDECODABLE.keys())


async def spoil(bench: Bench, job: Job, text: str) -> None:
    """What another program did to the row."""
    bench.ledger._rows[job.id].payload = text


@CASES
@pytest.mark.parametrize("executor", ["async", "thread", "object", "untyped"])
@virtual
async def test_the_job_fails_for_good_and_every_slot_lives(
    bench: Bench, text: str, executor: str
) -> None:
    app = bench.new_app(events=Events())
    started: list[int] = []
    app.events.on("job:start", lambda **details: started.append(details["job"].id))

    if executor == "async":

        @app.task(name="t")
        async def typed(n: int = 0) -> None:
            bench.seen.append(n)

    elif executor == "thread":

        @app.task(name="t")
        def in_thread(n: int = 0) -> None:
            bench.seen.append(n)

    else:
        app = bench.new_app(tasks={"t": _untyped(bench)}, events=app.events)
    bad = [await bench.add("t") for _ in range(4)]
    for job in bad:
        await spoil(bench, job, text)
    if executor == "object":
        await bench.start_object(_Target(bench), events=app.events, slots=2)
    else:
        await bench.start(app, concurrency=2)
    await bench.idle()
    await bench.add("t", {"n": 1})
    await bench.idle()
    assert bench.seen == [1] or executor == "object"
    for job in bad:
        found = await bench.get(job)
        if executor != "object":
            assert (found.state, found.attempts) == (JobState.FAILED, 1)
            assert found.last_error is not None
            assert "payload" in found.last_error
        assert found.payload == text, "it is shown as it is"


def _untyped(bench: Bench) -> Any:
    async def task(payload: Any, helpers: Any) -> None:
        bench.seen.append(payload["n"])

    return task


class _Target:
    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    async def handle(self, ctx: Any, store: Any, record: Any) -> None:
        raise ValueError(record.payload)


@pytest.mark.parametrize(
    "error", [SystemExit(3), asyncio.CancelledError(), GeneratorExit(), RecursionError()]
)
@pytest.mark.parametrize("event", ["job:start", "job:complete"])
@virtual
async def test_no_listener_ends_a_slot(bench: Bench, event: str, error: BaseException) -> None:
    def listener(**details: Any) -> None:
        raise error

    app = bench.new_app(events=Events())
    app.events.on(event, listener)

    @app.task
    async def t(n: int) -> None:
        bench.seen.append(n)

    await bench.start(app, concurrency=1)
    for n in range(3):
        await bench.add("t", {"n": n})
        await bench.idle()
    assert bench.seen == [0, 1, 2]
