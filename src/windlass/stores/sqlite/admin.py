"""What operators ask for: look at jobs and change them. Running jobs are never changed here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from windlass.clock import Clock
from windlass.model.chain import ChainState
from windlass.model.job import DEFAULT_TENANT, Job, JobState
from windlass.store import rules
from windlass.store.records import (
    JobFilter,
    Paused,
    PausedName,
    Row,
    WorkerInfo,
    paused_in,
    sees,
)
from windlass.stores.sqlite import ending, few, queues, rows
from windlass.stores.sqlite.book import SqliteBook
from windlass.stores.sqlite.connection import Session
from windlass.stores.sqlite.ending import Ended
from windlass.stores.sqlite.lease_clock import ticks
from windlass.stores.sqlite.rows import json_text
from windlass.stores.sqlite.statements import OF_OTHERS

_ENDED = (JobState.FAILED, JobState.CANCELLED)
_AFTER_ALL = 2**63 - 1
"""An id that no job reaches."""

Change = Callable[[Row, int], None]


class _Failed(msgspec.Struct, array_like=True):
    """What is read of a job that is to be deleted."""

    id: int
    tenant: str
    queue: str | None
    blockers_total: int | None


_counts = msgspec.json.Decoder(dict[JobState, int]).decode
_workers = msgspec.json.Decoder(list[tuple[str, int, int]]).decode
_failed = msgspec.json.Decoder(list[_Failed]).decode
_paused = msgspec.json.Decoder(list[PausedName]).decode
_queues = msgspec.json.Decoder(list[str]).decode


# ── looking ──


def get(db: Session, job_id: int, tenant: str | None) -> Row | None:
    ids = json_text([job_id])
    found = rows.read(db, "read_jobs", ids=ids) or rows.read(db, "read_history", ids=ids)
    return found[0] if found and sees(tenant, found[0]) else None


def get_by_key(db: Session, key: str, tenant: str) -> Row | None:
    found = rows.read_named(db, "read_keyed", [(tenant, key)])
    return found[0] if found else None


def find(db: Session, wanted: JobFilter) -> list[Row]:
    if wanted.ids is not None:
        found = _find_by_id(db, wanted)
    else:
        found = _find_by_page(db, wanted)
    found.sort(key=lambda row: row.id, reverse=True)
    return found[: wanted.limit]


def _find_by_id(db: Session, wanted: JobFilter) -> list[Row]:
    before = _AFTER_ALL if wanted.after is None else wanted.after
    ids = json_text(sorted({job_id for job_id in wanted.ids or () if job_id < before}))
    found = rows.read(db, "read_jobs", ids=ids) + rows.read(db, "read_history", ids=ids)
    return [
        row
        for row in found
        if sees(wanted.tenant, row)
        and (wanted.states is None or row.state in wanted.states)
        and (wanted.task is None or row.task == wanted.task)
        and (wanted.queue is None or row.queue == wanted.queue)
        and (wanted.key is None or row.key == wanted.key)
        and (wanted.fingerprint is None or _is_of(wanted.fingerprint, row))
    ]


def _is_of(fingerprint: str, row: Row) -> bool:
    return row.state is JobState.FAILED and (row.fingerprint or "") == fingerprint


def _find_by_page(db: Session, wanted: JobFilter) -> list[Row]:
    """Finished jobs have indexes of their own; the others are walked by id."""
    page = {
        "before": _AFTER_ALL if wanted.after is None else wanted.after,
        "tenant": wanted.tenant,
        "task": wanted.task,
        "queue": wanted.queue,
        "key": wanted.key,
        "limit": wanted.limit,
    }

    def read(name: str, **more: object) -> list[Row]:
        return rows.read(db, _for_tenant(name, wanted.tenant), **page, **more)

    if wanted.fingerprint is not None:
        is_asked_for = wanted.states is None or JobState.FAILED in wanted.states
        return read("find_failed", fingerprint=wanted.fingerprint) if is_asked_for else []
    found: list[Row] = []
    states = None if wanted.states is None else set(wanted.states)
    if wanted.key is not None:
        if states is None or JobState.COMPLETED in states:
            found += rows.read(db, "find_kept_keyed", **page)
        stored = None if states is None else json_text(_stored(states))
        return found + rows.read(db, "find_keyed", **page, states=stored)
    if states is None or JobState.COMPLETED in states:
        found += read("find_history")
    if states is None:
        found += read("find_jobs", states=None)
    elif open_states := states - {JobState.COMPLETED, *_ENDED}:
        ids, rest = few.collect(db, open_states, page)
        if ids:
            few_states = json_text(_stored(open_states - rest))
            found += rows.read(db, "find_among", **page, ids=json_text(ids), states=few_states)
        if rest:
            found += read("find_jobs", states=json_text(_stored(rest)))
    for state in _ENDED:
        if states is not None and state in states:
            found += read("find_ended", state=state.value)
    return found


def _stored(states: set[JobState]) -> list[str]:
    """What the table calls these."""
    return [*states, *(["waiting"] if JobState.READY in states else [])]


def _for_tenant(name: str, tenant: str | None) -> str:
    """The statement that walks an index of the tenant's own jobs, if it has one."""
    return name + OF_OTHERS if tenant else name


