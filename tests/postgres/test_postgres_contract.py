"""The contract suite on real servers: PostgreSQL 16 and 18, and through a transaction pooler."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

import psycopg
import pytest

pytest.register_assert_rewrite("windlass.testing.contract")

from tests import leaks  # noqa: E402
from tests.postgres.cluster import (  # noqa: E402
    Cluster,
    Version,
    available_versions,
    shared_cluster,
)
from tests.postgres.emptying import empty  # noqa: E402
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
THROUGH_A_POOLER = ("claim", "transactions")


def _later(case: contract.Case, *groups: str) -> Sequence[pytest.MarkDecorator]:
    """Cases of these groups belong to `make test`, all others to `make test-all`."""
    return () if case.group in groups else (pytest.mark.rig,)


DIRECT = [
    pytest.param(
        16,
        case,
        id=f"16-{case}",
        marks=pytest.mark.slow if case.group in CORE else pytest.mark.rig,
    )
    for case in CASES
] + [
    pytest.param("system", case, id=f"system-{case}", marks=pytest.mark.rig)
    for case in CASES
    if case.group in CORE and "system" in available_versions()
]
"""All cases on the older server, and the core on the machine's own where it has one. `make test`
runs all of them on the newer server, with every claim a batch."""

POOLED = [pytest.param(case, id=str(case), marks=_later(case, *THROUGH_A_POOLER)) for case in CASES]

_owners: dict[Cluster, psycopg.Connection] = {}
"""Of this suite's database on each server: what empties it before each case."""


@pytest.fixture(scope="module", autouse=True)
def _owners_end() -> Iterator[None]:
    yield
    while _owners:
        _owners.popitem()[1].close()
    leaks.given_back(__name__)


def _owner(cluster: Cluster) -> psycopg.Connection:
    """The database with its schema is made once."""
    if cluster not in _owners:
        with contextlib.suppress(psycopg.errors.DuplicateDatabase):
            cluster.create_database("contract")
        with leaks.kept(__name__):
            owner = _owners[cluster] = cluster.connect("contract")
        prepare(owner, SCHEMA, "auto")
        owner.execute("SET client_min_messages = warning")
    return _owners[cluster]


@contextlib.contextmanager
def _fresh(cluster: Cluster, make: Callable[[], Store]) -> Iterator[Callable[[], Store]]:
    owner = _owner(cluster)
    owner.execute("DROP TABLE IF EXISTS handlers_own")
    empty(owner, SCHEMA)
    yield make


def _direct(
    cluster: Cluster, clock: Clock, *, least_batch: int | None = None
) -> AbstractContextManager[Callable[[], Store]]:
    def make() -> Store:
        store = PostgresStore(cluster.url("contract"), schema_name=SCHEMA, clock=clock)
        if least_batch is not None:
            store.claims.least_batch = least_batch
        return store

    return _fresh(cluster, make)


@pytest.mark.parametrize(("version", "case"), DIRECT)
def test_contract(version: Version, case: contract.Case) -> None:
    contract.run(case, lambda clock: _direct(shared_cluster(version), clock))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_contract_with_every_claim_a_batch(case: contract.Case) -> None:
    contract.run(case, lambda clock: _direct(shared_cluster(18), clock, least_batch=1))


@pytest.fixture(scope="module", params=POOLERS)
@leaks.grows
def pooler(request: pytest.FixtureRequest) -> Iterator[TransactionPooler | PgBouncer]:
    cluster = shared_cluster(18)
    _owner(cluster)
    with pooler_named(request.param, "127.0.0.1", cluster.port, "contract", size=8) as one:
        yield one


@pytest.mark.parametrize("case", POOLED)
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
