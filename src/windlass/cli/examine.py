"""The examination behind `windlass doctor`: the place, then the database, then the jobs."""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, cast

from windlass.app import App
from windlass.cli.output import plural
from windlass.cli.place import Place, is_missing
from windlass.client import Client
from windlass.clock import SYSTEM, to_datetime, to_micros
from windlass.errors import SchemaTooNewError, StoreError
from windlass.store.findings import Examinable, Finding, Level
from windlass.store.port import Store
from windlass.store.records import Paused
from windlass.store.schedules import KnownSchedule
from windlass.store_kinds import database_file

_NETWORK_FILE_SYSTEMS = ("nfs", "cifs", "smb", "9p", "fuse.sshfs", "afs", "ceph", "glusterfs")
_LARGE_WAL = 64 * 1024 * 1024
_QUICK_CHECK_UP_TO = 256 * 1024 * 1024
_LONG = 60
"""Seconds a job may be ready before it is worth a word."""
_SECOND = 1_000_000
_SANE_YEAR = 2025


def examine(place: Place) -> list[Finding]:
    findings = [*_clock()]
    app = place.make_app()
    file = database_file(app.settings.url)
    if file is not None:
        findings += _file(file)
        if any(finding.code in ("no_database", "not_readable") for finding in findings):
            return findings
    try:
        # An old schema on a server is a finding.
        migrate: Literal["never"] | None = "never" if file is None else None
        place.use(lambda app: _database(app, findings), looks=True, migrate=migrate)
    except SchemaTooNewError as error:
        advice = "pip install --upgrade windlass"
        findings.append(Finding(Level.PROBLEM, "schema_too_new", str(error), advice))
    except StoreError as error:
        advice = "correct -c/--connection, or mend what the line says"
        findings.append(Finding(Level.PROBLEM, "database_unusable", str(error), advice))
    return findings


def _clock() -> Iterator[Finding]:
    now = to_datetime(SYSTEM.now())
    if now.year < _SANE_YEAR:
        yield Finding(
            Level.PROBLEM,
            "clock_wrong",
            f"this machine believes it is {now:%Y-%m-%d}",
            "set the clock; due times and leases depend on it",
        )


# ── the file ──


def _file(file: Path) -> Iterator[Finding]:
    folder = file.resolve().parent
    try:
        missing = is_missing(file)
    except StoreError as error:
        yield Finding(
            Level.PROBLEM, "not_readable", str(error), "give this user the right to the directory"
        )
        return
    if missing:
        yield Finding(
            Level.PROBLEM,
            "no_database",
            f"there is no database at {file}",
            "correct -c/--connection, or make it with windlass migrate",
        )
        return
    for path in (file, folder):
        if not os.access(path, os.R_OK | os.W_OK):
            yield Finding(
                Level.PROBLEM,
                "not_writable",
                f"{path} cannot be read and written by this user",
                "give this user the right to write the file and its folder",
            )
    if (kind := _file_system(folder)) and kind.startswith(_NETWORK_FILE_SYSTEMS):
        yield Finding(
            Level.PROBLEM,
            "network_file_system",
            f"{folder} is on a network file system ({kind}); SQLite's locks may fail there",
            "move the file to a local disk, or use PostgreSQL",
        )
    if file.stat().st_mtime * _SECOND > SYSTEM.now() + 60 * _SECOND:
        yield Finding(
            Level.WARNING,
            "file_from_the_future",
            f"{file} was last written in the future",
            "check this machine's clock",
        )
    wal = file.with_name(file.name + "-wal")
    size = wal.stat().st_size if wal.exists() else 0
    if size > _LARGE_WAL:
        yield Finding(
            Level.WARNING,
            "large_wal",
            f"{wal.name} has grown to {size // 2**20} MiB",
            "end programs that keep a read transaction open on this file",
        )


def _file_system(folder: Path) -> str | None:
    """The kind of file system, where the machine lists its mounts (Linux)."""
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    best: tuple[int, str] | None = None
    for line in mounts.splitlines():
        _, point, kind, *_ = line.split(" ")
        point = point.replace("\\040", " ")
        if folder.is_relative_to(point) and (best is None or len(point) >= best[0]):
            best = (len(point), kind)
    return None if best is None else best[1]


# ── the database ──


async def _database(app: App, findings: list[Finding]) -> None:
    """Add to the findings one by one, so that those before an error are told too."""
    await app.open()
    store = app.store
    file = database_file(app.settings.url)
    if file is not None:
        findings += _sqlite(store, file)
    if store.capabilities.examination:
        findings += await cast(Examinable, store).examine()
    unusable = {"no_schema", "graphile_schema", "schema_too_old"}
    if not any(finding.code in unusable for finding in findings):
        findings += await _workers_and_jobs(app.client.for_tenant(None), store)
        findings += _schedules(await store.schedules(), await store.now())


def _sqlite(store: Store, file: Path) -> Iterator[Finding]:
    opened: AbstractContextManager[Any] = store.connection()
    with opened as connection:

        def value(sql: str) -> Any:
            return connection.execute(sql).fetchone()[0]

        version = value("SELECT sqlite_version()")
        mode = value("PRAGMA journal_mode")
        schema = value("SELECT value FROM windlass_meta WHERE key = 'schema_version'")
        if file.stat().st_size <= _QUICK_CHECK_UP_TO:
            state = value("PRAGMA quick_check(1)")
            if state != "ok":
                yield Finding(
                    Level.PROBLEM,
                    "damaged",
                    f"{file} is damaged: {state}",
                    "stop the workers and restore it from a backup",
                )
    yield Finding(
        Level.OK,
        "database",
        f"{file}: SQLite {version}, journal mode {mode}, schema version {schema}",
    )
    if mode != "wal":
        yield Finding(
            Level.PROBLEM,
            "journal_mode",
            f"the journal mode is {mode}, not wal",
            "let no other program change it; a worker sets it back when it starts",
        )