def counts(db: Session, tenant: str | None) -> dict[JobState, int]:
    """Those of the default tenant are what is left of all without the others'."""
    found = dict.fromkeys(JobState, 0)
    if tenant:
        return found | _counts(db.value("count_tenant_jobs", {"tenant": tenant}))
    found |= _counts(db.value("count_jobs"))
    if tenant is not None:
        for state, number in _counts(db.value("count_other_jobs")).items():
            found[state] -= number
    return found


def workers(db: Session, clock: Clock, tenant: str | None) -> list[WorkerInfo]:
    """Their leases end by the monotonic clock, which is told here as the wall clock's time."""
    shift = clock.now() - ticks(clock)
    return [
        WorkerInfo(name, expires_at + shift, running)
        for name, expires_at, running in _workers(db.value("list_workers", {"tenant": tenant}))
    ]


def paused(db: Session, tenant: str | None) -> Paused:
    return paused_in(tenant, _paused(db.value("list_paused")))


# ── changing ──


def _change(
    db: Session,
    verb: str,
    ids: Sequence[int],
    tenant: str | None,
    now: int,
    change: Change,
    *,
    brings_back: bool = False,
) -> list[Row]:
    """`brings_back` where jobs that have ended may run again; all or none of them."""
    book = SqliteBook(db, now)
    found = {row.id: row for row in book.read("read_jobs", ids=json_text(list(set(ids))))}
    known = [found[job_id] for job_id in dict.fromkeys(ids) if job_id in found]
    seen = [row for row in known if sees(tenant, row)]
    if brings_back:
        book.chaining.check_retry([row for row in seen if row.state.is_final])
    chosen = []
    for row in _with_free_keys(db, seen) if JobState.CANCELLED in rules.TOUCHED_BY[verb] else seen:
        if row.state in rules.TOUCHED_BY[verb]:
            chosen.append((row, row.state))
            change(row, now)
    if chosen:
        book.changed(chosen)
        book.save()
    return [row for row, _ in chosen]


def cancel(db: Session, ids: Sequence[int], tenant: str | None, now: int) -> list[Row]:
    return _change(db, "cancel", ids, tenant, now, rules.cancel)


def complete(db: Session, ids: Sequence[int], tenant: str | None, now: int) -> list[Row]:
    def change(row: Row, now: int) -> None:
        rules.complete(row, None, now)

    return _change(db, "complete", ids, tenant, now, change)


def fail(db: Session, ids: Sequence[int], reason: str, tenant: str | None, now: int) -> list[Row]:
    def change(row: Row, now: int) -> None:
        rules.give_up(row, reason, now)

    return _change(db, "fail", ids, tenant, now, change)


