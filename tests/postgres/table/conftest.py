"""A desk on both servers, or on one where the version makes no difference."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.postgres.cluster import Cluster
from tests.postgres.table.desk import Desk, desk_on


@pytest.fixture
def desk(pg: Cluster) -> Iterator[Desk]:
    """An empty schema on 16, then on 18."""
    with desk_on(pg) as desk:
        yield desk


@pytest.fixture
def desk18(pg18: Cluster) -> Iterator[Desk]:
    with desk_on(pg18) as desk:
        yield desk
