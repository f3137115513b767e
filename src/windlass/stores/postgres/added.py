"""Jobs as they are right after they were added, built from the request and the server's answer.

Nothing is read back: a job without a key is a new row, and everything in it is known.
"""

from __future__ import annotations

from collections.abc import Sequence

from windlass.clock import to_datetime
from windlass.model import payload as payloads
from windlass.model.job import Job
from windlass.model.names import DEFAULT_MAX_ATTEMPTS
from windlass.store import rules
from windlass.store.records import NewJob
from windlass.stores.postgres.wire import list_of_payloads


def added(new: Sequence[NewJob], now: int, ids: Sequence[int]) -> list[Job]:
    """What `rules.new_row(…).job()` says of each, for many at once."""
    at = to_datetime(now)
    jobs = []
    values = payloads.decode(list_of_payloads(new))
    run_at, delay = None, 0
    due_at, state = at, rules.waiting_state(now, now)
    for job, job_id, payload in zip(new, ids, values, strict=True):
        if job.run_at != run_at or job.delay != delay:  # seldom: most calls have one instant
            run_at, delay = job.run_at, job.delay
            due = rules.due(job, now)
            due_at, state = to_datetime(due), rules.waiting_state(due, now)
        # By position, in the order of Job's fields: names would take several times as long.
        jobs.append(
            Job(
                job_id,
                job.task,
                payload,
                state,
                job.priority,
                due_at,
                0,
                DEFAULT_MAX_ATTEMPTS if job.max_attempts is None else job.max_attempts,
                None,
                job.key,
                job.queue,
                job.flags,
                0,
                at,
                at,
                None,
                keep=job.keep,
            )
        )
    return jobs