def reschedule(
    db: Session,
    ids: Sequence[int],
    run_at: int | None,
    priority: int | None,
    attempts: int | None,
    max_attempts: int | None,
    tenant: str | None,
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

    return _change(db, "reschedule", ids, tenant, now, change, brings_back=attempts is not None)


def retry(db: Session, ids: Sequence[int], tenant: str | None, now: int) -> list[Row]:
    return _change(db, "retry", ids, tenant, now, rules.run_again, brings_back=True)


def _with_free_keys(db: Session, found: Sequence[Row]) -> list[Row]:
    """Without the cancelled jobs whose key another job, or an earlier one here, has by now."""
    cancelled = {
        (row.tenant, row.key)
        for row in found
        if row.state is JobState.CANCELLED and row.key is not None
    }
    if not cancelled:
        return list(found)
    holders = rows.read_named(db, "read_keyed", cancelled)
    taken = {(row.tenant, row.key) for row in holders}
    free = []
    for row in found:
        if row.state is JobState.CANCELLED and row.key is not None:
            if (row.tenant, row.key) in taken:
                continue
            taken.add((row.tenant, row.key))
        free.append(row)
    return free


def delete(db: Session, ids: Sequence[int], tenant: str | None, now: int) -> list[Row]:
    book = SqliteBook(db, now)
    wanted = json_text(sorted(set(ids)))
    found = book.read("read_jobs", ids=wanted) + rows.read(db, "read_history", ids=wanted)
    known = {row.id: row for row in found}
    book.chains.expect(row.chain for row in found if row.chain is not None)
    deleted = [
        row
        for job_id in dict.fromkeys(ids)
        if (row := known.get(job_id)) is not None
        and sees(tenant, row)
        and row.state in rules.TOUCHED_BY["delete"]
        and not _is_open(book, row.chain)
    ]
    for row in deleted:
        book.delete_job(row)
    if deleted:
        book.save()
    return deleted


def _is_open(book: SqliteBook, chain_id: int | None) -> bool:
    chain = None if chain_id is None else book.chain(chain_id)
    return chain is not None and chain.state is ChainState.OPEN


def remove(db: Session, key: str, tenant: str, now: int) -> Row | None:
    row = get_by_key(db, key, tenant)
    if row is None:
        return None
    book = SqliteBook(db, now)
    book.jobs.know([row])
    if row.state is JobState.RUNNING:
        rules.supersede(row, now)
        book.write_job(row)
    else:
        book.delete_job(row)
    book.save()
    return row


def unlock(db: Session, names: Sequence[str], max_resets: int, now: int) -> list[Row]:
    book = SqliteBook(db, now)
    held = book.read("read_held", workers=json_text(list(names)))
    for row in held:
        book.take_back(row, max_resets)
    if held:
        book.save()
    db.run("delete_workers", {"workers": json_text(list(names))})
    return held


def pause(db: Session, task: str | None, queue: str | None, tenant: str) -> None:
    _set_paused(db, "insert_paused", task, queue, tenant)


def resume(db: Session, task: str | None, queue: str | None, tenant: str) -> None:
    _set_paused(db, "delete_paused", task, queue, tenant)
    if task is not None and tenant != DEFAULT_TENANT:
        _unpark(db, task, tenant)
    db.made_ready = True


def _set_paused(
    db: Session, statement: str, task: str | None, queue: str | None, tenant: str
) -> None:
    if task is not None:
        db.run(statement, {"tenant": tenant, "kind": "task", "name": task})
    if queue is not None:
        db.run(statement, {"tenant": tenant, "kind": "queue", "name": queue})
        queues.admit(db, {(tenant, queue)})


def _unpark(db: Session, task: str, tenant: str) -> None:
    """Jobs that claims have parked are claimable again, heads of queues among them."""
    of_task = {"task": task, "tenant": tenant}
    db.run("unpark_jobs", of_task)
    queues.admit(
        db, {(tenant, queue) for queue in _queues(db.value("list_waiting_queues", of_task))}
    )


def delete_failed(db: Session, limit: int, tenant: str | None) -> int:
    statement = _for_tenant("read_failed", tenant)
    failed = _failed(db.value(statement, {"limit": limit, "tenant": tenant}))
    if failed:
        db.run("delete_jobs", {"ids": json_text([job.id for job in failed])})
        waited = [job.id for job in failed if job.blockers_total is not None]
        if waited:
            db.run("delete_blockers", {"jobs": json_text(waited)})
        ending.ended(db, [Ended(job.id, job.tenant, job.queue, None) for job in failed])
    return len(failed)


def jobs(found: Sequence[Row]) -> list[Job]:
    return [row.job() for row in found]
