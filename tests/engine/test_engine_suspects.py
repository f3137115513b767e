"""Jobs whose workers died: which of them run beside which."""

from __future__ import annotations

import asyncio

import pytest

from tests.engine.engine_kit import Bench, virtual, wait_until
from windlass import Context, JobState
from windlass.store.records import ClaimRequest, NewJob


async def taken_down(bench: Bench, count: int, deaths: int, max_resets: int = 5) -> None:
    """So many jobs, all of which were held by so many workers that died."""
    await bench.ledger.enqueue([NewJob("t") for _ in range(count)])
    for number in range(deaths):
        worker = f"dead-{number}"
        request = ClaimRequest(worker, ("t",), count, suspects=count)
        assert len(await bench.ledger.claim(request)) == count
        await bench.ledger.unlock([worker], max_resets)


class Gate:
    """A task whose jobs run until they are let out, one by one."""

    def __init__(self, bench: Bench) -> None:
        self.running: set[int] = set()
        self.most = 0
        self._out: set[int] = set()

        @bench.app.task
        async def t(ctx: Context) -> None:
            self.running.add(ctx.job.id)
            self.most = max(self.most, len(self.running))
            while ctx.job.id not in self._out:
                await asyncio.sleep(0.1)
            self.running.discard(ctx.job.id)

    async def let_out(self) -> int:
        """Let the one that runs end; which it was."""
        await wait_until(lambda: len(self.running) > 0)
        [job_id] = self.running
        self._out.add(job_id)
        await wait_until(lambda: job_id not in self.running)
        return job_id


@virtual
async def test_the_jobs_of_a_dead_worker_all_start_again_at_once(bench: Bench) -> None:
    gate = Gate(bench)
    await taken_down(bench, 4, deaths=1)
    await bench.start(grace=0)
    await asyncio.sleep(1)
    assert len(gate.running) == 4


@pytest.mark.parametrize(("deaths", "max_resets"), [(2, 5), (3, 5), (1, 1)])
@virtual
async def test_jobs_that_were_there_when_two_workers_died_run_one_at_a_time(
    bench: Bench, deaths: int, max_resets: int
) -> None:
    """The next death is then counted against one of them alone."""
    gate = Gate(bench)
    await taken_down(bench, 4, deaths, max_resets)
    runner = await bench.start(max_resets=max_resets, grace=0)
    ended = []
    for left in (3, 2, 1, 0):
        await wait_until(lambda: len(gate.running) > 0)
        await asyncio.sleep(5)
        counts = await bench.ledger.counts()
        assert (counts[JobState.RUNNING], counts[JobState.READY]) == (1, left)
        ended.append(await gate.let_out())
    assert sorted(ended) == [1, 2, 3, 4]
    assert gate.most == 1
    await bench.idle()
    await runner.stop()


@virtual
async def test_other_jobs_run_beside_a_suspect(bench: Bench) -> None:
    gate = Gate(bench)
    await taken_down(bench, 2, deaths=2)
    await bench.start(grace=0)
    await asyncio.sleep(1)
    for _ in range(3):
        await bench.add("t")
    await asyncio.sleep(5)
    assert len(gate.running) == 4, "one of the two, and the three new ones"


@virtual
async def test_a_suspect_starts_soon_beside_an_endless_backlog(bench: Bench) -> None:
    started_after: list[int] = []
    quick_jobs = 0
    suspect_since: int | None = None

    @bench.app.task
    async def victim() -> None:
        # It may start before the loop below has seen it ready: that is soon enough.
        started_after.append(0 if suspect_since is None else quick_jobs - suspect_since)

    @bench.app.task
    async def quick() -> None:
        nonlocal quick_jobs
        quick_jobs += 1
        await asyncio.sleep(0.001)

    await bench.ledger.enqueue([NewJob("victim", priority=-10)])
    [lease] = await bench.ledger.claim(ClaimRequest("dead", ("victim",), 1, lease=1))
    await quick.aenqueue_many([{}] * 3_000)
    await bench.start(concurrency=10, reap_interval=0.5)
    while not started_after and quick_jobs < 40_000:
        counts = await bench.ledger.counts()
        if counts[JobState.READY] < 3_000:
            await quick.aenqueue_many([{}] * 1_000)
        job = await bench.ledger.get(lease.job_id)
        if suspect_since is None and job is not None and job.state is JobState.READY:
            suspect_since = quick_jobs
        await asyncio.sleep(0.005)
    assert started_after, f"{quick_jobs} quick jobs ran before the suspect"
    assert started_after[0] <= 5_000, "ten slots run 10,000 in a second"


@virtual
async def test_a_job_that_takes_workers_down_is_parked_alone(bench: Bench) -> None:
    """Workers that die as soon as they run job 2, and neighbours that take their time."""
    await bench.ledger.enqueue([NewJob("t") for _ in range(4)])
    deaths = 0
    done: set[int] = set()
    while (await bench.ledger.counts())[JobState.READY]:
        deaths += await _one_life(bench, done)
    assert deaths == 3
    failed = await bench.app.client.get_job(2)
    assert failed is not None
    assert (failed.state, failed.resets) == (JobState.FAILED, 2)
    assert done == {1, 3, 4}


async def _one_life(bench: Bench, done: set[int]) -> bool:
    """Whether a worker died of what there was to do."""
    app = bench.new_app()
    dead = asyncio.Event()

    @app.task
    async def t(ctx: Context) -> None:
        if ctx.job.id == 2:
            await asyncio.sleep(1)
            dead.set()
        await asyncio.sleep(3)
        done.add(ctx.job.id)

    runner = await bench.start(app, max_resets=2, reap_interval=3600, grace=0)
    waits = [asyncio.ensure_future(bench.idle()), asyncio.ensure_future(dead.wait())]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    if dead.is_set():
        await bench.ledger.unlock([runner.worker.id], 2)
    for wait in waits:
        wait.cancel()
    await runner.stop()
    return dead.is_set()
