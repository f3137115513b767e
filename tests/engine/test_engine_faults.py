"""The database goes away, answers wrongly, comes back."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from tests.engine.engine_kit import Bench, Ledger, virtual
from windlass import App, Context, Failed, JobState, Retry
from windlass.engine.loop import Loop
from windlass.engine.outage import Outage
from windlass.observe.logs import scoped
from windlass.store.records import Verdict
from windlass.testing import FaultyStore, VirtualClock, run_virtual


@virtual
async def test_an_outage_is_told_once_and_outlived(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="windlass")

    @bench.app.task
    async def t() -> None:
        bench.seen.append(bench.clock.elapsed)

    await bench.start(reap_interval=2)
    await asyncio.sleep(10)
    bench.store.is_down = True
    before = sum(bench.store.calls.values())
    await asyncio.sleep(100)
    calls = sum(bench.store.calls.values()) - before
    bench.store.is_down = False
    await t.aenqueue()
    await asyncio.sleep(10)
    assert len(bench.seen) == 1
    messages = [record.getMessage() for record in caplog.records]
    warnings = [text for text in messages if "does not answer" in text]
    assert len(warnings) == 1, "by all loops and the keeper together"
    assert 1 <= len([text for text in messages if "answers again" in text]) <= 2
    assert calls < 400, "the pauses grow"


def test_pauses_grow_and_are_bounded() -> None:
    outage = Outage(scoped(None, "test"))
    pauses = [outage.failed(RuntimeError()) for _ in range(50)]
    assert 0.05 <= pauses[0] <= 0.1
    assert all(pause <= 2.0 for pause in pauses)
    assert all(pause >= 1.0 for pause in pauses[10:])
    outage.worked()
    assert outage.failed(RuntimeError()) <= 0.1


@virtual
async def test_a_loop_ends_with_its_store_and_survives_everything_else(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    from windlass.errors import StoreClosedError

    steps: list[Any] = [ValueError("odd"), 0.0, None, StoreClosedError("end")]

    async def step() -> float | None:
        answer = steps.pop(0)
        bench.seen.append(bench.clock.elapsed)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    logger = scoped(None, "test")
    loop = Loop("odd", step, outage=Outage(logger), logger=logger, first_delay=None)
    loop.wake_from_anywhere()
    loop.start()
    await asyncio.sleep(5)
    assert bench.seen == [], "it waits to be woken"
    loop.wake_from_anywhere()
    await asyncio.sleep(5)
    assert len(bench.seen) == 3
    loop.wake()
    await asyncio.sleep(0)
    await asyncio.sleep(1)
    assert steps == []
    await loop.stop()
    await loop.stop()
    assert "the odd met an error and goes on" in caplog.text


SEEDS = range(12)


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_fails_every_job_ends_exactly_once(seed: int) -> None:
    """Random faults, answers lost, workers that come and go: the ledger must add up."""

    async def body(clock: VirtualClock) -> None:
        chance = random.Random(seed)
        ledger = Ledger(clock)
        store = FaultyStore(ledger, seed=seed, rate=0.25, unknown=("settle", "claim", "renew"))
        app = App("memory://", clock=clock, keep=100_000, retry=Retry.fixed(1), lease=5)
        app.store = store
        overlap: Counter[int] = Counter()

        @app.task(max_attempts=1000)
        async def t(ctx: Context, fate: str) -> Any:
            overlap[ctx.job.id] += 1
            assert overlap[ctx.job.id] == 1, "two deliveries of one job ran at once"
            try:
                ctx.progress(0.5)
                await asyncio.sleep(chance.choice([0, 0.01, 0.5, 3]))
            finally:
                overlap[ctx.job.id] -= 1
            if fate == "flaky" and ctx.job.attempts < 3:
                return Failed("again")
            if fate == "raises" and ctx.job.attempts < 2:
                raise ValueError
            return None

        fates = [chance.choice(["ok", "flaky", "raises"]) for _ in range(60)]
        jobs = await t.aenqueue_many([{"fate": fate} for fate in fates])
        for _ in range(4):
            runners = [
                await app.run(handle_signals=False, concurrency=4, reap_interval=1, grace=2)
                for _ in range(2)
            ]
            await asyncio.sleep(chance.uniform(1, 8))
            for runner in runners:
                await runner.stop()
        store.rate = 0.0
        runner = await app.run(handle_signals=False, reap_interval=1)
        await asyncio.sleep(60)
        await runner.stop()
        counts = await app.client.counts()
        assert counts["completed"] == len(jobs), (counts, store)
        applied = Counter(
            lease.job_id
            for lease, _, answer in ledger.settled
            if answer.verdict is Verdict.APPLIED and answer.state is JobState.COMPLETED
        )
        assert applied == Counter(job.id for job in jobs), store
        tokens = Counter(
            (lease.job_id, lease.token)
            for lease, _, answer in ledger.settled
            if answer.verdict is Verdict.APPLIED
        )
        assert max(tokens.values()) == 1, store
        assert store.faults, "the seed did something"

    run_virtual(body, timeout=4_000)
