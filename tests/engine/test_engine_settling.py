"""Outcomes reach the store: together, again after a failure, and never twice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.engine.engine_kit import Bench, virtual, wait_until
from windlass import Events, JobState, Retry
from windlass.engine import settler
from windlass.engine.delivery import Delivery
from windlass.engine.outage import Outage
from windlass.observe.logs import scoped
from windlass.store.records import COMPLETE, ClaimRequest, Fail, NewJob, Settled, Verdict


@virtual
async def test_outcomes_gather_while_a_write_is_in_flight(bench: Bench) -> None:
    slow = bench.ledger.settle

    async def settle(settlements: Any) -> list[Settled]:
        await asyncio.sleep(1)
        return await slow(settlements)

    bench.ledger.settle = settle  # type: ignore[method-assign]

    @bench.app.task
    async def t() -> None: ...

    await t.aenqueue_many([{}] * 300)
    await bench.start(concurrency=10)
    await wait_until(lambda: len(bench.ledger.settled) == 300)
    assert len(bench.ledger.batches) <= 5
    assert bench.clock.elapsed <= 5.01


@virtual
async def test_one_job_is_settled_at_once(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None: ...

    await bench.start()
    for _ in range(3):
        await t.aenqueue()
        await asyncio.sleep(1)
    assert bench.ledger.batches == [1, 1, 1]


@virtual
async def test_a_settle_that_failed_is_tried_again(bench: Bench) -> None:
    @bench.app.task(keep=60)
    async def t() -> str:
        bench.seen.append(1)
        return "once"

    bench.store.fail_next("settle", "before", times=3)
    job = await t.aenqueue()
    await bench.start()
    assert (await bench.app.client.wait_for(job.id)).output == "once"
    assert bench.seen == [1]
    assert bench.store.calls["settle"] == 4


@virtual
async def test_a_store_that_cannot_settle_many_at_once_gets_fewer(bench: Bench) -> None:
    settle = bench.ledger.settle

    async def settle_few(settlements: Sequence[Any]) -> list[Settled]:
        if len(settlements) > 10:
            raise MemoryError
        return await settle(settlements)

    bench.ledger.settle = settle_few  # type: ignore[method-assign]

    @bench.app.task
    async def t() -> None:
        await asyncio.sleep(1)

    await t.aenqueue_many([{}] * 200)
    await bench.start(concurrency=200)
    await asyncio.wait_for(bench.idle(), 600)
    assert len(bench.ledger.settled) == 200
    assert all(answer.verdict == "applied" for _, _, answer in bench.ledger.settled)


@virtual
async def test_a_settle_whose_answer_was_lost_ends_the_job_once(bench: Bench) -> None:
    @bench.app.task(keep=60)
    async def t() -> str:
        bench.seen.append(1)
        return "once"

    bench.store.fail_next("settle", "after")
    job = await t.aenqueue()
    runner = await bench.start()
    assert (await bench.app.client.wait_for(job.id)).output == "once"
    await asyncio.sleep(5)
    assert bench.seen == [1]
    verdicts = [answer.verdict for _, _, answer in bench.ledger.settled]
    assert verdicts == [Verdict.APPLIED, Verdict.LOST]
    assert not runner.worker._in_hand


@virtual
async def test_a_lost_answer_is_reported_as_what_it_was(bench: Bench) -> None:
    """While the lease holds a used token can only mean that our own write went through."""

    @bench.app.task
    async def good() -> None: ...

    @bench.app.task(retry=Retry.fixed(60))
    async def bad() -> None:
        raise ValueError("no")

    events = bench.app.events
    events.on("job:success", lambda job, **_: bench.seen.append(("success", job.task)))
    events.on("job:error", lambda job, **_: bench.seen.append(("error", job.task)))
    bench.store.fail_next("settle", "after", times=2)
    await good.aenqueue()
    runner = await bench.start()
    await asyncio.sleep(1)
    bench.store.fail_next("settle", "after", times=2)
    await bad.aenqueue()
    await asyncio.sleep(5)
    assert bench.seen == [("success", "good"), ("error", "bad")]
    assert not runner.worker._in_hand


@virtual
async def test_what_an_open_transaction_holds_is_settled_later(bench: Bench) -> None:
    """Nobody else waits for it; a drain does, for up to a lease."""

    @bench.app.task
    async def t(n: int) -> None:
        bench.seen.append(n)

    jobs = await t.aenqueue_many([{"n": n} for n in range(3)])
    bench.ledger.held.add(jobs[1].id)
    runner = await bench.start()
    await asyncio.sleep(0.5)
    assert bench.seen == [0, 1, 2]
    assert [job.id for job in await bench.app.client.list_jobs()] == [jobs[1].id]
    assert list(runner.worker._in_hand) == [jobs[1].id]
    stopping = asyncio.ensure_future(runner.stop())
    await asyncio.sleep(5)
    assert not stopping.done()
    bench.ledger.held.clear()
    await stopping
    assert await bench.app.client.list_jobs() == []


@virtual
async def test_an_unexpected_error_does_not_leave_jobs_running(bench: Bench) -> None:
    real = bench.ledger.settle

    async def settle(settlements: Any) -> list[Settled]:
        bench.seen.append("tried")
        if len(bench.seen) < 3:
            raise ZeroDivisionError("a driver's bug")
        return await real(settlements)

    bench.ledger.settle = settle  # type: ignore[method-assign]

    @bench.app.task
    async def t() -> None: ...

    job = await t.aenqueue()
    await bench.start()
    await bench.idle()
    assert await bench.gone(job)
    assert len(bench.seen) == 3


@virtual
async def test_complete_is_told_only_when_the_store_has_it(bench: Bench) -> None:
    events = Events()
    app = bench.new_app(events=events)

    @app.task(keep=60)
    async def t() -> None: ...

    @events.on("job:complete")
    def told(worker: Any, job: Any, error: Any) -> None:
        bench.seen.append((bench.ledger._history[job.id].state, bench.clock.elapsed))

    bench.store.fail_next("settle", times=5)
    await t.aenqueue()
    await bench.start(app)
    await asyncio.sleep(30)
    [(state, elapsed)] = bench.seen
    assert state is JobState.COMPLETED
    assert elapsed > 0


async def _delivery(bench: Bench) -> Delivery:
    await bench.ledger.enqueue([NewJob("t")])
    [lease] = await bench.ledger.claim(ClaimRequest("w", ("t",), 1))
    return Delivery(lease, asyncio.get_running_loop(), 0.0)


def _settler(bench: Bench, **hooks: Any) -> settler.Settler:
    async def nothing(*_: Any) -> None: ...

    outage = Outage(scoped(None, "test"))
    return settler.Settler(
        bench.store,
        outage,
        scoped(None, "test"),
        settler.SettlerLinks(
            buffered=lambda: 0,
            before=hooks.get("before", nothing),
            refused=lambda delivery, reason: Fail(reason),
            tried=lambda batch: None,
            after=hooks.get("after", nothing),
        ),
    )


@virtual
async def test_a_full_settler_makes_slots_wait(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settler, "MOST_WAITING", 2)
    monkeypatch.setattr(settler, "MOST_AT_ONCE", 1)
    mine = _settler(bench)
    bench.store.fail_next("settle", times=4)
    for _ in range(3):
        mine.add(await _delivery(bench), COMPLETE)
    assert mine.is_full
    await mine.room()
    assert not mine.is_full
    assert bench.clock.elapsed > 0
    await mine.flush()
    assert len(bench.ledger.settled) == 3


@virtual
async def test_a_full_settler_holds_the_slots_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settler, "MOST_WAITING", 5)

    @bench.app.task
    async def t() -> None:
        bench.seen.append(1)

    bench.store.fail_next("settle", times=3)
    await t.aenqueue_many([{}] * 50)
    await bench.start(concurrency=1)
    await asyncio.sleep(0.05)
    assert len(bench.seen) <= 6
    await bench.idle()
    assert len(bench.seen) == 50


@virtual
async def test_a_closed_store_ends_the_writing(bench: Bench) -> None:
    mine = _settler(bench)
    mine.add(await _delivery(bench), COMPLETE)
    await bench.ledger.close()
    await mine.flush()
    assert bench.ledger.settled == []
    await bench.ledger.open()
    await mine.stop()


@virtual
async def test_stop_gives_up_on_what_is_not_written(bench: Bench) -> None:
    mine = _settler(bench)
    bench.store.is_down = True
    mine.add(await _delivery(bench), COMPLETE)
    await asyncio.sleep(60)
    await mine.stop()
    bench.store.is_down = False
    assert bench.ledger.settled == []
