"""The contract suite on real servers: PostgreSQL 16 and 18, and through a transaction pooler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import psycopg
import pytest

pytest.register_assert_rewrite("windlass.testing.contract")

from tests.postgres.cluster import (  # noqa: E402
    Cluster,
    Version,
    available_versions,
    shared_cluster,
)
from tests.postgres.pooler import (  # noqa: E402
    POOLERS,
    PgBouncer,
    TransactionPooler,
    pooler_named,
)
from windlass.clock import Clock  # noqa: E402
from windlass.store.port import Store  # noqa: E402
from windlass.stores.postgres import PostgresStore  # noqa: E402
from windlass.stores.postgres.schema import prepare  # noqa: E402
from windlass.testing import contract  # noqa: E402

CASES = contract.cases()
SCHEMA = "contract"
CORE = ("claim", "keys", "queues", "reap", "settle", "transactions")
BOUND: list[tuple[Version, contract.Case]] = [
    (version, case)
    for version in available_versions()
    for case in CASES
    if version == 16 or (version == "system" and case.group in CORE)
]
"""All of the suite on one server, and its core on the machine's own where it has one."""

EMPTY = """
DROP TABLE IF EXISTS handlers_own;
TRUNCATE contract._jobs, contract._history, contract._batches, contract._workers,
  contract._clocks, contract._bells, contract._paused, contract._schedules;
"""


def _database(cluster: Cluster) -> str:
    """The database of this suite on a server, with its schema installed once."""
    try:
        url = cluster.create_database("contract")
    except psycopg.errors.DuplicateDatabase:
        return cluster.url("contract")
    with psycopg.connect(url, autocommit=True) as connection:
        prepare(connection, SCHEMA, "auto")
    return url


@contextmanager
def _fresh(cluster: Cluster, make: Callable[[], Store]) -> Iterator[Callable[[], Store]]:
    with psycopg.connect(_database(cluster), autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute(EMPTY)
    yield make


def _direct(
    cluster: Cluster, clock: Clock, *, least_batch: int | None = None
) -> AbstractContextManager[Callable[[], Store]]:
    def make() -> Store:
        store = PostgresStore(cluster.url("contract"), schema_name=SCHEMA, clock=clock)
        if least_batch is not None:
            store.least_batch = least_batch
        return store

    return _fresh(cluster, make)


@pytest.mark.parametrize(("version", "case"), BOUND, ids=str)
def test_contract(version: Version, case: contract.Case) -> None:
    contract.run(case, lambda clock: _direct(shared_cluster(version), clock))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_contract_with_every_claim_a_batch(case: contract.Case) -> None:
    contract.run(case, lambda clock: _direct(shared_cluster(18), clock, least_batch=1))


@pytest.fixture(scope="module", params=POOLERS)
def pooler(request: pytest.FixtureRequest) -> Iterator[TransactionPooler | PgBouncer]:
    cluster = shared_cluster(18)
    _database(cluster)
    with pooler_named(request.param, "127.0.0.1", cluster.port, "contract", size=8) as one:
        yield one


@pytest.mark.parametrize("case", CASES, ids=str)
def test_contract_through_a_pooler(
    case: contract.Case, pooler: TransactionPooler | PgBouncer
) -> None:
    def make(clock: Clock) -> Store:
        return PostgresStore(
            pooler.url("contract"),
            schema_name=SCHEMA,
            clock=clock,
            listen=False,
            prepared_statements=False,
        )

    contract.run(case, lambda clock: _fresh(shared_cluster(18), lambda: make(clock)))
