"""`windlass doctor` on real servers: every finding by bringing about what it finds."""

from __future__ import annotations

import json
from collections.abc import Iterator

import psycopg
import pytest
from click.testing import CliRunner
from psycopg import sql

from tests.cli.program import wait_until
from tests.postgres.cluster import Cluster, Schema, fresh_database, fresh_schema
from tests.postgres.pooler import TransactionPooler
from tests.postgres.test_import import SINCE_0_14
from windlass.cli import cli, examine
from windlass.clock import SYSTEM
from windlass.store.findings import Finding, Level
from windlass.stores.postgres.examine import Limits, expected_indexes
from windlass.stores.postgres.examine import examine as look
from windlass.stores.postgres.schema import prepare
from windlass.stores.postgres_connections.address import ServerAddress

STRICT = Limits(long=0, dead_rows=10, kept_log=-1, held_back=-1, echo=0.5)
ALWAYS = {"database", "fsync_off"}
"""What is found in a healthy schema: our servers do without fsync."""


def install(schema: Schema) -> None:
    with psycopg.connect(schema.url, autocommit=True) as connection:
        prepare(connection, schema.name, "auto")


def findings(
    schema: Schema, limits: Limits = STRICT, *, listens: bool = True, session: bool = True
) -> dict[str, Finding]:
    found = look(
        ServerAddress(schema.url, session=session),
        schema.name,
        listens=listens,
        pool_size=10,
        limits=limits,
    )
    return {finding.code: finding for finding in found if finding.code not in ALWAYS}


def doctor(schema: Schema) -> tuple[int, dict[str, dict[str, str]]]:
    """The program's own answer: its exit code, and its findings by their codes."""
    arguments = ["doctor", "--json", "-c", schema.url, "-s", schema.name]
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    return result.exit_code, {one["code"]: one for one in json.loads(result.stdout)}


@pytest.fixture(scope="module", autouse=True)
def no_settings_of_the_machine() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("WINDLASS_URL", "WINDLASS_SCHEMA", "DATABASE_URL", "PGDATABASE"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture
def installed(pg18: Cluster) -> Iterator[Schema]:
    with fresh_schema(pg18) as schema:
        install(schema)
        yield schema


@pytest.fixture
def database(pg18: Cluster) -> Iterator[Schema]:
    """A schema in a database of its own, for settings of the database."""
    with fresh_database(pg18) as url:
        schema = Schema(url, "windlass")
        install(schema)
        yield schema


@pytest.fixture
def connection(installed: Schema) -> Iterator[psycopg.Connection]:
    with psycopg.connect(installed.url, autocommit=True) as connection:
        connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(installed.name)))
        yield connection


def add(connection: psycopg.Connection, task: str = "t", **options: object) -> int:
    return _call(connection, "add_job", task, options)


def start(connection: psycopg.Connection, task: str = "t", **options: object) -> int:
    return _call(connection, "start_chain", task, options)


def _call(
    connection: psycopg.Connection, function: str, task: str, options: dict[str, object]
) -> int:
    arguments = sql.SQL(", ").join(
        sql.SQL("{} => {}").format(sql.Identifier(name), sql.Literal(value))
        for name, value in options.items()
    )
    more = sql.SQL(", {}").format(arguments) if options else sql.SQL("")
    row = connection.execute(
        sql.SQL("SELECT id FROM {}({}{})").format(sql.Identifier(function), sql.Literal(task), more)
    ).fetchone()
    assert row is not None
    return int(row[0])


# ── the whole program ──


def test_a_healthy_schema_is_well(installed: Schema) -> None:
    assert findings(installed, Limits()) == {}
    code, found = doctor(installed)
    assert code == 0
    assert {one["level"] for one in found.values()} == {"ok", "note"}
    assert "PostgreSQL 18" in found["database"]["message"]


def test_a_schema_of_graphile_worker(pg18: Cluster) -> None:
    with fresh_schema(pg18) as schema:
        with psycopg.connect(schema.url, autocommit=True) as connection:
            connection.execute(SINCE_0_14.replace("{s}", schema.name).encode())
        code, found = doctor(schema)
        assert (code, found["graphile_schema"]["level"]) == (1, "problem")
        advice = found["graphile_schema"]["advice"]
        assert f"windlass import graphile --from {schema.name}" in advice
        assert "--schema" in advice and "RENAME" in advice


