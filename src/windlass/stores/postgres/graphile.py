"""Moving the jobs of a graphile-worker schema into ours.

A batch of rows is added here and deleted there by one statement, so that an import can be
interrupted and begun again: no job is ever in both places, or in none. Jobs that must not or cannot
be moved stay where they are, and are counted by the reason.

Two layouts are known: since 0.14 the tables are `_private_jobs`, `_private_tasks` and
`_private_job_queues`; before, a table `jobs` had everything. Crontabs are not moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import errors
from psycopg.rows import tuple_row

from windlass.errors import ConfigError, StoreError
from windlass.stores.postgres import rendering, schema
from windlass.stores.postgres.rendering import quoted
from windlass.stores.postgres_connections.failures import one_line, translate

_REFUSALS = ("WLPAY", "GWBID", "GWBQN", "GWBJK", "GWBMA")
"""What our functions say of a job that could not be added here either."""

BATCH = 1000
"""Jobs moved by one statement."""

Borrow = Callable[[], AbstractContextManager[psycopg.Connection[Any]]]
"""A connection for one transaction."""


@dataclass(frozen=True, slots=True)
class Group:
    """Jobs that are alike for an import, and the ids of the first ten of them."""

    count: int = 0
    failed: int = 0
    """How many of them failed for good."""
    ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Survey:
    """What is in a graphile-worker schema."""

    movable: Group
    locked: Group
    """Held by a worker, or by a worker that died."""
    key_taken: Group
    """An open job of ours has the same key."""
    broken: Group
    """The task or the queue they point at does not exist."""


@dataclass(frozen=True, slots=True)
class Imported:
    moved: int
    failed: int
    """How many of those moved are failed jobs."""
    left: Survey
    """What is still there; `movable` are those that an open transaction held, or `refused`."""
    refused: tuple[tuple[int, str], ...]
    """Ids and reasons of jobs that could not be added here: an empty task, an odd payload."""


@dataclass(frozen=True, slots=True)
class _Source:
    """A graphile-worker schema: its table of jobs, and what its rows mean."""

    table: str
    rows: str
    has_triggers: bool


def survey(borrow: Borrow, source: str, target: str, *, include_locked: bool = False) -> Survey:
    """Count what an import would do; nothing is changed."""
    with _told(source), borrow() as connection:
        return _survey(connection, _find(connection, source, target), target, include_locked)


def move(
    borrow: Borrow,
    source: str,
    target: str,
    *,
    include_locked: bool = False,
    on_progress: Callable[[int], None] = lambda moved: None,
    is_stopping: Callable[[], bool] = lambda: False,
    batch: int = BATCH,
) -> Imported:
    """Move all jobs that can be moved. `on_progress` hears how many were, after each batch;
    `is_stopping` is asked whether to end there."""
    with _told(source):
        return _move(borrow, source, target, include_locked, on_progress, is_stopping, batch)


def _move(
    borrow: Borrow,
    source: str,
    target: str,
    include_locked: bool,
    on_progress: Callable[[int], None],
    is_stopping: Callable[[], bool],
    batch: int,
) -> Imported:
    with borrow() as connection:
        found = _find(connection, source, target)
    moved = failed = after = 0
    refused: list[tuple[int, str]] = []
    size = batch
    while not is_stopping():
        try:
            with borrow() as connection:
                last, count, dead = _move_batch(
                    connection, found, target, include_locked, after, size
                )
        except psycopg.DatabaseError as error:
            if not isinstance(error, psycopg.DataError) and error.sqlstate not in _REFUSALS:
                raise
            if size > 1:  # look for the job it is about
                size = 1
                continue
            with borrow() as connection:
                first = _first_id(connection, found, after)
            if first is not None:
                refused.append((first, one_line(error).partition(" CONTEXT:")[0]))
                after = first
            size = batch
            continue
        if last is None:
            break
        after = last
        moved += count
        failed += dead
        on_progress(moved)
    with borrow() as connection:
        left = _survey(connection, found, target, include_locked)
    return Imported(moved, failed, left, tuple(refused))


@contextmanager
def _told(source: str) -> Iterator[None]:
    try:
        yield
    except errors.InsufficientPrivilege as error:
        raise StoreError(
            f"no right to move jobs out of the schema {source!r}: {one_line(error)}; import as the"
            " owner of both schemas"
        ) from error
    except psycopg.Error as error:
        raise translate(error, f"the schema {source!r}") from error


# ── the source ──


def _name(name: str) -> str:
    """A schema's name in a statement that has values."""
    return quoted(name).replace("%", "%%")


