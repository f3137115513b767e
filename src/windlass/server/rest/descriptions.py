"""Texts of the OpenAPI document for what is not described where it is declared: types that belong
to all of Windlass, parameters, headers."""

from __future__ import annotations

from typing import Any

from windlass.model.names import MAX_KEY, MAX_TENANT
from windlass.server.identity import Power
from windlass.server.rest.adding import KEY, REPLAYED
from windlass.server.rest.admission import TENANT

TAGS = {
    "jobs": "Add jobs, look at them, change them.",
    "claims": "Work on jobs without a stream.",
    "chains": "Jobs that continue one another.",
    "schedules": "Jobs by the clock.",
    "names": "Tasks, queues, workers and counts.",
    "health": "Whether the server is well.",
    "metrics": "What it does, in numbers.",
    "document": "This document.",
}

POWERS = {
    Power.READ: "For every role. A worker's token for some tasks sees the jobs of these alone.",
    Power.ADD: "For every role.",
    Power.CLAIM: "For the roles worker and admin.",
    Power.OPERATE: "For the roles operator and admin.",
    Power.ADMINISTER: "For the role admin.",
}

_JOB = {
    "description": "The job's id.",
    "schema": {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
    "example": 7,
}
_NAME: dict[str, Any] = {
    "schema": {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[^\\u0000]+$"}
}

PARAMETERS: dict[tuple[str, str], dict[str, Any]] = {
    ("jobs", "id"): _JOB,
    ("chains", "id"): {**_JOB, "description": "The chain's id, which is its first job's."},
    ("schedules", "id"): {
        "description": "The schedule's identifier.",
        **_NAME,
        "example": "weekly_report",
    },
    ("names", "name"): {
        "description": "The name; a slash in it is sent as %2F.",
        **_NAME,
        "example": "welcome",
    },
}
"""By tag and name."""

HEADERS: dict[str, dict[str, Any]] = {
    TENANT: {
        "description": "For admins: the tenant that is meant, instead of all (in lists and by id)"
        " and instead of the token's own (in what is added, and by name). Empty is the default"
        " tenant.",
        "required": False,
        "schema": {"type": "string", "maxLength": MAX_TENANT},
        "example": "acme",
    },
    KEY: {
        "description": "A name for this request, so that it may be sent again within 24 hours and"
        " adds its jobs once. The same name with another request is a conflict.",
        "required": False,
        "schema": {"type": "string", "minLength": 1, "maxLength": MAX_KEY},
        "example": "order-7-mail",
    },
    REPLAYED: {
        "description": "There, and `true`, where the request was served before.",
        "schema": {"type": "string", "const": "true"},
    },
}

_CHAIN_STATE = "open; or how it ended: completed, failed or cancelled."

FIELDS: dict[str, dict[str, str]] = {
    "*": {
        "task": "The task's name.",
        "payload": "What the task is given.",
        "tenant": "Whose it is; null is the default tenant.",
        "queue": "The serial queue it is in.",
        "priority": "Smaller numbers run first.",
        "max_attempts": "Attempts before it fails for good.",
        "flags": "Labels by which a worker may skip it.",
        "key_mode": "What becomes of a job that has the key already.",
        "strict": "Whether its queue waits while it waits for a retry, or has failed.",
        "created_at": "When it was added.",
        "finished_at": "When it ended.",
        "outcome": "How the job ended.",
    },
    "Claim": {"job": "The job as it was claimed."},
    "Job": {
        "id": "Its number in the database.",
        "state": "Where it is in its life; the last three are completed, failed and cancelled.",
        "run_at": "When it may start, or might at the earliest.",
        "attempts": "Attempts used so far.",
        "last_error": "Why the last attempt failed.",
        "key": "Its unique name.",
        "revision": "How often it was changed under its key.",
        "updated_at": "When it last changed.",
        "locked_by": "The worker that runs it.",
        "output": "What it made, where it is kept.",
        "progress": "How far it says it is.",
        "log": "What it wrote, the last 200 entries.",
        "resets": "How often it was taken from a worker that died.",
        "deliveries": "How often it was handed to a worker.",
        "keep": "Seconds for which it is kept once it has completed.",
        "meta": "A small object that goes along with it.",
        "errors": "The last ten failed attempts, the oldest first.",
        "chain": "The chain it belongs to.",
        "step": "Its place in that chain, from 0.",
        "blockers_open": "How many chains it still waits for.",
        "blockers_total": "How many chains it named.",
    },
    "Progress": {"fraction": "From 0 to 1.", "note": "In words."},
    "FailedAttempt": {
        "attempt": "Its number.",
        "at": "When it ended.",
        "worker": "On which worker.",
        "error": "Why; the beginning, where it is long.",
    },
    "Chain": {
        "id": "The id of its first job.",
        "task": "The task of its first job.",
        "payload": "The payload of its first job.",
        "state": _CHAIN_STATE,
        "output": "What its last job made, once it has completed.",
        "error": "Why it failed.",
        "job": "Its current job, while that is stored.",
        "length": "How many jobs it has so far.",
        "key": "Its unique name.",
        "deduplicated": "Whether a start was answered with a chain that had the key already.",
        "created_at": "When it started.",
    },
    "ScheduleInfo": {
        "id": "Its identifier.",
        "pattern": "When it fires, as crontabs say it.",
        "tz": "The time zone of the pattern.",
        "next_at": "When it fires next; null while it is paused.",
        "last_at": "The last instant for which it fired.",
        "paused_at": "Since when it is paused.",
        "known_since": "When the database first heard of it.",
        "seen_at": "When a worker last started with it.",
        "schedule": "All that the crontab says of it.",
    },
    "Schedule": {
        "identifier": "By which it is known.",
        "pattern": "When it fires, as crontabs say it.",
        "tz": "The time zone of the pattern.",
        "fill": "Seconds back for which missed instants are made up for.",
        "fillmax": "The most missed instants that are made up for.",
        "key": "The key of its jobs.",
    },
    "Document": {
        "openapi": "The version of OpenAPI.",
        "info": "What it describes.",
        "paths": "The addresses.",
        "components": "The types.",
    },
}
"""By component and field; under `*` those that mean the same everywhere."""
FIELDS["ShownJob"] = {**FIELDS["Job"], "blockers": "The chains that it named as blockers."}

_LEASE = "AcVuZjQ2YmQxN2E5"

EXAMPLES: dict[str, dict[str, Any]] = {
    "add_jobs": {
        "one": {"task": "welcome", "payload": {"user_id": 7}},
        "many": {"jobs": [{"task": "welcome"}, {"task": "report", "queue": "reports"}]},
    },
    "cancel_jobs": {"a queue": {"queue": "reports"}},
    "retry_jobs": {"what failed": {"state": ["failed"], "task": "welcome"}},
    "delete_jobs": {"what has ended": {"state": ["completed", "cancelled"]}},
    "fail_job": {"a reason": {"reason": "the customer left"}},
    "reschedule_job": {"later": {"run_at": "2030-01-31T09:00:00Z", "priority": -5}},
    "claim_jobs": {"ten jobs": {"tasks": ["welcome"], "count": 10, "lease": 60, "wait": 30}},
    "settle_claims": {
        "one done, one to try again": {
            "outcomes": [
                {"lease": _LEASE, "outcome": "completed", "output": {"sent": True}},
                {"lease": _LEASE, "outcome": "nack", "delay": 30, "reason": "the relay is busy"},
            ]
        }
    },
    "renew_claims": {"one": {"leases": [_LEASE], "lease": 60}},
    "start_chains": {
        "one": {"task": "charge", "payload": {"order": 7}, "key": "order-7"},
        "many": {"chains": [{"task": "charge"}, {"task": "ship"}]},
    },
    "complete_chain": {
        "an output": {"output": {"approved": True}},
        "another job": {"then": {"task": "ship", "payload": {"order": 7}}},
    },
}
"""Bodies by operation, each under a name."""
