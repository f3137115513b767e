"""The tasks of the demo's shop, each run once in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from windlass import Poison
from windlass.cli.demo import shop
from windlass.testing import VirtualClock, run_virtual


class Told:
    """What a handler says of itself."""

    def __init__(self) -> None:
        self.said: list[Any] = []

    def progress(self, fraction: float, note: str) -> None:
        self.said.append((fraction, note))

    def log(self, entry: Any) -> None:
        self.said.append(entry)

    def continue_with(self, task: Any, **payload: Any) -> tuple[str, dict[str, Any]]:
        return task.name, payload


def test_every_task_of_the_shop_does_what_it_shows() -> None:
    async def body(clock: VirtualClock) -> None:
        told: Any = Told()
        assert await shop.send_mail("ada", "hello") == {"sent": "ada", "subject": "hello"}
        assert await shop.charge_card(1) == "charged 1"
        assert await shop.pick(1) == "picked 1"
        assert await shop.pay.function(told, order=7) == ("ship", {"order": 7})
        assert await shop.ship(7) == "shipped 7"
        assert (await shop.resize("front.png"))["width"] == 640
        assert await shop.import_catalogue.function(told, url="https://…", pages=12) == 288
        assert told.said[:3] == [
            (0.0, "page 1 of 12"),
            {"page": 0, "products": 0},
            (1 / 12, "page 2 of 12"),
        ]
        assert len(told.said) == 14
        assert await shop.publish.function(told, product=3) == {"product": 3}
        assert await shop.count_stock() == 42
        await shop.weekly_report()
        for order, error in ((17, Poison), (9, ConnectionError)):
            with pytest.raises(error, match=f"order {order}"):
                await shop.charge_card(order)
        with pytest.raises(ValueError, match="is no picture"):
            await shop.resize("broken.png")

    run_virtual(body)
