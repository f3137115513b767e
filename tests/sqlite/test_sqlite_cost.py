"""What a batch costs in statements and in pages written, which no machine changes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.sqlite.sqlite_kit import jobs, opened, run, take
from windlass.store.records import COMPLETE, NewJob
from windlass.store.server import Request

BATCH = 500
FRAME = 4096 + 24
"""Bytes of the write-ahead log for each page written."""


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The first word of each statement on any connection made from now on."""
    seen: list[str] = []
    connect = sqlite3.connect

    def traced(*args: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **options)
        connection.set_trace_callback(lambda sql: seen.append(sql.split()[0]))
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    return seen


def test_each_verb_is_one_transaction_of_few_statements(
    tmp_path: Path, statements: list[str]
) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db") as store:
            await store.enqueue(jobs(1))
            await take(store)  # from here on the worker is known
            statements.clear()
            await store.enqueue(jobs(BATCH))
            assert statements == ["BEGIN", "INSERT", "COMMIT"]
            statements.clear()
            leases = await take(store, limit=BATCH)
            assert statements == ["BEGIN", "SELECT", "UPDATE", "COMMIT"]
            statements.clear()
            await store.settle([(lease, COMPLETE) for lease in leases])
            assert statements == ["BEGIN", "DELETE", "COMMIT"]

    run(scenario())


def test_one_job_that_is_posted_leaves_the_others_quick(
    tmp_path: Path, statements: list[str]
) -> None:
    """Only its own row is read, and the job that posts its end is added."""

    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db") as store:
            await store.enqueue(jobs(BATCH))
            await store.enqueue(jobs(1, meta='{"webhook":"https://example.org/"}'))
            leases = await take(store, limit=BATCH + 1)
            assert len(leases) == BATCH + 1
            statements.clear()
            await store.settle([(lease, COMPLETE) for lease in leases])
            for_the_one = ["SELECT", "SELECT", "DELETE", "INSERT"]
            assert statements == ["BEGIN", "DELETE", *for_the_one, "COMMIT"]

    run(scenario())


def test_requests_are_added_in_few_statements(tmp_path: Path, statements: list[str]) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db") as store:
            requests = [Request(f"k{n}", "d", (NewJob("t"),)) for n in range(BATCH)]
            statements.clear()
            await store.enqueue_once(requests)
            assert statements == ["BEGIN", "SELECT", "INSERT", "INSERT", "COMMIT"]
            statements.clear()
            await store.enqueue_once(requests)
            assert statements == ["BEGIN", "SELECT", "SELECT", "SELECT", "COMMIT"]

    run(scenario())


def test_a_claim_that_finds_nothing_is_a_look(tmp_path: Path, statements: list[str]) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db") as store:
            await take(store)
            statements.clear()
            assert await take(store) == []
            assert statements == ["SELECT"]

    run(scenario())


def test_pages_written_for_a_batch(tmp_path: Path) -> None:
    log = tmp_path / "jobs.db-wal"

    @contextmanager
    def at_most(pages: int) -> Iterator[None]:
        before = log.stat().st_size
        yield
        assert 0 < (log.stat().st_size - before) / FRAME <= pages

    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db") as store:
            for _ in range(3):
                await store.enqueue(jobs(BATCH))
            with at_most(25):
                await store.enqueue(jobs(BATCH))
            await take(store, limit=BATCH)
            with at_most(28):
                leases = await take(store, limit=BATCH)
            with at_most(22):
                await store.settle([(lease, COMPLETE) for lease in leases])

    run(scenario())