@pytest.mark.parametrize("version", [16, 18])
def test_what_is_missing_or_newer(version: int, pg16: Cluster, pg18: Cluster) -> None:
    with fresh_schema(pg16 if version == 16 else pg18) as schema:
        code, found = doctor(schema)
        assert (code, found["no_schema"]["level"]) == (1, "problem")
        with psycopg.connect(schema.url, autocommit=True) as connection:
            made = connection.execute(
                "SELECT FROM pg_namespace WHERE nspname = %s", [schema.name]
            ).fetchone()
            assert made is None
            install(schema)
            connection.execute(f"SET search_path = {schema.name}".encode())
            connection.execute(
                "DELETE FROM _migrations WHERE id = (SELECT max(id) FROM _migrations)"
            )
            code, found = doctor(schema)
            assert (code, found["schema_too_old"]["advice"]) == (1, "windlass migrate")
            connection.execute("INSERT INTO _migrations VALUES (9998, 'future', false)")
            code, found = doctor(schema)
            assert (code, found["schema_newer"]["level"]) == (0, "note")
            connection.execute("INSERT INTO _migrations VALUES (9999, 'future', true)")
            code, found = doctor(schema)
            assert (code, found["schema_too_new"]["level"]) == (57, "problem")


def test_a_server_that_does_not_answer() -> None:
    nowhere = Schema("postgresql://me:hunter2@127.0.0.1:1/x", "windlass")
    code, found = doctor(nowhere)
    assert (code, found["database_unusable"]["level"]) == (1, "problem")
    assert "hunter2" not in str(found)


