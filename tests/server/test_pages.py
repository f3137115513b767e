"""Pages end where they are full, or too large for one answer."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from windlass.server import pages


class Item(msgspec.Struct):
    id: int
    text: str = ""


def _pages(items: list[Item], limit: int) -> list[list[int]]:
    """The ids of all pages, each from where the one before ended."""

    async def find(after: int | None, most: int) -> list[Item]:
        return [item for item in items if after is None or item.id < after][:most]

    async def run() -> list[list[int]]:
        found, after = [], None
        while True:
            some, after = await pages.page(find, after, limit)
            found.append([item.id for item in some])
            if after is None:
                return found

    return asyncio.run(run())


@pytest.mark.parametrize("limit", [1, 100, 150, 1_000])
def test_pages_miss_nothing(limit: int) -> None:
    ids = list(range(250, 0, -1))
    found = _pages([Item(id) for id in ids], limit)
    assert [id for each in found for id in each] == ids
    assert all(len(each) == limit for each in found[:-1])


def test_a_page_of_large_items_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MOST_BYTES", 10_000)
    sizes = {5: 9_000, 4: 9_000, 3: 20_000, 2: 10, 1: 10}
    found = _pages([Item(id, "x" * size) for id, size in sizes.items()], 100)
    assert found == [[5], [4], [3], [2, 1]]
