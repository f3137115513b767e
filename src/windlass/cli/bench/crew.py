"""The bench's worker processes, seen from outside."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from windlass.cli.bench.child import ENVIRONMENT, Orders

_LONGEST_LINE = 1 << 20
_PATIENCE = 60.0
"""Seconds without a word after which a process is given up."""


class BenchFailed(Exception):
    """A measurement that did not come about."""


class Child:
    """One process; `hear` is its next line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.settled = 0
        self.cpu = 0.0

    async def hear(self, patience: float = _PATIENCE) -> dict[str, Any]:
        assert self._process.stdout is not None
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), patience)
        except TimeoutError:
            raise BenchFailed(f"a process said nothing for {patience:g} s") from None
        if not line:
            raise BenchFailed(f"a process ended early (exit code {await self._process.wait()})")
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def hear_of(self, name: str) -> dict[str, Any]:
        """The next line that tells about `name`."""
        while name not in (line := await self.hear()):
            pass
        return line

    def begin(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")

    def finish(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    async def wait(self, patience: float = _PATIENCE) -> None:
        """Return when it has ended."""
        try:
            code = await asyncio.wait_for(self._process.wait(), patience)
        except TimeoutError:
            raise BenchFailed(f"a process did not end in {patience:g} s") from None
        if code:
            raise BenchFailed(f"a process ended with exit code {code}")

    async def kill(self) -> None:
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def hired(mode: str, orders: Orders, count: int = 1) -> AsyncIterator[list[Child]]:
    """So many processes; whatever happens they are gone after the block."""
    children: list[Child] = []
    try:
        for _ in range(count):
            children.append(await _start(orders, "windlass.cli.bench.child", mode))
        yield children
    finally:
        for child in children:
            await child.kill()


async def run_once(orders: Orders) -> None:
    """`windlass run --once`, from its start to its end."""
    child = await _start(
        orders, "windlass", "run", "windlass.cli.bench.once:app", "--once", "--log-level", "warning"
    )
    try:
        await child.wait()
    finally:
        await child.kill()


async def import_driver(orders: Orders) -> None:
    """A process that does nothing but import what any such program needs."""
    driver = "sqlite3" if orders.address.url.startswith("sqlite:") else "psycopg"
    child = Child(await _execute(orders, "-c", f"import asyncio, {driver}"))
    try:
        await child.wait()
    finally:
        await child.kill()


async def _start(orders: Orders, module: str, *arguments: str) -> Child:
    return Child(await _execute(orders, "-m", module, *arguments))


async def _execute(orders: Orders, *arguments: str) -> asyncio.subprocess.Process:
    # The URL is not an argument, since all users of the machine can read those.
    environment = {**os.environ, ENVIRONMENT: msgspec.json.encode(orders).decode()}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", *arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        limit=_LONGEST_LINE,
        start_new_session=True,
    )


async def all_ready(children: list[Child]) -> None:
    await asyncio.gather(*(child.hear_of("ready") for child in children))


def begin(children: list[Child]) -> int:
    """Let all of them work; the moment, by the monotonic clock."""
    now = time.monotonic_ns()
    for child in children:
        child.begin()
    return now


async def all_settled(children: list[Child], jobs: int) -> int:
    """Wait until they have settled so many jobs together; the moment of the last one."""
    last = 0

    async def listen(child: Child) -> None:
        nonlocal last
        while True:
            line = await child.hear()
            if "settled" in line:
                child.settled, child.cpu = line["settled"], line["cpu"]
                last = max(last, line["at"])
            if sum(each.settled for each in children) >= jobs:
                return

    listening = {asyncio.ensure_future(listen(child)) for child in children}
    try:
        done, _ = await asyncio.wait(listening, return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()
    finally:
        for each in listening:
            each.cancel()
        await asyncio.gather(*listening, return_exceptions=True)
    return last
