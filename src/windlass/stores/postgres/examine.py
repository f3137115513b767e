"""The questions behind `windlass doctor`: the server, the schema, the jobs in it.

Everything is read and nothing is locked or changed. The connection is a plain one, without the
settings that the store gives its own, so that what others meet can be seen. What this role may not
look at becomes a note.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import psycopg
from psycopg import errors, sql
from psycopg.rows import namedtuple_row

from windlass.errors import StoreUnavailableError
from windlass.store.findings import (
    MOST_NAMED,
    Finding,
    Level,
    failed_blockers,
    stuck_dependents,
)
from windlass.stores.postgres import schema
from windlass.stores.postgres.rendering import quoted
from windlass.stores.postgres_connections.address import ServerAddress
from windlass.stores.postgres_connections.connection import CALL_LIMIT
from windlass.stores.postgres_connections.failures import one_line, translate

_OWN_CONNECTIONS = 6


class Limits(msgspec.Struct, frozen=True):
    """From where on something is worth a word."""

    long: float = 60.0
    """Seconds a transaction may be open."""
    dead_rows: int = 50_000
    """Dead rows beyond a tenth of the live ones; vacuum is due at a tenth of this."""
    kept_log: int = 2**30
    """Bytes of write-ahead log that an unused replication slot may keep."""
    held_back: int = 1_000_000
    """Transactions that a replication slot may hold the horizon back."""
    echo: float = 3.0
    """Seconds a notification may take."""


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Subject:
    """What is examined, and how to ask about it."""

    connection: psycopg.Connection[Any]
    where: str
    schema: str
    listens: bool
    pool_size: int
    limits: Limits

    @property
    def name(self) -> str:
        """The schema, quoted."""
        return quoted(self.schema)

    def rows(self, statement: str, *values: Any) -> list[Any]:
        """The rows of a statement in which {schema} stands for the quoted name."""
        text = statement.replace("{schema}", self.name)
        with self.connection.transaction():
            self.connection.execute(schema.SAFE_PATH.encode(), prepare=False)
            with self.connection.cursor(row_factory=namedtuple_row) as cursor:
                return cursor.execute(text.encode(), values or None).fetchall()

    def row(self, statement: str, *values: Any) -> Any:
        return self.rows(statement, *values)[0]


def examine(
    address: ServerAddress,
    schema_name: str,
    *,
    listens: bool,
    pool_size: int,
    limits: Limits = DEFAULT_LIMITS,
) -> list[Finding]:
    """All findings; SchemaTooNewError where only a newer program may use the schema."""
    with contextlib.closing(address.connect(limit=None)) as connection:
        connection.limit = CALL_LIMIT
        subject = Subject(connection, address.name, schema_name, listens, pool_size, limits)
        try:
            findings = _look(subject, _server)
            there = schema.installed(connection, schema_name)
            findings += _version(subject, there)
            if there.is_current:
                for question in _OF_THE_SCHEMA:
                    findings += _look(subject, question)
        except errors.InsufficientPrivilege as error:
            raise StoreUnavailableError(
                f"this role may not look into the schema {schema_name!r}: {one_line(error)}"
            ) from error
        except psycopg.Error as error:
            raise translate(error, address.name) from error
    return findings


def _look(subject: Subject, question: Callable[[Subject], Iterator[Finding]]) -> list[Finding]:
    try:
        return list(question(subject))
    except errors.InsufficientPrivilege as error:
        return [
            Finding(
                Level.NOTE,
                "not_permitted",
                f"this role may not see everything: {one_line(error)}",
                "run windlass doctor as the owner of the schema",
            )
        ]


# ── the schema ──


def _version(subject: Subject, there: schema.Installed) -> Iterator[Finding]:
    version = there.version
    newest = schema.migrations()[-1].version
    number = subject.row("SELECT current_setting('server_version') AS server").server
    place = f"{subject.where}: PostgreSQL {number.split()[0]}"
    if version == 0 and schema.is_graphiles(subject.connection, subject.schema):
        yield Finding(
            Level.PROBLEM,
            "graphile_schema",
            f"{place}, but the schema {subject.schema!r} belongs to graphile-worker",
            f"name another with -s/--schema and move the jobs there with `windlass import graphile"
            f" --from {subject.schema}`; or {schema.way_out(subject.schema)}",
        )
    elif version == 0:
        yield Finding(
            Level.PROBLEM,
            "no_schema",
            f"{place}, but there is no Windlass schema {subject.schema!r}",
            "correct -c/--connection or -s/--schema, or make it with windlass migrate",
        )
    elif not there.is_current:
        what = f"version {version}" if version < newest else "functions of another Windlass"
        yield Finding(
            Level.PROBLEM,
            "schema_too_old",
            f"{place}, schema {subject.schema!r} has {what}; this program needs version {newest}",
            "windlass migrate",
        )
    else:
        yield Finding(Level.OK, "database", f"{place}, schema {subject.schema!r} version {version}")
    if there.is_newer:
        yield Finding(
            Level.NOTE,
            "schema_newer",
            f"the schema has version {version}, this program knows {newest}; it still fits",
            "pip install --upgrade windlass",
        )


_CREATED = re.compile(
    r"(?:CREATE|ALTER) TABLE \{schema\}\.(?P<table>\w+)"
    r"|CONSTRAINT (?P<constraint>\w+) (?P<what>(?:PRIMARY KEY|UNIQUE) \([^)]*\))"
    r"|CREATE (?P<unique>UNIQUE )?INDEX (?P<index>\w+) (?P<on>ON [^;]+);"
    r"|DROP (?:INDEX \{schema\}\.|CONSTRAINT )(?P<dropped>\w+)"
)


def expected_indexes(schema_name: str) -> dict[str, str]:
    """Every index the migrations make, and the statement that makes it again."""
    name = quoted(schema_name)
    found: dict[str, str] = {}
    table = ""
    for step in schema.migrations():
        for match in _CREATED.finditer(step.text):
            part = match.groupdict()
            if part["table"]:
                table = part["table"]
            elif part["constraint"]:
                found[part["constraint"]] = (
                    f"ALTER TABLE {name}.{table} ADD CONSTRAINT {part['constraint']} {part['what']}"
                )
            elif part["index"]:
                on = " ".join(part["on"].replace("{schema}", name).split())
                found[part["index"]] = (
                    f"CREATE {part['unique'] or ''}INDEX CONCURRENTLY {part['index']} {on}"
                )
            else:
                found.pop(part["dropped"], None)
    return found


def _indexes(subject: Subject) -> Iterator[Finding]:
    there = {
        row.name: row.is_valid
        for row in subject.rows(
            "SELECT c.relname AS name, i.indisvalid AND i.indisready AND i.indislive AS is_valid"
            " FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid"
            " JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = %s",
            subject.schema,
        )
    }
    for name, statement in expected_indexes(subject.schema).items():
        if name not in there:
            yield Finding(
                Level.PROBLEM, "missing_index", f"the index {name} is missing", f"{statement};"
            )
        elif not there[name]:
            yield Finding(
                Level.PROBLEM,
                "invalid_index",
                f"the index {name} is invalid: its making was interrupted",
                f"REINDEX INDEX CONCURRENTLY {subject.name}.{name};",
            )


def _dead_rows(subject: Subject) -> Iterator[Finding]:
    for row in subject.rows(
        "SELECT s.relname AS name, s.n_live_tup AS live, s.n_dead_tup AS dead,"
        " to_char(greatest(s.last_autovacuum, s.last_vacuum), 'YYYY-MM-DD HH24:MI TZ') AS last,"
        " pg_size_pretty(pg_total_relation_size(s.relid)) AS size,"
        " coalesce(c.reloptions, '{}') && '{autovacuum_enabled=false,autovacuum_enabled=off}'"
        " AS is_off"
        " FROM pg_stat_user_tables AS s JOIN pg_class AS c ON c.oid = s.relid"
        " WHERE s.schemaname = %s ORDER BY 1",
        subject.schema,
    ):
        if row.is_off:
            yield Finding(
                Level.PROBLEM,
                "table_not_vacuumed",
                f"autovacuum is off for {row.name}, which grows and slows down",
                f"ALTER TABLE {subject.name}.{row.name} RESET (autovacuum_enabled);",
            )
        if row.dead > subject.limits.dead_rows + row.live // 10:
            yield Finding(
                Level.WARNING,
                "dead_rows",
                f"{row.name} has {row.dead:,} dead rows beside {row.live:,} live ones ({row.size};"
                f" last vacuumed: {row.last or 'never'})",
                f"VACUUM {subject.name}.{row.name}; if they stay, something holds old rows: see"
                " long transactions, replication slots and prepared transactions",
            )


# ── who holds what ──


def _long_transactions(subject: Subject) -> Iterator[Finding]:
    sees_all = subject.row("SELECT pg_has_role('pg_read_all_stats', 'USAGE') AS answer").answer
    if not sees_all:
        yield Finding(
            Level.NOTE,
            "own_sessions_only",
            "this role sees only its own sessions, so long transactions of others stay unseen",
            "GRANT pg_read_all_stats to it, or run windlass doctor as a superuser",
        )
    for row in subject.rows(
        "SELECT a.pid, a.usename, a.application_name, a.state,"
        " extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS age"
        " FROM pg_stat_activity AS a"
        " WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()"
        " AND a.backend_type <> 'autovacuum worker'"
        " AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL"
        "  OR a.state LIKE 'idle in transaction%%')"
        " AND a.xact_start < clock_timestamp() - make_interval(secs => %s) ORDER BY a.xact_start",
        subject.limits.long,
    ):
        is_idle = (row.state or "").startswith("idle in transaction")
        doing = "sits idle in a transaction" if is_idle else "is in a transaction"
        advice = f"SELECT pg_terminate_backend({row.pid});"
        if is_idle:
            advice += " and set idle_in_transaction_session_timeout"
        yield Finding(
            Level.WARNING,
            "long_transaction",
            f"process {row.pid} ({_who(row)}) {doing} for {row.age:.0f} s; meanwhile dead rows"
            " cannot be removed",
            advice,
        )


def _prepared_transactions(subject: Subject) -> Iterator[Finding]:
    for row in subject.rows(
        "SELECT p.gid, p.owner, extract(epoch FROM clock_timestamp() - p.prepared)::float8 AS age,"
        " quote_literal(p.gid) AS quoted FROM pg_prepared_xacts AS p"
        " WHERE p.database = current_database()"
        " AND p.prepared < clock_timestamp() - make_interval(secs => %s) ORDER BY p.prepared",
        subject.limits.long,
    ):
        yield Finding(
            Level.WARNING,
            "prepared_transaction",
            f"the prepared transaction {row.gid} ({row.owner}) waits for {row.age:.0f} s; it keeps"
            " its locks, and dead rows cannot be removed",
            f"COMMIT PREPARED {row.quoted}; or ROLLBACK PREPARED {row.quoted};",
        )


def _replication_slots(subject: Subject) -> Iterator[Finding]:
    for row in subject.rows(
        "SELECT r.slot_name AS name, r.active, age(r.xmin) AS held, quote_literal(r.slot_name)"
        " AS quoted, pg_wal_lsn_diff(pg_current_wal_lsn(), r.restart_lsn)::bigint AS kept"
        " FROM pg_replication_slots AS r ORDER BY 1"
    ):
        if row.held is not None and row.held > subject.limits.held_back:
            yield Finding(
                Level.WARNING,
                "slot_holds_rows",
                f"the replication slot {row.name} holds dead rows of the last {row.held:,}"
                " transactions",
                "end long queries on that standby, or turn its hot_standby_feedback off"
                if row.active
                else f"SELECT pg_drop_replication_slot({row.quoted}); if it is not needed",
            )
        if not row.active and (row.kept or 0) > subject.limits.kept_log:
            yield Finding(
                Level.WARNING,
                "unused_slot",
                f"no client uses the replication slot {row.name}; it keeps {row.kept // 2**20} MiB"
                " of write-ahead log",
                f"SELECT pg_drop_replication_slot({row.quoted}); if it is not needed",
            )


def _held_jobs(subject: Subject) -> Iterator[Finding]:
    """Jobs that a long transaction has changed or locked: its number is the row's xmax."""
    for row in subject.rows(
        "SELECT l.pid, a.usename, a.application_name, count(*) AS jobs, min(j.id) AS first,"
        " max(extract(epoch FROM clock_timestamp() - a.xact_start))::float8 AS age"
        " FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid"
        " JOIN {schema}._jobs AS j ON j.xmax = l.transactionid"
        " WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted"
        " AND a.xact_start < clock_timestamp() - make_interval(secs => %s)"
        " GROUP BY 1, 2, 3 ORDER BY age DESC",
        subject.limits.long,
    ):
        yield Finding(
            Level.WARNING,
            "held_jobs",
            f"process {row.pid} ({_who(row)}) holds job {row.first}{_and_more(row.jobs - 1)} in a"
            f" transaction open for {row.age:.0f} s; no worker can run or finish them meanwhile",
            f"commit it, or SELECT pg_terminate_backend({row.pid});",
        )


