"""What a type checker knows of chains.

mypy reads this file with the others. It fails where a type is not the one that is asserted, and,
because unused ignores are errors, where a call that must be refused is not.
"""

from __future__ import annotations

import asyncio
from typing import assert_type

import pytest

from windlass import App, Chain, Context
from windlass.errors import ValidationError
from windlass.tasks.continuing import Continuation, StartedChain
from windlass.testing import drain

app = App("memory://")


@app.task
async def ship(order: int, fast: bool = False) -> str:
    return f"{order} {fast}"


@app.task
def weigh(order: int) -> float:
    return order / 2


@app.task
async def charge(ctx: Context, order: int) -> object:
    assert_type(ctx.continue_with(ship, order=order), Continuation)
    assert_type(ctx.continue_with(weigh.using(delay=60), order=order), Continuation)
    assert_type(ctx.continue_with("ship", {"order": order}, delay=60), Continuation)
    part = assert_type(ctx.start(weigh, order=order), StartedChain)
    with pytest.raises(ValidationError):
        ctx.continue_with(ship, order="seven")  # type: ignore[call-overload]
    with pytest.raises(ValidationError):
        ctx.continue_with(ship, parcel=order)  # type: ignore[call-overload]
    with pytest.raises(ValidationError):
        ctx.continue_with(ship.using(delay=60))  # type: ignore[call-overload]
    with pytest.raises(ValidationError):
        ctx.start(weigh, order=None)  # type: ignore[call-overload]
    with pytest.raises(ValidationError):
        ctx.continue_with("ship", {"order": order}, dely=60)  # type: ignore[call-overload]
    return ctx.continue_with(ship.using(blockers=[part]), order, fast=True)


def test_the_output_of_a_chain_has_the_type_of_its_task() -> None:
    async def body() -> None:
        with app.override("memory://"):
            by_coroutine = assert_type(await ship.astart(order=7), Chain[str])
            assert_type(by_coroutine.output, str)
            by_function = assert_type(await weigh.using(priority=1).astart(order=7), Chain[float])
            assert_type(by_function.output, float)
            with pytest.raises(ValidationError):
                await ship.astart(order="seven")  # type: ignore[call-overload]
            await drain(app, raise_errors=True)
            await app.close()

    asyncio.run(body())


def test_chains_that_are_started_without_a_loop() -> None:
    with app.override("memory://"):
        assert_type(ship.start(order=7), Chain[str])
        assert_type(weigh.using(delay=60).start(order=7), Chain[float])
        with pytest.raises(ValidationError):
            weigh.start(parcel=7)  # type: ignore[call-arg]
        app.sync.counts()


def test_what_a_handler_goes_on_with_is_checked() -> None:
    async def body() -> None:
        with app.override("memory://"):
            chain = await charge.astart(order=7)
            await drain(app, raise_errors=True)
            done = await app.client.get_chain(chain.id)
            assert done is not None and done.output == "7 True"
            await app.close()

    asyncio.run(body())
