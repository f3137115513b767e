"""Servers that the bench starts for itself: `windlass serve`, and the bare echo."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from windlass.cli.bench.crew import BenchFailed
from windlass.cli.bench.site import Address

_PATIENCE = 60.0
_HOST = "127.0.0.1"


class Served:
    """A server's process."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self._process = process
        self.port = port
        """Of its streams."""

    @property
    def cpu(self) -> float | None:
        """Seconds of CPU that it has used, where /proc tells."""
        try:
            stat = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii")
        except OSError:
            return None
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def until_it_listens(self, patience: float = _PATIENCE) -> None:
        ends = time.monotonic() + patience
        while True:
            with suppress(OSError):
                _, writer = await asyncio.open_connection(_HOST, self.port)
                writer.close()
                await writer.wait_closed()
                return
            if self._process.returncode is not None:
                raise BenchFailed(f"a server ended early (exit code {self._process.returncode})")
            if time.monotonic() > ends:
                raise BenchFailed(f"a server did not listen after {patience:g} s")
            await asyncio.sleep(0.01)

    async def finish(self, patience: float = _PATIENCE) -> None:
        """End its input, and wait until it has ended, too."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), patience)
        except TimeoutError:
            raise BenchFailed(f"a server did not end in {patience:g} s") from None

    async def kill(self) -> None:
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def windlass_serve(address: Address) -> AsyncIterator[Served]:
    """`windlass serve` over that database, on ports of this machine alone. Like a direct worker's,
    its jobs are gone when they are completed."""
    port = free_port()
    environment = {
        **os.environ,
        "WINDLASS_URL": address.url,
        "WINDLASS_SCHEMA": address.schema,
        "WINDLASS_SYNCHRONOUS": address.synchronous,
    }
    arguments = (
        *("-m", "windlass", "serve", "--log-level", "error", "--keep", "0"),
        *("--bind", f"{_HOST}:{free_port()}", "--grpc-bind", f"{_HOST}:{port}"),
    )
    async with _started(port, environment, *arguments) as served:
        yield served


@asynccontextmanager
async def bare_echo() -> AsyncIterator[Served]:
    port = free_port()
    text = f"from windlass.cli.bench.echo import serve; serve({port})"
    async with _started(port, dict(os.environ), "-c", text) as served:
        yield served
        await served.finish()


@asynccontextmanager
async def _started(
    port: int, environment: dict[str, str], *arguments: str
) -> AsyncIterator[Served]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )
    served = Served(process, port)
    try:
        await served.until_it_listens()
        yield served
    finally:
        await served.kill()


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port
