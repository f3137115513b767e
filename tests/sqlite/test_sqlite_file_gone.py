"""A file that is deleted, moved, replaced or truncated while it is open: nothing is lost unsaid."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.sqlite.sqlite_kit import jobs, opened, plain, run, take, until
from windlass.errors import StoreBusyError, StoreUnavailableError
from windlass.model.job import JobState
from windlass.store.records import COMPLETE, JobFilter, Lease, LostReason, Renewal, Verdict
from windlass.stores.sqlite import SqliteStore
from windlass.stores.sqlite import connection as connections


def delete(path: Path) -> None:
    path.unlink()


def move(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))


async def put_another(path: Path, number: int = 0) -> None:
    """Another database in its place, as a restored backup is; of its jobs "w" holds all."""
    fresh = path.with_name("fresh.db")
    async with opened(fresh) as store:
        await store.enqueue(jobs(number))
        await take(store)
    for name in (f"{path}-wal", f"{path}-shm"):
        Path(name).unlink(missing_ok=True)
    fresh.rename(path)


def stored(path: Path) -> set[int]:
    """The jobs that somebody who comes now finds."""
    with closing(plain(path)) as connection:
        return {row[0] for row in connection.execute("SELECT id FROM windlass_jobs")}


@pytest.mark.parametrize("remove", [delete, move])
def test_a_job_is_not_acknowledged_when_its_file_is_gone(
    tmp_path: Path, remove: Callable[[Path], None]
) -> None:
    path = tmp_path / "jobs.db"

    async def scenario() -> None:
        async with opened(path) as store:
            await store.enqueue(jobs(1))
            remove(path)
            for _ in range(3):
                with pytest.raises(StoreUnavailableError, match="was deleted or moved away while"):
                    await store.enqueue(jobs(1))
        assert not path.exists(), "nobody makes an empty one in its place"

    run(scenario())


def test_a_file_that_goes_in_the_middle_of_a_commit(tmp_path: Path) -> None:
    """It is looked at after the commit, so that no answer is given for a job nobody can find."""
    path = tmp_path / "jobs.db"

    async def scenario() -> None:
        async with opened(path) as store:
            with pytest.raises(StoreUnavailableError, match="was deleted or moved away while"):
                await store._submit(lambda db, now: path.unlink())

    run(scenario())


def test_a_file_that_goes_in_the_middle_of_a_renewal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease was renewed where no reaper looks any more, so it was not."""
    path = tmp_path / "jobs.db"

    async def scenario() -> None:
        async with opened(path) as store:
            await store.enqueue(jobs(1))
            held = await take(store)
            keeper = store.lifeline()
            real = keeper._answer

            def answer(leases: Sequence[Lease]) -> Renewal:
                path.unlink()
                return real(leases)

            monkeypatch.setattr(keeper, "_answer", answer)
            with pytest.raises(StoreUnavailableError, match="was deleted or moved away while"):
                keeper.renew("w", 30.0, held)

    run(scenario())


