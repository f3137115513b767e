"""A store says whether its workers promote, reap and prune, or another program does."""

from __future__ import annotations

import asyncio

import msgspec

from tests.engine.engine_kit import Bench, virtual, wait_until
from windlass.model.job import JobState
from windlass.store.records import Capabilities, ClaimRequest, NewJob
from windlass.testing import FaultyStore

UPKEEP = {"promote", "next_due", "reap", "prune"}


class Tended(FaultyStore):
    """A store whose upkeep another program does."""

    @property
    def capabilities(self) -> Capabilities:
        return msgspec.structs.replace(self.inner.capabilities, upkeep=False)


def tended(bench: Bench) -> Bench:
    bench.store = Tended(bench.ledger)
    bench.app = bench.new_app()

    @bench.app.task
    async def t(n: int) -> None:
        bench.seen.append(n)

    return bench


async def fill(bench: Bench) -> None:
    """A job for each kind of upkeep, and one that needs none."""
    await bench.ledger.enqueue([NewJob("t", '{"n": 0}', keep=1.0)])
    await bench.ledger.claim(ClaimRequest("dead", ("t",), 1, lease=1.0))
    await bench.add("t", {"n": 1}, delay=5)
    await bench.add("t", {"n": 2}, keep=1)


@virtual
async def test_a_worker_does_the_upkeep_of_its_store(bench: Bench) -> None:
    @bench.app.task
    async def t(n: int) -> None:
        bench.seen.append(n)

    await fill(bench)
    await bench.start()
    await asyncio.sleep(600)
    assert sorted(bench.seen) == [0, 1, 2]
    assert set(bench.store.calls) >= UPKEEP


@virtual
async def test_a_worker_leaves_upkeep_to_the_program_that_does_it(bench: Bench) -> None:
    await fill(tended(bench))
    await bench.start()
    await asyncio.sleep(600)
    assert bench.seen == [2]
    assert UPKEEP.isdisjoint(bench.store.calls)
    counts = await bench.ledger.counts()
    states = JobState.RUNNING, JobState.SCHEDULED, JobState.COMPLETED
    assert [counts[state] for state in states] == [1, 1, 1]

    assert await bench.ledger.promote(10) == 1
    assert (await bench.ledger.reap(10, 5)).total == 1
    await wait_until(lambda: sorted(bench.seen) == [0, 1, 2])


@virtual
async def test_once_runs_what_the_other_program_made_ready(bench: Bench) -> None:
    await fill(tended(bench))
    await asyncio.sleep(6)
    assert await bench.app.run_once() == 1
    assert bench.seen == [2]
    assert UPKEEP.isdisjoint(bench.store.calls)


@virtual
async def test_a_job_that_is_soon_due_wakes_no_promoter(bench: Bench) -> None:
    await bench.start(tended(bench).app)
    await bench.add("t", {"n": 1}, delay=1)
    await asyncio.sleep(60)
    assert bench.seen == []
    assert UPKEEP.isdisjoint(bench.store.calls)
