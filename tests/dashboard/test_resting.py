"""Figures that take long are looked up seldom."""

from __future__ import annotations

import asyncio

import pytest

from windlass.server.dashboard import resting
from windlass.server.dashboard.resting import REST, Resting
from windlass.testing import VirtualClock, run_virtual


def test_a_look_takes_a_twentieth_of_the_time_and_a_quick_one_is_made_anew() -> None:
    async def body(clock: VirtualClock) -> None:
        looks: list[float] = []
        kept: Resting[int] = Resting(clock)

        async def look(seconds: float) -> int:
            looks.append(clock.monotonic())
            await asyncio.sleep(seconds)
            return len(looks)

        async def get(seconds: float, least: float = 0.0) -> int:
            return await kept.get("key", lambda: look(seconds), least=least)

        assert [await get(0.0), await get(0.0)] == [1, 2]
        assert await get(0.0, least=1.0) == 2
        assert await asyncio.gather(*(get(0.1) for _ in range(20))) == [3] * 20
        assert await get(0.1) == 3
        await asyncio.sleep(REST * 0.1 + 0.01)
        assert await get(0.1) == 4

    run_virtual(body)


def test_so_many_figures_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resting, "MOST", 2)

    async def body(clock: VirtualClock) -> None:
        kept: Resting[int] = Resting(clock)
        looks: list[int] = []

        async def look() -> int:
            looks.append(1)
            return len(looks)

        for key in (1, 2, 3, 1):
            await kept.get(key, look, least=100.0)
        assert len(looks) == 4
        assert await kept.get(3, look, least=100.0) == 3

    run_virtual(body)


def test_a_look_that_fails_is_made_again() -> None:
    async def body(clock: VirtualClock) -> None:
        kept: Resting[int] = Resting(clock)

        async def broken() -> int:
            raise OSError("away")

        async def whole() -> int:
            return 1

        with pytest.raises(OSError, match="away"):
            await kept.get("key", broken, least=100.0)
        assert await kept.get("key", whole, least=100.0) == 1

    run_virtual(body)
