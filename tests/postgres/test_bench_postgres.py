"""`windlass bench` on PostgreSQL: every scenario, in schemas that are gone afterwards."""

from __future__ import annotations

import contextlib
import json

import psycopg
import pytest
from click.testing import CliRunner

from tests.cli.test_cli_bench import SMALL, check_scenario
from tests.postgres.cluster import Cluster, fresh_database, fresh_schema
from windlass.cli import cli
from windlass.cli.bench import NAMES
from windlass.cli.bench.limit_chains import Shape
from windlass.cli.bench.limit_chains_postgres import PostgresChainLimit
from windlass.cli.bench.site import Address

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("names", [NAMES[:4], NAMES[4:7], NAMES[7:]], ids="+".join)
def test_every_scenario_has_its_names_and_numbers(pg18: Cluster, names: tuple[str, ...]) -> None:
    with fresh_database(pg18) as url:
        options = ["bench", *names, "-c", url, *SMALL, "--json"]
        answer = CliRunner().invoke(cli, options, prog_name="windlass", catch_exceptions=False)
        assert answer.exit_code == 0, answer.output
        with psycopg.connect(url) as connection:
            left = connection.execute(
                "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'windlass%'"
            ).fetchall()
    found = json.loads(answer.stdout)
    assert list(dict.fromkeys(each["scenario"] for each in found["scenarios"])) == list(names)
    for each in found["scenarios"]:
        check_scenario(each)
        if "rounds" in each:
            assert each["wal_bytes_per_job"] > 0
    assert found["database"].startswith("PostgreSQL 18")
    assert left == []


@pytest.mark.parametrize(
    "shape",
    [Shape("steps", chains=3, steps=4), Shape("parts", chains=2, parts=3)],
    ids="{0.name}".format,
)
def test_the_bare_statements_of_chains_do_all_their_jobs(pg18: Cluster, shape: Shape) -> None:
    with fresh_schema(pg18) as schema:
        with psycopg.connect(schema.url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {schema.name}".encode())
        address = Address(url=schema.url, schema=schema.name, synchronous="full")
        with contextlib.closing(PostgresChainLimit(address)) as limit:
            limit.create()
            limit.start(shape, shape.chains)
            done = 0
            while count := limit.work(100):
                done += count
    assert done == shape.jobs