def _who(row: Any) -> str:
    return ", ".join(text for text in (row.usename, row.application_name) if text) or "unknown"


def _and_more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""


# ── jobs ──


def _stuck_queues(subject: Subject) -> Iterator[Finding]:
    """Queues that no claim will look at again: no active job, no bell, and not paused."""
    found = [
        (row.queue, _of_tenant(row.tenant))
        for row in subject.rows(
            "SELECT DISTINCT w.queue, w.tenant FROM {schema}._jobs AS w"
            " WHERE w.state = 'waiting' AND w.queue IS NOT NULL"
            " AND NOT EXISTS (SELECT FROM {schema}._jobs AS a WHERE a.queue = w.queue"
            "  AND a.tenant = w.tenant AND a.queue IS NOT NULL"
            "  AND a.state IN ('ready', 'running'))"
            " AND NOT EXISTS (SELECT FROM {schema}._jobs AS a WHERE a.holds"
            "  AND a.queue = w.queue AND a.tenant = w.tenant)"
            " AND NOT EXISTS (SELECT FROM {schema}._bells AS b WHERE b.queue = w.queue"
            "  AND b.tenant = w.tenant)"
            " AND NOT EXISTS (SELECT FROM {schema}._paused AS p WHERE p.kind = 'task'"
            "  AND p.name = w.task AND p.tenant = w.tenant)"
            " AND NOT EXISTS"
            "  (SELECT FROM {schema}._paused AS p WHERE p.kind = 'queue' AND p.name = w.queue"
            "   AND p.tenant = w.tenant)"
            " ORDER BY 1, 2"
        )
    ]
    if found:
        advice = f"windlass resume --queue {found[0][0]}{found[0][1]}"
        yield Finding(
            Level.PROBLEM,
            "stuck_queue",
            f"nothing moves in {'this queue' if len(found) == 1 else 'these queues'}:"
            f" {_listed([queue for queue, _ in found])}",
            f"{advice}   (and the same for the others)" if len(found) > 1 else advice,
        )


