"""How a delivery of a row ends: what crosses to the statements, and what they answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec
import psycopg

from windlass.model.job import JobState
from windlass.store.records import (
    Cancel,
    Complete,
    Fail,
    Lease,
    Outcome,
    Release,
    Settled,
    Verdict,
)
from windlass.stores.postgres_connections.call_threads import fetch_rows
from windlass.stores.table.faults import refused
from windlass.stores.table.statements import Statements

_STATES = {
    "queued": JobState.READY,
    "processing": JobState.RUNNING,
    "errored": JobState.SCHEDULED,
    "due": JobState.READY,  # errored, and to be tried again at once
    "failed": JobState.FAILED,
    "completed": JobState.COMPLETED,
    "canceled": JobState.CANCELLED,
}


def settle_values(
    settlements: Sequence[tuple[Lease, Outcome]], now: datetime | None
) -> dict[str, Any]:
    """The arguments of `Statements.settle`."""
    outcomes = [
        {
            "place": place,
            "id": lease.job_id,
            "token": lease.token,
            "worker": lease.worker,
            **_encoded(outcome),
        }
        for place, (lease, outcome) in enumerate(settlements)
    ]
    return {"outcomes": msgspec.json.encode(outcomes).decode(), "now": now}


def _encoded(outcome: Outcome) -> dict[str, Any]:
    match outcome:
        case Complete():
            return {"kind": "complete"}
        case Fail():
            return {
                "kind": "fail",
                "error": outcome.error,
                "delay": outcome.delay,
                "run_at": outcome.run_at,
                "max_attempts": outcome.max_attempts,
                "final": outcome.final,
            }
        case Release():
            return {"kind": "release"}
        case Cancel():
            return {"kind": "cancel"}


def settled(word: str) -> Settled:
    match word:
        case "lost" | "missing" | "busy":
            return Settled(Verdict(word))
        case _:
            return Settled(Verdict.APPLIED, _STATES[word])


class RowEnding:
    """The end of a delivery in the handler's own transaction; `where` is the database's name."""

    def __init__(
        self, statements: Statements, lease: Lease, where: str, now: Callable[[], datetime | None]
    ) -> None:
        self.job_id = lease.job_id
        self._statements = statements
        self._lease = lease
        self._where = where
        self._now = now

    def settle(self, cursor: psycopg.Cursor[Any], outcome: Outcome) -> tuple[Settled, str]:
        values = settle_values([(self._lease, outcome)], self._now())
        try:
            cursor.execute(self._statements.settle, values)
        except psycopg.ProgrammingError as error:
            raise refused(error, self._where, self._statements.table) from error
        [word] = [word for _, word in cursor.fetchall()]
        cursor.execute("SELECT pg_current_xact_id()::text")
        [number] = cursor.fetchone() or ("",)
        return settled(word), number

    def is_running(self, connection: psycopg.Connection[Any]) -> bool:
        values = {
            "ids": [self._lease.job_id],
            "tokens": [self._lease.token],
            "workers": [self._lease.worker],
        }
        answers = dict(fetch_rows(connection, self._statements.check, values))
        return answers.get(self._lease.job_id, "held") in ("held", "cancel")
