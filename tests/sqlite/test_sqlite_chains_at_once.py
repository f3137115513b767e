"""Real processes over one file: chains end, start and are named at once, and a worker is killed.

Whatever overlaps, each job that waits runs once in effect, and none waits for ever.
"""

from __future__ import annotations

import signal
import subprocess
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.sqlite.sqlite_kit import child, finish, line, opened, plain, run, take, tell
from windlass.model.chain import ChainState
from windlass.model.job import JobState
from windlass.store.records import COMPLETE, ChainFilter, Complete, NewChain, NewJob

pytestmark = pytest.mark.slow

CHAINS = 200
MERGES = 40
BATCH = 7
"""What a worker claims at once; see `child.py`."""
NEVER = 10**9

Process = subprocess.Popen[str]


def kill(process: Process) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("stop_after", "awaited"),
    [(3, "holding"), (NEVER, f"ends {BATCH}")],
    ids=["while-it-holds", "at-any-moment"],
)
def test_jobs_that_wait_for_shared_chains(
    tmp_path: Path, stop_after: int, awaited: str, seed: int
) -> None:
    """Three workers end chains while two other processes name them, and a fourth worker is killed:
    while it holds some, or wherever it is once it has ended some."""
    path = tmp_path / "jobs.db"

    async def set_up() -> None:
        async with opened(path) as store:
            await store.start_chains([NewChain(job=NewJob("t"))] * CHAINS)
            with store.connection() as connection:
                connection.execute("CREATE TABLE merged (job INTEGER)")

    run(set_up())
    total = 2 * MERGES
    victim = child("end_chains", path, "victim", total, stop_after)
    workers = [child("end_chains", path, f"w{n}", total, NEVER) for n in range(3)]
    namers = [child("name_chains", path, MERGES, 100 * seed + n) for n in range(2)]
    everyone = [victim, *workers, *namers]
    try:
        for process in everyone:
            assert line(process) == "here"
        for process in [*namers, victim]:
            tell(process, "go")
        while line(victim) != awaited:
            pass
        for process in workers:
            tell(process, "go")
        kill(victim)
        for process in [*namers, *workers]:
            finish(process)
    finally:
        for process in everyone:
            process.kill()
            process.wait()

    async def check() -> None:
        async with opened(path) as store:
            counts = await store.counts()
            left = {state: count for state, count in counts.items() if count}
            assert left == {}
            chains = await store.find_chains(ChainFilter(limit=CHAINS + 1))
            assert Counter(chain.state for chain in chains) == {ChainState.COMPLETED: CHAINS}

    run(check())
    with closing(plain(path)) as connection:
        merged = [job for (job,) in connection.execute("SELECT job FROM merged")]
        assert len(merged) == len(set(merged)) == total
        assert connection.execute("SELECT count(*) FROM windlass_blockers").fetchone() == (0,)


def _asked(processes: list[Process]) -> Counter[tuple[int, str]]:
    """Have each start its chain, at once; what they were answered."""
    for process in processes:
        tell(process, "go")
    return _answers(processes)


def _answers(processes: list[Process]) -> Counter[tuple[int, str]]:
    told = [line(process).split() for process in processes]
    return Counter((int(chain), how) for chain, how in told)


def test_twenty_processes_start_with_one_key(tmp_path: Path) -> None:
    """One chain, when there is none and when it is at its fifth job; and while it ends it is either
    still the one, or another is, once."""
    path = tmp_path / "jobs.db"

    async def set_up() -> None:
        async with opened(path):
            pass

    run(set_up())
    processes = [child("start_when_told", path, "k") for _ in range(20)]
    try:
        for process in processes:
            assert line(process) == "here"
        answers = _asked(processes)
        [(first, _)] = [answer for answer in answers if answer[1] == "new"]
        assert answers == {(first, "new"): 1, (first, "there"): 19}

        async def to_the_fifth_job() -> None:
            async with opened(path) as store:
                for _ in range(4):
                    [lease] = await take(store)
                    await store.settle([(lease, Complete(next=NewJob("t")))])
                chain = await store.get_chain(first)
                assert chain is not None and chain.length == 5
                assert chain.job is not None and chain.job.state is JobState.READY

        run(to_the_fifth_job())
        assert _asked(processes) == {(first, "there"): 20}

        async def end_meanwhile() -> None:
            async with opened(path) as store:
                [lease] = await take(store)
                for process in processes:
                    tell(process, "go")
                await store.settle([(lease, COMPLETE)])

        run(end_meanwhile())
        answers = _answers(processes)
        for process in processes:
            finish(process)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    new = [chain for chain, how in answers if how == "new"]
    assert len(new) <= 1
    assert {chain for chain, _ in answers} <= {first, *new}

    async def check() -> None:
        async with opened(path) as store:
            states = [chain.state for chain in await store.find_chains(ChainFilter())]
            assert states == [ChainState.OPEN] * len(new) + [ChainState.COMPLETED]

    run(check())
