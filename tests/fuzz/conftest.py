"""Three stores with a worker each; afterwards all workers must still be alive."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests import leaks
from tests.fuzz.kit import Site, quiet_asyncio
from tests.postgres.cluster import destroy_shared_clusters, fresh_schema, shared_cluster
from windlass.engine import pruner


def pytest_unconfigure() -> None:
    destroy_shared_clusters()


@pytest.fixture(scope="session", autouse=True)
def no_settings_from_outside() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(("WINDLASS_", "PG")) or name == "DATABASE_URL":
                patch.delenv(name)
        yield


@pytest.fixture(scope="module")
@leaks.grows
def three(
    no_settings_from_outside: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Site]]:
    file = tmp_path_factory.mktemp("fuzz") / "jobs.db"
    with pytest.MonkeyPatch.context() as patch, fresh_schema(shared_cluster(18)) as schema:
        # A worker that removed jobs meanwhile would change the counts.
        patch.setattr(pruner, "INTERVAL", 86_400.0)
        made = [
            Site("memory", "memory://"),
            Site("sqlite", f"sqlite:///{file}", synchronous="normal"),
            Site("postgres", schema.url, schema=schema.name),
        ]
        for site in made:
            site.start()
        yield made
        for site in made:
            site.stop()


@pytest.fixture
def sites(three: list[Site]) -> Iterator[list[Site]]:
    """The three stores; afterwards their workers complete one job more."""
    with quiet_asyncio():
        yield three
        for site in three:
            site.run(site.check_alive())
