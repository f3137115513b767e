"""A real `windlass serve` process for tests, its ports, and tokens for it."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

import windlass
from tests.cli.program import WINDLASS, Process
from tests.patience import PATIENCE
from windlass import App
from windlass.clock import SYSTEM
from windlass.server.tokens import digest_of, make_token
from windlass.store.server import Token

SOURCES = str(Path(windlass.__file__).parents[1])
"""So that a process runs the code under test, wherever else there is another Windlass."""
_PORTS = re.compile(r"REST on (https?://\S+), streams on (\S+)")


class Served:
    """A server on a file. `rest` is the URL of its REST port, `streams` is where its streams are
    (`host:port`), `app` an app on the same jobs."""

    def __init__(self, folder: Path, *arguments: str, url: str | None = None) -> None:
        self.folder = folder
        self.url = url or f"sqlite:///{folder / 'jobs.db'}"
        self.app = App(self.url)
        self._arguments = arguments
        self._names = 0
        self.process = self._start("127.0.0.1:0", "127.0.0.1:0")
        self.rest, self.streams = self._ports()

    def _start(self, rest: str, streams: str) -> Process:
        given = ("-c", self.url, "--bind", rest, "--grpc-bind", streams, *self._arguments)
        return start_windlass(self.folder, "serve", *given)

    def _ports(self) -> tuple[str, str]:
        self.process.wait_for_line("streams on")
        found = _PORTS.search(self.process.output)
        assert found is not None, self.process.output
        return found.group(1), found.group(2)

    def start_again(self) -> None:
        """After it ended: the same server on the same ports."""
        self.process.end()
        self.process = self._start(self.rest.partition("//")[2], self.streams)
        self._ports()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Its exit code."""
        self.process.send(number)
        return self.process.wait()

    # ── callers ──

    def token(self, *roles: str, tenant: str = "", tasks: tuple[str, ...] | None = None) -> str:
        """A new token in the database; of the role admin if none is named."""
        text = make_token()
        self._names += 1
        made = Token(
            name=f"token-{self._names}",
            digest=digest_of(text),
            tenant=tenant,
            roles=roles or ("admin",),
            tasks=tasks,
            created_at=SYSTEM.now(),
        )
        assert self.call(lambda store: store.add_token(made))
        return text

    def call(self, verb: Callable[[Any], Any]) -> Any:
        """What a verb of the store answers: `served.call(lambda store: store.tokens())`."""

        async def run() -> Any:
            await self.app.open()
            return await verb(self.app.store)

        return self.app._portal.call(run())

    @contextmanager
    def caller(self, token: str | None = None, **more: Any) -> Iterator[httpx.Client]:
        """An HTTP client of the REST port."""
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        with httpx.Client(
            base_url=self.rest, headers=headers, trust_env=False, timeout=PATIENCE, **more
        ) as client:
            yield client

    def close(self) -> None:
        self.process.end()
        self.app._portal.call(self.app.store.close())
        self.app._portal.close()


def start_windlass(folder: Path, *arguments: str, **environment: str) -> Process:
    """A windlass command as a process of its own."""
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("WINDLASS_", "PG")) and name != "DATABASE_URL"
    }
    command = (sys.executable, *WINDLASS[1:], *arguments)
    return Process(command, folder, {**ours, "PYTHONPATH": SOURCES, **environment})