def _parked_jobs(subject: Subject) -> Iterator[Finding]:
    """Jobs that a pause has kept out of claims, though there is no such pause."""
    for row in subject.rows(
        "SELECT w.task, w.tenant, count(*) AS jobs FROM {schema}._jobs AS w"
        " WHERE w.state = 'waiting' AND w.queue IS NULL AND NOT EXISTS"
        "  (SELECT FROM {schema}._paused AS p WHERE p.kind = 'task' AND p.name = w.task"
        "   AND p.tenant = w.tenant)"
        " GROUP BY w.task, w.tenant ORDER BY 1, 2 LIMIT 10"
    ):
        yield Finding(
            Level.PROBLEM,
            "parked_jobs",
            f"{row.jobs} jobs of task {row.task} are kept back, and nothing is paused",
            f"windlass resume --task {row.task}{_of_tenant(row.tenant)}",
        )


def _of_tenant(name: str) -> str:
    """What a command needs to mean this tenant."""
    return f" --tenant {shlex.quote(name)}" if name else ""


def _orphans(subject: Subject) -> Iterator[Finding]:
    found = subject.row(
        "SELECT count(*) AS jobs, min(j.id) AS first FROM {schema}._jobs AS j"
        " LEFT JOIN {schema}._in_batches AS b"
        " ON b.id = j.id AND j.state = 'ready' AND j.deliveries = 0"
        " WHERE (j.state = 'running' OR b.id IS NOT NULL) AND NOT EXISTS ("
        "SELECT FROM {schema}._workers AS w WHERE w.id = coalesce(j.worker, b.worker))"
    )
    if found.jobs:
        yield Finding(
            Level.WARNING,
            "orphans",
            f"job {found.first}{_and_more(found.jobs - 1)} run in no known worker",
            "a living worker takes them back within a few minutes; else start one: windlass run",
        )