def _find(connection: psycopg.Connection[Any], source: str, target: str) -> _Source:
    if source == target:
        raise ConfigError(
            f"the jobs are to go from the schema {source!r} into itself; rename the old one first:"
            f" ALTER SCHEMA {quoted(source)} RENAME TO graphile_old"
        )
    name = _name(source)
    cursor = _own_rows(connection)
    if not cursor.execute("SELECT FROM pg_namespace WHERE nspname = %s", [source]).fetchall():
        raise StoreError(f"there is no schema {source!r} in this database; correct --from")
    columns: dict[str, set[str]] = {}
    for table, column in cursor.execute(
        "SELECT c.relname, a.attname FROM pg_class AS c"
        " JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped"
        " JOIN pg_namespace AS n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relkind = 'r'",
        [source],
    ):
        columns.setdefault(table, set()).add(column)
    if {"_private_jobs", "_private_tasks", "_private_job_queues"} <= columns.keys():
        return _Source(
            f"{name}._private_jobs",
            _rows("t.identifier", "q.queue_name", columns["_private_jobs"])
            + f" FROM {name}._private_jobs AS j"
            f" LEFT JOIN {name}._private_tasks AS t ON t.id = j.task_id"
            f" LEFT JOIN {name}._private_job_queues AS q ON q.id = j.job_queue_id",
            has_triggers=False,
        )
    if {"task_identifier", "queue_name", "max_attempts"} <= columns.get("jobs", set()):
        return _Source(
            f"{name}.jobs",
            _rows("j.task_identifier", "j.queue_name", columns["jobs"]) + f" FROM {name}.jobs AS j",
            has_triggers=True,
        )
    raise StoreError(
        f"the schema {source!r} is not one of graphile-worker: it has neither _private_jobs nor"
        " jobs with a task_identifier"
    )


def _rows(task: str, queue: str, columns: set[str]) -> str:
    """What a job is there, in the words we use; the oldest versions lack some columns."""

    def column(name: str, otherwise: str) -> str:
        return f"j.{name}" if name in columns else otherwise

    no_queue = f"j.job_queue_id IS NOT NULL AND {queue} IS NULL"
    is_broken = f"{task} IS NULL" + (f" OR {no_queue}" if "job_queue_id" in columns else "")
    return (
        f"SELECT j.id::bigint AS id, {task} AS task, j.payload, {queue} AS queue,"
        " j.priority::integer AS priority, j.run_at, j.attempts::integer AS attempts,"
        " j.max_attempts::integer AS max_attempts, j.last_error, j.created_at, j.updated_at,"
        f" {column('key', 'NULL::text')} AS key, {column('revision', '0')}::integer AS revision,"
        f" {column('flags', 'NULL::jsonb')} AS flags, j.locked_at IS NOT NULL AS is_locked,"
        f" ({is_broken}) AS is_broken"
    )


def _survey(
    connection: psycopg.Connection[Any], source: _Source, target: str, include_locked: bool
) -> Survey:
    statement = f"""
        WITH j AS ({source.rows})
        SELECT CASE
            WHEN j.is_broken THEN 'broken'
            WHEN j.is_locked AND NOT %s THEN 'locked'
            WHEN EXISTS (
              SELECT FROM {_name(target)}._jobs AS k
              WHERE k.key = j.key AND k.tenant = '' AND k.state <> 'cancelled'
            ) THEN 'key_taken'
            ELSE 'movable'
          END, count(*), count(*) FILTER (WHERE j.attempts >= j.max_attempts),
          (array_agg(j.id ORDER BY j.id))[1:10]
        FROM j GROUP BY 1
    """  # noqa: S608
    groups = {
        kind: Group(count, failed, tuple(ids))
        for kind, count, failed, ids in _own_rows(connection)
        .execute(statement.encode(), [include_locked])
        .fetchall()
    }
    return Survey(
        **{name: groups.get(name, Group()) for name in Survey.__dataclass_fields__},
    )


