"""How many jobs are in each state, however many there are.

Of each state some index is read up to a limit, and what matches is counted. Where the limit was
reached the number is an estimate: of ids spread over the whole table, so many are of such jobs.
The oldest ready job is looked for among those that were counted, and where these were not all, at
the heads of tasks and priorities too.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import msgspec

from windlass.model.job import JobState
from windlass.store.figures import Depth, Depths
from windlass.stores.sqlite.connection import Session

_PROBES = 1_000
"""Ids of each table that are looked at for an estimate."""
_MOST_HEADS = 500
"""Tasks and priorities whose first ready job is looked at."""

_ENDED = "state = '{0}' AND finished_at IS NOT NULL"
_ACTIVE = "queue = :queue AND (state = 'ready' OR state = 'running')"
_OTHERS = "tenant <> '' AND tenant = :tenant"


class Source(NamedTuple):
    """Where jobs of a state are: a condition that an index serves."""

    state: JobState
    index_name: str
    condition: str
    table: str = "windlass_jobs"

    def read(self, matches: str) -> str:
        """[state, jobs that match, jobs that were read, the earliest instant of the former]."""
        matches = f"{matches} AND state = '{self.state}'" if "OR" in self.condition else matches
        columns = "1 AS job"
        if matches != "true":
            columns = "task, queue, tenant"
            columns += ", state" if "OR" in self.condition else ""
        if self.state is JobState.READY:
            columns += ", run_at"
            earliest = f"min(run_at) FILTER (WHERE {matches})"
        else:
            earliest = "NULL"
        return (
            f"SELECT '{self.state}' AS state, count(*) FILTER (WHERE {matches}) AS jobs,"  # noqa: S608
            f" count(*) AS looked, {earliest} AS earliest FROM (SELECT {columns}"
            f" FROM {self.table} INDEXED BY {self.index_name} WHERE {self.condition} LIMIT :bound)"
        )


def sources(task: str | None, queue: str | None, tenant: str | None) -> list[Source]:
    """The indexes that have the fewest others in them."""
    ready, running = JobState.READY, JobState.RUNNING
    of_task = "" if task is None else " AND task = :task"
    found = [
        Source(JobState.BLOCKED, "windlass_jobs_blocked", f"state = 'blocked'{of_task}"),
        Source(JobState.SCHEDULED, "windlass_jobs_scheduled", "state = 'scheduled'"),
    ]
    if queue is not None:
        waiting = "state = 'waiting' AND queue = :queue"
        found += [
            Source(ready, "windlass_jobs_active", _ACTIVE),
            Source(ready, "windlass_jobs_waiting", waiting),
            Source(running, "windlass_jobs_active", _ACTIVE),
        ]
    else:
        of_default, of_others = (
            "state = 'ready' AND tenant = ''",
            "state = 'ready' AND tenant <> ''",
        )
        if not tenant:
            found.append(Source(ready, "windlass_jobs_ready", of_default + of_task))
        if tenant is None:
            found.append(Source(ready, "windlass_jobs_ready_others", of_others + of_task))
        elif tenant:
            of_one = f"state = 'ready' AND {_OTHERS}{of_task}"
            found.append(Source(ready, "windlass_jobs_ready_tenant", of_one))
        if task is None:
            found.append(Source(ready, "windlass_jobs_waiting", "state = 'waiting'"))
        else:
            queued = f"state = 'waiting' AND queue IS NOT NULL{of_task}"
            parked = "state = 'waiting' AND queue IS NULL"
            found.append(Source(ready, "windlass_jobs_waiting_task", queued))
            found.append(Source(ready, "windlass_jobs_waiting", parked))
        found.append(Source(running, "windlass_jobs_running", "state = 'running'"))
    of_tenant, suffix = (f" AND {_OTHERS}", "_tenant") if tenant else ("", "")
    for state in (JobState.FAILED, JobState.CANCELLED):
        ended = _ENDED.format(state) + of_tenant
        found.append(Source(state, f"windlass_jobs_ended{suffix}", ended))
    index = "windlass_history_tenant" if tenant else "windlass_history_expires"
    kept = _OTHERS if tenant else "true"
    found.append(Source(JobState.COMPLETED, index, kept, "windlass_history"))
    return found


@cache
def statement(has_task: bool, has_queue: bool, tenant: str | None) -> str:
    """The statement for these words; `tenant` is '' for the default one, '*' for any other."""
    found = sources("t" if has_task else None, "q" if has_queue else None, tenant)
    conditions = [
        *(["task = :task"] if has_task else []),
        *(["queue = :queue"] if has_queue else []),
        *(["tenant = :tenant"] if tenant is not None else []),
    ]
    matches = " AND ".join(conditions) or "true"
    reads = "\nUNION ALL\n".join(source.read(matches) for source in found)
    return (
        "SELECT CAST(json_group_array(json_array(state, jobs, looked, earliest)) AS BLOB)"  # noqa: S608
        f" FROM (\n{reads}\n)"
    )


_counted = msgspec.json.Decoder(list[tuple[JobState, int, int, int | None]]).decode
_sampled = msgspec.json.Decoder(dict[JobState, int]).decode


def depths(
    db: Session, task: str | None, queue: str | None, tenant: str | None, most: int, now: int
) -> Depths:
    words = {"task": task, "queue": queue, "tenant": tenant}
    text = statement(task is not None, queue is not None, tenant and "*")
    found = dict.fromkeys(JobState, 0)
    cut: set[JobState] = set()
    earliest: list[int] = []
    for state, jobs, looked, run_at in _counted(db.value_of(text, {**words, "bound": most + 1})):
        found[state] += jobs
        if looked > most:
            cut.add(state)
        if run_at is not None:
            earliest.append(run_at)
    if JobState.READY in cut:
        head: int | None = db.value("find_oldest_ready", {**words, "most": _MOST_HEADS})
        earliest += [] if head is None else [head]
    estimates = _sampled(db.value("sample_jobs", {**words, "probes": _PROBES})) if cut else {}
    return Depths(
        states={
            state: Depth(max(count, estimates.get(state, 0)), is_estimate=True)
            if state in cut or count > most
            else Depth(count)
            for state, count in found.items()
        },
        now=now,
        oldest_ready_at=min(earliest, default=None),
    )
