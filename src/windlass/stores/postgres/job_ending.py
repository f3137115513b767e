"""How a job of our own schema is ended in a handler's own transaction."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import psycopg

from windlass.store.records import Lease, Outcome, Settled
from windlass.stores.postgres.settlements import Settlements
from windlass.stores.postgres_connections.call_threads import fetch_row


class JobEnding:
    """The end of a job in our own schema."""

    def __init__(self, schema: str, lease: Lease, now: Callable[[], datetime | None]) -> None:
        self.job_id = lease.job_id
        self._schema = schema
        self._lease = lease
        self._now = now

    def settle(self, cursor: psycopg.Cursor[Any], outcome: Outcome) -> tuple[Settled, str]:
        settlements = Settlements([(self._lease, outcome)])
        calls = settlements.calls(self._schema)
        statement = f"SELECT {calls}, pg_catalog.pg_current_xact_id()::text"
        values = settlements.values(True, self._now(), waits=True)
        cursor.execute(statement.encode(), values)
        row = cursor.fetchone()
        assert row is not None
        *texts, number = row
        return settlements.answers(texts)[0], number

    def is_running(self, connection: psycopg.Connection[Any]) -> bool:
        [is_running] = fetch_row(
            connection,
            f"SELECT EXISTS (SELECT FROM {self._schema}._jobs AS j"  # noqa: S608
            f" WHERE j.id = %s AND {self._schema}._is_owned(j, %s))",
            [self._lease.job_id, self._lease.token],
        )
        return bool(is_running)
