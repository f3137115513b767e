"""What the tests of the SQLite store share."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

from tests.patience import PATIENCE
from windlass.clock import SYSTEM, Clock
from windlass.store.records import ClaimRequest, Lease, NewJob
from windlass.stores.sqlite import SqliteStore

CHILD = Path(__file__).with_name("child.py")
"""Seconds after which waiting for something that must happen is given up."""

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


@asynccontextmanager
async def opened(
    path: Path,
    *,
    clock: Clock = SYSTEM,
    synchronous: Literal["full", "normal"] = "normal",
    busy_timeout: float = 30.0,
) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path, clock=clock, synchronous=synchronous, busy_timeout=busy_timeout)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def take(store: SqliteStore, worker: str = "w", limit: int = 100, **more: Any) -> list[Lease]:
    request = ClaimRequest(
        worker=worker, tasks=("t", "u"), limit=limit, **{"suspects": 100, **more}
    )
    return await store.claim(request)


def jobs(number: int, **options: Any) -> list[NewJob]:
    return [NewJob(task="t", payload=f'{{"n":{n}}}', **options) for n in range(number)]


async def until(true: Callable[[], bool]) -> None:
    """Wait for something to become true; the test's own deadline is the last resort."""
    deadline = SYSTEM.monotonic() + PATIENCE
    while not true():
        assert SYSTEM.monotonic() < deadline, "it never happened"
        await asyncio.sleep(0.002)


def child(command: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    """A real process of its own; see child.py for what it can do."""
    return subprocess.Popen(
        [sys.executable, str(CHILD), command, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def finish(process: subprocess.Popen[str], said: str = "") -> str:
    """Let it end; what it printed."""
    out, err = process.communicate(said, timeout=PATIENCE)
    assert process.returncode == 0, err
    return out


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    text = process.stdout.readline()
    assert text, process.stderr.read() if process.stderr else ""
    return text.strip()


def tell(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdin is not None
    process.stdin.write(text + "\n")
    process.stdin.flush()


def plain(path: Path, **options: Any) -> sqlite3.Connection:
    """A user's own connection."""
    connection: sqlite3.Connection = sqlite3.connect(path, **options)
    return connection
