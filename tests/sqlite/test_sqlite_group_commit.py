"""Calls that wait together are committed together, and fail alone."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from tests.sqlite.sqlite_kit import jobs, opened, plain, run, take, until
from windlass.errors import StoreError
from windlass.model.job import JobState
from windlass.store.records import COMPLETE, NewJob
from windlass.stores.sqlite.connection import Session


def _refuse_bad_jobs(path: Path) -> None:
    connection = plain(path)
    connection.execute(
        "CREATE TRIGGER refuse BEFORE INSERT ON windlass_jobs"
        " WHEN new.task = 'bad' BEGIN SELECT raise(ABORT, 'no bad jobs'); END"
    )
    connection.commit()
    connection.close()


def test_many_calls_are_few_commits(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db", synchronous="full") as store:
            before = store.commits
            added = await asyncio.gather(*[store.enqueue(jobs(1)) for _ in range(200)])
            assert store.commits - before < 20
            assert len({job.id for [job] in added}) == 200

    run(scenario())


def test_what_comes_while_the_lock_is_awaited_goes_along(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"

    async def scenario() -> None:
        async with opened(path) as store:
            before = store.commits
            with closing(plain(path, isolation_level=None)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                calls = []
                for _ in range(5):
                    calls.append(asyncio.create_task(store.enqueue(jobs(1))))
                    await store.counts()  # a read: the writer has seen the call before it
                connection.execute("ROLLBACK")
            await asyncio.gather(*calls)
            assert store.commits - before == 1

    run(scenario())


def test_a_bad_call_fails_alone(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"

    async def scenario() -> None:
        async with opened(path) as store:
            _refuse_bad_jobs(path)
            before = store.commits
            calls = [jobs(2), [NewJob("t"), NewJob("bad")], jobs(3), [NewJob("bad")], jobs(1)]
            answers = await asyncio.gather(*map(store.enqueue, calls), return_exceptions=True)
            assert store.commits - before < len(calls)
            assert [isinstance(answer, StoreError) for answer in answers] == [
                False, True, False, True, False
            ]  # fmt: skip
            assert "no bad jobs" in str(answers[1])
            assert (await store.counts())[JobState.READY] == 6

    run(scenario())


def test_a_bad_call_alone(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"

    async def scenario() -> None:
        async with opened(path) as store:
            _refuse_bad_jobs(path)
            with pytest.raises(StoreError, match="no bad jobs"):
                await store.enqueue([NewJob("t"), NewJob("bad")])
            assert (await store.counts())[JobState.READY] == 0

    run(scenario())


def test_a_failed_commit_fails_everybody_and_stores_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = Session.control
    broken = threading.Event()

    def fail_commit(self: Session, sql: str) -> None:
        if sql == "COMMIT" and broken.is_set():
            raise sqlite3.OperationalError("disk I/O error")
        control(self, sql)

    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db") as store:
            monkeypatch.setattr(Session, "control", fail_commit)
            broken.set()
            answers = await asyncio.gather(
                *[store.enqueue(jobs(1)) for _ in range(5)], return_exceptions=True
            )
            assert all(isinstance(answer, StoreError) for answer in answers)
            broken.clear()
            assert sum((await store.counts()).values()) == 0
            assert len(await store.enqueue(jobs(1))) == 1

    run(scenario())


def test_a_cancelled_call_breaks_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db") as store:
            calls = [asyncio.create_task(store.enqueue(jobs(1))) for _ in range(10)]
            await asyncio.sleep(0)
            for call in calls[::2]:
                call.cancel()
            answers = await asyncio.gather(*calls, return_exceptions=True)
            assert [isinstance(a, asyncio.CancelledError) for a in answers] == [True, False] * 5
            assert len(await store.enqueue(jobs(1))) == 1

    run(scenario())


def test_a_cancelled_claim_hands_its_jobs_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db") as store:
            await store.enqueue(jobs(3))
            claiming = asyncio.create_task(take(store))
            await asyncio.sleep(0)
            claiming.cancel()
            with pytest.raises(asyncio.CancelledError):
                await claiming
            leases = await take(store)
            while not leases:
                leases = await take(store)
            assert [lease.attempts for lease in leases] == [1, 1, 1]
            assert len(leases) == 3

    run(scenario())


def test_several_event_loops_share_a_store(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db") as store:
            errors: list[BaseException] = []

            def produce() -> None:
                async def many() -> None:
                    await asyncio.gather(*[store.enqueue(jobs(2)) for _ in range(20)])

                try:
                    asyncio.run(many())
                except BaseException as error:
                    errors.append(error)

            threads = [threading.Thread(target=produce) for _ in range(3)]
            for thread in threads:
                thread.start()
            await asyncio.gather(*[store.enqueue(jobs(2)) for _ in range(20)])
            await until(lambda: not any(thread.is_alive() for thread in threads))
            assert errors == []
            assert (await store.counts())[JobState.READY] == 160

    run(scenario())


def test_a_loop_that_went_away_breaks_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db") as store:

            def leave_early() -> None:
                loop = asyncio.new_event_loop()
                task = loop.create_task(store.enqueue(jobs(1)))
                loop.run_until_complete(asyncio.sleep(0))
                task.cancel()
                loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
                loop.close()

            await asyncio.to_thread(leave_early)
            await store.enqueue(jobs(1))
            leases = await take(store)
            await store.settle([(lease, COMPLETE) for lease in leases])
            assert sum((await store.counts()).values()) == 0

    run(scenario())


def test_a_very_large_call_is_one_transaction(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"

    async def scenario() -> None:
        async with opened(path) as store:
            _refuse_bad_jobs(path)
            before = store.commits
            added = await store.enqueue(jobs(5000))
            assert [job.id for job in added] == list(range(1, 5001))
            assert [job.payload["n"] for job in added] == list(range(5000))
            assert store.commits == before + 1
            with pytest.raises(StoreError):
                await store.enqueue([*jobs(3000), NewJob("bad")])
            assert (await store.counts())[JobState.READY] == 5000
            found = await store.get(4321)
            assert found == added[4320]

    run(scenario())
