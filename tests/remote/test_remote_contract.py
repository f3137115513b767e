"""The contract suite through a server: in front of the memory store, and of SQLite.

It asks as an admin, who may do the upkeep and see all tenants, as the suite does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.register_assert_rewrite("windlass.testing.contract")

from tests.remote.serving import serving  # noqa: E402
from windlass.clock import Clock  # noqa: E402
from windlass.store.port import Store  # noqa: E402
from windlass.testing import contract  # noqa: E402

CASES = contract.cases()


def _run(case: contract.Case, url: str) -> None:
    @contextmanager
    def fresh(clock: Clock) -> Iterator[Callable[[], Store]]:
        with serving(url, clock) as served:
            yield served.remote

    contract.run(case, fresh)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_in_front_of_memory(case: contract.Case) -> None:
    _run(case, "memory://")


@pytest.mark.rig
@pytest.mark.parametrize("case", CASES, ids=str)
def test_in_front_of_sqlite(case: contract.Case, tmp_path: Path) -> None:
    _run(case, f"sqlite:///{tmp_path}/jobs.db")
