"""A bench on PostgreSQL: schemas with random names, dropped afterwards."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from windlass.cli.base import one_line
from windlass.cli.bench.site import Address, Reading
from windlass.errors import StoreUnavailableError

_LOCAL = ("", "localhost", "127.0.0.1", "::1")


class ServerSite:
    """Schemas `windlass_bench_<random>_<part>` in the database `url` names."""

    can_hold = True

    def __init__(self, url: str) -> None:
        self._url = url
        self._prefix = f"windlass_bench_{secrets.token_hex(4)}"
        self._made: set[str] = set()
        self._connection = self._connect()
        version = self._one("SHOW server_version")
        self.database = f"PostgreSQL {str(version).split()[0]}"
        self._postmaster = self._find_postmaster()

    def fresh(self, part: str) -> Address:
        name = f"{self._prefix}_{part}"
        self._drop(name)
        self._connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
        self._made.add(name)
        return Address(self._url, name, "full")

    def tidy(self, address: Address) -> None:
        tables = self._connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s", [address.schema]
        ).fetchall()
        for (table,) in tables:
            name = sql.Identifier(address.schema, table)
            self._connection.execute(sql.SQL("VACUUM (ANALYZE) {}").format(name))

    def read(self) -> Reading:
        wal = self._one("SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint")
        return Reading(self._server_cpu(), int(wal))

    @contextmanager
    def hold(self) -> Iterator[None]:
        with self._connect() as connection:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            connection.execute("SELECT pg_current_xact_id()")
            try:
                yield
            finally:
                connection.execute("ROLLBACK")

    def close(self) -> None:
        """Drop what was made, on a new connection if the first one was lost."""
        if self._connection.closed:
            self._connection = self._connect()
        for name in list(self._made):
            self._drop(name)
        self._connection.close()

    def _connect(self) -> psycopg.Connection[Any]:
        try:
            return psycopg.connect(
                self._url, autocommit=True, connect_timeout=5, application_name="windlass bench"
            )
        except psycopg.Error as error:
            raise StoreUnavailableError(f"cannot connect: {one_line(error)}") from None

    def _one(self, statement: str) -> Any:
        row = self._connection.execute(statement.encode()).fetchone()
        assert row is not None
        return row[0]

    def _drop(self, name: str) -> None:
        if name in self._made:
            drop = sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(name))
            self._connection.execute("SET client_min_messages = warning")
            self._connection.execute(drop)
            self._made.discard(name)

    def _find_postmaster(self) -> int | None:
        """The server's first process, if it runs on this machine and can be seen."""
        host = self._connection.info.host
        if not host.startswith("/") and host not in _LOCAL:
            return None
        try:
            pid = self._connection.info.backend_pid
            if Path(f"/proc/{pid}/comm").read_text().strip() != "postgres":
                return None
            return int(_stat(pid)[1])
        except (OSError, IndexError):
            return None

    def _server_cpu(self) -> float | None:
        """Seconds of all its processes, also of those that have ended."""
        if self._postmaster is None:
            return None
        ticks = sum(int(text) for text in _stat(self._postmaster)[11:15])
        children = Path(f"/proc/{self._postmaster}/task/{self._postmaster}/children")
        for pid in children.read_text().split():
            try:
                ticks += sum(int(text) for text in _stat(int(pid))[11:13])
            except OSError:
                continue  # ended meanwhile
        return float(ticks / os.sysconf("SC_CLK_TCK"))


def _stat(pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat from the state on; the name before it may hold spaces."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
