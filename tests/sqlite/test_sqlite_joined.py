"""Jobs added inside the caller's own transaction."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE
from tests.sqlite.sqlite_kit import jobs, opened, plain, run, take, until
from windlass.errors import ConfigError, StoreBusyError, StoreUnavailableError
from windlass.model.job import JobState
from windlass.store.records import NewJob
from windlass.stores.sqlite import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    async def scenario() -> None:
        async with opened(tmp_path / "app.db"):
            pass

    run(scenario())
    return tmp_path / "app.db"


@pytest.fixture(params=["", "IMMEDIATE", None], ids=["legacy", "immediate", "autocommit"])
def connection(path: Path, request: pytest.FixtureRequest) -> Iterator[sqlite3.Connection]:
    with closing(plain(path, isolation_level=request.param)) as connection:
        connection.execute("CREATE TABLE orders (n)")
        connection.commit()
        yield connection


def _ready(path: Path) -> int:
    with closing(plain(path)) as connection:
        [count] = connection.execute(
            "SELECT count(*) FROM windlass_jobs WHERE state IN ('ready', 'waiting')"
        ).fetchone()
    return int(count)


def _begin(connection: sqlite3.Connection) -> None:
    """What a careful user does where Python does not begin transactions itself."""
    if connection.isolation_level is None:
        connection.execute("BEGIN")


def test_the_job_exists_when_the_transaction_commits(
    path: Path, connection: sqlite3.Connection
) -> None:
    _begin(connection)
    connection.execute("INSERT INTO orders VALUES (1)")
    [job] = SqliteStore(path).joined(connection).enqueue([NewJob("t", '{"n":1}')])
    assert connection.in_transaction
    assert (job.task, job.payload, job.state) == ("t", {"n": 1}, JobState.READY)
    assert _ready(path) == 0
    connection.commit()
    assert _ready(path) == 1


def test_the_job_is_gone_when_the_transaction_rolls_back(
    path: Path, connection: sqlite3.Connection
) -> None:
    _begin(connection)
    SqliteStore(path).joined(connection).enqueue(
        [NewJob("t", queue="q"), NewJob("t", key="k"), NewJob("t", "1")]
    )
    connection.rollback()
    assert _ready(path) == 0


def test_without_a_transaction_of_its_own_autocommit_commits_at_once(path: Path) -> None:
    with closing(plain(path, isolation_level=None)) as connection:
        SqliteStore(path).joined(connection).enqueue(jobs(3))
        assert not connection.in_transaction
    assert _ready(path) == 3


def test_a_refused_job_leaves_the_callers_writes_alone(
    path: Path, connection: sqlite3.Connection
) -> None:
    _begin(connection)
    connection.execute("INSERT INTO orders VALUES (1)")
    connection.execute(
        "CREATE TEMP TRIGGER refuse BEFORE INSERT ON main.windlass_jobs"
        " WHEN new.task = 'bad' BEGIN SELECT raise(ABORT, 'no bad jobs'); END"
    )
    joined = SqliteStore(path).joined(connection)
    with pytest.raises(Exception, match="no bad jobs"):
        joined.enqueue([NewJob("t"), NewJob("bad")])
    joined.enqueue([NewJob("t")])
    connection.commit()
    assert connection.execute("SELECT n FROM orders").fetchall() == [(1,)]
    assert _ready(path) == 1


def test_the_callers_factories_are_left_alone(path: Path, connection: sqlite3.Connection) -> None:
    connection.row_factory = sqlite3.Row
    connection.text_factory = bytes
    _begin(connection)
    joined = SqliteStore(path).joined(connection)
    [first] = joined.enqueue([NewJob("t", '{"é":"ü"}', key="k", flags=("x",))])
    [again] = joined.enqueue([NewJob("t", '{"é":"ö"}', key="k", flags=("x",))])
    connection.commit()
    assert (again.id, again.revision, again.payload) == (first.id, 1, {"é": "ö"})
    row = connection.execute("SELECT task FROM windlass_jobs").fetchone()
    assert isinstance(row, sqlite3.Row)
    assert row["task"] == b"t"


def test_workers_notice_the_commit(path: Path) -> None:
    async def scenario() -> None:
        async with opened(path) as store:
            hinted: list[int] = []
            stop = store.subscribe(lambda: hinted.append(1))
            await until(lambda: bool(hinted))
            with closing(plain(path)) as connection:
                store.joined(connection).enqueue(jobs(2))
                hinted.clear()
                assert (await store.counts())[JobState.READY] == 0
                connection.commit()
            await until(lambda: bool(hinted))
            assert len(await take(store)) == 2
            stop()

    run(scenario())


def test_another_file_is_refused(path: Path, tmp_path: Path) -> None:
    with closing(plain(tmp_path / "other.db")) as other:
        with pytest.raises(ConfigError, match=r"other\.db, not .*app\.db"):
            SqliteStore(path).joined(other)
    with closing(sqlite3.connect(":memory:")) as other:
        with pytest.raises(ConfigError, match="in memory"):
            SqliteStore(path).joined(other)


@pytest.mark.parametrize("thing", [None, "jobs.db", object()], ids=["none", "text", "object"])
def test_something_else_than_a_connection_is_refused(path: Path, thing: Any) -> None:
    with pytest.raises(ConfigError, match=r"sqlite3\.Connection"):
        SqliteStore(path).joined(thing)


def test_a_file_without_our_tables_is_refused(tmp_path: Path) -> None:
    with closing(plain(tmp_path / "new.db")) as connection:
        connection.execute("CREATE TABLE orders (n)")
        with pytest.raises(StoreUnavailableError, match="windlass migrate"):
            SqliteStore(tmp_path / "new.db").joined(connection)


def test_a_locked_file_is_busy_in_our_own_words(path: Path) -> None:
    with closing(plain(path, isolation_level=None)) as holder:
        with closing(plain(path, timeout=0.01)) as connection:
            joined = SqliteStore(path).joined(connection)
            holder.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreBusyError):
                joined.enqueue(jobs(1))
            assert not connection.in_transaction
            holder.execute("ROLLBACK")
            joined.enqueue(jobs(1))
            connection.commit()
    assert _ready(path) == 1


def test_a_joined_serial_queue_stays_serial(path: Path) -> None:
    async def scenario() -> None:
        async with opened(path) as store:
            await store.enqueue(jobs(1, queue="q"))
            with closing(plain(path)) as connection:
                store.joined(connection).enqueue([NewJob("t", queue="q", priority=-1)])
                connection.commit()
            [lease] = await take(store)
            assert lease.priority == -1
            for leases in await asyncio.gather(take(store), take(store)):
                assert leases == []

    run(scenario())


def test_a_keyed_job_joined_in_autocommit_waits_for_a_busy_writer(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"

    async def make() -> None:
        async with opened(path):
            pass

    run(make())
    enough = threading.Event()
    written = 0

    def own_connection() -> sqlite3.Connection:
        connection = plain(path, isolation_level=None, timeout=30)
        connection.execute("PRAGMA synchronous = OFF")  # many short transactions, no disk
        return connection

    def write() -> None:
        nonlocal written
        with closing(own_connection()) as connection:
            connection.execute("CREATE TABLE own (n)")
            while not enough.is_set():
                connection.execute("INSERT INTO own VALUES (1)")
                written += 1
                enough.wait(0.0002)  # the lock must be free now and then

    writer = threading.Thread(target=write)
    writer.start()
    try:
        run(until(lambda: written > 0))
        with closing(own_connection()) as connection:
            joined = SqliteStore(path).joined(connection)
            for number in range(200):
                joined.enqueue([NewJob("t", key=f"k{number % 50}")])
            [rows] = connection.execute("SELECT count(*) FROM windlass_jobs").fetchone()
    finally:
        enough.set()
        writer.join(PATIENCE)
    assert rows == 50
