"""What was acknowledged is there, whatever happens to the process."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from tests.patience import PATIENCE
from tests.sqlite.sqlite_kit import child, finish, jobs, line, opened, plain, run, take, tell
from windlass.model.job import JobState
from windlass.store.records import JobFilter


def test_acknowledged_jobs_survive_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    process = child("enqueue_forever", path)
    acknowledged: set[int] = set()
    while len(acknowledged) < 150:
        acknowledged.update(map(int, line(process).split()))
    process.send_signal(signal.SIGKILL)
    rest, _ = process.communicate(timeout=PATIENCE)
    whole_lines = rest.rpartition("\n")[0]
    acknowledged.update(int(word) for word in whole_lines.split())

    async def scenario() -> None:
        async with opened(path) as store:
            found = {job.id for job in await store.find(JobFilter(limit=10**6))}
            assert acknowledged <= found
            assert len(found) % 3 == 0, "each call added all of its three jobs or none"
            [job] = await store.enqueue(jobs(1))
            assert job.id > max(found)

    run(scenario())
    connection = plain(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


def test_what_a_killed_worker_held_is_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"

    async def scenario() -> None:
        async with opened(path) as store:
            added = await store.enqueue(jobs(3))
            process = child("hold", path, "victim")
            assert await asyncio.to_thread(line, process) == "3"
            process.kill()
            process.communicate(timeout=PATIENCE)
            assert (await store.reap(10, 5)).total == 0, "its lease has not ended yet"
            taken = await store.unlock(["victim"], 5)
            assert [job.id for job in taken] == [job.id for job in added]
            assert [lease.job_id for lease in await take(store)] == [job.id for job in added]

    run(scenario())


def test_a_closed_store_opens_again_with_everything_in_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db") as store:
            await store.enqueue(jobs(3))
            await store.close()
            await store.close()
            await store.open()
            await store.open()
            assert (await store.counts())[JobState.READY] == 3

    run(scenario())


def test_close_finishes_what_was_asked_before(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db") as store:
            calls = [asyncio.create_task(store.enqueue(jobs(2))) for _ in range(20)]
            await asyncio.sleep(0)
            await store.close()
            assert sum(len(added) for added in await asyncio.gather(*calls)) == 40
            await store.open()
            assert (await store.counts())[JobState.READY] == 40

    run(scenario())


def test_two_processes_run_a_serial_queue_one_at_a_time(tmp_path: Path) -> None:
    path, log = tmp_path / "jobs.db", tmp_path / "log"
    number = 150

    async def fill() -> list[int]:
        async with opened(path) as store:
            return [job.id for job in await store.enqueue(jobs(number, queue="q"))]

    ids = run(fill())
    processes = [child("work_serially", path, name, log) for name in ("one", "two")]
    for process in processes:
        assert line(process) == "here"
    for process in processes:
        tell(process, "go")
    for process in processes:
        finish(process)
    expected = [word for job_id in ids for word in (f"start {job_id}", f"end {job_id}")]
    assert log.read_text().splitlines() == expected
