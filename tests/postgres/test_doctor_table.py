"""`windlass doctor --table`: what a table of the user's own lacks, as statements to be run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.postgres.cluster import Cluster
from tests.postgres.table.desk import Desk, desk_on
from windlass.cli import cli
from windlass.table import ddl


@pytest.fixture(autouse=True)
def no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in ("WINDLASS_URL", "WINDLASS_SCHEMA", "DATABASE_URL", "PGDATABASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def desk(pg: Cluster) -> Iterator[Desk]:
    with desk_on(pg) as desk:
        yield desk


def doctor(desk: Desk, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["doctor", "-c", desk.url, *arguments], catch_exceptions=False)


def findings(desk: Desk, *arguments: str) -> tuple[int, list[tuple[str, str]]]:
    result = doctor(desk, "--json", *arguments)
    found = json.loads(result.stdout)
    return result.exit_code, [(one["level"], one["code"]) for one in found]


def mend(desk: Desk, result: Result) -> None:
    """Run what was printed below the findings, as it stands."""
    _, gap, statements = result.stdout.partition("\n\n")
    assert gap
    desk.ask(statements)


def test_a_table_that_fits(desk: Desk) -> None:
    desk.ask(ddl("jobs"))
    assert findings(desk, "--table", "jobs") == (0, [("ok", "table")])
    result = doctor(desk, "--table", f"{desk.schema}.jobs")
    assert result.exit_code == 0
    assert result.stdout == f"ok       {desk.schema}.jobs can be worked on\n"


def test_what_it_prints_mends_the_table(desk: Desk) -> None:
    desk.ask("CREATE TABLE jobs (id bigint, process_after timestamp, title text)")
    desk.ask("INSERT INTO jobs VALUES (7, '2026-01-01 00:00', 'mine')")
    code, found = findings(desk, "--table", "jobs")
    assert code == 1
    assert set(found) == {
        ("problem", "missing_column"),
        ("problem", "wrong_type"),
        ("problem", "id_not_unique"),
        ("warning", "missing_index"),
        ("note", "optional_column"),
    }
    result = doctor(desk, "--table", "jobs")
    assert result.exit_code == 1
    assert "problem  it has no column state\n" in result.stdout
    assert "→" not in result.stdout
    mend(desk, result)
    assert findings(desk, "--table", "jobs") == (0, [("ok", "table")])
    assert desk.ask("SELECT id, state, title FROM jobs") == [(7, "queued", "mine")]


def test_a_table_that_is_not_there(desk: Desk) -> None:
    result = doctor(desk, "--table", "My.Jobs")
    assert result.exit_code == 1
    assert result.stdout.startswith("problem  there is no table my.jobs\n\nCREATE TABLE my.jobs (")
    result = doctor(desk, "--table", '"My Jobs"', "--column", "state=the state")
    assert result.exit_code == 1
    mend(desk, result)
    assert findings(desk, "--table", '"My Jobs"', "--column", "state=the state") == (
        0,
        [("ok", "table")],
    )


def test_a_warning_or_a_note_is_no_problem(desk: Desk) -> None:
    desk.ask(ddl("jobs", index=False))
    desk.ask("ALTER TABLE jobs DROP COLUMN cancel")
    assert findings(desk, "--table", "jobs") == (
        0,
        [("ok", "table"), ("warning", "missing_index"), ("note", "optional_column")],
    )
    result = doctor(desk, "--table", "jobs")
    assert "it has no column cancel, so running jobs cannot be canceled" in result.stdout
    mend(desk, result)
    assert findings(desk, "--table", "jobs") == (0, [("ok", "table")])


def test_other_names_and_views(desk: Desk) -> None:
    desk.ask(ddl("jobs"))
    desk.ask("ALTER TABLE jobs RENAME state TO status")
    desk.ask("CREATE VIEW v AS SELECT title FROM (SELECT 1 AS title) AS x")
    assert ("problem", "missing_column") in findings(desk, "--table", "jobs")[1]
    columns = ("--table", "jobs", "--column", "state=status")
    assert findings(desk, *columns) == (0, [("ok", "table")])
    assert findings(desk, *columns, "--view", "v") == (1, [("problem", "view_without_id")])
    assert findings(desk, *columns, "--view", "w") == (1, [("problem", "missing_view")])
    assert doctor(desk, *columns, "--view", "w").stdout == "problem  there is no view w\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--view", "v"], "--view and --column belong to --table"),
        (["--column", "state=status"], "--view and --column belong to --table"),
        (["--table", "jobs", "--column", "state"], "--column 'state' is not of the form"),
        (["--table", "jobs", "--column", "status=x"], "alternate_column_names has 'status'"),
        (["--table", "jobs; DROP TABLE jobs"], "is not a name"),
        (["--table", "jobs", "-c", "sqlite:///jobs.db"], "in PostgreSQL only"),
    ],
)
def test_wrong_usage(desk: Desk, arguments: list[str], message: str) -> None:
    result = doctor(desk, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("windlass: ") and message in result.stderr


def test_without_a_server(desk: Desk) -> None:
    url = "postgresql://postgres@127.0.0.1:1/nowhere"
    code, found = findings(desk, "-c", url, "--table", "jobs")
    assert (code, found) == (1, [("problem", "database_unusable")])


def test_the_default_is_no_server() -> None:
    result = CliRunner().invoke(cli, ["doctor", "--table", "jobs"])
    assert (result.exit_code, "-c postgresql://" in result.stderr) == (2, True)