def test_what_is_acknowledged_is_in_the_file_that_is_there(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"

    async def scenario() -> set[int]:
        async with opened(path) as store:
            await store.enqueue(jobs(10))
            path.unlink()
            with pytest.raises(StoreUnavailableError):
                await store.enqueue(jobs(1))
            await put_another(path)
            acknowledged = {job.id for job in await store.enqueue(jobs(3))}
            assert (await store.counts())[JobState.READY] == 3
            return acknowledged

    assert run(scenario()) == stored(path) == {1, 2, 3}


def test_reads_do_not_tell_of_a_file_that_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"

    async def scenario() -> None:
        async with opened(path) as store:
            [job] = await store.enqueue(jobs(1))
            path.unlink()

            async def is_refused() -> bool:
                try:
                    await store.get(job.id)
                except StoreUnavailableError as error:
                    return "was deleted" in str(error)
                return False

            while not await is_refused():
                pass
            for call in (store.counts(), store.find(JobFilter()), store.workers(), take(store)):
                with pytest.raises(StoreUnavailableError, match="was deleted"):
                    await call

    run(scenario())


def test_a_worker_that_only_listens_says_that_its_file_is_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "jobs.db"

    async def scenario() -> None:
        async with opened(path) as store:
            hints: list[None] = []
            store.subscribe(lambda: hints.append(None))
            with caplog.at_level(logging.WARNING, "windlass.sqlite"):
                path.unlink()
                await until(lambda: "was deleted or moved away while" in caplog.text)
                await put_another(path)
                await until(lambda: "the file that is there now" in caplog.text)
            told = [record for record in caplog.records if "was deleted" in record.message]
            assert len(told) == 1, "once, not each time it looks"
            hints.clear()
            async with opened(path) as other:
                await other.enqueue(jobs(1))
            await until(lambda: bool(hints))
            assert len(await take(store)) == 1

    run(scenario())


def test_a_delivery_from_the_old_file_is_lost_in_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"

    async def scenario() -> None:
        async with opened(path) as store:
            await store.enqueue(jobs(1))
            [lease] = await take(store)
            keeper = store.lifeline()
            keeper.renew("w", 30.0, [lease])
            path.unlink()
            with pytest.raises(StoreUnavailableError, match="was deleted"):
                keeper.renew("w", 30.0, [lease])
            with pytest.raises(StoreUnavailableError, match="was deleted"):
                keeper.check("w", [lease])
            await put_another(path, 1)
            assert keeper.check("w", [lease]).lost == {
                lease.job_id: LostReason.TAKEN_BY_ANOTHER_WORKER
            }
            assert keeper.renew("w", 30.0, [lease]).lost.keys() == {lease.job_id}
            with suppress(StoreUnavailableError):  # it may be the call that notices
                await store.settle([(lease, COMPLETE)])
            assert (await store.settle([(lease, COMPLETE)]))[0].verdict is Verdict.LOST

    run(scenario())


def test_a_handlers_writes_into_a_file_that_is_gone_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"

    async def scenario() -> None:
        async with opened(path) as store:
            await store.enqueue(jobs(2))
            first, second = await take(store)
            with (
                pytest.raises(StoreUnavailableError, match="was deleted"),
                store.connection() as connection,
            ):
                connection.execute("CREATE TABLE own (n)")
                connection.execute("INSERT INTO own VALUES (1)")
                path.rename(tmp_path / "aside.db")
            (tmp_path / "aside.db").rename(path)
            with (
                pytest.raises(StoreUnavailableError, match="was deleted"),
                store.transaction(first) as transaction,
            ):
                transaction.complete(COMPLETE)
                path.unlink()
            for use in (store.connection(), store.transaction(second)):
                with pytest.raises(StoreUnavailableError), use:
                    pass
            assert not path.exists(), "a handler's connection makes no new file"

    run(scenario())


def test_a_file_that_was_emptied_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite takes it for a new database that somebody holds, and would say that it is locked."""
    path = tmp_path / "jobs.db"
    monkeypatch.setattr(connections, "SWITCH_LIMIT", 0.05)

    async def scenario() -> None:
        async with opened(path) as store:
            await store.enqueue(jobs(1))
            with closing(plain(path)) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            os.truncate(path, 0)
            with pytest.raises(StoreUnavailableError, match="was emptied"):
                await store.enqueue(jobs(1))
            with pytest.raises(StoreUnavailableError, match="is empty, and another program"):
                await SqliteStore(path).open()

    run(scenario())


def test_a_strangers_database_that_is_in_use_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "own.db"
    monkeypatch.setattr(connections, "SWITCH_LIMIT", 0.05)
    with closing(sqlite3.connect(path, isolation_level=None)) as stranger:
        stranger.execute("CREATE TABLE own (n)")
        stranger.execute("BEGIN")
        stranger.execute("SELECT * FROM own").fetchall()
        with pytest.raises(StoreBusyError, match="write-ahead log while another program"):
            run(SqliteStore(path).open())
