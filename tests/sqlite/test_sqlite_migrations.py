"""The schema: made once by whoever comes first, and refused when it is from the future."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from importlib.resources import files
from pathlib import Path

import pytest

from tests.sqlite.sqlite_kit import child, finish, jobs, line, opened, plain, run, tell
from windlass.errors import SchemaTooNewError
from windlass.stores.sqlite import SqliteStore
from windlass.stores.sqlite.schema import is_migrated, migrate, migrations
from windlass.stores.sqlite.statements import OF_OTHERS, SQL, Branches, for_branches

PACKAGE = files("windlass.stores.sqlite")


def _migrated(path: Path) -> sqlite3.Connection:
    async def scenario() -> None:
        async with opened(path):
            pass

    run(scenario())
    return plain(path)


def _remember(connection: sqlite3.Connection, **values: int) -> None:
    for key, value in values.items():
        connection.execute("REPLACE INTO windlass_meta VALUES (?, ?)", (key, value))
    connection.commit()
    connection.close()


def test_twenty_processes_migrate_one_new_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    processes = [child("migrate", path) for _ in range(20)]
    for process in processes:
        assert line(process) == "here"
    assert not path.exists()
    for process in processes:
        tell(process, "go")
    assert [finish(process) for process in processes] == ["migrated\n"] * 20
    connection = plain(path)
    versions = connection.execute("SELECT value FROM windlass_meta WHERE key = 'schema_version'")
    assert versions.fetchall() == [(migrations()[-1].version,)]
    connection.close()


def test_a_file_that_another_process_is_just_closing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last connection to a file holds it alone while it ends its write-ahead log."""
    path = tmp_path / "jobs.db"
    rival = plain(path, isolation_level=None)
    rival.execute("PRAGMA locking_mode = EXCLUSIVE")
    rival.execute("PRAGMA journal_mode = WAL")
    rival.execute("CREATE TABLE of_others (n)")
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        rival.close()

    monkeypatch.setattr("windlass.stores.sqlite.connection.time.sleep", wait)
    with closing(plain(path, isolation_level=None, timeout=0)) as connection:
        migrate(connection, str(path), 5.0)
        assert is_migrated(connection)
    assert len(waits) == 1


def test_a_newer_breaking_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    _remember(_migrated(path), schema_version=99, breaking_version=98)
    with pytest.raises(SchemaTooNewError, match=r"schema 99; this program knows \d+.*upgrade"):
        run(SqliteStore(path).open())


def test_a_newer_harmless_schema_is_used(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    _remember(_migrated(path), schema_version=99)

    async def scenario() -> None:
        async with opened(path) as store:
            assert len(await store.enqueue(jobs(2))) == 2

    run(scenario())
    connection = plain(path)
    version = connection.execute("SELECT value FROM windlass_meta WHERE key = 'schema_version'")
    assert version.fetchone() == (99,)
    connection.close()


def test_the_users_own_tables_stay(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    connection = plain(path)
    connection.execute("CREATE TABLE orders (n)")
    connection.execute("INSERT INTO orders VALUES (1)")
    connection.commit()
    connection.close()
    connection = _migrated(path)
    assert connection.execute("SELECT n FROM orders").fetchall() == [(1,)]
    names = connection.execute(
        "SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' AND name <> 'orders'"
    )
    assert all(name.startswith("windlass_") for (name,) in names)
    connection.close()


def test_every_migration_says_whether_it_breaks_older_programs() -> None:
    entries = sorted(
        (entry for entry in (PACKAGE / "migrations").iterdir() if entry.name.endswith(".sql")),
        key=lambda entry: entry.name,
    )
    for number, entry in enumerate(entries, 1):
        first = entry.read_text("utf-8").splitlines()[0]
        assert first in ("-- breaking: yes", "-- breaking: no"), entry.name
        assert entry.name.startswith(f"{number:04}_")


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    with closing(_migrated(tmp_path_factory.mktemp("schema") / "jobs.db")) as connection:
        connection.execute("SELECT 1 FROM windlass_jobs")  # opens its files
        yield connection


class _Anything(dict[str, object]):
    def __missing__(self, key: str) -> object:
        return "[]"


@pytest.mark.parametrize("name", sorted(SQL))
def test_every_statement_prepares(name: str, schema: sqlite3.Connection) -> None:
    text = (PACKAGE / "sql" / f"{name.removesuffix(OF_OTHERS)}.sql").read_text("utf-8")
    assert text.startswith("-- ") and "\n-- Index expected: " in text
    schema.execute(f"EXPLAIN {SQL[name]}", _Anything())


@pytest.mark.parametrize("branches", [Branches(64), Branches(32, 32), Branches(4, 0, 60)])
@pytest.mark.parametrize("name", ["claim_ready", "claim_chosen"])
def test_a_claim_prepares_for_many_branches(
    name: str, branches: Branches, schema: sqlite3.Connection
) -> None:
    schema.execute(f"EXPLAIN {for_branches(name, branches)}", _Anything())
