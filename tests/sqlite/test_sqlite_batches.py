"""The ways only large or odd batches take."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.sqlite.sqlite_kit import jobs, opened, plain, run, take
from windlass.errors import StoreError, StoreUnavailableError
from windlass.model.job import JobState
from windlass.store.records import COMPLETE, ClaimRequest, NewJob, Settled, Verdict
from windlass.stores.migrations import Migration
from windlass.stores.sqlite import schema

DONE = Settled(Verdict.APPLIED, JobState.COMPLETED)


def test_deliveries_of_many_claims_are_settled_together(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db") as store:
            await store.enqueue([*jobs(6), *jobs(2, queue="q")])
            leases = [(await take(store, limit=1))[0] for _ in range(7)]
            assert await store.settle([(lease, COMPLETE) for lease in leases]) == [DONE] * 7
            [last] = await take(store)
            again = [(lease, COMPLETE) for lease in (*leases, last)]
            missing = [Settled(Verdict.MISSING)] * 7
            assert await store.settle(again) == [*missing, DONE]
            assert sum((await store.counts()).values()) == 0

    run(scenario())


def test_a_worker_may_know_very_many_tasks(tmp_path: Path) -> None:
    tasks = tuple(f"task {number}" for number in range(150))

    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db") as store:
            new = [NewJob(task, priority=-place % 7) for place, task in enumerate(tasks)]
            added = await store.enqueue([*new, NewJob("foreign", priority=-9)])
            await store.pause(task=tasks[5])
            wanted = [job for job in added if job.task not in ("foreign", tasks[5])]
            wanted.sort(key=lambda job: (job.priority, job.run_at, job.id))
            leases = await store.claim(ClaimRequest(worker="w", tasks=tasks, limit=100))
            assert [lease.job_id for lease in leases] == [job.id for job in wanted[:100]]
            rest = await store.claim(ClaimRequest(worker="w", tasks=tasks, limit=100))
            assert [lease.job_id for lease in rest] == [job.id for job in wanted[100:]]

    run(scenario())


def test_large_payloads_go_in_several_pieces_of_one_transaction(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db") as store:
            text = "x" * 200_000
            new = [NewJob("t", f'{{"n":{n},"text":"{text}"}}') for n in range(45)]
            before = store.commits
            added = await store.enqueue(new)
            assert store.commits == before + 1
            assert [job.payload["n"] for job in added] == list(range(45))
            leases = await take(store)
            assert [lease.payload for lease in leases] == [job.payload for job in new]

    run(scenario())


def test_other_calls_go_on_beside_a_file_that_breaks(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"

    async def scenario() -> None:
        async with opened(path) as store:
            await store.enqueue(jobs(1))
            with closing(plain(path)) as connection:
                connection.execute("ALTER TABLE windlass_paused RENAME TO elsewhere")
                connection.commit()
            answers = await asyncio.gather(
                store.paused(), take(store), store.counts(), return_exceptions=True
            )
            assert [isinstance(answer, StoreError) for answer in answers] == [True, True, False]

    run(scenario())


def test_a_migration_that_fails_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "jobs.db"
    real = schema.migrations()
    broken = Migration(
        len(real) + 1, "broken", False, "CREATE TABLE windlass_new (n);\nCREATE NONSENSE;"
    )

    async def attempt() -> None:
        async with opened(path):
            pass

    monkeypatch.setattr(schema, "migrations", lambda: (*real, broken))
    with pytest.raises(StoreError, match="NONSENSE"):
        run(attempt())
    with closing(plain(path)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE name LIKE 'windlass_%'")
        assert tables.fetchall() == []
    monkeypatch.undo()
    run(attempt())


def test_a_newer_migration_is_applied_to_an_older_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "jobs.db"
    real = schema.migrations()
    more = Migration(
        len(real) + 1, "more", False, "ALTER TABLE windlass_jobs ADD COLUMN novelty TEXT;"
    )

    async def add() -> None:
        async with opened(path) as store:
            await store.enqueue(jobs(1, key="k"))
            assert len(await take(store)) == 1

    run(add())
    with monkeypatch.context() as newer:
        newer.setattr(schema, "migrations", lambda: (*real, more))
        run(add())
    run(add())
    with closing(plain(path)) as connection:
        assert connection.execute("SELECT novelty FROM windlass_jobs").fetchone() == (None,)


def test_a_handlers_plain_connection_waits_for_its_turn(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"

    async def scenario() -> None:
        async with opened(path, busy_timeout=0.05) as store:
            with closing(plain(path, isolation_level=None)) as holder:
                holder.execute("BEGIN IMMEDIATE")
                with store.connection() as connection:
                    with pytest.raises(sqlite3.OperationalError):
                        connection.execute("CREATE TABLE own (n)")
                holder.execute("ROLLBACK")
            with store.connection() as connection:
                connection.execute("CREATE TABLE own (n)")
                connection.execute("INSERT INTO own VALUES (1)")
            with store.connection() as connection:
                assert connection.execute("SELECT n FROM own").fetchall() == [(1,)]

    run(scenario())


def test_a_file_that_vanished_with_its_folder_is_told_in_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()

    async def scenario() -> None:
        async with opened(folder / "jobs.db") as store:
            for file in folder.iterdir():
                file.unlink()
            folder.rmdir()
            with pytest.raises(StoreUnavailableError, match="does not exist"):
                store.lifeline()

    run(scenario())