def _own_rows(connection: psycopg.Connection[Any]) -> psycopg.Cursor[tuple[Any, ...]]:
    """A cursor that fails, rather than sees no rows, where row security hides them. Its transaction
    runs no operator or function that another role has put into `public`."""
    cursor = connection.cursor(row_factory=tuple_row)
    cursor.execute(schema.SAFE_PATH.encode(), prepare=False)
    return cursor.execute("SET LOCAL row_security = off")


# ── moving ──


def _move_batch(
    connection: psycopg.Connection[Any],
    source: _Source,
    target: str,
    include_locked: bool,
    after: int,
    size: int,
) -> tuple[int | None, int, int]:
    """The last id looked at (None at the end), how many were moved, how many of them failed."""
    name = _name(target)
    cursor = _own_rows(connection)
    cursor.execute("SET LOCAL lock_timeout = '10s'")
    if source.has_triggers:
        # They keep counts by the schema's old name, and would fail once it is renamed.
        cursor.execute(f"ALTER TABLE {source.table} DISABLE TRIGGER USER".encode(), [])
    statement = f"""
        WITH batch AS MATERIALIZED (
          {source.rows} WHERE j.id > %s ORDER BY j.id LIMIT %s FOR UPDATE OF j SKIP LOCKED
        ),
        chosen AS MATERIALIZED (
          SELECT b.*, nextval(%s::regclass) AS new_id,
            {name}._accepted(b.task, b.queue, b.key, b.max_attempts, NULL, NULL, NULL) AS accepted,
            {name}._sound(coalesce(b.payload, '{{}}')) AS sound
          FROM (SELECT * FROM batch ORDER BY id) AS b
          WHERE NOT b.is_broken AND (%s OR NOT b.is_locked)
        ),
        added AS (
          INSERT INTO {name}._jobs AS k
            (id, run_at, created_at, updated_at, finished_at, state, priority, attempts, revision,
             max_attempts, task, payload, key, queue, flags, last_error)
          SELECT
            c.new_id, {name}._finite(c.run_at), {name}._finite(c.created_at),
            {name}._finite(c.updated_at),
            CASE WHEN c.attempts >= c.max_attempts THEN {name}._finite(c.updated_at) END,
            CASE WHEN c.attempts >= c.max_attempts THEN 'failed'
              ELSE {name}._due_state(c.run_at, c.queue, clock_timestamp()) END,
            c.priority, c.attempts, c.revision, c.max_attempts, c.accepted,
            c.sound, c.key, c.queue,
            {name}._plain(ARRAY(SELECT f FROM jsonb_object_keys(c.flags) AS f ORDER BY f)),
            c.last_error
          FROM chosen AS c ORDER BY c.new_id
          ON CONFLICT (key, tenant) WHERE key IS NOT NULL AND state <> 'cancelled' DO NOTHING
          RETURNING k.id, k.queue, k.state
        ),
        gone AS (
          DELETE FROM {source.table} AS o USING chosen AS c JOIN added AS a ON a.id = c.new_id
          WHERE o.id = c.id
        ),
        rung AS (
          INSERT INTO {name}._bells (queue)
          SELECT DISTINCT a.queue FROM added AS a WHERE a.state = 'waiting'
        )
        SELECT (SELECT max(b.id) FROM batch AS b), count(*),
          count(*) FILTER (WHERE a.state = 'failed')
        FROM added AS a
    """  # noqa: S608
    row = cursor.execute(
        statement.encode(), [after, size, f"{quoted(target)}._jobs_id_seq", include_locked]
    ).fetchone()
    assert row is not None
    channel = rendering.channel(target)
    cursor.execute("SELECT pg_notify(%s, ''), pg_notify(%s, 'due')", [channel, channel])
    if source.has_triggers:
        cursor.execute(f"ALTER TABLE {source.table} ENABLE TRIGGER USER".encode(), [])
    last, count, failed = row
    return last, count, failed


def _first_id(connection: psycopg.Connection[Any], source: _Source, after: int) -> int | None:
    """The job a batch of one is about."""
    statement = (
        f"SELECT j.id FROM {source.table} AS j WHERE j.id > %s ORDER BY j.id LIMIT 1"  # noqa: S608
        " FOR UPDATE SKIP LOCKED"
    )
    row = _own_rows(connection).execute(statement.encode(), [after]).fetchone()
    return None if row is None else int(row[0])
