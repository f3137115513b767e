"""Where the server is, and how to connect to it."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import conninfo, pq

from windlass.errors import ConfigError, StoreUnavailableError
from windlass.observe.urls import without_password, without_secrets
from windlass.stores.postgres_connections.connection import CALL_LIMIT, BoundedConnection
from windlass.stores.postgres_connections.failures import is_temporary, one_line

CONNECT_LIMIT = 5
"""Seconds to reach a server, where the URL says nothing."""

SILENCE = 20
"""Seconds after which the kernel gives up a peer that acknowledges nothing, where the URL says
nothing. It is the only limit of a handler's own statement, and shorter than the usual lease."""


class ServerAddress:
    """How to connect: what the user's URL says, and time limits where it says nothing.

    With `session=False` nothing is sent that a transaction pooler refuses or forgets.
    """

    def __init__(self, url: str, *, session: bool = True, **overrides: Any) -> None:
        try:
            given = conninfo.conninfo_to_dict(url, **overrides)
        except psycopg.ProgrammingError as error:
            raise ConfigError(
                f"{without_password(url)!r} is not a PostgreSQL address:"
                f" {without_secrets(one_line(error), url)}"
            ) from None
        if "@" in url.partition("://")[2].partition("?")[0].partition("/")[2]:
            # libpq would take the rest of the password for the database's name, and show it.
            raise ConfigError(
                f"{without_password(url)!r} has an @ behind its host; write %2F for a / in a"
                " password"
            )
        self.is_session_ours = session
        self._parameters: dict[str, Any] = {
            "connect_timeout": CONNECT_LIMIT,
            "tcp_user_timeout": SILENCE * 1000,
            "keepalives_idle": 5,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "application_name": "windlass",
            "target_session_attrs": "read-write",
            **given,
        }

    @property
    def name(self) -> str:
        """Host and database, for messages; never the password."""
        host = self._parameters.get("host") or self._parameters.get("hostaddr") or "local"
        return f"{self._parameters.get('dbname') or 'the default database'} on {host}"

    @property
    def conninfo(self) -> str:
        return conninfo.make_conninfo(**self._parameters)

    @property
    def prepare_threshold(self) -> int | None:
        """After how many uses a statement is prepared; never, where sessions are not ours."""
        return 5 if self.is_session_ours else None

    def connect(
        self, *, limit: float | None = CALL_LIMIT, connect_limit: int | None = None
    ) -> BoundedConnection:
        """An autocommit connection of ours; no call on it takes longer than `limit` seconds."""
        parameters = dict(self._parameters)
        if connect_limit is not None:
            parameters["connect_timeout"] = connect_limit
        if self.is_session_ours and limit is not None:
            # What comes last counts: the user may give other limits, but jobs are claimed in READ
            # COMMITTED transactions only. To compile one of our statements takes longer than to run
            # it a hundred times.
            parameters["options"] = " ".join(
                [
                    f"-c statement_timeout={int(limit * 1000)} -c jit=off",
                    parameters.get("options") or _given_options(),
                    "-c default_transaction_isolation=read\\ committed",
                ]
            )
        try:
            connection: BoundedConnection = BoundedConnection.connect(
                **parameters, autocommit=True, prepare_threshold=self.prepare_threshold
            )
        except psycopg.Error as error:
            text = one_line(error)
            if "startup parameter" in text:
                text += " (behind a pooler set prepared_statements=false)"
            raise StoreUnavailableError(
                f"cannot connect to {self.name}: {text}", is_temporary=is_temporary(str(error))
            ) from error
        connection.limit = limit
        return connection


def _given_options() -> str:
    """What libpq would send where an address has no `options`: PGOPTIONS, or a service's."""
    defaults = {option.keyword: option.val for option in pq.Conninfo.get_defaults()}
    return (defaults.get(b"options") or b"").decode()
