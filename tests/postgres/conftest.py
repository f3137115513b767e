"""Fixtures over real servers: one of each version for a process, started when first asked for.

Tests in other folders use the same servers through `shared_cluster`, `fresh_database` and
`fresh_schema` of `tests.postgres.cluster`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.postgres.cluster import (
    Cluster,
    Schema,
    destroy_shared_clusters,
    fresh_database,
    fresh_schema,
    shared_cluster,
)
from tests.postgres.versions import VERSIONS


def pytest_unconfigure() -> None:
    destroy_shared_clusters()


@pytest.fixture(scope="session")
def pg16() -> Cluster:
    """The shared PostgreSQL 16; do not stop it: make your own with `Cluster.create(16)`."""
    return shared_cluster(16)


@pytest.fixture(scope="session")
def pg18() -> Cluster:
    """The shared PostgreSQL 18; do not stop it: make your own with `Cluster.create(18)`."""
    return shared_cluster(18)


@pytest.fixture(scope="session", params=VERSIONS)
def pg(request: pytest.FixtureRequest) -> Cluster:
    """The shared servers of both versions, one after the other; see `VERSIONS`."""
    return shared_cluster(request.param)


@pytest.fixture
def database(pg: Cluster) -> Iterator[str]:
    """The URL of a fresh empty database on `pg`, dropped afterwards with its connections."""
    with fresh_database(pg) as url:
        yield url


@pytest.fixture
def schema(pg: Cluster) -> Iterator[Schema]:
    """A fresh schema name in the one shared database of `pg`; dropped afterwards if made."""
    with fresh_schema(pg) as schema:
        yield schema
