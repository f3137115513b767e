"""What is drawn of a chain: its stored jobs, the chains they named, the jobs of these, and so on.

No chain waits for itself, so the tree ends; the limits here are for large ones. A chain that is met
again is not gathered again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.client.client import Client
from windlass.model.chain import Chain, ChainState
from windlass.model.job import Job

MOST_BLOCKERS = 20
"""Chains shown of those that one job named."""
MOST_CHAINS = 200
"""Chains whose jobs are looked up for one tree."""


class JobNode(msgspec.Struct):
    """A job of a chain, and the chains it named."""

    job: Job
    blockers: list[ChainNode] = []
    left_off: dict[str, int] = {}
    """How many more it named, by their states."""


class ChainNode(msgspec.Struct):
    """A chain, and its jobs that are still stored."""

    chain: Chain[Any]
    jobs: list[JobNode] = []
    is_repeated: bool = False
    """It stands elsewhere in the tree, and has its jobs there."""
    is_cut: bool = False
    """The tree was too large to look up its jobs."""


class Tree(ChainNode):
    """The chain that was asked for, and the jobs that wait for it."""

    waiting: list[Job] = []


async def gather(client: Client, chain_id: int) -> Tree | None:
    """The tree of a chain, nearest first where it is too large for all of it."""
    chain = await client.get_chain(chain_id)
    if chain is None:
        return None
    tree = Tree(chain)
    await _look_below(client, deque([tree]), {chain.id})
    tree.waiting = await client.blocked_jobs(chain_id)
    return tree


async def gather_job(client: Client, job: Job) -> JobNode:
    """A job that is in no chain, with the trees of the chains that it named."""
    node = await _named(client, job)
    todo: deque[ChainNode] = deque()
    seen: set[int] = set()
    _note(node, todo, seen)
    await _look_below(client, todo, seen)
    return node


async def _look_below(client: Client, todo: deque[ChainNode], seen: set[int]) -> None:
    """Add their jobs to these chains, and to those that the jobs named, and so on."""
    looked = 0
    while todo:
        node = todo.popleft()
        if looked == MOST_CHAINS:
            node.is_cut = True
            continue
        looked += 1
        for job in await client.chain_jobs(node.chain.id):
            below = await _named(client, job)
            node.jobs.append(below)
            _note(below, todo, seen)


def _note(node: JobNode, todo: deque[ChainNode], seen: set[int]) -> None:
    """The chains that a job named are looked into once, wherever they are met."""
    for blocker in node.blockers:
        if blocker.chain.id in seen:
            blocker.is_repeated = True
        elif not is_deleted(blocker.chain):
            seen.add(blocker.chain.id)
            todo.append(blocker)


async def _named(client: Client, job: Job) -> JobNode:
    if not job.blockers_total:
        return JobNode(job)
    named = list({chain.id: chain for chain in await client.blockers(job.id)}.values())
    shown, rest = choose(named)
    left_off = Counter(chain.state.value for chain in rest)
    return JobNode(job, [ChainNode(chain) for chain in shown], dict(left_off))


def choose(named: Sequence[Chain[Any]]) -> tuple[list[Chain[Any]], list[Chain[Any]]]:
    """Those to show, in the order given, and the others. Where there are too many, chains that have
    not completed go first: they are what a job waits for."""
    by_interest = sorted(named, key=lambda chain: chain.state is ChainState.COMPLETED)
    shown = {chain.id for chain in by_interest[:MOST_BLOCKERS]}
    return (
        [chain for chain in named if chain.id in shown],
        [chain for chain in named if chain.id not in shown],
    )


def is_deleted(chain: Chain[Any]) -> bool:
    """Whether only its id is known any more."""
    return not chain.task
