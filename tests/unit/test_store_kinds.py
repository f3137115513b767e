"""A kind of store joins by one entry, and no question is answered by "it must be PostgreSQL"."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import psycopg_pool
import pytest
from click.testing import CliRunner

from tests.patience import PATIENCE
from windlass import App
from windlass.cli import cli
from windlass.clock import Clock
from windlass.config import Settings
from windlass.errors import ConfigError
from windlass.store.port import Store
from windlass.store_kinds import KINDS, Kind, kind_of
from windlass.stores.memory import MemoryStore

REMOTE = "elsewhere://localhost:1"


class RemoteStore(MemoryStore):
    """Stands for a store in another process."""

    capabilities = msgspec.structs.replace(MemoryStore.capabilities, shared=True)


class RemoteKind(Kind):
    def make(self, settings: Settings, clock: Clock, *, look_only: bool = False) -> Store:
        return RemoteStore(clock)


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "elsewhere", RemoteKind())


def call(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, words)
    return result.exit_code, " ".join(result.stderr.split())


def test_one_entry_makes_a_kind(remote: None) -> None:
    with pytest.raises(ConfigError, match="no store for elsewheres://"):
        App("elsewheres://localhost:1")
    app = App(REMOTE)
    assert isinstance(app.store, RemoteStore)
    assert app.sync.add_job("t").task == "t"
    asyncio.run(app.close())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("migrate", "--sql"), f"{REMOTE} has no schema to print"),
        (("import", "graphile", "--from", "old"), f"in PostgreSQL, and {REMOTE} is not"),
        (("doctor", "--table", "mine"), "is served in PostgreSQL only"),
        (("demo",), "-c takes a PostgreSQL URL"),
        (("bench", "drain"), "-c takes a sqlite:/// or postgresql:// URL"),
    ],
    ids=" ".join,
)
def test_what_needs_another_kind_says_so(remote: None, words: tuple[str, ...], says: str) -> None:
    code, error = call(*words, "-c", REMOTE)
    assert code == 2
    assert says in error


def test_commands_work_on_any_shared_store(remote: None) -> None:
    assert call("jobs", "list", "-c", REMOTE) == (0, "no jobs")


def test_a_pool_is_left_alone_while_its_app_is_elsewhere() -> None:
    pool = psycopg_pool.ConnectionPool("host=127.0.0.1 port=1 dbname=nowhere", open=False)
    app = App(pool=pool, migrate="check")
    assert app._kind.is_postgres
    with app.override():
        assert app.place == "memory://"
        assert not app._kind.is_postgres
        app._portal.call(app.migrate())
    assert app.place == "the database of the given pool, schema windlass"


@pytest.mark.parametrize("url", ["shop", "postgres://h/shop", "postgresql:///shop"])
def test_a_bare_name_is_a_local_postgresql(url: str) -> None:
    assert kind_of(url).is_postgres


def test_options_in_a_sqlite_url_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"mode=ro"):
        App("sqlite:///w?mode=ro")


def test_a_hash_in_a_sqlite_url_belongs_to_the_file_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def body() -> None:
        async with App("sqlite:///w#x.db"):
            assert (tmp_path / "w#x.db").exists()
            assert not (tmp_path / "w").exists()

    asyncio.run(asyncio.wait_for(body(), PATIENCE))


def test_doctor_looks_for_a_table_in_a_database_by_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PGHOST", "127.0.0.1")
    monkeypatch.setenv("PGPORT", "1")
    result: Any = CliRunner().invoke(cli, ["doctor", "--table", "mine", "-c", "shop"])
    assert result.exit_code == 1
    assert "PostgreSQL only" not in result.stderr
    assert "connect" in result.stdout