def _stuck_dependents(subject: Subject) -> Iterator[Finding]:
    """Blocked jobs of which nothing will speak again: every chain they named has ended, and no bell
    is about them or about one of these chains."""
    found = subject.row(
        "SELECT count(*) AS jobs, min(j.id) AS first FROM {schema}._jobs AS j"
        " WHERE j.state = 'blocked' AND NOT EXISTS ("
        "  SELECT FROM {schema}._blockers AS b JOIN {schema}._chains AS c ON c.id = b.chain"
        "  WHERE b.job = j.id AND b.state = 'open' AND (c.state = 'open'"
        "   OR j.on_blocker_failure = 'wait' AND c.state IN ('failed', 'cancelled')))"
        " AND NOT EXISTS (SELECT FROM {schema}._bells AS n WHERE n.job = j.id)"
        " AND NOT EXISTS (SELECT FROM {schema}._bells AS n"
        "  JOIN {schema}._blockers AS b ON b.chain = n.chain WHERE n.job IS NULL AND b.job = j.id)"
    )
    if found.jobs:
        yield stuck_dependents(found.first, found.jobs)


def _failed_blockers(subject: Subject) -> Iterator[Finding]:
    found = subject.rows(
        "SELECT c.id, array_agg(j.id) AS jobs"
        " FROM {schema}._jobs AS j"
        " JOIN {schema}._blockers AS b ON b.job = j.id AND b.state = 'open'"
        " JOIN {schema}._chains AS c ON c.id = b.chain AND c.state IN ('failed', 'cancelled')"
        " WHERE j.state = 'blocked' AND j.on_blocker_failure = 'wait' GROUP BY c.id ORDER BY c.id"
    )
    if found:
        jobs = {job for row in found for job in row.jobs}
        yield failed_blockers(len(jobs), [row.id for row in found])


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + _and_more(len(names) - MOST_NAMED)


