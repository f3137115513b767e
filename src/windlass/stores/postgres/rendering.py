"""SQL for one schema: the names that depend on it, properly quoted, and the values that the texts
of migrations and functions take from Python.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache

from psycopg import sql

from windlass.clock import to_datetime
from windlass.model.job import JobState
from windlass.model.names import DEFAULT_MAX_ATTEMPTS, DEFAULT_MAX_RESETS, LONGEST, RESERVED
from windlass.model.payload import MAX_PAYLOAD
from windlass.store import chaining, rules, webhooks
from windlass.store.figures import PERIOD, RATES_KEPT
from windlass.store.hints import SOON
from windlass.store.records import (
    CHAIN_DELETED,
    MAX_ERROR_TEXT,
    MAX_ERRORS,
    MOST_BLOCKER_TEXT,
)
from windlass.store.server import REQUESTS_KEPT

MOST_SPANS = 4_000
"""Ranges of ids in all batches, beyond which a claim writes no further batch."""

TOLD_EACH = 1_024
"""Jobs that one call tells of the end of a chain; those beyond are told by the next claims."""
TOLD_AT_ONCE = 8 * TOLD_EACH
"""The same for all chains that end in the call. What follows from failures is told in the same call
up to `TOLD_EACH` jobs."""

_PLACES = re.compile(r"\{[a-z_]+\}")
_LONGEST_CHANNEL = 63


@cache
def quoted(schema: str) -> str:
    return sql.Identifier(schema).as_string()


@cache
def channel(schema: str) -> str:
    """Where workers of this schema listen."""
    name = f"{schema}:jobs"
    if len(name.encode()) <= _LONGEST_CHANNEL:
        return name
    return f"{hashlib.sha256(schema.encode()).hexdigest()[:32]}:jobs"


def latch(schema: str) -> int:
    """The number of the advisory lock behind which queued jobs become ready."""
    return lock_number("latch", schema)


def turn(schema: str) -> int:
    """The number of the advisory lock of whichever claim takes many jobs just now."""
    return lock_number("turn", schema)


def knots(schema: str) -> int:
    """What the numbers of the advisory locks are made from behind which chains are searched for
    cycles, one for each tenant."""
    return lock_number("knots", schema)


def lock_number(purpose: str, schema: str) -> int:
    digest = hashlib.sha256(f"windlass {purpose} {schema}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def render(text: str, schema: str) -> str:
    """A text of SQL for one schema."""
    places = _places(schema)
    return _PLACES.sub(lambda found: places[found[0]], text)


@cache
def _places(schema: str) -> dict[str, str]:
    name = quoted(schema)
    return {
        "{schema}": name,
        "{schema_text}": literal(schema),
        "{channel}": literal(channel(schema)),
        "{latch}": f"'{latch(schema)}'::bigint",
        "{turn}": f"'{turn(schema)}'::bigint",
        "{knots}": f"'{knots(schema)}'::bigint",
        "{sequence}": literal(f"{name}._jobs_id_seq") + "::regclass",
        "{entries_read}": _entries_read(name),
        "{scheduled_index}": literal(f"{name}._jobs_scheduled"),
        "{batches_index}": literal(f"{name}._batches_pkey"),
        "{most_spans}": str(MOST_SPANS),
        "{last_instant}": f"timestamptz {literal(to_datetime(rules.LAST_INSTANT).isoformat())}",
        "{soon}": f"interval '{SOON:g} s'",
        "{superseded}": literal(rules.SUPERSEDED),
        "{killed}": literal(rules.KILLED),
        "{blocker_failed}": literal(rules.BLOCKER_FAILED),
        "{own_chain}": literal(chaining.OWN_CHAIN),
        "{deleted_chain}": literal(CHAIN_DELETED),
        "{most_blocker_text}": str(MOST_BLOCKER_TEXT),
        "{told_at_once}": str(TOLD_AT_ONCE),
        "{told_each}": str(TOLD_EACH),
        **{f"{{states_of_{verb}}}": _states(verb) for verb in ("cancel", "retry", "delete")},
        "{states_of_change}": _states("complete"),
        "{max_attempts}": str(DEFAULT_MAX_ATTEMPTS),
        "{max_resets}": str(DEFAULT_MAX_RESETS),
        "{max_payload}": str(MAX_PAYLOAD),
        "{longest}": str(LONGEST),
        "{rates_period}": f"interval '{PERIOD:g} s'",
        "{rates_kept}": f"interval '{RATES_KEPT:g} s'",
        "{requests_kept}": f"interval '{REQUESTS_KEPT:g} s'",
        "{reserved_names}": RESERVED,
        "{webhook}": literal(webhooks.WEBHOOK),
        "{webhook_task}": literal(webhooks.WEBHOOK_TASK),
        "{webhook_keep}": str(webhooks.WEBHOOK_KEEP),
        "{max_errors}": str(MAX_ERRORS),
        "{max_error_text}": str(MAX_ERROR_TEXT),
    }


def _states(verb: str) -> str:
    """Where a verb of operators changes a job. A job that waits for its queue is ready."""
    touched = rules.TOUCHED_BY[verb]
    waiting = ("waiting",) if JobState.READY in touched else ()
    return ", ".join(literal(state) for state in (*touched, *waiting))


assert len({rules.TOUCHED_BY[verb] for verb in ("complete", "fail", "reschedule")}) == 1


def _entries_read(schema: str) -> str:
    """How many entries this transaction has read of the indexes that claims walk."""
    indexes = (
        *("_jobs_ready", "_jobs_ready_others", "_jobs_ready_tenant"),
        *("_bells_default", "_bells_others", "_bells_tenant"),
    )
    read = "pg_stat_get_xact_tuples_returned({0}::regclass)"
    return "(" + " + ".join(read.format(literal(f"{schema}.{name}")) for name in indexes) + ")"


def literal(text: str) -> str:
    return sql.Literal(text).as_string()
