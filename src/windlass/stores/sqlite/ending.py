"""The end of jobs: the one place that every job passes when it ends, whatever ended it.

What is an end
    A job comes into a final state from another one: completed, failed or cancelled, by its worker,
    by an operator, or because its worker died. Or it is taken out of the table without: removed
    by its key, or deleted after it failed. One job can end more than once: a failed job is retried
    and completes, or an operator completes or deletes it. `prune` ends nothing: it only forgets
    jobs that ended long ago.

What may hang here
    Whatever must follow from an end if and only if the end itself is stored. It runs inside the
    write transaction, after the jobs were written: on the writer thread's connection, or on that
    of a handler's own transaction. So it works through `db` alone. A transaction can be undone and
    done again, which calls this again for the same jobs; nothing outside the database may show it.
    If it raises, nothing has ended. A batch is one call: it costs a few statements for all jobs,
    and none for a batch that it does not concern.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from windlass.model.job import JobState
from windlass.stores.sqlite import queues
from windlass.stores.sqlite.connection import Session
from windlass.stores.sqlite.queues import Place


class Ended(msgspec.Struct, frozen=True, gc=False):
    """A job that ends: `state` is final, or None where the job is removed."""

    id: int
    tenant: str
    queue: str | None
    state: JobState | None


def ended(db: Session, jobs: Collection[Ended]) -> None:
    """Let follow what follows from the end of these jobs: their serial queues go on, those too that
    they held."""
    left = queues_of(jobs)
    if left:
        queues.admit(db, left)
        db.made_ready = True


def queues_of(jobs: Collection[Ended]) -> set[Place]:
    """The serial queues that these jobs leave, which `ended` lets go on."""
    return {(job.tenant, job.queue) for job in jobs if job.queue is not None}
