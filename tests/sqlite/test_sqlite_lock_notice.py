"""Who holds the write lock: one of ours, or a stranger."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.sqlite.sqlite_kit import jobs, opened, plain, run, take
from windlass.clock import SYSTEM
from windlass.stores.sqlite.connection import Session, connect
from windlass.stores.sqlite.lock_notice import LockNotice
from windlass.stores.sqlite.locking import begin


@pytest.fixture
def path(tmp_path: Path) -> Iterator[str]:
    """A database whose log is there for as long as the test lasts."""
    path = tmp_path / "jobs.db"

    async def make() -> None:
        async with opened(path):
            pass

    run(make())
    with closing(plain(path)) as connection:
        connection.execute("SELECT count(*) FROM windlass_jobs")
        yield str(path)


def test_a_notice_is_seen_by_others_until_it_is_withdrawn(path: str) -> None:
    with (
        closing(LockNotice(path)) as first,
        closing(LockNotice(path)) as second,
        closing(LockNotice(path)) as third,
    ):
        assert third.is_alone()
        first.post()
        second.post()
        assert not third.is_alone()
        first.withdraw()
        assert not third.is_alone()
        second.close()
        assert third.is_alone()


def test_a_look_takes_nothing(path: str) -> None:
    with closing(LockNotice(path)) as one, closing(LockNotice(path)) as other:
        assert one.is_alone()
        other.post()
        assert not one.is_alone()
        other.withdraw()
        assert one.is_alone()
        assert other.is_alone()


def test_without_a_log_everybody_is_a_stranger(tmp_path: Path) -> None:
    with closing(LockNotice(str(tmp_path / "no.db"))) as notice:
        notice.post()
        assert notice.is_alone()
        notice.withdraw()


def _wait_for(path: str, let_go: Callable[[], object], tries: int = 1) -> Session:
    """Begin behind somebody who lets go of the lock after so many tries."""
    left = tries

    def meanwhile(delay: float) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            let_go()

    with closing(connect(path, "full")) as connection, closing(LockNotice(path)) as notice:
        db = Session(connection)
        begin(db, SYSTEM, path, 30.0, notice, meanwhile)
        assert db.waited
        return db


@pytest.fixture
def holder(path: str) -> Iterator[sqlite3.Connection]:
    with closing(connect(path, "full")) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


def test_a_transaction_without_a_notice_is_a_strangers(
    path: str, holder: sqlite3.Connection
) -> None:
    assert _wait_for(path, holder.rollback).met_stranger


def test_one_of_ours_is_no_stranger(path: str, holder: sqlite3.Connection) -> None:
    with closing(LockNotice(path)) as notice:
        notice.post()
        assert not _wait_for(path, holder.rollback, 20).met_stranger


def test_one_of_ours_that_has_just_gone_is_no_stranger(
    path: str, holder: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its notice is there before the lock is asked for, and gone when it is looked for again."""
    with closing(LockNotice(path)) as notice:
        notice.post()
        look = LockNotice.is_alone

        def look_and_go(self: LockNotice) -> bool:
            try:
                return look(self)
            finally:
                notice.withdraw()

        monkeypatch.setattr(LockNotice, "is_alone", look_and_go)
        assert not _wait_for(path, holder.rollback).met_stranger


def test_no_notice_is_left_behind(path: str) -> None:
    """Neither by the writer, nor by a lifeline, nor by a transaction of a handler's own."""

    async def scenario() -> None:
        async with opened(Path(path)) as store:
            await store.enqueue(jobs(1))
            [lease] = await take(store)
            lifeline = store.lifeline()
            lifeline.renew("w", 30.0, [lease])
            with closing(LockNotice(path)) as notice:
                await store.counts()  # the writer has done whatever follows a commit
                assert notice.is_alone()
                with store.transaction(lease):
                    assert notice.is_alone(), "how long it lasts is up to the user"
            lifeline.close()

    run(scenario())
