"""The kinds of store: which kind a URL names, and how a store is made from settings.

`KINDS` is the registry: scheme → kind. A kind imports its store when it makes one, so that no
program pays for a database it does not use. Code that must tell stores apart asks the kind (before
there is a store) or the store's `capabilities`; it never compares classes or schemes. So a new kind
of store is one subclass of `Kind` and one entry in `KINDS`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from windlass.clock import SYSTEM, Clock
from windlass.config import Settings
from windlass.errors import ConfigError, MissingExtraError
from windlass.observe.urls import without_password
from windlass.store.port import Store

_DATABASE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_SUGGESTED = "use sqlite:///jobs.db, postgresql://…, grpc://host:9091 or memory://"


class Kind(ABC):
    """One kind of store. The answers here are those of a server without a schema of ours."""

    is_postgres = False
    """Whether the database is PostgreSQL and this program connects to it directly."""

    @abstractmethod
    def make(self, settings: Settings, clock: Clock, *, look_only: bool = False) -> Store:
        """The store that `settings.url` names, not opened yet.

        With `look_only` opening it makes and changes nothing; a server's database is left as it
        is by the setting `migrate`.
        """

    def schema_sql(self, settings: Settings) -> str:
        """The statements that make the schema; ConfigError where there is none to print."""
        raise ConfigError(f"{without_password(settings.url)} has no schema to print")

    def file(self, url: str) -> Path | None:
        """The file that holds the jobs, or None."""
        return None


class MemoryKind(Kind):
    def make(self, settings: Settings, clock: Clock, *, look_only: bool = False) -> Store:
        from windlass.stores.memory import MemoryStore

        return MemoryStore(clock)


class SqliteKind(Kind):
    def make(self, settings: Settings, clock: Clock, *, look_only: bool = False) -> Store:
        from windlass.stores.sqlite import SqliteStore

        return SqliteStore(
            self.file(settings.url),
            clock=clock,
            synchronous=settings.synchronous,
            migrate=settings.migrate,
            look_only=look_only,
        )

    def schema_sql(self, settings: Settings) -> str:
        from windlass.stores.sqlite.schema import script

        return script()

    def file(self, url: str) -> Path:
        rest = url.partition("://")[2]
        if not rest.startswith("/"):
            host = rest.partition("/")[0]
            raise ConfigError(
                f"{url!r} has {host!r} where a host would be; write sqlite:///{rest}"
                f" for a relative path or sqlite:////{rest} for an absolute one"
            )
        if "?" in rest:
            raise ConfigError(f"{url!r} has parameters; write %3F for a ? in the file's name")
        path = unquote(rest[1:])
        if not path:
            raise ConfigError(f"{url!r} names no file; write sqlite:///jobs.db")
        return Path(path)


class PostgresKind(Kind):
    is_postgres = True

    def make(self, settings: Settings, clock: Clock, *, look_only: bool = False) -> Store:
        return self._make(settings, clock, url=self.address(settings.url))

    def address(self, url: str) -> str:
        """The URL as libpq takes it; a bare name is that of a local database."""
        return url if "://" in url else f"postgresql:///{url}"

    def make_on_pool(self, settings: Settings, clock: Clock, pool: Any) -> Store:
        """The store in the database of the caller's own psycopg pool."""
        return self._make(settings, clock, pool=pool)

    def _make(self, settings: Settings, clock: Clock, **where: Any) -> Store:
        try:
            from windlass.stores.postgres import PostgresStore
        except ImportError as error:
            raise MissingExtraError("PostgreSQL", "postgres") from error
        return PostgresStore(
            schema_name=settings.schema,
            clock=clock,
            migrate=settings.migrate,
            max_pool_size=settings.max_pool_size,
            listen=settings.listen,
            prepared_statements=settings.prepared_statements,
            **where,
        )

    def schema_sql(self, settings: Settings) -> str:
        from windlass.stores.postgres.schema import script

        return script(settings.schema)


class RemoteKind(Kind):
    """A Windlass server, which has a database of its own."""

    def make(self, settings: Settings, clock: Clock, *, look_only: bool = False) -> Store:
        try:
            from windlass.stores.remote import RemoteStore, ServerAddress
        except ImportError as error:
            raise MissingExtraError("a grpc:// URL", "remote") from error
        address = ServerAddress.parse(
            settings.url,
            token=settings.token,
            ca=settings.tls_ca,
            certificate=settings.tls_certificate,
        )
        return RemoteStore(address)


POSTGRES = PostgresKind()
REMOTE = RemoteKind()

KINDS: dict[str, Kind] = {
    "memory": MemoryKind(),
    "sqlite": SqliteKind(),
    "postgresql": POSTGRES,
    "postgres": POSTGRES,
    "grpc": REMOTE,
    "grpcs": REMOTE,
}


def kind_of(url: str) -> Kind:
    """The kind of store a URL names; a bare database name means a local PostgreSQL.

    Raises ConfigError where there is none.
    """
    scheme, separator, _ = url.partition("://")
    if not separator:
        if _DATABASE_NAME.fullmatch(url):
            return POSTGRES
        raise ConfigError(f"{without_password(url)!r} is not a URL; {_SUGGESTED}")
    if scheme not in KINDS:
        raise ConfigError(f"there is no store for {scheme}:// URLs; {_SUGGESTED}")
    return KINDS[scheme]


def database_file(url: str) -> Path | None:
    """The file that holds the jobs of a URL, or None where they are elsewhere."""
    return kind_of(url).file(url)


def make_store(
    settings: Settings, clock: Clock = SYSTEM, pool: Any = None, *, look_only: bool = False
) -> Store:
    """The store that `settings.url` names or, where a psycopg pool is given, the one on its
    database. It is not opened. `look_only` is as in `Kind.make`."""
    if pool is not None:
        return POSTGRES.make_on_pool(settings, clock, pool)
    return kind_of(settings.url).make(settings, clock, look_only=look_only)
