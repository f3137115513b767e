"""Webhooks: the end of a job whose `meta` has an address under `webhook` is posted there.

The step that ends such a job stores another one, of the task `WEBHOOK_TASK` and the same tenant,
whose payload says what to post and where. A server runs it. So an end is posted if and only if it
is stored, and a call that fails is retried like any job, and visible like one.
"""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.model import payload as payloads
from windlass.model.job import Instant, JsonText
from windlass.store.records import NewJob, Row

WEBHOOK = "webhook"
"""The name in a job's `meta`."""
WEBHOOK_TASK = "windlass.webhook"
WEBHOOK_KEEP = 24 * 3600.0
"""Seconds for which a call that arrived can be seen."""


class EndedJob(msgspec.Struct):
    """What is told of a job that ended."""

    id: int
    task: str
    state: str
    output: msgspec.Raw
    error: str | None
    attempts: int
    key: str | None
    queue: str | None
    tenant: str | None
    chain: int | None
    created_at: Instant
    finished_at: Instant | None


class WebhookCall(msgspec.Struct):
    """The payload of a job of `WEBHOOK_TASK`."""

    url: str
    job: EndedJob


def address_of(meta: JsonText | None) -> str | None:
    """Where the end of a job with this `meta` is to be posted, if anywhere. What is no text is no
    address: another program may have written it."""
    if meta is None or f'"{WEBHOOK}"' not in meta:
        return None
    found: Any = payloads.shown(meta)
    url = found.get(WEBHOOK) if isinstance(found, dict) else None
    return url if isinstance(url, str) else None


def call_for(row: Row, url: str, now: int) -> NewJob:
    """The job that tells `url` how `row`, which has just ended, ended."""
    call = WebhookCall(
        url,
        EndedJob(
            id=row.id,
            task=row.task,
            state=row.state,
            output=msgspec.Raw((row.output or "null").encode()),
            error=row.last_error,
            attempts=row.attempts,
            key=row.key,
            queue=row.queue,
            tenant=row.tenant or None,
            chain=row.chain,
            created_at=row.created_at,
            finished_at=now,
        ),
    )
    payload = msgspec.json.encode(call).decode()
    return NewJob(task=WEBHOOK_TASK, payload=payload, tenant=row.tenant, keep=WEBHOOK_KEEP)
