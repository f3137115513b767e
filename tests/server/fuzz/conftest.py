"""A server on a file, with a good worker on it that completes a job after every example."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings

from tests import leaks
from tests.server.foreign.program import Server, serving, until
from tests.server.foreign.reliable import ReliableWorker
from tests.server.foreign.streams import Producer, warm_up

SECONDS = float(os.environ.get("FUZZ_SECONDS", "0"))
"""How long each test goes on; 0 means a few examples, always the same ones."""
_GROWTH = 60e6
"""Bytes by which a server may grow; one that keeps what it is sent grows by much more."""


class Site:
    """The server, and what must still be true of it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.token_tenant = "fuzz"
        self._good = ReliableWorker(server, "good", "good").start()
        self._producer: Producer = server.tenant("good").producer()
        self._added = 0
        self._resident: int | None = None

    def check(self) -> None:
        """The good streams live, and complete a job that is added now."""
        self._producer.add("good")
        self._added += 1
        until("the good worker's job", lambda: len(self._good.accepted) >= self._added)
        assert self._good.connections == 1, "the good worker's stream broke"
        assert self.server.process.poll() is None

    def measure(self) -> None:
        """After the first examples the server's memory stays what it is."""
        now = resident(self.server.process.pid)
        if self._resident is None:
            self._resident = now
        assert now - self._resident < _GROWTH, f"{self._resident} bytes became {now}"

    def close(self) -> None:
        self._good.stop()


def resident(pid: int) -> int:
    """Bytes of a process and of those that it started."""
    total = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        total += resident(int(child))
    return total


def fuzz(strategy: Any, example: Callable[[Any], None], few: int, seconds: float = SECONDS) -> None:
    """So many examples and always the same ones, or new ones for `FUZZ_SECONDS`."""

    def run(number: int | None, count: int) -> None:
        decorate: Any = given(strategy)
        plan = settings(
            max_examples=count,
            derandomize=number is None,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        test: Any = plan(decorate(example))
        if number is not None:
            seed(number)(test)
        test()

    if not seconds:
        run(None, few)
        return
    number, ends = time.time_ns(), time.monotonic() + seconds
    while time.monotonic() < ends:
        print(f"seed {number}")
        run(number, min(50, few))
        number += 1


@pytest.fixture(scope="session", autouse=True)
def grpc_threads() -> None:
    warm_up()


@pytest.fixture(scope="module")
@leaks.grows
def site(tmp_path_factory: pytest.TempPathFactory, grpc_threads: None) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("fuzz")
    with serving(f"sqlite:///{folder}/jobs.db", folder) as server:
        made = Site(server)
        try:
            yield made
        finally:
            made.close()
