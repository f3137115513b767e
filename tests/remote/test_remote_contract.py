"""The contract suite through a server, in front of the memory store and of SQLite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

pytest.register_assert_rewrite("windlass.testing.contract")

from tests.remote.serving import serving  # noqa: E402
from windlass.clock import Clock  # noqa: E402
from windlass.store.port import Store  # noqa: E402
from windlass.stores.memory import MemoryStore  # noqa: E402
from windlass.stores.sqlite import SqliteStore  # noqa: E402
from windlass.testing import contract  # noqa: E402


def memory(clock: Clock, folder: Path) -> Store:
    return MemoryStore(clock)


def sqlite(clock: Clock, folder: Path) -> Store:
    return SqliteStore(folder / "jobs.db", clock=clock)


@pytest.mark.parametrize("case", contract.cases(), ids=str)
@pytest.mark.parametrize("store", [memory, sqlite], ids=lambda make: make.__name__)
def test_contract(
    case: contract.Case, store: Callable[[Clock, Path], Store], tmp_path: Path
) -> None:
    @contextmanager
    def fresh(clock: Clock) -> Iterator[Callable[[], Store]]:
        with serving(store(clock, tmp_path)) as served:
            yield served.remote

    def factory(clock: Clock) -> AbstractContextManager[Callable[[], Store]]:
        return fresh(clock)

    contract.run(case, factory)
