"""The statements on a user's table, composed once for its names.

`t` is a row of the table where we update it, `r` where we lock it. Values of ours are parameters,
except in the claim, which holds fragments of the user's: their percent signs are theirs, so the
claim has no parameters and its values are literals.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from psycopg import sql

from windlass.store.records import JobFilter
from windlass.stores.table.columns import Columns
from windlass.stores.table.names import Relation
from windlass.stores.table.options import Fragment, TableOptions, compose

_IS_THERE = "%(number)s::integer BETWEEN 1 AND array_length({r_execution_logs}, 1)"
_EPOCH = "timestamptz 'epoch' + {} * interval '1 microsecond'"


def micros(instant: sql.Composable) -> sql.Composable:
    return sql.SQL("(extract(epoch FROM {}) * 1000000)::bigint").format(instant)


def _representable(instant: sql.Composable) -> sql.Composable:
    """Within what a datetime can hold: a user's `process_after` may be infinity."""
    return sql.SQL(
        "CASE WHEN {0} > '9999-12-31 23:59:59+00' THEN '9999-12-31 23:59:59+00'"
        " WHEN {0} < '0001-01-01 00:00:00+00' THEN '0001-01-01 00:00:00+00' ELSE {0} END"
    ).format(instant)


class Statements:
    """`state_type` is the type of the state column, which may be an enum of the user's. A message
    cast to `message_type` is cut to its length.

    Rows are locked FOR NO KEY UPDATE, which foreign keys that refer to them do not stand in the way
    of.
    """

    def __init__(
        self,
        options: TableOptions[Any],
        table: Relation,
        view: Relation | None,
        columns: Columns,
        *,
        state_type: str = "text",
        message_type: str = "text",
        log_type: str = "json",
        view_columns: frozenset[str] = frozenset(),
    ) -> None:
        self._options = options
        self._table = table
        self._view = view
        self._columns = columns
        # Used in statements with parameters, where a percent sign is written twice.
        self._state_type = sql.SQL(state_type.replace("%", "%%"))
        self._message_type = sql.SQL(message_type)
        self._log_type = sql.SQL(log_type)
        self._view_columns = view_columns
        self.table = table.text
        self.settle = self._make_settle()
        self.renew = self._make_renew()
        self.check = self._make_check()
        self.reset = self._make_reset()
        self.to_reset = self._make_to_reset()
        self.retire = self._make_retire()
        self.has_rows = self._make_has_rows()
        self.log = self._make_log()
        self.relog = self._make_relog()
        self.may_log = self._make_may_log()
        self.cancel = self._make_cancel()
        self.count = self._make_count()
        self.oldest = self._make_oldest()

    def _sql(self, text: str, **parts: Any) -> sql.Composed:
        """Names: {table}, {id}, … for columns by themselves, {t_id}, {r_id}, … for rows' own."""
        columns = self._columns
        return sql.SQL(text).format(
            table=self._table.identifier,
            state_type=self._state_type,
            message_type=self._message_type,
            **columns.bare,
            **columns.of("t"),
            **columns.of("r"),
            **parts,
        )

    def _part(self, column: str, text: str, **parts: Any) -> sql.Composable:
        """A piece for a column that the table may lack."""
        return self._sql(text, **parts) if column in self._columns else sql.SQL("")

    # ── taking ──

    def claim(
        self, limit: int, worker: str, conditions: Sequence[Fragment], now: datetime | None
    ) -> sql.Composed:
        """Take the first rows that are free and not locked; locked rows hide no other."""
        options = self._options
        seen = self._view or self._table
        locked = self._table.alias if self._view is None else "windlass_row"
        wanted = [self._available(locked, self._due_at(locked))]
        if self._view is not None and {self._columns["state"], self._columns["process_after"]} <= (
            self._view_columns
        ):
            due = sql.Identifier(seen.alias, self._columns["process_after"])
            wanted.append(self._available(seen.alias, due))
        wanted += [
            sql.SQL("({})").format(compose(fragment))
            for fragment in (*options.conditions, *conditions)
        ]
        return self._sql(
            """
            UPDATE {table} AS t SET
              {state} = 'processing', {started_at} = x.at, {last_heartbeat_at} = x.at,
              {finished_at} = NULL, {failure_message} = NULL{logs}{hostname}
            FROM (SELECT {now} AS at) AS x
            WHERE {t_id} = ANY (ARRAY(
              SELECT {locked_id} FROM {source}
              CROSS JOIN (SELECT {now} AS windlass_at) AS windlass_now
              WHERE {wanted} ORDER BY {order_by} LIMIT {limit}
              FOR NO KEY UPDATE OF {locked} SKIP LOCKED
            ))
            RETURNING {t_id}, {token}, coalesce({t_num_failures}, 0), coalesce({t_num_resets}, 0),
              {queued}
            """,
            logs=self._part("execution_logs", ", {execution_logs} = NULL"),
            hostname=self._part("worker_hostname", ", {worker_hostname} = {w}", w=worker),
            now=_now(now),
            source=self._source(locked, seen),
            wanted=sql.SQL(" AND ").join(wanted),
            order_by=self._order(seen),
            limit=sql.Literal(limit),
            locked=sql.Identifier(locked),
            locked_id=sql.Identifier(locked, self._columns["id"]),
            token=micros(sql.Identifier("t", self._columns["started_at"])),
            queued=micros(_representable(sql.Identifier("t", self._columns["queued_at"]))),
        )

    def _source(self, locked: str, seen: Relation) -> sql.Composed:
        table = sql.SQL("{} AS {}").format(self._table.identifier, sql.Identifier(locked))
        if self._view is None:
            return sql.Composed([table])
        id_ = self._columns["id"]
        return sql.SQL("{} JOIN {} AS {} ON {} = {}").format(
            table,
            seen.identifier,
            sql.Identifier(seen.alias),
            sql.Identifier(seen.alias, id_),
            sql.Identifier(locked, id_),
        )

    def _available(self, alias: str, due: sql.Composable) -> sql.Composable:
        available = sql.SQL("{} AND ({due} IS NULL OR {due} <= windlass_at)").format(
            self._waits(alias), due=due
        )
        if "cancel" in self._columns and alias != (self._view.alias if self._view else ""):
            cancel = sql.Identifier(alias, self._columns["cancel"])
            available = sql.SQL("{} AND {} IS NOT TRUE").format(available, cancel)
        return available

    def _waits(self, alias: str) -> sql.Composable:
        """Whether a row is one that a worker takes, now or later: with retries off, what errored
        is not tried again."""
        states = "IN ('queued', 'errored')" if self._options.max_num_retries else "= 'queued'"
        return sql.SQL("{} {}").format(
            sql.Identifier(alias, self._columns["state"]), sql.SQL(states)
        )

    def _due_at(self, alias: str) -> sql.Composable:
        """When a row that waits is due; NULL is at once. A row that errored without our doing may
        have no `process_after`: it waits for `retry_after` all the same."""
        parts = {
            name: sql.Identifier(alias, self._columns[name])
            for name in ("state", "process_after", "finished_at")
        }
        if not self._options.max_num_retries:
            return parts["process_after"]
        return sql.SQL(
            "CASE WHEN {process_after} IS NULL AND {state} = 'errored'"
            " THEN {finished_at} + {delay} * interval '1 second' ELSE {process_after} END"
        ).format(delay=sql.Literal(self._options.delay), **parts)

    @property
    def _is_shown(self) -> sql.Composable:
        """Whether the view shows the row `t`: else no worker can take it."""
        if self._view is None:
            return sql.SQL("true")
        id_ = self._columns["id"]
        return sql.SQL("EXISTS (SELECT FROM {} AS windlass_shown WHERE {} = {})").format(
            self._view.identifier,
            sql.Identifier("windlass_shown", id_),
            sql.Identifier("t", id_),
        )

    def _order(self, seen: Relation) -> sql.Composable:
        by_id = sql.Identifier(seen.alias, self._columns["id"])
        if self._options.order_by is None:
            return by_id
        return sql.SQL("{}, {}").format(compose(self._options.order_by), by_id)

    def records(self, ids: Sequence[int], *, bare: bool = False) -> sql.Composed:
        """The rows just taken, in order, as the user wants them; the id comes first, and is all
        there is if they are `bare`."""
        seen = self._view or self._table
        expressions = self._options.column_expressions
        fields = self._options.field_names
        what: sql.Composable
        if bare:
            what = sql.SQL("NULL")
        elif expressions is not None:
            what = sql.SQL(", ").join(map(compose, expressions))
        elif fields is not None:
            what = sql.SQL(", ").join(sql.Identifier(seen.alias, name) for name in fields)
        else:
            what = sql.SQL("{}.*").format(sql.Identifier(seen.alias))
        return sql.SQL(
            "SELECT {id} AS windlass_id, {what} FROM {seen} AS {alias}"
            " WHERE {id} = ANY ({ids}::bigint[]) ORDER BY {order_by}"
        ).format(
            id=sql.Identifier(seen.alias, self._columns["id"]),
            what=what,
            seen=seen.identifier,
            alias=sql.Identifier(seen.alias),
            ids=sql.Literal(list(ids)),
            order_by=self._order(seen),
        )

    # ── owning ──

    def _same(self, row: str, token: str, worker: str) -> sql.Composable:
        """Whether the last to work on a row was the worker's delivery that began at `token`."""
        text = "{started_at} = " + _EPOCH.format(token)
        if "worker_hostname" in self._columns:
            text += f" AND {{worker_hostname}} = {worker}"
        return sql.SQL(text).format(
            **{
                name: sql.Identifier(row, self._columns[name])
                for name in ("started_at", "worker_hostname")
            }
        )

    def _owned(self, row: str, token: str, worker: str) -> sql.Composable:
        """Whether a row is in the hands of that delivery."""
        state = sql.Identifier(row, self._columns["state"])
        same = self._same(row, token, worker)
        return sql.SQL("({} = 'processing' AND {})").format(state, same)

    def _make_settle(self) -> sql.Composed:
        """Write outcomes: %(outcomes)s is a JSON array, each with its place. One row for each."""
        return self._sql(
            """
            WITH now AS (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS at),
            wanted AS (
              SELECT * FROM json_to_recordset(%(outcomes)s::json) AS w (
                place integer, id bigint, token bigint, worker text, kind text, error text,
                delay float8, run_at bigint, max_attempts integer, final boolean)
            ),
            held AS (
              SELECT w.place, {r_id} AS id, coalesce({r_num_failures}, 0) AS failures,
                {is_canceled} AS canceled
              FROM {table} AS r JOIN wanted AS w ON w.id = {r_id}
              WHERE {r_owned} ORDER BY {r_id} FOR NO KEY UPDATE OF r SKIP LOCKED
            ),
            done AS (
              UPDATE {table} AS t SET
                {state} = d.state,
                {finished_at} = CASE WHEN d.state = 'queued' THEN NULL ELSE d.at END,
                {failure_message} = (CASE WHEN d.kind = 'fail' THEN d.error END)::{message_type},
                {num_failures} = d.failures
                  + CASE WHEN d.state IN ('errored', 'failed') THEN 1 ELSE 0 END,
                {process_after} = CASE WHEN d.state = 'errored' THEN d.due
                  ELSE {t_process_after} END,
                {started_at} = CASE WHEN d.state = 'queued' THEN NULL ELSE {t_started_at} END,
                {last_heartbeat_at} = CASE WHEN d.state = 'queued' THEN NULL
                  ELSE {t_last_heartbeat_at} END{not_canceled}
              FROM (
                SELECT DISTINCT ON (held.id) w.place, held.id, held.failures, w.kind, w.error,
                  now.at,
                  least(coalesce({run_at}, now.at + w.delay * interval '1 second'),
                    timestamptz '9999-12-31 23:59:59+00') AS due,
                  (CASE
                    WHEN w.kind = 'complete' THEN 'completed'
                    WHEN w.kind = 'cancel' THEN 'canceled'
                    WHEN w.kind = 'fail' AND (w.final OR held.failures + 1 >= w.max_attempts)
                      THEN 'failed'
                    WHEN held.canceled THEN 'canceled'
                    WHEN w.kind = 'release' THEN 'queued'
                    ELSE 'errored'
                  END)::{state_type} AS state
                FROM held JOIN wanted AS w ON w.place = held.place CROSS JOIN now
                ORDER BY held.id, w.place
              ) AS d
              WHERE {t_id} = d.id
              RETURNING d.place, CASE WHEN {t_state} = 'errored' AND d.due <= d.at THEN 'due'
                ELSE {t_state}::text END AS state
            )
            SELECT w.place, CASE
              WHEN done.place IS NOT NULL THEN done.state
              WHEN {r_id} IS NULL THEN 'missing'
              WHEN {r_owned} AND NOT EXISTS (SELECT FROM held WHERE held.place = w.place)
                THEN 'busy'
              ELSE 'lost'
            END
            FROM wanted AS w LEFT JOIN done ON done.place = w.place
              LEFT JOIN {table} AS r ON {r_id} = w.id
            """,
            r_owned=self._owned("r", "w.token", "w.worker"),
            run_at=sql.SQL(_EPOCH.format("w.run_at")),
            is_canceled=self._is_canceled("r"),
            not_canceled=self._not_canceled,
        )

    def _make_renew(self) -> sql.Composed:
        """One heartbeat for all; %(ahead)s are the seconds by which each is written ahead for a
        longer lease. Rows that are not simply ours come back."""
        return self._sql(
            """
            WITH now AS (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS at),
            wanted AS (
              SELECT * FROM unnest(%(ids)s::bigint[], %(tokens)s::bigint[], %(workers)s::text[],
                %(ahead)s::float8[]) AS w (id, token, worker, ahead)
            ),
            held AS (
              SELECT {r_id} AS id, w.ahead FROM {table} AS r JOIN wanted AS w ON w.id = {r_id}
              WHERE {r_owned} ORDER BY {r_id} FOR NO KEY UPDATE OF r SKIP LOCKED
            ),
            beat AS (
              UPDATE {table} AS t SET {last_heartbeat_at} = greatest(
                {t_last_heartbeat_at}, now.at + held.ahead * interval '1 second')
              FROM held CROSS JOIN now WHERE {t_id} = held.id
              RETURNING {t_id} AS id
            )
            SELECT w.id, CASE
              WHEN {r_id} IS NULL THEN 'not_found'
              WHEN NOT {r_owned} THEN {why_lost}
              WHEN {is_canceled} THEN 'cancel'
              ELSE 'locked'
            END
            FROM wanted AS w LEFT JOIN {table} AS r ON {r_id} = w.id
            WHERE {is_canceled} OR NOT EXISTS (SELECT FROM beat WHERE beat.id = w.id)
            """,
            r_owned=self._sql("coalesce({o}, false)", o=self._owned("r", "w.token", "w.worker")),
            **self._asides(),
        )

    def _make_check(self) -> sql.Composed:
        """The same answer without writing anything."""
        return self._sql(
            """
            SELECT w.id, CASE
              WHEN {r_id} IS NULL THEN 'not_found'
              WHEN NOT {r_owned} THEN {why_lost}
              ELSE 'cancel'
            END
            FROM unnest(%(ids)s::bigint[], %(tokens)s::bigint[], %(workers)s::text[])
                AS w (id, token, worker)
              LEFT JOIN {table} AS r ON {r_id} = w.id
            WHERE {r_id} IS NULL OR NOT {r_owned} OR {is_canceled}
            """,
            r_owned=self._sql("coalesce({o}, false)", o=self._owned("r", "w.token", "w.worker")),
            **self._asides(),
        )

    def _asides(self) -> dict[str, sql.Composable]:
        return {
            "is_canceled": self._is_canceled("r"),
            "why_lost": self._sql(
                "CASE WHEN {r_state} IN ('completed', 'failed', 'canceled')"
                " THEN 'already_completed' ELSE 'taken_by_another_worker' END"
            ),
        }

    def _is_canceled(self, row: str) -> sql.Composable:
        return self._sql(f"({{{row}_cancel}} IS TRUE)" if "cancel" in self._columns else "false")

    @property
    def _not_canceled(self) -> sql.Composable:
        """Part of what ends a row: a request was obeyed or came too late, and is no request for
        the next time its owner wants the row worked on."""
        return self._part("cancel", ", {cancel} = false")

    # ── upkeep ──

    def _may_be_reset(self) -> dict[str, sql.Composable]:
        canceled = "{r_state} IN ('queued', 'errored') AND {r_cancel}"
        return {
            "is_stalled": self._sql(
                """{r_state} = 'processing'
                  AND coalesce({r_last_heartbeat_at}, {r_started_at}, '-infinity')
                    <= now.at - %(stall)s * interval '1 second'"""
            ),
            "is_given_up": self._sql(canceled if "cancel" in self._columns else "false"),
        }

    def _make_to_reset(self) -> sql.Composed:
        """The rows that `reset` would change."""
        return self._sql(
            """
            WITH now AS (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS at)
            SELECT {r_id} FROM {table} AS r CROSS JOIN now
            WHERE {is_stalled} OR {is_given_up} ORDER BY {r_id} LIMIT %(limit)s
            """,
            **self._may_be_reset(),
        )

    def _make_reset(self) -> sql.Composed:
        """Take back rows of dead workers, and end those that were canceled while they waited; only
        those among %(ids)s, unless that is NULL."""
        is_among = self._sql("(%(ids)s::bigint[] IS NULL OR {r_id} = ANY (%(ids)s::bigint[]))")
        which = {**self._may_be_reset(), "is_among": is_among}
        canceled = "canceled AS (SELECT NULL::bigint AS id WHERE false)"
        if "cancel" in self._columns:
            canceled = """
            canceled AS (
              UPDATE {table} AS t SET {state} = 'canceled', {finished_at} = now.at{not_canceled}
              FROM now WHERE {t_id} = ANY (ARRAY(
                SELECT {r_id} FROM {table} AS r
                WHERE {is_given_up} AND {is_among}
                LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED))
              RETURNING {t_id}
            )"""
        return self._sql(
            """
            WITH now AS (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS at),
            {canceled},
            reset AS (
              UPDATE {table} AS t SET
                {state} = (CASE WHEN {is_canceled} THEN 'canceled' WHEN {is_last} THEN 'failed'
                  ELSE 'queued' END)::{state_type},
                {num_resets} = coalesce({t_num_resets}, 0)
                  + CASE WHEN {is_canceled} OR {is_last} THEN 0 ELSE 1 END,
                {finished_at} = CASE WHEN {is_canceled} OR {is_last} THEN now.at END,
                {failure_message} = (CASE WHEN {is_last} AND NOT {is_canceled}
                  THEN %(message)s END)::{message_type},
                {started_at} = CASE WHEN {is_canceled} OR {is_last} THEN {t_started_at}
                  END{not_canceled}
              FROM now WHERE {t_id} = ANY (ARRAY(
                SELECT {r_id} FROM {table} AS r CROSS JOIN now
                WHERE {is_stalled} AND {is_among}
                ORDER BY {r_id} LIMIT %(limit)s FOR NO KEY UPDATE OF r SKIP LOCKED))
              RETURNING {t_id} AS id, {t_state}::text AS state
            )
            SELECT reset.id, reset.state FROM reset
            """,
            canceled=self._sql(canceled, not_canceled=self._not_canceled, **which),
            not_canceled=self._not_canceled,
            **which,
            is_canceled=self._is_canceled("t"),
            is_last=self._sql("(coalesce({t_num_resets}, 0) >= %(most)s)"),
        )

    def _make_retire(self) -> sql.Composed | None:
        """Hand back the rows a worker still holds; None where no column names the worker."""
        if "worker_hostname" not in self._columns:
            return None
        return self._sql(
            """
            UPDATE {table} AS t SET
              {state} = (CASE WHEN {is_canceled} THEN 'canceled' ELSE 'queued' END)::{state_type},
              {started_at} = CASE WHEN {is_canceled} THEN {t_started_at} END,
              {finished_at} = CASE WHEN {is_canceled}
                THEN coalesce(%(now)s::timestamptz, clock_timestamp()) END,
              {last_heartbeat_at} = NULL{not_canceled}
            WHERE {t_id} = ANY (ARRAY(
              SELECT {r_id} FROM {table} AS r
              WHERE {r_state} = 'processing' AND {r_worker_hostname} = %(worker)s
              FOR NO KEY UPDATE SKIP LOCKED))
            """,
            is_canceled=self._is_canceled("t"),
            not_canceled=self._not_canceled,
        )

    def _make_has_rows(self) -> sql.Composed | None:
        """Whether a worker still holds rows."""
        if "worker_hostname" not in self._columns:
            return None
        return self._sql(
            """
            SELECT EXISTS (
              SELECT FROM {table} AS r
              WHERE {r_state} = 'processing' AND {r_worker_hostname} = %(worker)s)
            """
        )

    # ── logs ──

    def _make_log(self) -> sql.Composed | None:
        """Append an entry; the number of it. Also to a row that this delivery has ended, since
        a handler may complete its record before what it said was written."""
        if "execution_logs" not in self._columns:
            return None
        return self._sql(
            """
            UPDATE {table} AS t SET
              {execution_logs} = {t_execution_logs} || %(entry)s::{log_type}
            WHERE {t_id} = ANY (ARRAY(
              SELECT {r_id} FROM {table} AS r WHERE {r_id} = %(id)s AND {same}
              FOR NO KEY UPDATE SKIP LOCKED))
            RETURNING array_length({t_execution_logs}, 1)
            """,
            log_type=self._log_type,
            same=self._same("r", "%(token)s", "%(worker)s"),
        )

    def _make_relog(self) -> sql.Composed | None:
        """Write an entry anew."""
        if "execution_logs" not in self._columns:
            return None
        return self._sql(
            """
            UPDATE {table} AS t SET {execution_logs}[%(number)s] = %(entry)s::{log_type}
            WHERE {t_id} = ANY (ARRAY(
              SELECT {r_id} FROM {table} AS r WHERE {r_id} = %(id)s AND {same} AND {is_there}
              FOR NO KEY UPDATE SKIP LOCKED))
            RETURNING %(number)s::integer
            """,
            log_type=self._log_type,
            same=self._same("r", "%(token)s", "%(worker)s"),
            is_there=self._sql(_IS_THERE),
        )

    def _make_may_log(self) -> sql.Composed | None:
        """Whether an entry could be written if the row were not locked; no row if it is gone."""
        if "execution_logs" not in self._columns:
            return None
        return self._sql(
            """
            SELECT coalesce({same} AND (%(number)s::integer IS NULL OR {is_there}), false)
            FROM {table} AS r WHERE {r_id} = %(id)s
            """,
            same=self._same("r", "%(token)s", "%(worker)s"),
            is_there=self._sql(_IS_THERE),
        )

    # ── operators ──

    def _make_cancel(self) -> sql.Composed:
        """Waiting rows are canceled; running ones are asked to stop, where a column can say so.
        Each with whether that was done: if not, a transaction has locked it."""
        running = ""
        if "cancel" in self._columns:
            running = ", {cancel} = ({t_state} = 'processing')"
        states = "'queued', 'errored', 'processing'" if running else "'queued', 'errored'"
        return self._sql(
            """
            WITH done AS (
              UPDATE {table} AS t SET
                {state} = (CASE WHEN {t_state} = 'processing' THEN 'processing' ELSE 'canceled' END
                  )::{state_type},
                {finished_at} = CASE WHEN {t_state} = 'processing' THEN {t_finished_at}
                  ELSE coalesce(%(now)s::timestamptz, clock_timestamp()) END{running}
              WHERE {t_id} = ANY (ARRAY(
                SELECT {r_id} FROM {table} AS r
                WHERE {r_id} = ANY (%(ids)s::bigint[]) AND {r_state} IN ({states})
                ORDER BY {r_id} FOR NO KEY UPDATE SKIP LOCKED))
              RETURNING {t_id} AS id
            )
            SELECT {r_id}, EXISTS (SELECT FROM done WHERE done.id = {r_id}) FROM {table} AS r
            WHERE {r_id} = ANY (%(ids)s::bigint[]) AND {r_state} IN ({states}) ORDER BY {r_id}
            """,
            running=self._sql(running),
            states=sql.SQL(states),
        )

    def jobs(
        self, wanted: JobFilter, conditions: Sequence[Fragment], now: datetime | None
    ) -> sql.Composed:
        """A page of rows. It holds fragments of the user's, so its values are literals."""
        row = self._table.alias
        parts = {name: sql.Identifier(row, self._columns[name]) for name in self._columns}
        optional = {
            name: parts[name] if name in self._columns else sql.SQL("NULL")
            for name in ("worker_hostname", "execution_logs")
        }
        which: list[sql.Composable] = [sql.SQL("true")]
        if wanted.after is not None:
            which.append(sql.SQL("{} < {}").format(parts["id"], sql.Literal(wanted.after)))
        if wanted.ids is not None:
            ids = sql.Literal(list(wanted.ids))
            which.append(sql.SQL("{} = ANY ({}::bigint[])").format(parts["id"], ids))
        if wanted.states is not None:
            words = sql.Literal([state.value for state in wanted.states])
            which.append(sql.SQL("windlass_seen.state = ANY ({}::text[])").format(words))
        which += [sql.SQL("({})").format(compose(fragment)) for fragment in conditions]
        return sql.SQL(
            """
            SELECT {id}, windlass_seen.state, coalesce({num_failures}, 0),
              coalesce({num_resets}, 0), {queued}, {after}, {finished}, {failure_message},
              {worker_hostname}, {execution_logs}
            FROM {table} AS {row} CROSS JOIN LATERAL (
              SELECT CASE
                WHEN {waits} AND {due} > {now} THEN 'scheduled'
                WHEN {waits} THEN 'ready'
                WHEN {state} = 'processing' THEN 'running'
                WHEN {state} = 'canceled' THEN 'cancelled'
                WHEN {state} IN ('errored', 'failed') THEN 'failed'
                WHEN {state} = 'completed' THEN 'completed'
                ELSE 'blocked'
              END AS state) AS windlass_seen
            WHERE {which} ORDER BY {id} DESC LIMIT {limit}
            """
        ).format(
            table=self._table.identifier,
            row=sql.Identifier(row),
            now=_now(now),
            queued=micros(_representable(parts["queued_at"])),
            waits=self._waits(row),
            due=self._due_at(row),
            after=micros(_representable(self._due_at(row))),
            finished=micros(_representable(parts["finished_at"])),
            which=sql.SQL(" AND ").join(which),
            limit=sql.Literal(wanted.limit),
            **{**parts, **optional},
        )

    def _make_count(self) -> sql.Composed:
        return self._sql(
            "SELECT {t_state}::text, count(*) FROM {table} AS t WHERE {shown} GROUP BY 1",
            shown=self._is_shown,
        )

    def _make_oldest(self) -> sql.Composed:
        """Seconds the longest waiting row has been due."""
        return self._sql(
            """
            WITH now AS (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS at)
            SELECT extract(epoch FROM max(now.at - {since}))
            FROM {table} AS t CROSS JOIN now
            WHERE {waits} AND ({due} IS NULL OR {due} <= now.at) AND {shown}
            """,
            waits=self._waits("t"),
            due=self._due_at("t"),
            shown=self._is_shown,
            since=_representable(self._sql("greatest({t_queued_at}, {d})", d=self._due_at("t"))),
        )


def _now(now: datetime | None) -> sql.Composable:
    if now is None:
        return sql.SQL("clock_timestamp()")
    return sql.SQL("{}::timestamptz").format(sql.Literal(now))
