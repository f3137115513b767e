"""The stores that are compared with the model, each with a way to make it anew for each run."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from pathlib import Path

import psycopg
from psycopg import sql

from tests.postgres.cluster import Version, shared_cluster
from tests.postgres.emptying import empty
from tests.postgres.pooler import TransactionPooler
from windlass.clock import Clock
from windlass.store.port import Store
from windlass.stores.postgres import PostgresStore
from windlass.stores.postgres.schema import prepare
from windlass.stores.sqlite import SqliteStore

Fresh = Callable[[Clock], AbstractContextManager[Store]]
"""A store that is not opened yet, on an empty database that goes by the given clock."""

SCHEMA = "machines"


@contextmanager
def _sqlite(clock: Clock) -> Iterator[Store]:
    with tempfile.TemporaryDirectory(prefix="windlass-") as folder:
        yield SqliteStore(Path(folder) / "jobs.db", clock=clock, synchronous="normal")


@cache
def _database(version: Version, level: str) -> str:
    """The name of a database whose transactions have this isolation, with the schema installed."""
    name = f"machines_{level}_{os.getpid()}".replace(" ", "_")
    url = shared_cluster(version).create_database(name)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            sql.SQL("ALTER DATABASE {} SET default_transaction_isolation = {}").format(
                sql.Identifier(name), sql.Literal(level)
            )
        )
    with psycopg.connect(url, autocommit=True) as connection:
        assert connection.execute("SHOW transaction_isolation").fetchone() == (level,)
        prepare(connection, SCHEMA, "auto")
    return name


@contextmanager
def _postgres(
    clock: Clock,
    *,
    version: Version = 18,
    level: str = "read committed",
    batches: bool = False,
    pooler: bool = False,
) -> Iterator[Store]:
    """With `batches` every claim is held by one lease, however few jobs it takes."""
    cluster, name = shared_cluster(version), _database(version, level)
    with psycopg.connect(cluster.url(name), autocommit=True) as connection:
        empty(connection, SCHEMA, restart=True)
    make = partial(PostgresStore, schema_name=SCHEMA, clock=clock, migrate="check", listen=False)
    if pooler:
        with TransactionPooler("127.0.0.1", cluster.port, name, size=3) as server:
            yield _sized(make(server.url(), prepared_statements=False), batches)
    else:
        yield _sized(make(cluster.url(name)), batches)


def _sized(store: PostgresStore, batches: bool) -> PostgresStore:
    if batches:
        store.claims.least_batch = 1
    return store


BINDINGS: dict[str, Fresh] = {
    "sqlite": _sqlite,
    "postgres": _postgres,
    "postgres-batches": partial(_postgres, batches=True),
    "postgres-16-batches": partial(_postgres, version=16, batches=True),
    "postgres-repeatable-read": partial(_postgres, level="repeatable read", batches=True),
    "postgres-serializable": partial(_postgres, level="serializable"),
    "pooler": partial(_postgres, pooler=True),
    "pooler-batches-serializable": partial(
        _postgres, pooler=True, batches=True, level="serializable"
    ),
}
