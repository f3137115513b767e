"""Where a bench happens: a folder of its own, or schemas of its own in a PostgreSQL database.

A site hands out addresses. Each is empty, for Windlass and for the bare statements that share it,
and everything goes when the site is closed. Nothing else on the server is read or changed.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple, Protocol

import click
import msgspec

from windlass.errors import ConfigError, MissingExtraError
from windlass.store_kinds import POSTGRES, kind_of


class Address(msgspec.Struct, frozen=True):
    """A place for one measurement, as a child process is told of it."""

    url: str
    schema: str
    synchronous: str
    token: str | None = None
    """Of a server."""


class Reading(NamedTuple):
    """What the server has used so far: seconds of CPU and bytes of WAL, where they can be had."""

    cpu: float | None
    wal: int | None


class Site(Protocol):
    """Two kinds: `FileSite`, and `ServerSite` in `server`."""

    database: str
    """The database with its version."""

    @property
    def can_hold(self) -> bool:
        """Whether an open transaction keeps the dead rows of others alive."""

    def fresh(self, part: str) -> Address:
        """An empty place; what an earlier call with the same `part` made is gone."""

    def tidy(self, address: Address) -> None:
        """Vacuum and analyse what was just loaded, as the server would by itself soon."""

    def read(self) -> Reading: ...

    def hold(self) -> AbstractContextManager[None]:
        """Keep a snapshot open for as long as the block lasts."""

    def close(self) -> None: ...


class FileSite:
    """Files in a folder that is removed afterwards."""

    can_hold = False

    def __init__(self, folder: Path, synchronous: str) -> None:
        self.database = f"SQLite {sqlite3.sqlite_version}, synchronous={synchronous}"
        self._synchronous = synchronous
        self._folder = Path(tempfile.mkdtemp(prefix="windlass-bench-", dir=folder))

    def fresh(self, part: str) -> Address:
        for file in self._folder.glob(f"{part}.*"):
            file.unlink()
        return Address(f"sqlite:///{self._folder / part}.db", "windlass", self._synchronous)

    def tidy(self, address: Address) -> None:
        """A file has no dead rows, and the plans on SQLite depend on no statistics."""

    def read(self) -> Reading:
        """SQLite works inside the worker; there is no server."""
        return Reading(None, None)

    def hold(self) -> AbstractContextManager[None]:
        """Nothing to hold: a file keeps no dead rows for its readers."""
        return nullcontext()

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def choose_site(url: str | None, folder: Path | None, synchronous: str | None) -> Site:
    """A file in `folder` (or the current one), beside the file a SQLite URL names, or schemas on
    the PostgreSQL server that `url` names."""
    if url is None:
        return FileSite((folder or Path()).resolve(), synchronous or "full")
    if folder is not None:
        raise click.UsageError("--folder is for SQLite without -c.")
    if url.startswith("memory:"):
        raise ConfigError("jobs in memory:// live in one process; leave -c out for a file")
    kind = kind_of(url)
    file = kind.file(url)
    if file is not None:
        parent = file.resolve().parent
        if not parent.is_dir():
            raise click.UsageError(f"there is no folder {parent}.")
        return FileSite(parent, synchronous or "full")
    if not kind.is_postgres:
        raise click.UsageError("-c takes a sqlite:/// or postgresql:// URL.")
    if synchronous is not None:
        raise click.UsageError("--synchronous is for SQLite; PostgreSQL has its own setting.")
    try:
        from windlass.cli.bench.server import ServerSite
    except ImportError as error:
        raise MissingExtraError("PostgreSQL", "postgres") from error
    return ServerSite(POSTGRES.address(url))
