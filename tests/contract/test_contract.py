"""The contract suite, bound to the stores of this repository."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

pytest.register_assert_rewrite("windlass.testing.contract")

from windlass.clock import Clock  # noqa: E402
from windlass.store.port import Store  # noqa: E402
from windlass.stores.memory import MemoryStore  # noqa: E402
from windlass.stores.sqlite import SqliteStore  # noqa: E402
from windlass.testing import contract  # noqa: E402

CASES = contract.cases()


def memory(clock: Clock, folder: Path) -> Store:
    return MemoryStore(clock)


def sqlite(clock: Clock, folder: Path) -> Store:
    return SqliteStore(folder / "jobs.db", clock=clock)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("store", [memory, sqlite], ids=lambda make: make.__name__)
def test_contract(
    case: contract.Case, store: Callable[[Clock, Path], Store], tmp_path: Path
) -> None:
    def fresh(clock: Clock) -> AbstractContextManager[Callable[[], Store]]:
        return nullcontext(lambda: store(clock, tmp_path))

    contract.run(case, fresh)


def test_every_case_has_its_own_name() -> None:
    assert len({str(case) for case in CASES}) == len(CASES)


def test_the_suite_is_complete_enough() -> None:
    assert len(CASES) >= 140