# ── the server ──


def _server(subject: Subject) -> Iterator[Finding]:
    yield from _settings(subject)
    yield from _connections(subject)
    yield from _listening(subject)


def _settings(subject: Subject) -> Iterator[Finding]:
    found = {
        row.name: row.setting
        for row in subject.rows(
            "SELECT name, setting FROM pg_settings WHERE name IN ('default_transaction_isolation',"
            " 'autovacuum', 'track_counts', 'fsync', 'synchronous_commit')"
        )
    }
    isolation = found["default_transaction_isolation"]
    if isolation not in ("read committed", "read uncommitted"):
        yield Finding(
            Level.WARNING,
            "isolation",
            f"transactions are {isolation} by default here; calls from SQL and through poolers may"
            " then fail whenever two meet",
            "set default_transaction_isolation to read committed, for this database or role",
        )
    for name in ("autovacuum", "track_counts"):
        if found[name] == "off":
            yield Finding(
                Level.PROBLEM,
                f"{name}_off",
                f"{name} is off: dead rows are never removed, and claims get slower and slower",
                f"ALTER SYSTEM SET {name} = on; SELECT pg_reload_conf();",
            )
    if found["fsync"] == "off":
        yield Finding(
            Level.NOTE,
            "fsync_off",
            "fsync is off: a power cut may damage the whole database",
            "leave it so only where all data may be lost",
        )
    if found["synchronous_commit"] == "off":
        yield Finding(
            Level.NOTE,
            "synchronous_commit_off",
            "synchronous_commit is off: a crash of the server may lose the last jobs added, and"
            " run jobs again that had ended",
            "turn it on if that matters",
        )