def test_clocks_that_differ(installed: Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    class Ahead:
        def now(self) -> int:
            return SYSTEM.now() + 5_000_000

    monkeypatch.setattr(examine, "SYSTEM", Ahead())
    code, found = doctor(installed)
    assert (code, found["time_skew"]["level"]) == (0, "warning")
    assert "5 s" in found["time_skew"]["message"]


def test_jobs_and_workers(installed: Schema, connection: psycopg.Connection) -> None:
    held, failed = add(connection), add(connection)
    connection.execute("SELECT permanently_fail_jobs(%s)", [[failed]])
    connection.execute(
        "INSERT INTO _workers (name, expires_at, lease)"
        " VALUES ('gone', now() - interval '1 minute', 30)"
    )
    connection.execute(
        "UPDATE _jobs SET state = 'running', worker = (SELECT id FROM _workers) WHERE id = %s",
        [held],
    )
    connection.execute("SELECT _pause('', 'queue', 'q')")
    code, found = doctor(installed)
    assert code == 1
    assert "gone" in found["expired_leases"]["message"]
    assert found["expired_leases"]["advice"] == "start a worker: windlass run"
    assert "windlass jobs retry --state failed" in found["failed_jobs"]["advice"]
    assert "queue q" in found["paused"]["message"]
    connection.execute("DELETE FROM _workers")
    assert f"job {held} " in findings(installed)["orphans"].message


# ── the schema ──


def test_every_index_is_expected(connection: psycopg.Connection, installed: Schema) -> None:
    there = connection.execute(
        "SELECT indexname FROM pg_indexes WHERE schemaname = %s", [installed.name]
    ).fetchall()
    assert {name for [name] in there} - {"_migrations_pkey", "_functions_pkey"} == set(
        expected_indexes(installed.name)
    )


@pytest.mark.parametrize(
    "drop",
    [
        "DROP INDEX _jobs_waiting_task",
        "DROP INDEX _jobs_active",
        "ALTER TABLE _paused DROP CONSTRAINT _paused_pkey",
        "ALTER TABLE _workers DROP CONSTRAINT _workers_name_key",
    ],
)
def test_a_missing_index_and_how_to_make_it(
    drop: str, connection: psycopg.Connection, installed: Schema
) -> None:
    connection.execute(drop.encode())
    found = findings(installed)
    assert found["missing_index"].level is Level.PROBLEM
    assert drop.split()[-1] in found["missing_index"].message
    connection.execute(found["missing_index"].advice.encode())
    assert findings(installed) == {}


def test_an_invalid_index_and_how_to_mend_it(
    connection: psycopg.Connection, installed: Schema
) -> None:
    _, second = add(connection), add(connection)
    connection.execute("DROP INDEX _jobs_key")
    connection.execute("UPDATE _jobs SET key = 'k'")
    with pytest.raises(psycopg.errors.UniqueViolation):
        connection.execute(findings(installed)["missing_index"].advice.encode())
    found = findings(installed)
    assert "_jobs_key" in found["invalid_index"].message
    connection.execute("DELETE FROM _jobs WHERE id = %s", [second])
    connection.execute(found["invalid_index"].advice.encode())
    assert "invalid_index" not in findings(installed)


def test_dead_rows(connection: psycopg.Connection, installed: Schema) -> None:
    connection.execute("SELECT add_job('t') FROM generate_series(1, 100)")
    connection.execute("UPDATE _jobs SET priority = 1")
    connection.execute("SELECT pg_stat_force_next_flush()")
    found = findings(installed)["dead_rows"]
    assert "_jobs has 100 dead rows beside 100 live ones" in found.message
    assert "last vacuumed: never" in found.message
    assert found.advice.startswith("VACUUM ")
    assert "dead_rows" not in findings(installed, Limits())
    connection.execute("ALTER TABLE _history SET (autovacuum_enabled = false)")
    connection.execute(findings(installed)["table_not_vacuumed"].advice.encode())
    assert "table_not_vacuumed" not in findings(installed)


# ── who holds what ──


def test_long_transactions(connection: psycopg.Connection, installed: Schema) -> None:
    with psycopg.connect(installed.url, application_name="report") as other:
        other.execute("SELECT 1")
        found = findings(installed)["long_transaction"]
        assert f"process {other.info.backend_pid} (postgres, report) sits idle" in found.message
        assert "idle_in_transaction_session_timeout" in found.advice
        assert "long_transaction" not in findings(installed, Limits())
        connection.execute(found.advice.partition(";")[0].encode())
        with pytest.raises(psycopg.OperationalError):
            other.execute("SELECT 1")
    wait_until("its end", lambda: "long_transaction" not in findings(installed))


def test_held_jobs(connection: psycopg.Connection, installed: Schema) -> None:
    ids = [add(connection, queue_name="q") for _ in range(3)]
    with psycopg.connect(installed.url) as other:
        other.execute(f"SELECT FROM {installed.name}._jobs FOR UPDATE".encode())
        found = findings(installed)["held_jobs"]
        assert f"process {other.info.backend_pid} " in found.message
    assert f"holds job {ids[0]} and 2 more" in found.message
    assert "held_jobs" not in findings(installed)


def test_stuck_queues(connection: psycopg.Connection, installed: Schema) -> None:
    for queue in ("moves", "sleeps", "sticks"):
        add(connection, queue_name=queue)
    connection.execute("DELETE FROM _bells WHERE queue <> 'moves'")
    connection.execute("INSERT INTO _paused VALUES ('queue', 'sleeps')")
    found = findings(installed)["stuck_queue"]
    assert found.message == "nothing moves in this queue: sticks"
    command = [*found.advice.split()[1:], "-c", installed.url, "-s", installed.name]
    assert CliRunner().invoke(cli, command).exit_code == 0
    assert "stuck_queue" not in findings(installed)


def test_stuck_dependents(connection: psycopg.Connection, installed: Schema) -> None:
    """What is done to jobs that would wait for ever, by what the finding advises."""
    chain = start(connection)
    waiting = start(connection, blockers=[chain])
    connection.execute("DELETE FROM _bells")
    assert "stuck_dependents" not in findings(installed)
    connection.execute(
        "UPDATE _chains SET state = 'completed', finished_at = now(), aged_at = now()"
        " WHERE id = %s",
        [chain],
    )
    connection.execute("INSERT INTO _bells (job) VALUES (%s)", [waiting])
    assert "stuck_dependents" not in findings(installed), "a claim will look at it"
    connection.execute("UPDATE _bells SET job = NULL, chain = %s", [chain])
    assert "stuck_dependents" not in findings(installed), "a claim will look at its chain"
    connection.execute("DELETE FROM _bells")
    found = findings(installed)["stuck_dependents"]
    assert found.level is Level.PROBLEM
    assert found.message.startswith(f"job {waiting} waits for chains that have all ended")
    for verb in ("cancel", "retry"):
        assert f"windlass jobs {verb} {waiting}" in found.advice
        place = ["-c", installed.url, "-s", installed.name]
        command = ["jobs", verb, str(waiting), *place]
        assert CliRunner().invoke(cli, command).exit_code == 0
    assert "stuck_dependents" not in findings(installed)


def test_failed_blockers(connection: psycopg.Connection, installed: Schema) -> None:
    chains = [start(connection) for _ in range(7)]
    start(connection, blockers=chains)
    connection.execute("UPDATE _jobs SET on_blocker_failure = 'wait' WHERE state = 'blocked'")
    assert "failed_blockers" not in findings(installed)
    connection.execute("SELECT permanently_fail_jobs(%s)", [chains])
    found = findings(installed)["failed_blockers"]
    named = ", ".join(map(str, chains[:5]))
    assert found.message.endswith(f"failed or were cancelled: {named} and others")
    assert found.message.startswith("1 job waits for chains")
    assert found.advice.startswith(f"windlass chains retry {named.replace(',', '')}")


def test_replication_slots(connection: psycopg.Connection, installed: Schema) -> None:
    connection.execute("SELECT pg_create_physical_replication_slot('doctors', true)")
    try:
        assert "unused_slot" not in findings(installed, Limits())
        found = findings(installed)["unused_slot"]
        assert "doctors" in found.message
    finally:
        connection.execute(found.advice.partition(";")[0].encode())
    assert "unused_slot" not in findings(installed)


def test_a_role_that_may_not_see_everything(
    connection: psycopg.Connection, installed: Schema
) -> None:
    role = f"r_{installed.name}"
    connection.execute(f"CREATE ROLE {role} LOGIN".encode())
    theirs = Schema(installed.url.replace("postgres@", f"{role}@"), installed.name)
    try:
        code, found = doctor(theirs)
        assert (code, found["database_unusable"]["level"]) == (1, "problem")
        assert "permission denied" in found["database_unusable"]["message"]
        connection.execute(f"GRANT USAGE ON SCHEMA {installed.name} TO {role}".encode())
        connection.execute(f"GRANT SELECT ON _migrations TO {role}".encode())
        limited = findings(theirs)
        assert limited["not_permitted"].level is Level.NOTE
        assert limited["own_sessions_only"].level is Level.NOTE
        connection.execute(f"ALTER ROLE {role} CONNECTION LIMIT 3".encode())
        assert "few_connections" in findings(theirs)
    finally:
        connection.execute(f"DROP OWNED BY {role}".encode())
        connection.execute(f"DROP ROLE {role}".encode())


# ── the server ──


@pytest.mark.parametrize(
    ("setting", "code", "level"),
    [
        ("SET default_transaction_isolation = 'serializable'", "isolation", Level.WARNING),
        ("SET synchronous_commit = off", "synchronous_commit_off", Level.NOTE),
        ("SET track_counts = off", "track_counts_off", Level.PROBLEM),
        ("CONNECTION LIMIT 8", "few_connections", Level.WARNING),
    ],
)
def test_settings_that_hurt(setting: str, code: str, level: Level, database: Schema) -> None:
    assert code not in findings(database)
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {connection.info.dbname} {setting}".encode())
    assert findings(database)[code].level is level


def test_a_pooler_that_forgets_listen(database: Schema, pg18: Cluster) -> None:
    name = psycopg.conninfo.conninfo_to_dict(database.url)["dbname"]
    with TransactionPooler("127.0.0.1", pg18.port, str(name)) as pooler:
        behind = Schema(pooler.url(str(name)), database.name)
        found = findings(behind, session=False)
        assert found["listen_lost"].level is Level.WARNING
        assert "--no-listen" in found["listen_lost"].advice
        told = findings(behind, session=False, listens=False)
        assert told["not_listening"].level is Level.NOTE
        assert "listen_lost" not in told
        code, shown = doctor(behind)
        assert (code, "listen_lost" in shown) == (1, True)
        assert "prepared_statements" in shown["database_unusable"]["message"]


def test_a_server_with_autovacuum_off_and_a_standby_that_holds_rows() -> None:
    with Cluster.create(
        16, autovacuum="off", max_prepared_transactions=2, max_replication_slots=2
    ) as cluster:
        schema = Schema(cluster.create_database("jobs"), "windlass")
        install(schema)
        found = findings(schema)
        assert found["autovacuum_off"].level is Level.PROBLEM
        with psycopg.connect(schema.url, autocommit=True) as connection:
            connection.execute("BEGIN")
            connection.execute("INSERT INTO windlass._paused VALUES ('task', 't')")
            connection.execute("PREPARE TRANSACTION 'it''s mine'")
            prepared = findings(schema)["prepared_transaction"]
            assert "it's mine" in prepared.message
            connection.execute(prepared.advice.partition(";")[0].encode())
            assert "prepared_transaction" not in findings(schema)
            connection.execute("SELECT pg_create_physical_replication_slot('standby')")
        with cluster.standby() as standby:
            standby.stop()
            standby.settings |= {"hot_standby_feedback": "on", "primary_slot_name": "standby"}
            standby.start()
            holds = wait_until("feedback", lambda: findings(schema).get("slot_holds_rows"))
            assert "hot_standby_feedback" in holds.advice
        wait_until(
            "its end",
            lambda: "pg_drop_replication_slot" in findings(schema)["slot_holds_rows"].advice,
        )
