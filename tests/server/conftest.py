"""Servers for tests: one for a module, and those that a test starts for itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.leaks import grows
from tests.server.served import Served

Serve = Callable[..., Served]


@pytest.fixture(scope="module")
@grows
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One `windlass serve` on SQLite for all tests of a module. It has tokens as soon as a test
    makes one: tests of calls without a token start their own."""
    server = Served(tmp_path_factory.mktemp("served"))
    yield server
    server.close()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts servers for one test: `serve("--grace", "5")`."""
    started: list[Served] = []

    def start(*arguments: str, url: str | None = None) -> Served:
        folder = tmp_path / f"server-{len(started)}"
        folder.mkdir()
        started.append(Served(folder, *arguments, url=url))
        return started[-1]

    yield start
    for server in started:
        server.close()