def _connections(subject: Subject) -> Iterator[Finding]:
    wanted = subject.pool_size + _OWN_CONNECTIONS
    found = subject.row(
        "SELECT d.datconnlimit AS limit_here, s.numbackends AS here, r.rolconnlimit AS limit_role,"
        " (SELECT count(*) FROM pg_stat_activity AS a WHERE a.usename = current_user) AS of_role,"
        " current_setting('max_connections')::integer"
        "  - current_setting('superuser_reserved_connections')::integer"
        "  - coalesce(current_setting('reserved_connections', true)::integer, 0)"
        "  - (SELECT sum(t.numbackends) FROM pg_stat_database AS t)::integer AS free"
        " FROM pg_database AS d JOIN pg_stat_database AS s ON s.datid = d.oid"
        " JOIN pg_roles AS r ON r.rolname = current_user WHERE d.datname = current_database()"
    )
    free = [found.free]
    if found.limit_here >= 0:
        free.append(found.limit_here - found.here)
    if found.limit_role >= 0:
        free.append(found.limit_role - found.of_role)
    if min(free) < wanted:
        yield Finding(
            Level.WARNING,
            "few_connections",
            f"{max(min(free), 0)} more connections are allowed here; a worker may want {wanted}",
            "raise max_connections or the limit of the database or role, lower max_pool_size, or"
            " put a pooler in between",
        )


def _listening(subject: Subject) -> Iterator[Finding]:
    """Whether one's own voice comes back: a transaction pooler accepts LISTEN and forgets it."""
    if not subject.listens:
        yield Finding(Level.NOTE, "not_listening", "listen is off: workers find jobs by polling")
        return
    echo = f"windlass:{secrets.token_hex(8)}"
    subject.connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(echo)))
    subject.connection.execute("SELECT pg_catalog.pg_notify(%s, '')", [echo])
    end = time.monotonic() + subject.limits.echo
    while (left := end - time.monotonic()) > 0:
        if any(True for _ in subject.connection.notifies(timeout=left, stop_after=1)):
            return
    yield Finding(
        Level.WARNING,
        "listen_lost",
        "LISTEN is accepted, but notifications do not arrive: there is a transaction pooler in"
        " between, and workers find jobs by polling only",
        "let workers connect to the server itself, or say so: --no-listen",
    )


_OF_THE_SCHEMA = (
    _indexes,
    _dead_rows,
    _long_transactions,
    _prepared_transactions,
    _replication_slots,
    _held_jobs,
    _stuck_queues,
    _parked_jobs,
    _orphans,
    _stuck_dependents,
    _failed_blockers,
)
