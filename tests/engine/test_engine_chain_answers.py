"""Chains when an answer is lost, and what a handler asks for at the wrong time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.engine.engine_kit import Bench, virtual
from windlass import Context, Retry
from windlass.errors import OutcomeUnknownError, ValidationError, WindlassError
from windlass.store.records import ClaimRequest, Complete, NewJob

SOON = Retry(lambda attempt, error: 1.0)

Act = Callable[[int], Awaitable[Any]]


def _lose_the_first_answer(bench: Bench, act: Act | None) -> None:
    """The first settlement is answered with *unknown*: `act` has happened instead of it, or it was
    written all the same."""
    settle = bench.store.settle
    calls = 0

    async def unsure(settlements: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > 1:
            return await settle(settlements)
        if act is None:
            await settle(settlements)
        else:
            await act(settlements[0][0].chain)
        raise OutcomeUnknownError("its answer was lost")

    bench.store.settle = unsure


def _acts(bench: Bench) -> dict[str, tuple[Act | None, bool]]:
    """What happened while no answer came, and whether the delivery counts as completed."""
    store = bench.ledger
    return {
        "its own write": (None, True),
        "completed by hand": (lambda chain: store.complete_chain(chain, Complete('"ok"')), False),
        "gone on by hand": (
            lambda chain: store.complete_chain(chain, Complete(next=NewJob("other"))),
            False,
        ),
        "deleted": (lambda chain: store.delete_chains([chain]), False),
    }


@pytest.mark.parametrize(
    "what", ["its own write", "completed by hand", "gone on by hand", "deleted"]
)
def test_an_end_whose_answer_is_lost_counts_if_it_is_the_deliverys_own(what: str) -> None:
    @virtual
    async def run(bench: Bench) -> None:
        @bench.app.task
        async def t() -> str:
            return "ok"

        act, is_own = _acts(bench)[what]
        for name in ("job:success", "chain:complete"):
            bench.app.events.on(name, lambda name=name, **_: bench.seen.append(name))
        _lose_the_first_answer(bench, act)
        await t.astart()
        await bench.start()
        while not bench.ledger.settled:
            await asyncio.sleep(0.1)
        await asyncio.sleep(1)
        assert bench.seen == (["job:success", "chain:complete"] if is_own else [])

    run()


@pytest.mark.parametrize("what", ["its own write", "completed by hand", "deleted"])
def test_a_step_whose_answer_is_lost_counts_if_the_chain_has_gone_on(what: str) -> None:
    """By hand with another job it cannot be told from its own."""

    @virtual
    async def run(bench: Bench) -> None:
        @bench.app.task
        async def t(ctx: Context) -> object:
            return ctx.continue_with("other")

        act, is_own = _acts(bench)[what]
        bench.app.events.on("job:success", lambda job, **_: bench.seen.append(job.task))
        _lose_the_first_answer(bench, act)
        await t.astart()
        await bench.start()
        while not bench.ledger.settled:
            await asyncio.sleep(0.1)
        await asyncio.sleep(1)
        assert bench.seen == (["t"] if is_own else [])

    run()


@virtual
async def test_nothing_is_asked_for_once_the_job_has_completed(bench: Bench) -> None:
    """It would begin or go on with nothing, and no one would know."""

    @bench.app.task(retry=SOON)
    async def t(ctx: Context) -> None:
        early = ctx.start("begun")
        try:
            async with ctx.transaction() as tx:
                await tx.complete()
                raise RuntimeError("undone")
        except RuntimeError:
            ctx.start("begun", blockers=[early])  # it has not completed after all
        async with ctx.transaction() as tx:
            await tx.complete()
            for ask in (ctx.start, ctx.continue_with):
                with pytest.raises(WindlassError, match="has completed in its transaction"):
                    ask("never")
        with pytest.raises(WindlassError, match="has completed in its transaction"):
            ctx.start("never")
        bench.seen.append("all of it")

    await bench.start()
    chain = await t.astart()
    done = await bench.app.client.wait_for_chain(chain.id, timeout=60)
    assert (done.state, bench.seen) == ("completed", ["all of it"])
    assert {job.task for job in await bench.app.client.list_jobs()} == {"begun"}


@virtual
async def test_a_continuation_returned_after_the_transaction_is_told_of(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    @bench.app.task
    async def t(ctx: Context) -> object:
        late = ctx.continue_with("never")
        async with ctx.transaction() as tx:
            await tx.complete("done")
        return late

    await bench.start()
    done = await bench.app.client.wait_for_chain((await t.astart()).id, timeout=60)
    assert (done.state, done.output, done.length) == ("completed", "done", 1)
    assert await bench.app.client.list_jobs() == []
    [warning] = [it for it in caplog.records if "tx.complete" in it.getMessage()]
    assert warning.levelname == "WARNING"


@virtual
async def test_odd_blockers_are_refused_where_they_are_asked_for(bench: Bench) -> None:
    @bench.app.task
    async def t(ctx: Context) -> None:
        odds: list[Any] = [0, 5, "12", b"12", [0], [-1], ["x"], [None], {"id": 1}]
        for odd in odds:
            for ask in (ctx.continue_with, ctx.start):
                with pytest.raises(ValidationError, match="chain"):
                    ask("other", blockers=odd)
        bench.seen.append("all of it")

    await bench.start()
    done = await bench.app.client.wait_for_chain((await t.astart()).id, timeout=60)
    assert (done.state, bench.seen) == ("completed", ["all of it"])


@virtual
async def test_a_first_job_that_was_handed_back_unbegun_starts_its_chain(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None: ...

    chain = await t.astart()
    await bench.ledger.claim(ClaimRequest("gone", ("t",), 1))
    await bench.ledger.retire("gone")
    bench.app.events.on("chain:start", lambda chain, **_: bench.seen.append(chain))
    await bench.start()
    await bench.app.client.wait_for_chain(chain.id, timeout=60)
    assert bench.seen == [chain.id]