async def _workers_and_jobs(client: Client, store: Store) -> list[Finding]:
    before = SYSTEM.now()
    now = await store.now()
    after = SYSTEM.now()
    # The answer was given some time between the two; only what lies outside is a difference.
    skew = max(before - now, now - after, 0) / _SECOND
    workers = await client.workers()
    alive = [worker for worker in workers if worker.expires_at > now]
    dead = [worker for worker in workers if worker.expires_at <= now and worker.running]
    counts = await client.counts()
    paused = await client.paused()
    summary = ", ".join(f"{count} {state}" for state, count in counts.items() if count) or "none"
    findings = [
        Finding(Level.OK, "workers", f"{plural(len(alive), 'worker')} alive"),
        Finding(Level.OK, "jobs", f"jobs: {summary}"),
    ]
    if skew > 1:
        findings.append(
            Finding(
                Level.WARNING,
                "time_skew",
                f"the database's clock and this machine's differ by {skew:.0f} s",
                "synchronize both clocks",
            )
        )
    if dead:
        findings.append(
            Finding(
                Level.WARNING if alive else Level.PROBLEM,
                "expired_leases",
                f"{plural(sum(w.running for w in dead), 'job')} held by dead workers:"
                f" {', '.join(w.id for w in dead)}",
                "a living worker takes them back in a few seconds"
                if alive
                else "start a worker: windlass run",
            )
        )
    if failed := counts.get("failed", 0):
        findings.append(
            Finding(
                Level.WARNING,
                "failed_jobs",
                f"{plural(failed, 'job')} failed for good",
                "windlass jobs list --state failed, then windlass jobs retry --state failed;"
                " of chains: windlass chains list --state failed, then windlass chains retry ID",
            )
        )
    if paused != Paused():
        names = [f"task {n}" for n in paused.tasks] + [f"queue {n}" for n in paused.queues]
        names += [f"{n.kind} {n.name} of tenant {n.tenant}" for n in paused.elsewhere]
        advice = "windlass resume, with --tenant NAME for a tenant's" if paused.elsewhere else ""
        text = f"paused: {', '.join(names)}"
        findings.append(Finding(Level.NOTE, "paused", text, advice or "windlass resume"))
    if alive and (stranded := await store.stranded()):
        findings.append(
            Finding(
                Level.WARNING,
                "unknown_tasks",
                f"jobs are ready that no live worker runs, of {plural(len(stranded), 'task')}:"
                f" {', '.join(stranded)}",
                "start a worker that has them, or windlass jobs cancel --task NAME",
            )
        )
    if not alive and (waiting := await _ready_for_long(client, now)):
        findings.append(
            Finding(
                Level.PROBLEM,
                "nobody_works",
                f"job {waiting} has been ready for more than {_LONG} s and no worker is alive",
                "start a worker: windlass run",
            )
        )
    return findings


def _schedules(known: Sequence[KnownSchedule], now: int) -> Iterator[Finding]:
    if paused := [schedule for schedule in known if schedule.paused_at is not None]:
        text = f"paused: {', '.join(f'schedule {_name(schedule)}' for schedule in paused)}"
        by_tenant = itertools.groupby(paused, key=lambda schedule: schedule.tenant)
        advice = ", ".join(_command("resume", *same) for _, same in by_tenant)
        yield Finding(Level.NOTE, "paused_schedules", text, advice)
    for schedule in known:
        name, remove = _name(schedule), _command("remove", schedule)
        if schedule.paused_at is not None:
            continue
        if schedule.floor_at > now + _LONG * _SECOND:
            yield Finding(
                Level.WARNING,
                "schedule_ahead",
                f"schedule {name} is dealt with until {_shown(schedule.floor_at)}, which has not"
                " come yet: the clock was set back",
                f"wait, or {remove} and start a worker anew",
            )
        # A worker that starts passes over, or makes up for, what came before.
        due = schedule.schedule.timetable.after(max(schedule.floor_at, schedule.seen_at))
        if due is not None and due < now - _LONG * _SECOND:
            yield Finding(
                Level.WARNING,
                "schedule_silent",
                f"schedule {name} was due at {_shown(due)} and no worker fired it",
                f"start a worker with its crontab, or {remove}",
            )


def _name(known: KnownSchedule) -> str:
    return known.identifier + (f" of tenant {known.tenant}" if known.tenant else "")


def _command(verb: str, *known: KnownSchedule) -> str:
    """What to type to change schedules of one tenant."""
    names = " ".join(schedule.identifier for schedule in known)
    whose = f"--tenant {shlex.quote(known[0].tenant)} " if known[0].tenant else ""
    return f"windlass cron {verb} {whose}{names}"


def _shown(instant: int) -> str:
    return f"{to_datetime(instant):%Y-%m-%d %H:%M} UTC"


async def _ready_for_long(client: Client, now: int) -> int | None:
    """A job that has been ready for long. Those before it in the list may all be young."""
    after: int | None = None
    while page := await client.list_jobs(state="ready", after=after, limit=1_000):
        for job in page:
            if now - max(to_micros(job.run_at), to_micros(job.created_at)) > _LONG * _SECOND:
                return job.id
        after = page[-1].id
    return None
