"""One server over each kind of database for all tests that do it no harm, and fresh tenants."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.postgres.cluster import destroy_shared_clusters, fresh_database, shared_cluster
from tests.server.foreign.program import Server, Tenant, serving
from tests.server.foreign.streams import warm_up


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Real servers that are started, killed and waited for: left to `make test-all`."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.slow)


STORES = ("sqlite", "postgres")

_numbers = itertools.count(1)


def pytest_unconfigure() -> None:
    destroy_shared_clusters()


@contextmanager
def fresh_url(kind: str, folder: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{folder}/jobs.db"
    else:
        with fresh_database(shared_cluster(18)) as url:
            yield url


@pytest.fixture(scope="session", autouse=True)
def grpc_threads() -> None:
    warm_up()


@pytest.fixture(scope="package", params=STORES)
def shared_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, grpc_threads: None
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp(f"serve-{request.param}")
    large = ("--max-payload", "2000000")
    with fresh_url(request.param, folder) as url, serving(url, folder, *large) as made:
        yield made


@pytest.fixture
def server(shared_server: Server) -> Iterator[Server]:
    """A server that all tests share. Do not stop it: `own` is for that."""
    yield shared_server
    shared_server.close_streams()


@pytest.fixture
def tenant(server: Server) -> Tenant:
    """A tenant that no other test has."""
    return server.tenant(f"tenant-{next(_numbers)}")


@pytest.fixture
def other(server: Server, tenant: Tenant) -> Tenant:
    return server.tenant(f"tenant-{next(_numbers)}")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.rig)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database, for tests that start and end their own servers."""
    with fresh_url(request.param, tmp_path) as url:
        yield url


@pytest.fixture
def own(url: str, tmp_path: Path) -> Iterator[Server]:
    """A server for one test, which may do with it what it likes."""
    with serving(url, tmp_path) as made:
        yield made


@pytest.fixture
def file_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"
