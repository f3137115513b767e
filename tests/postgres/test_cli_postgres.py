"""The program on PostgreSQL: every command, its options, its errors and its exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from click.testing import Result
from psycopg.conninfo import conninfo_to_dict

from tests.cli.program import WORK, Program, wait_until
from tests.postgres.cluster import Cluster, Schema, fresh_database, fresh_schema
from tests.postgres.pooler import TransactionPooler
from tests.postgres.proxy import FaultProxy
from windlass.cli.run import _make_app, run
from windlass.stores.postgres.rendering import channel
from windlass.stores.postgres.schema import prepare

SECRET = "hunter2"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Program]:
    for name in os.environ:
        if name.startswith(("WINDLASS_", "PG")) or name == "DATABASE_URL":
            monkeypatch.delenv(name)
    made = Program(tmp_path)
    made.write("work.py", WORK)
    yield made
    made.close()


@pytest.fixture
def empty(pg18: Cluster) -> Iterator[Schema]:
    """A schema that is not there yet."""
    with fresh_schema(pg18) as schema:
        yield schema


@pytest.fixture
def schema(empty: Schema) -> Schema:
    with psycopg.connect(empty.url, autocommit=True) as connection:
        prepare(connection, empty.name, "auto")
    return empty


def place(schema: Schema) -> tuple[str, ...]:
    return "-c", schema.url, "-s", schema.name


def exists(schema: Schema) -> bool:
    with psycopg.connect(schema.url) as connection:
        found = connection.execute("SELECT FROM pg_namespace WHERE nspname = %s", [schema.name])
        return found.fetchone() is not None


def execute(schema: Schema, statement: str) -> None:
    with psycopg.connect(schema.url, autocommit=True) as connection:
        connection.execute(f'SET search_path = "{schema.name}"'.encode())
        connection.execute(statement.encode())


def assert_one_line(result: Result | subprocess.CompletedProcess[str], code: int) -> None:
    ended = result.exit_code if isinstance(result, Result) else result.returncode
    assert ended == code, result.stderr
    assert result.stderr.startswith("windlass: ")
    assert result.stderr.count("\n") == 1, result.stderr
    assert SECRET not in result.stdout + result.stderr


# ── every command ──


def test_the_life_of_jobs(program: Program, schema: Schema) -> None:
    at = place(schema)

    def call(*arguments: str, code: int = 0) -> str:
        result = program.call(*arguments, *at)
        assert result.exit_code == code, result.output
        return result.stdout

    assert call("add", "quick", '{"n": 1}') == "1\n"
    added = call("add", "quick", "--key", "k", "--run-at", "+1h", "--queue", "q", "--json")
    assert json.loads(added)["state"] == "scheduled"
    lines = "".join(json.dumps({"task": "quick", "payload": {"n": n}}) + "\n" for n in range(3))
    program.write("many.jsonl", lines)
    assert call("add", "--jsonl", "many.jsonl") == "3 jobs added\n"
    program.write("bad.jsonl", '{"task": "quick"}\n{"task": 1}\n')
    call("add", "--jsonl", "bad.jsonl", code=1)
    listed = json.loads(call("jobs", "list", "--json"))
    assert [job["task"] for job in listed] == ["quick"] * 5
    first, keyed, *rest = (str(job["id"]) for job in reversed(listed))
    assert 'payload:     {"n":1}' in call("jobs", "show", first)
    assert call("jobs", "cancel", first) == "1 job cancelled, or told to stop\n"
    assert call("jobs", "retry", first) == "1 job will run\n"
    assert call("jobs", "reschedule", keyed, "--priority", "3") == "1 job rescheduled\n"
    assert call("jobs", "remove", "k") == f"job {keyed} removed\n"
    assert call("jobs", "fail", rest[0], "--reason", "enough") == "1 job failed\n"
    assert call("jobs", "complete", rest[1]) == "1 job completed\n"
    call("jobs", "show", rest[1], code=1)
    assert "enough" in call("jobs", "list", "--state", "failed")
    assert call("cleanup", "delete-failed", "prune").startswith("delete-failed: 1 row removed")
    assert "task quick is paused" in call("pause", "--task", "quick")
    assert call("resume", "--task", "quick") == ""
    assert call("health").startswith("ok: ")
    assert call("unlock", "nobody", code=1) == "0 jobs freed\n"
    result = program.run("run", "work:app", "--once", "-j", "2", "-m", "2", *at)
    assert result.returncode == 0, result.stderr
    assert sorted(line.split()[1] for line in program.ran()) == ["1", "2"]
    assert call("jobs", "list", "--json") == "[]\n"


def test_a_worker_that_is_killed_and_unlocked(program: Program, schema: Schema) -> None:
    at = place(schema)
    program.call("add", "gate", *at)
    worker = program.start_worker("--poll-interval", "60000", *at)
    wait_until("the job to begin", program.ran)
    shown = json.loads(program.call("health", "--worker", "--json", *at).stdout)
    assert (shown["healthy"], len(shown["workers"])) == (True, 1)
    worker.send(signal.SIGKILL)
    worker.wait()
    freed = program.call("unlock", *shown["workers"], *at)
    assert freed.stdout == "1 job freed\n"
    assert program.call("health", "--worker", *at).exit_code == 1


def test_several_processes(program: Program, schema: Schema) -> None:
    lines = "".join(json.dumps({"task": "quick", "payload": {"n": n}}) + "\n" for n in range(30))
    program.write("many.jsonl", lines)
    program.call("add", "--jsonl", "many.jsonl", *place(schema))
    worker = program.start("run", "work:app", "--processes", "2", *place(schema))
    wait_until("all to run", lambda: len(program.ran()) == 30)
    worker.wait_for_line("is looking for jobs", times=2)
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert len(set(program.ran())) == 30


@pytest.mark.slow
def test_the_demo_on_a_server(program: Program, pg18: Cluster) -> None:
    with fresh_database(pg18) as url:
        process = program.start("demo", "-c", url)
        assert process.wait() == 0, process.output
        assert process.count("✓") == 6
        with psycopg.connect(url) as connection:
            left = connection.execute("SELECT FROM pg_namespace WHERE nspname LIKE 'windlass%'")
            assert left.fetchall() == []
    assert_one_line(program.call("demo", "-c", "sqlite:///x.db"), 2)


# ── where the jobs are ──


def test_a_bare_name_and_the_environment(
    program: Program, pg18: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fresh_database(pg18) as url:
        name = str(psycopg.conninfo.conninfo_to_dict(url)["dbname"])
        reach = {"PGHOST": str(pg18.socket_dir), "PGPORT": str(pg18.port), "PGUSER": "postgres"}
        for variable, value in reach.items():
            monkeypatch.setenv(variable, value)
        assert program.call("add", "t", "-c", name).stdout == "1\n"
        assert program.call("add", "t", "-c", f"postgres:///{name}").stdout == "2\n"
        monkeypatch.setenv("PGDATABASE", name)
        assert program.call("add", "t").stdout == "3\n"
        monkeypatch.setenv("DATABASE_URL", url)
        monkeypatch.setenv("PGDATABASE", "another")
        assert program.call("add", "t").stdout == "4\n"
        monkeypatch.setenv(
            "WINDLASS_URL",
            f"postgresql://127.0.0.1:1,{quote(str(pg18.socket_dir), safe='')}:{pg18.port}/{name}",
        )
        assert program.call("add", "t").stdout == "5\n"
    assert not program.file.exists()


def test_names_that_need_quotes(program: Program, pg18: Cluster) -> None:
    with fresh_database(pg18) as url:
        schema = Schema(url, 'My "jobs"')
        added = program.call("add", "t", "--key", "k", *place(schema))
        assert added.stdout == "1\n", added.output
        assert program.call("doctor", *place(schema)).exit_code == 0


def test_options_become_settings(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    program.write("tasks/hello.py", "def task(payload, helpers): ...")
    monkeypatch.chdir(program.folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    words = [
        *("-c", "my_db", "-s", "jobs", "-m", "3", "--no-listen"),
        *("--no-prepared-statements", "--migrate", "check"),
    ]
    given = _make_app(run.make_context("run", list(words)).params).settings
    assert (given.url, given.schema, given.max_pool_size) == ("my_db", "jobs", 3)
    assert (given.listen, given.prepared_statements, given.migrate) == (False, False, "check")
    plain = _make_app(run.make_context("run", ["-c", "my_db"]).params).settings
    assert (plain.listen, plain.prepared_statements, plain.migrate) == (True, True, "auto")


@pytest.mark.slow
def test_behind_a_transaction_pooler(program: Program, pg18: Cluster) -> None:
    with fresh_database(pg18) as url:
        name = str(psycopg.conninfo.conninfo_to_dict(url)["dbname"])
        with TransactionPooler("127.0.0.1", pg18.port, name) as pooler:
            behind = ("-c", pooler.url(name))
            refused = program.call("add", "quick", *behind)
            assert_one_line(refused, 1)
            assert "prepared_statements=false" in refused.stderr
            worker = program.start_worker("--no-prepared-statements", *behind)
            worker.wait_for_line("not listening for new jobs, polling only")
            added = program.run("add", "quick", *behind, WINDLASS_PREPARED_STATEMENTS="false")
            assert added.returncode == 0, added.stderr
            wait_until("the job to run", program.ran)
            worker.send(signal.SIGTERM)
            assert worker.wait() == 0
            quiet = program.run(
                "run", "work:app", "--once", "--no-prepared-statements", "--no-listen", *behind
            )
            assert (quiet.returncode, "listening" in quiet.stderr) == (0, False)


# ── the schema ──


def test_who_makes_the_schema(program: Program, empty: Schema) -> None:
    at = place(empty)
    for arguments in (
        ("health",),
        ("jobs", "list"),
        ("pause", "--task", "t"),
        ("cleanup", "prune"),
    ):
        result = program.call(*arguments, *at)
        assert_one_line(result, 1)
        assert "no Windlass schema" in result.stderr
        assert "windlass migrate" in result.stderr
    refused = program.run("run", "work:app", "--migrate", "check", *at)
    assert_one_line(refused, 1)
    assert "no Windlass schema" in refused.stderr
    refused = program.run("run", "--schema-only", "--migrate", "never", *at)
    assert_one_line(refused, 2)
    assert not exists(empty)
    made = program.run("run", "--schema-only", *at, WINDLASS_MIGRATE="check")
    assert (made.returncode, exists(empty)) == (0, True)
    assert program.call("health", *at).exit_code == 0


def test_migrate_means_it(program: Program, empty: Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_MIGRATE", "never")
    made = program.call("migrate", *place(empty))
    assert (made.exit_code, exists(empty)) == (0, True)
    assert "is up to date" in made.stderr
    assert program.call("migrate", *place(empty)).exit_code == 0
    assert program.call("health", *place(empty)).exit_code == 0


@pytest.mark.parametrize("name", ["windlass", 'My "jobs"'])
def test_a_printed_schema_is_the_schema(program: Program, pg: Cluster, name: str) -> None:
    printed = program.call("migrate", "--sql", "-c", "postgresql://nowhere:1/x", "-s", name)
    assert printed.exit_code == 0
    with fresh_database(pg) as url:
        subprocess.run(
            [pg.bin / "psql", "-q", "-v", "ON_ERROR_STOP=1", "-d", url],
            input=printed.stdout,
            text=True,
            check=True,
            capture_output=True,
        )
        schema = Schema(url, name)
        assert program.call("health", *place(schema)).exit_code == 0
        assert program.call("add", "t", "--queue", "q", *place(schema)).stdout == "1\n"
        found = json.loads(program.call("doctor", "--json", *place(schema)).stdout)
        assert {one["level"] for one in found} <= {"ok", "note"}


# ── 57 ──


BREAKING = "INSERT INTO _migrations VALUES (9999, 'future', true)"


def test_a_newer_schema_is_refused_with_57(program: Program, schema: Schema) -> None:
    execute(schema, BREAKING)
    for arguments in (("jobs", "list"), ("add", "t"), ("health",), ("migrate",)):
        result = program.call(*arguments, *place(schema))
        assert_one_line(result, 57)
        assert "made by a newer Windlass" in result.stderr
    assert_one_line(program.run("run", "work:app", *place(schema)), 57)
    assert_one_line(program.run("run", "work:app", "--processes", "2", *place(schema)), 57)


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_schema_that_becomes_newer_ends_the_worker_with_57(
    program: Program, schema: Schema, processes: str
) -> None:
    worker = program.start(
        *("run", "work:app", "--processes", processes, *place(schema)), WINDLASS_REAP_INTERVAL="0.2"
    )
    worker.wait_for_line("is looking for jobs", times=int(processes))
    program.call("add", "quick", *place(schema))
    wait_until("a job to run", program.ran)
    execute(schema, f"{BREAKING}; NOTIFY \"{channel(schema.name)}\", 'migrate'")
    assert worker.wait() == 57, worker.output
    assert worker.count("another starts") == 0
    told = [line for line in worker.lines if line.startswith("windlass: ")]
    assert told, worker.output
    assert all("made by a newer Windlass" in line for line in told)


def test_a_newer_schema_that_still_fits_is_only_worth_a_warning(
    program: Program, schema: Schema
) -> None:
    execute(schema, "INSERT INTO _migrations VALUES (9999, 'future', false)")
    program.call("add", "quick", *place(schema))
    result = program.run("run", "work:app", "--once", *place(schema))
    assert (result.returncode, len(program.ran())) == (0, 1)
    assert result.stderr.count("is newer than this program") == 1
    assert "WARNING" in result.stderr


# ── errors ──


@pytest.mark.parametrize(
    ("url", "code", "said"),
    [
        (f"postgresql://me:{SECRET}@127.0.0.1:1/x", 1, "refused"),
        (f"postgresql://me:{SECRET}@127.0.0.1:port/x", 1, "port"),
        (f"postgresql://me:{SECRET}%zz@127.0.0.1/x", 2, "percent-encoded"),
        (f"postgresql://me:a/{SECRET}@127.0.0.1/x", 2, "%2F"),
        (f"postgresql://me:{SECRET}@127.0.0.1/x?nonsense=1", 2, "not a PostgreSQL address"),
        (f"host=127.0.0.1 password={SECRET}", 2, "is not a URL"),
        ("no_such_database", 1, "no_such_database"),
        ("jobs.db", 2, "is not a URL"),
    ],
)
def test_wrong_addresses(program: Program, url: str, code: int, said: str) -> None:
    for arguments in (("add", "t"), ("health",), ("jobs", "list")):
        result = program.call(*arguments, "-c", url)
        assert_one_line(result, code)
        assert said in result.stderr


def test_a_worker_without_a_server_says_so_and_waits(program: Program) -> None:
    url = f"postgresql://me:{SECRET}@127.0.0.1:1/x"
    assert_one_line(program.run("run", "work:app", "--once", "-c", url), 1)
    debugging = program.run("run", "work:app", "--once", "-c", url, "--log-level", "debug")
    assert "Traceback" in debugging.stderr
    worker = program.start("run", "work:app", "-c", url)
    worker.wait_for_line("does not answer yet", times=2)
    assert SECRET not in debugging.stderr + worker.output


def test_a_worker_that_starts_before_its_server(
    program: Program, schema: Schema, pg18: Cluster
) -> None:
    database = conninfo_to_dict(schema.url)["dbname"]
    with FaultProxy("127.0.0.1", pg18.port, str(database)) as proxy:
        proxy.refuse()
        worker = program.start("run", "work:app", "-c", proxy.url(), "-s", schema.name)
        worker.wait_for_line("does not answer yet")
        proxy.restore()
        worker.wait_for_line("is looking for jobs")
        assert program.call("add", "quick", *place(schema)).exit_code == 0
        wait_until("the job", program.ran)


@pytest.mark.parametrize(("right", "wrong"), [("/postgres?", "/nosuch?"), ("postgres@", "nosuch@")])
def test_a_worker_does_not_wait_for_what_will_not_come(
    program: Program, pg18: Cluster, right: str, wrong: str
) -> None:
    result = program.run("run", "work:app", "-c", pg18.url().replace(right, wrong))
    assert_one_line(result, 1)
    assert "does not exist" in result.stderr


def test_passwords_and_rights(program: Program) -> None:
    with Cluster.create(16) as cluster:
        schema = Schema(cluster.create_database("jobs"), "windlass")
        with psycopg.connect(schema.url, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE app LOGIN PASSWORD '{SECRET}'".encode())
            hba = cluster.data / "pg_hba.conf"
            hba.write_text("local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
            connection.execute("SELECT pg_reload_conf()")

            def url(password: str) -> str:
                return f"postgresql://app:{password}@127.0.0.1:{cluster.port}/jobs"

            wait_until(
                "the rule", lambda: "password" in program.call("health", "-c", url("x")).stderr
            )
            wrong = program.call("add", "t", "-c", url(f"{SECRET}x"))
            assert_one_line(wrong, 1)
            assert "password authentication failed" in wrong.stderr
            may_not_make = program.call("add", "t", "-c", url(SECRET))
            assert_one_line(may_not_make, 1)
            assert "may not use or install the schema 'windlass'" in may_not_make.stderr
            prepare(connection, "windlass", "auto")
            may_not_use = program.call("jobs", "list", "-c", url(SECRET))
            assert_one_line(may_not_use, 1)
            assert "permission denied for schema" in may_not_use.stderr
            connection.execute("GRANT USAGE ON SCHEMA windlass TO app")
            connection.execute("GRANT SELECT ON windlass._migrations TO app")
            may_not_read = program.call("jobs", "list", "-c", url(SECRET))
            assert_one_line(may_not_read, 1)
            assert "this role may not do that" in may_not_read.stderr
            connection.execute("GRANT ALL ON ALL TABLES IN SCHEMA windlass TO app")
            connection.execute("GRANT ALL ON ALL SEQUENCES IN SCHEMA windlass TO app")
            connection.execute("GRANT ALL ON ALL FUNCTIONS IN SCHEMA windlass TO app")
            added = program.call("add", "quick", "-c", url(SECRET))
            assert added.stdout == "1\n", added.output
        ran = program.run("run", "work:app", "--once", "--log-level", "debug", "-c", url(SECRET))
        assert (ran.returncode, len(program.ran())) == (0, 1), ran.stderr
        assert f"app:***@127.0.0.1:{cluster.port}" in ran.stderr
        shown = program.call("health", "--json", "-c", url(SECRET))
        assert json.loads(shown.stdout)["url"] == url("***")
        moved = program.call("migrate", "-c", url(SECRET))
        assert SECRET not in ran.stderr + shown.output + moved.output


def test_top_shows_a_picture_and_makes_nothing(program: Program, empty: Schema) -> None:
    result = program.call("top", "--once", *place(empty))
    assert result.exit_code == 1
    assert not exists(empty)
    with psycopg.connect(empty.url, autocommit=True) as connection:
        prepare(connection, empty.name, "auto")
    program.call("add", "mail", "--queue", "letters", *place(empty))
    program.call("add", "report", *place(empty))
    program.call("jobs", "fail", "2", "--reason", "it went wrong", *place(empty))
    program.call("pause", "--task", "mail", *place(empty))
    picture = json.loads(program.call("top", "--once", "--json", *place(empty)).stdout)
    assert picture["depths"]["states"]["ready"]["count"] == 1
    assert [one["error"] for one in picture["failures"]] == ["it went wrong"]
    assert {one["name"]: one["paused"] for one in picture["tasks"]} == {"mail": [""], "report": []}
    assert [one["name"] for one in picture["queues"]] == ["letters"]
