"""What operators ask for: look at jobs and change them. Running jobs are never changed here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from windlass.clock import Clock
from windlass.model.job import Job, JobState
from windlass.store import rules
from windlass.store.records import JobFilter, Paused, Row, WorkerInfo
from windlass.stores.sqlite import ending, queues, rows
from windlass.stores.sqlite.changes import Changes
from windlass.stores.sqlite.connection import Session
from windlass.stores.sqlite.ending import Ended
from windlass.stores.sqlite.lease_clock import ticks
from windlass.stores.sqlite.rows import json_text

_ENDED = (JobState.FAILED, JobState.CANCELLED)

Change = Callable[[Row, int], None]

_counts = msgspec.json.Decoder(dict[JobState, int]).decode
_workers = msgspec.json.Decoder(list[tuple[str, int, int]]).decode
_failed = msgspec.json.Decoder(list[tuple[int, str | None]]).decode
_paused = msgspec.json.Decoder(list[tuple[str, str]]).decode


# ── looking ──


def get(db: Session, job_id: int) -> Row | None:
    ids = json_text([job_id])
    found = rows.read(db, "read_jobs", ids=ids) or rows.read(db, "read_history", ids=ids)
    return found[0] if found else None


def get_by_key(db: Session, key: str) -> Row | None:
    found = rows.read(db, "read_keyed", keys=json_text([key]))
    return found[0] if found else None


def find(db: Session, wanted: JobFilter) -> list[Row]:
    if wanted.ids is not None:
        found = _find_by_id(db, wanted)
    else:
        found = _find_by_page(db, wanted)
    found.sort(key=lambda row: row.id)
    return found[: wanted.limit]


def _find_by_id(db: Session, wanted: JobFilter) -> list[Row]:
    ids = json_text(sorted({job_id for job_id in wanted.ids or () if job_id > wanted.after}))
    found = rows.read(db, "read_jobs", ids=ids) + rows.read(db, "read_history", ids=ids)
    return [
        row
        for row in found
        if (wanted.states is None or row.state in wanted.states)
        and (wanted.task is None or row.task == wanted.task)
        and (wanted.queue is None or row.queue == wanted.queue)
        and (wanted.key is None or row.key == wanted.key)
    ]


def _find_by_page(db: Session, wanted: JobFilter) -> list[Row]:
    """Finished jobs have indexes of their own; the others are walked by id."""
    page = {
        "after": wanted.after,
        "task": wanted.task,
        "queue": wanted.queue,
        "key": wanted.key,
        "limit": wanted.limit,
    }
    found: list[Row] = []
    states = None if wanted.states is None else set(wanted.states)
    if states is None or JobState.COMPLETED in states:
        found += rows.read(db, "find_history", **page)
    if states is None:
        found += rows.read(db, "find_jobs", states=None, **page)
    elif open_states := states - {JobState.COMPLETED, *_ENDED}:
        stored = [*open_states, *(["waiting"] if JobState.READY in open_states else [])]
        found += rows.read(db, "find_jobs", states=json_text(stored), **page)
    for state in _ENDED:
        if states is not None and state in states:
            found += rows.read(db, "find_ended", state=state.value, **page)
    return found


def counts(db: Session) -> dict[JobState, int]:
    return dict.fromkeys(JobState, 0) | _counts(db.value("count_jobs"))


def workers(db: Session, clock: Clock) -> list[WorkerInfo]:
    """Their leases end by the monotonic clock, which is told here as the wall clock's time."""
    shift = clock.now() - ticks(clock)
    return [
        WorkerInfo(name, expires_at + shift, running)
        for name, expires_at, running in _workers(db.value("list_workers"))
    ]


def paused(db: Session) -> Paused:
    names = _paused(db.value("list_paused"))
    return Paused(
        tasks=tuple(name for kind, name in names if kind == "task"),
        queues=tuple(name for kind, name in names if kind == "queue"),
    )


# ── changing ──


