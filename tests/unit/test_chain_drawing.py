"""What `windlass chains show` gathers, and how it is drawn; lengths of time on a command line."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from windlass import App, Chain
from windlass.cli.chains.drawing import draw
from windlass.cli.values import parse_seconds
from windlass.client import chain_trees
from windlass.client.chain_trees import Tree, choose, gather
from windlass.errors import DurationError


def drawn(*chains: Any, show: int, then: Any = None) -> list[str]:
    """The tree of chain `show`, after `chains` were started in turn: each is the ids it names."""

    async def body() -> Tree | None:
        async with App("memory://") as app:
            for blockers in chains:
                await app.client.start_chain("t", blockers=list(blockers))
            if then is not None:
                await then(app)
            return await gather(app.client, show)

    tree = asyncio.run(body())
    assert tree is not None
    return list(draw(tree))


def test_a_chain_alone() -> None:
    assert drawn((), show=1) == ["chain 1  t  open, 1 job", "└─ job 1  step 0  t  ready"]


def test_a_chain_that_is_named_twice_is_drawn_once() -> None:
    assert drawn((), (1, 1), show=2) == [
        "chain 2  t  open, 1 job",
        "└─ job 2  step 0  t  blocked, waits for 1 of 1 chain",
        "   └─ chain 1  t  open, 1 job",
        "      └─ job 1  step 0  t  ready",
    ]


def test_a_diamond_is_drawn_once_and_pointed_to() -> None:
    lines = drawn((), (1,), (1,), (2, 3), show=4)
    assert [line.strip("│├└─ ") for line in lines if "chain 1 " in line] == [
        "chain 1  t  open, 1 job",
        "chain 1  t  open, 1 job, shown elsewhere in this tree",
    ]
    assert sum("job 1 " in line for line in lines) == 1


def test_a_large_tree_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain_trees, "MOST_CHAINS", 3)
    lines = drawn((), (1,), (2,), (3,), (4,), show=5)
    assert [line.strip("└─ ").split("  ")[0] for line in lines] == [
        *("chain 5", "job 5", "chain 4", "job 4", "chain 3", "job 3", "chain 2"),
    ]
    assert lines[-1].endswith("open, 1 job, not looked into: windlass chains show 2")


def test_a_long_line_of_chains_is_drawn_without_recursion_limits() -> None:
    lines = drawn((), *((number,) for number in range(1, 150)), show=150)
    assert lines[-1].strip("└─ ") == "job 1  step 0  t  ready"


def test_of_many_blockers_the_open_ones_are_drawn_first() -> None:
    async def complete_most(app: App) -> None:
        for chain in range(1, 39):
            await app.client.complete_chain(chain)

    lines = drawn(*[()] * 40, range(1, 41), show=41, then=complete_most)
    assert lines[1].endswith("waits for 2 of 40 chains")
    assert lines[2].strip("├─ ") == "chain 1  t  completed, 1 job"
    assert lines[-1] == "   └─ … and 20 chains more: 20 completed"
    assert sum("job 39 " in line or "job 40 " in line for line in lines) == 2


def test_which_blockers_are_shown_keeps_their_order() -> None:
    async def body() -> list[Chain[Any]]:
        async with App("memory://") as app:
            chains = [await app.client.start_chain("t") for _ in range(25)]
            await app.client.complete_chain(1)
            return [await app.client.get_chain(chain.id) or chain for chain in chains]

    shown, rest = choose(asyncio.run(body()))
    assert [chain.id for chain in shown] == list(range(2, 22))
    assert [chain.id for chain in rest] == [1, 22, 23, 24, 25]


def test_deleted_jobs_and_chains_are_told() -> None:
    async def delete(app: App) -> None:
        for _ in range(2):
            await app.client.start_chain("t", blockers=[1, 2], on_blocker_failure="wait")
        await app.client.permanently_fail_jobs([1, 2])
        await app.client.delete_chains([1])
        await app.client.cleanup("delete-failed")

    assert drawn((), (), show=4, then=delete) == [
        "chain 4  t  open, 1 job",
        "└─ job 4  step 0  t  blocked, waits for 1 of 2 chains",
        "   ├─ chain 1  deleted",
        "   └─ chain 2  t  failed, 1 job: Manually marked as failed",
        "      └─ 1 job is not stored any more",
    ]


def test_an_error_is_one_short_line() -> None:
    async def fail(app: App) -> None:
        await app.client.permanently_fail_jobs([1], "x" * 300 + "\nsecond line")

    first, second = drawn((), show=1, then=fail)
    assert first.endswith(": " + "x" * 99 + "…") and second.endswith(": " + "x" * 99 + "…")


def test_who_waits_is_told_in_short() -> None:
    async def add(app: App) -> None:
        for _ in range(25):
            await app.client.add_job("t", blockers=[1])

    last = drawn((), show=1, then=add)[-1]
    assert last.startswith("25 jobs wait for it: 26, 25, ") and last.endswith(", 7 and 5 more")


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("0.5", 0.5), ("90s", 90), ("5m", 300), ("2h", 7200),
                          (" 3d ", 259_200)]
)  # fmt: skip
def test_a_length_of_time(text: str, seconds: float) -> None:
    assert parse_seconds(text, "key_window") == seconds


@pytest.mark.parametrize("text", ["", "soon", "-5", "+5m", "5 m", "1e9", "9" * 400, "99999999999d"])
def test_what_is_no_length_of_time(text: str) -> None:
    with pytest.raises(DurationError) as refusal:
        parse_seconds(text, "key_window")
    assert refusal.value.field == "key_window"
