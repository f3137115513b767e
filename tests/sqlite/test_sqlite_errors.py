"""One clear error for everything that may be wrong with a file."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.sqlite.sqlite_kit import child, finish, jobs, opened, plain, run
from windlass.errors import (
    ConfigError,
    StoreBusyError,
    StoreClosedError,
    StoreError,
    StoreUnavailableError,
)
from windlass.store.records import NewJob
from windlass.stores.sqlite import SqliteStore
from windlass.stores.sqlite.connection import translate


def _refusal(path: Path) -> str:
    with pytest.raises(StoreUnavailableError) as caught:
        run(SqliteStore(path).open())
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_something_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to look at " * 100)
    assert "is not a Windlass database or is damaged" in _refusal(path)
    assert path.read_text().startswith("not a database")


def test_a_damaged_database(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"

    async def fill() -> None:
        async with opened(path) as store:
            await store.enqueue(jobs(2000))

    run(fill())
    raw = bytearray(path.read_bytes())
    raw[100:4000] = b"\xff" * 3900
    path.write_bytes(raw)
    assert "damaged" in _refusal(path)


def test_a_directory_that_does_not_exist(tmp_path: Path) -> None:
    assert "does not exist" in _refusal(tmp_path / "missing" / "jobs.db")


def test_a_directory_instead_of_a_file(tmp_path: Path) -> None:
    assert "is a directory" in _refusal(tmp_path)


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that an ordinary user can reach, which no other pytest process locks again.

    pytest keeps `tmp_path` for its own user, and each start of it takes away what a test has
    opened there.
    """
    with tempfile.TemporaryDirectory(prefix="windlass-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.mark.parametrize("which", ["file", "folder"])
def test_what_may_only_be_read(public_folder: Path, which: str) -> None:
    folder = public_folder / "data"
    folder.mkdir()
    path = folder / "jobs.db"

    async def make() -> None:
        async with opened(path):
            pass

    run(make())
    path.chmod(0o444 if which == "file" else 0o666)
    folder.chmod(0o777 if which == "file" else 0o555)
    said = finish(child("attempt", path))
    assert said == (
        f"StoreUnavailableError: {path} is read-only; make the file and its directory writable\n"
    )
    folder.chmod(0o755)


@pytest.mark.parametrize("path", ["", ":memory:"])
def test_a_store_needs_a_file(path: str) -> None:
    with pytest.raises(ConfigError, match="memory://"):
        SqliteStore(path)


def test_an_unknown_durability_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="full or normal"):
        SqliteStore(tmp_path / "jobs.db", synchronous="off")  # type: ignore[arg-type]


def test_an_old_sqlite_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 37, 2))
    with pytest.raises(ConfigError, match=r"3\.38\.0 or newer"):
        run(SqliteStore(tmp_path / "jobs.db").open())


def test_nobody_can_write_for_too_long(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"

    async def scenario() -> None:
        async with opened(path, busy_timeout=0.1) as store:
            with closing(plain(path, isolation_level=None)) as holder:
                holder.execute("BEGIN IMMEDIATE")
                refused = await asyncio.gather(
                    store.enqueue(jobs(1)), store.enqueue(jobs(1)), return_exceptions=True
                )
                assert [type(error) for error in refused] == [StoreBusyError] * 2
                assert "held" in str(refused[0]) and "locked" not in str(refused[0])
                assert len(set(map(id, refused))) == 2
                holder.execute("ROLLBACK")
            assert len(await store.enqueue(jobs(1))) == 1

    run(scenario())


def test_a_full_disk_is_told_as_such(tmp_path: Path) -> None:
    with closing(plain(tmp_path / "small.db")) as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.execute("PRAGMA max_page_count = 3")
        with pytest.raises(sqlite3.OperationalError) as caught:
            connection.execute("INSERT INTO t VALUES (zeroblob(100000))")
    error = translate(caught.value, "small.db")
    assert type(error) is StoreError
    assert "full" in str(error)


def test_a_store_that_is_not_open_says_so(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "jobs.db")

    async def scenario() -> None:
        for call in (store.enqueue(jobs(1)), store.enqueue([]), store.settle([]), store.counts()):
            with pytest.raises(StoreClosedError):
                await call
        with pytest.raises(StoreClosedError):
            store.lifeline()

    run(scenario())


def test_a_file_that_became_a_directory_is_refused_and_may_be_opened_later(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    path.mkdir()

    async def scenario() -> None:
        store = SqliteStore(path)
        with pytest.raises(StoreUnavailableError):
            await store.open()
        path.rmdir()
        await store.open()
        assert len(await store.enqueue([NewJob("t")])) == 1
        await store.close()

    run(scenario())
