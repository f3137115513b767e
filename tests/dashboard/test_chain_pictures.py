"""Chains as pictures: every box in its place, and none on another."""

from __future__ import annotations

import itertools

from tests.dashboard.kit import Dashboard, shown
from windlass.client.chain_trees import gather
from windlass.server.dashboard import picture
from windlass.server.dashboard.picture import Picture, draw
from windlass.store.records import ClaimRequest, Complete, NewJob


def require_apart(drawn: Picture) -> None:
    for one, two in itertools.combinations(drawn.boxes, 2):
        assert (one.column, one.row) != (two.column, two.row), (one, two)
    for line in drawn.lines:
        assert line.begin.column < line.end.column, line
    for box in drawn.boxes:
        assert box.x + picture.WIDTH <= drawn.width
        assert box.y + picture.HEIGHT <= drawn.height


def test_jobs_stand_in_order_and_to_the_right_of_what_they_waited_for() -> None:
    async def check(kit: Dashboard) -> None:
        client = kit.app.client
        small = await client.start_chain("small")
        wide = await client.start_chain("wide", blockers=[small.id])
        chain = await client.start_chain("first", keep=600)
        [lease] = await kit.store.claim(ClaimRequest(worker="w", tasks=("first",), limit=1))
        following = NewJob("second", blockers=(wide.id, small.id))
        await kit.store.settle([(lease, Complete(keep=600.0, next=following))])
        tree = await gather(client, chain.id)
        assert tree is not None
        drawn = draw(tree, at=chain.id)
        require_apart(drawn)
        columns = {(box.title, box.detail): box.column for box in drawn.boxes}
        second = next(box for box in drawn.boxes if box.title == "second")
        assert second.column == 2
        assert columns["first", f"job {chain.id}"] == 0
        assert [box.title for box in drawn.boxes if box.is_here] == ["first"]
        waits = [line for line in drawn.lines if line.is_wait]
        assert len(waits) == 3
        browser = kit.browser()
        page = await browser.get(f"/jobs/{chain.id}")
        assert len(page.all("rect")) >= len(drawn.boxes)
        assert f"/jobs/{small.id}" in page.links

    shown(check)


def test_a_job_in_no_chain_is_drawn_with_what_it_waits_for() -> None:
    async def check(kit: Dashboard) -> None:
        client = kit.app.client
        one, two = [await client.start_chain("part", {"n": n}) for n in range(2)]
        job = await client.add_job("sum", blockers=[one.id, two.id])
        page = await kit.browser().get(f"/jobs/{job.id}")
        assert "What it waits for" in page.text
        assert {f"/jobs/{one.id}", f"/jobs/{two.id}"} <= set(page.links)
        page = await kit.browser().get(f"/jobs/{one.id}")
        assert "1 job waits for this chain" in page.text

    shown(check)


def test_what_is_gone_is_one_box_and_too_much_is_left_out() -> None:
    async def check(kit: Dashboard) -> None:
        client = kit.app.client
        gone = await client.start_chain("gone")
        done = await client.start_chain("done")
        many = [await client.start_chain("many", {"n": n}) for n in range(30)]
        named = [gone.id, done.id, *(chain.id for chain in many)]
        last = await client.start_chain("last", blockers=named, on_blocker_failure="run")
        for task in ("done", "gone"):
            [lease] = await kit.store.claim(ClaimRequest(worker="w", tasks=(task,), limit=1))
            following = NewJob("more") if task == "done" else None
            await kit.store.settle([(lease, Complete(next=following))])
        tree = await gather(client, last.id)
        assert tree is not None
        drawn = draw(tree)
        require_apart(drawn)
        assert drawn.left_off == 12
        chain = await gather(client, done.id)
        assert chain is not None
        assert [box.title for box in draw(chain).boxes] == ["1 job before", "more"]
        ended = await gather(client, gone.id)
        assert ended is not None
        assert [box.address for box in draw(ended).boxes] == [f"/chains/{gone.id}"]

    shown(check)


def test_a_picture_has_so_many_boxes_at_most() -> None:
    async def check(kit: Dashboard) -> None:
        client = kit.app.client
        parts = [await client.start_chain("part") for _ in range(5)]
        last = await client.start_chain("last", blockers=[chain.id for chain in parts])
        tree = await gather(client, last.id)
        assert tree is not None
        most, picture._MOST_BOXES = picture._MOST_BOXES, 3
        try:
            drawn = draw(tree)
        finally:
            picture._MOST_BOXES = most
        assert (len(drawn.boxes), drawn.left_off) == (3, 3)

    shown(check)
