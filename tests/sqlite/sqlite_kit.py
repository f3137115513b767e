"""What the tests of the SQLite store share."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

from tests.patience import PATIENCE
from windlass import App
from windlass.clock import SYSTEM, Clock
from windlass.store.records import ClaimRequest, Lease, NewJob
from windlass.stores.sqlite import SqliteStore

CHILD = Path(__file__).with_name("child.py")
"""Seconds after which waiting for something that must happen is given up."""

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def guarded(app: App, body: Callable[[], Awaitable[Any]]) -> Any:
    async def whole() -> Any:
        async with app:
            return await asyncio.wait_for(body(), PATIENCE)

    return asyncio.run(whole())


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
    options = {"tasks": ("t", "u"), "suspects": 100, **more}
    return await store.claim(ClaimRequest(worker=worker, limit=limit, **options))


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


def script(text: str, *arguments: object) -> Any:
    """Run a program of its own; the JSON it printed last. A crash is a failed test."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(text), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr}"
    return json.loads(done.stdout.splitlines()[-1])


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
