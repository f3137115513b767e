"""Every metric of Windlass, declared here once: its name, what it counts, and its labels.

What fills them is `instruments.py`; `docs/monitoring.md` has a line for each, and a test compares.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """What the numbers of a metric are."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """One declared metric. `bounds` are the upper ends of a histogram's buckets, in seconds."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()


_LONG = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0)
"""For jobs, which take milliseconds or hours."""
_SHORT = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""For single calls of the database and the server."""


def _counter(name: str, help: str, *labels: str) -> Metric:
    return Metric(name, Kind.COUNTER, help, labels)


def _gauge(name: str, help: str, *labels: str) -> Metric:
    return Metric(name, Kind.GAUGE, help, labels)


def _histogram(name: str, help: str, *labels: str, bounds: tuple[float, ...] = _SHORT) -> Metric:
    return Metric(name, Kind.HISTOGRAM, help, labels, bounds)


JOBS_PROCESSED = _counter(
    "windlass_jobs_processed_total",
    "Deliveries that were begun and are over, by task and by what became of them.",
    "task",
    "outcome",
)
JOB_DURATION = _histogram(
    "windlass_job_duration_seconds",
    "How long handlers ran, whatever became of the job.",
    "task",
    bounds=_LONG,
)
JOB_WAIT = _histogram(
    "windlass_job_wait_seconds",
    "From when jobs were due until they began, by the worker's clock.",
    "task",
    bounds=_LONG,
)
IN_FLIGHT = _gauge("windlass_in_flight", "Jobs that run now.", "task")
SLOTS = _gauge("windlass_slots", "Slots of the workers, by what they do now.", "state")
CLAIMS = _counter("windlass_claims_total", "Claims that the database answered.")
CLAIMED_JOBS = _counter("windlass_claimed_jobs_total", "Jobs that those claims brought.")
CLAIM_SECONDS = _histogram("windlass_claim_seconds", "How long claims took.")
SETTLE_SECONDS = _histogram(
    "windlass_settle_seconds", "How long the writes of outcomes took, each a batch of jobs."
)
LEASE_LOST = _counter(
    "windlass_lease_lost_total",
    "Jobs whose lease was lost, or could not be renewed in time, while a worker had them.",
)
REAPED = _counter("windlass_reaped_total", "Jobs taken back from dead workers.")
SCHEDULE_LAG = _histogram(
    "windlass_schedule_lag_seconds",
    "How long after their instant schedules fired, backfill left out.",
    bounds=_LONG,
)
QUEUE_JOBS = _gauge(
    "windlass_queue_jobs", "Jobs in the database by state, exact up to 10,000 of each.", "state"
)
OLDEST_READY = _gauge(
    "windlass_oldest_ready_seconds",
    "For how long the ready job that is due the longest has been due; 0 where none is ready.",
)
STORE_UP = _gauge(
    "windlass_store_up", "Whether the database answered when it was asked for the depths."
)
SERVER_STREAMS = _gauge("windlass_server_streams", "Open streams, by what they are for.", "kind")
SERVER_STREAMS_OPENED = _counter(
    "windlass_server_streams_opened_total", "Streams that were opened.", "kind"
)
SERVER_REQUESTS = _counter(
    "windlass_server_requests_total",
    "REST requests that were answered, by operation and status.",
    "operation",
    "status",
)
SERVER_REQUEST_SECONDS = _histogram(
    "windlass_server_request_seconds", "How long REST requests took.", "operation"
)

METRICS: tuple[Metric, ...] = (
    *(JOBS_PROCESSED, JOB_DURATION, JOB_WAIT, IN_FLIGHT, SLOTS),
    *(CLAIMS, CLAIMED_JOBS, CLAIM_SECONDS, SETTLE_SECONDS, LEASE_LOST, REAPED, SCHEDULE_LAG),
    *(QUEUE_JOBS, OLDEST_READY, STORE_UP),
    *(SERVER_STREAMS, SERVER_STREAMS_OPENED, SERVER_REQUESTS, SERVER_REQUEST_SECONDS),
)
"""All of them, in the order of the documentation."""


class Ending(StrEnum):
    """What became of a delivery: the label `outcome`."""

    OK = "ok"
    RETRY = "retry"
    """It failed, and the job runs again."""
    FAILED = "failed"
    """It failed, and no attempt was left."""
    POISON = "poison"
    """It failed with an error after which there is no further attempt."""
    CANCELLED = "cancelled"
    ABANDONED = "abandoned"
    """It was handed back."""
    LOST = "lost"
    """Its lease was gone, so nothing was written."""


OTHER = "other"
"""The label of all tasks beyond `MOST_TASKS`."""
MOST_TASKS = 500
"""Task names that have figures of their own in one process."""
