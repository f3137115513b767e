"""Jobs as streams hand them out."""

from __future__ import annotations

from functools import lru_cache

from windlass.clock import to_datetime
from windlass.model.names import MAX_INT32
from windlass.server.streams.texts import handed_out
from windlass.store.records import Lease
from windlass.store.webhooks import address_of
from windlass.wire.windlass_pb2 import Task

_SECOND = 1_000_000


def fill(
    task: Task,
    lease: Lease,
    payload: bytes,
    *,
    worker_id: str,
    lease_until: str,
    max_attempts: int,
    delivery: bytes,
) -> None:
    """Write a job into a message."""
    task.id = str(lease.job_id)
    task.command = lease.task
    task.payload = payload
    if lease.priority:
        task.priority = min(-lease.priority, MAX_INT32)
    if lease.meta is not None:
        task.webhook = address_of(lease.meta) or ""
    task.max_attempts = max_attempts
    task.status = "IN_PROGRESS"
    task.worker_id = worker_id
    task.lease_until = lease_until
    task.attempts = lease.attempts
    task.tenant_id = lease.tenant
    created, updated = task.created_at, task.updated_at
    created.seconds, created.nanos = lease.created_at // _SECOND, lease.created_at % _SECOND * 1000
    updated.seconds, updated.nanos = lease.updated_at // _SECOND, lease.updated_at % _SECOND * 1000
    task.delivery = delivery


def payload_of(lease: Lease) -> bytes:
    return handed_out(lease.payload, lease.meta)


@lru_cache(maxsize=64)
def instant(seconds: int) -> str:
    """RFC 3339, in UTC and whole seconds. Many jobs are handed out in one second."""
    return to_datetime(seconds * _SECOND).strftime("%Y-%m-%dT%H:%M:%SZ")