def _change(db: Session, verb: str, ids: Sequence[int], now: int, change: Change) -> list[Row]:
    found = {row.id: row for row in rows.read(db, "read_jobs", ids=json_text(list(set(ids))))}
    changes = Changes()
    changed = []
    for job_id in dict.fromkeys(ids):
        row = found.get(job_id)
        if row is not None and row.state in rules.TOUCHED_BY[verb]:
            changes.change(row)
            change(row, now)
            if row.state is JobState.COMPLETED:
                changes.finish(row)
            changed.append(row)
    if changed:
        changes.save(db)
    return changed


def cancel(db: Session, ids: Sequence[int], now: int) -> list[Row]:
    return _change(db, "cancel", ids, now, rules.cancel)


def complete(db: Session, ids: Sequence[int], now: int) -> list[Row]:
    def change(row: Row, now: int) -> None:
        rules.complete(row, None, now)

    return _change(db, "complete", ids, now, change)


def fail(db: Session, ids: Sequence[int], reason: str, now: int) -> list[Row]:
    def change(row: Row, now: int) -> None:
        rules.give_up(row, reason, now)

    return _change(db, "fail", ids, now, change)


def reschedule(
    db: Session,
    ids: Sequence[int],
    run_at: int | None,
    priority: int | None,
    attempts: int | None,
    max_attempts: int | None,
    now: int,
) -> list[Row]:
    def change(row: Row, now: int) -> None:
        rules.reschedule(
            row,
            now,
            run_at=run_at,
            priority=priority,
            attempts=attempts,
            max_attempts=max_attempts,
        )

    return _change(db, "reschedule", ids, now, change)


def retry(db: Session, ids: Sequence[int], now: int) -> list[Row]:
    free = _with_free_keys(db, ids)
    return _change(db, "retry", free, now, rules.run_again)


def _with_free_keys(db: Session, ids: Sequence[int]) -> list[int]:
    """Without the cancelled jobs whose key another job, or an earlier one here, has by now."""
    found = {row.id: row for row in rows.read(db, "read_jobs", ids=json_text(list(set(ids))))}
    cancelled = {row.key for row in found.values() if row.state is JobState.CANCELLED and row.key}
    if not cancelled:
        return list(ids)
    holders = rows.read(db, "read_keyed", keys=json_text(sorted(cancelled)))
    taken = {row.key for row in holders}
    free = []
    for job_id in dict.fromkeys(ids):
        row = found.get(job_id)
        if row is not None and row.state is JobState.CANCELLED and row.key is not None:
            if row.key in taken:
                continue
            taken.add(row.key)
        free.append(job_id)
    return free


def remove(db: Session, key: str, now: int) -> Row | None:
    row = get_by_key(db, key)
    if row is None:
        return None
    changes = Changes()
    if row.state is JobState.RUNNING:
        changes.change(row)
        rules.supersede(row, now)
    else:
        changes.remove(row)
    changes.save(db)
    return row


def unlock(db: Session, names: Sequence[str], max_resets: int, now: int) -> list[Row]:
    held = rows.read(db, "read_held", workers=json_text(list(names)))
    changes = Changes()
    for row in held:
        changes.take_back(row, max_resets, now)
    if held:
        changes.save(db)
    db.run("delete_workers", {"workers": json_text(list(names))})
    return held


def pause(db: Session, task: str | None, queue: str | None) -> None:
    _set_paused(db, "insert_paused", task, queue)


def resume(db: Session, task: str | None, queue: str | None) -> None:
    _set_paused(db, "delete_paused", task, queue)
    db.made_ready = True


def _set_paused(db: Session, statement: str, task: str | None, queue: str | None) -> None:
    if task is not None:
        db.run(statement, {"kind": "task", "name": task})
    if queue is not None:
        db.run(statement, {"kind": "queue", "name": queue})
        queues.admit(db, {queue})


def delete_failed(db: Session, limit: int) -> int:
    failed = _failed(db.value("read_failed", {"limit": limit}))
    if failed:
        db.run("delete_jobs", {"ids": json_text([job_id for job_id, _ in failed])})
        ending.ended(db, [Ended(job_id, queue, None) for job_id, queue in failed])
    return len(failed)


def jobs(found: Sequence[Row]) -> list[Job]:
    return [row.job() for row in found]
