"""Looking: pages of jobs and chains, counts, workers. Only conditions that are asked for are in the
SQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from windlass.model.chain import ChainState
from windlass.model.job import JobState
from windlass.store.records import ChainFilter, JobFilter
from windlass.stores.postgres.conditions import fill

_OF_BATCHES = fill("{ready_undelivered t}")
_IS_IN_BATCH = f"({_OF_BATCHES} AND t.id IN (SELECT b.id FROM {{schema}}._in_batches AS b))"  # noqa: S608

_AFTER_ALL = 2**63 - 1
"""An id that no job and no chain reaches."""

_COUNTS = f"""
SELECT CASE
  WHEN {_IS_IN_BATCH} THEN 'running' WHEN t.state = 'waiting' THEN 'ready' ELSE t.state::text
END, pg_catalog.count(*)
FROM {{schema}}._jobs AS t WHERE {{seen}} GROUP BY 1
UNION ALL
SELECT 'completed', pg_catalog.count(*) FROM {{schema}}._history AS t WHERE {{seen}}
HAVING pg_catalog.count(*) > 0
"""  # noqa: S608

WORKERS = fill("""
SELECT w.name, {schema}._micros(w.expires_at), (
  SELECT pg_catalog.count(*) FROM {schema}._jobs AS j WHERE j.state = 'running' AND j.worker = w.id
    AND (%s::text IS NULL OR j.tenant = %s)
) + (
  SELECT pg_catalog.count(*) FROM {schema}._in_batches AS b JOIN {schema}._jobs AS j ON j.id = b.id
  WHERE b.worker = w.id AND {ready_undelivered j} AND (%s::text IS NULL OR j.tenant = %s)
)
FROM {schema}._workers AS w
WHERE w.tenants IS NULL OR %s::text IS NULL OR %s = ANY (w.tenants) ORDER BY w.name
""")
"""Each of its values is the tenant that the caller sees, or NULL for all."""


def counts(tenant: str | None) -> tuple[str, ...]:
    """The statement that counts a tenant's jobs, or all, and its values."""
    seen = _seen(tenant)
    return _COUNTS.replace("{seen}", seen), *[tenant or ""] * (2 * seen.count("%s"))


def _seen(tenant: str | None) -> str:
    """The index of other tenants' jobs has none of the default one's."""
    match tenant:
        case None:
            return "true"
        case "":
            return "t.tenant = %s"
        case _:
            return "t.tenant <> '' AND t.tenant = %s"


def query(schema: str, wanted: JobFilter) -> tuple[str, list[Any]]:
    """A page of open jobs and history together, the newest first: one JSON text per row."""
    values: list[Any] = []
    pages = [
        f"(SELECT t.id FROM {schema}._jobs AS t WHERE {condition} ORDER BY {order} LIMIT %s)"  # noqa: S608
        for condition, order in _pages(schema, wanted, values)
    ]
    chosen = _NOTHING
    if pages:
        chosen = f"SELECT p.id FROM ({' UNION ALL '.join(pages)}) AS p ORDER BY p.id DESC LIMIT %s"  # noqa: S608
        values.append(wanted.limit)
    history = _conditions(wanted, values)
    is_kept_asked_for = wanted.states is None or JobState.COMPLETED in wanted.states
    if not is_kept_asked_for or wanted.fingerprint is not None:
        history += " AND false"
    values += [wanted.limit, wanted.limit]
    return (
        "SELECT x.row::text FROM ("  # noqa: S608
        f"SELECT t.id, CASE WHEN {_in_batch(schema)} THEN ("
        f"SELECT {schema}._row({schema}._as_running(t, b.base, b.worker, b.claimed_at), w.name)"
        f" FROM {schema}._batches AS b LEFT JOIN {schema}._workers AS w ON w.id = b.worker"
        f" WHERE b.ids @> t.id LIMIT 1) ELSE {schema}._row(t, (SELECT w.name"
        f" FROM {schema}._workers AS w WHERE w.id = t.worker)) END AS row"
        f" FROM {schema}._jobs AS t WHERE t.id = ANY (ARRAY({chosen})) UNION ALL "
        f"(SELECT t.id, {schema}._history_row(t) FROM {schema}._history AS t WHERE {history}"
        " ORDER BY t.id DESC LIMIT %s)) AS x ORDER BY x.id DESC LIMIT %s",
        values,
    )


_BY_KEY = ("t.state <> 'cancelled'", "t.state = 'cancelled'")
_NOTHING = "SELECT NULL::bigint WHERE false"


def _in_batch(schema: str) -> str:
    return _IS_IN_BATCH.replace("{schema}", schema)


def _pages(schema: str, wanted: JobFilter, values: list[Any]) -> Iterator[tuple[str, str]]:
    """Conditions that make up the page, each with the order of its index; `values` get those of
    each, and the limit. A state by itself is found by its own index where few jobs are in it."""
    if wanted.fingerprint is not None:
        if wanted.states is not None and JobState.FAILED not in wanted.states:
            return
        # Compared as rows, so that no other index has this order: how many there are of one
        # fingerprint the server does not know.
        place = "(coalesce(t.fingerprint, ''), t.id)"
        after = _AFTER_ALL if wanted.after is None else wanted.after
        condition = f"{_conditions(wanted, values)} AND t.state = 'failed'"
        values += [wanted.fingerprint, wanted.fingerprint, after, wanted.limit]
        yield (
            f"{condition} AND {place} > (%s, 0) AND {place} < (%s, %s)",
            "coalesce(t.fingerprint, '') DESC, t.id DESC",
        )
        return
    if wanted.states is None:
        # There is an index by key for each of the two.
        for more in ("true",) if wanted.key is None else _BY_KEY:
            yield _page_where(wanted, values, more)
        return
    states = set(wanted.states) - {JobState.COMPLETED}
    if states:
        stored = sorted([*states, *(["waiting"] if JobState.READY in states else [])])
        named = ", ".join(f"'{state}'" for state in stored)
        more = f"t.state IN ({named})"
        if JobState.READY in states and JobState.RUNNING not in states:
            more += f" AND NOT {_in_batch(schema)}"
        yield _page_where(wanted, values, more)
    if JobState.RUNNING in states and JobState.READY not in states:
        # An array, because the server expects far too many rows of that view.
        in_batches = f"t.id = ANY (ARRAY(SELECT b.id FROM {schema}._in_batches AS b))"  # noqa: S608
        yield _page_where(wanted, values, f"{_OF_BATCHES} AND {in_batches}")


def _page_where(wanted: JobFilter, values: list[Any], more: str) -> tuple[str, str]:
    condition = f"{_conditions(wanted, values)} AND {more}"
    values.append(wanted.limit)
    return condition, "t.id DESC"


def _conditions(wanted: JobFilter, values: list[Any]) -> str:
    conditions = [_seen(wanted.tenant)]
    if wanted.tenant is not None:
        values.append(wanted.tenant)
    if wanted.after is not None:
        conditions.append("t.id < %s")
        values.append(wanted.after)
    for column, value in (("task", wanted.task), ("queue", wanted.queue), ("key", wanted.key)):
        if value is not None:
            conditions.append(f"t.{column} = %s")
            values.append(value)
    if wanted.ids is not None:
        conditions.append("t.id = ANY (%s::bigint[])")
        values.append(list(wanted.ids))
    return " AND ".join(conditions)


# ── chains ──

CHAIN_JOBS = """
SELECT x.row::text FROM (
  SELECT j.step, {schema}._row(t, (
    SELECT w.name FROM {schema}._workers AS w WHERE w.id = t.worker)) AS row
  FROM {schema}._jobs AS j CROSS JOIN LATERAL {schema}._as_seen(j) AS t
  WHERE j.chain = %s AND coalesce(t.tenant = %s, true)
  UNION ALL
  SELECT t.step, {schema}._history_row(t) FROM {schema}._history AS t
  WHERE t.chain = %s AND coalesce(t.tenant = %s, true)
) AS x ORDER BY x.step
"""

BLOCKED_JOBS = """
SELECT {schema}._row(t, NULL)::text FROM {schema}._jobs AS t
WHERE t.state = 'blocked' AND t.id IN (
  SELECT b.job FROM {schema}._blockers AS b WHERE b.chain = %s AND b.state = 'open'
) AND coalesce(t.tenant = %s, true) ORDER BY t.id DESC
"""

BLOCKERS = """
SELECT {schema}._named_chains(t.id, t.tenant, t.updated_at) FROM {schema}._jobs AS t
WHERE t.id = %s AND coalesce(t.tenant = %s, true)
UNION ALL
SELECT {schema}._named_chains(t.id, t.tenant, t.finished_at) FROM {schema}._history AS t
WHERE t.id = %s AND coalesce(t.tenant = %s, true)
"""
"""The tenant that the caller sees, or NULL for all, comes after each id."""


def one_chain(chain_id: int, tenant: str | None) -> tuple[str, list[Any]]:
    return (
        "SELECT {schema}._show_chains(ARRAY(SELECT t.id FROM {schema}._chains AS t"
        " WHERE t.id = %s AND coalesce(t.tenant = %s, true)))",
        [chain_id, tenant],
    )


_TASKS_OF_CHAINS = """
WITH RECURSIVE tasks (name) AS (
  (SELECT t.task FROM {schema}._chains AS t ORDER BY t.task LIMIT 1)
  UNION ALL
  SELECT (SELECT t.task FROM {schema}._chains AS t WHERE t.task > k.name ORDER BY t.task LIMIT 1)
  FROM tasks AS k WHERE k.name IS NOT NULL
)
"""
"""One entry is read for each task."""


def chains(wanted: ChainFilter) -> tuple[str, list[Any]]:
    """A page of chains, the newest first. By state or task they are in the order of their ids
    within each state of each task, by tenant within each state: so the newest of each are merged.
    """
    states: Sequence[ChainState | None]
    if wanted.states is not None:
        states = [*dict.fromkeys(wanted.states)]
    else:
        is_of_all = wanted.task is None and not wanted.tenant
        states = [None] if is_of_all else list(ChainState)
    if not states:
        return "SELECT {schema}._show_chains('{}')", []
    page = _page
    tasks = ""
    if states != [None] and wanted.task is None and not wanted.tenant:
        page, tasks = _page_of_each_task, _TASKS_OF_CHAINS
    values: list[Any] = []
    pages = [page(wanted, state, values) for state in states]
    return (
        f"SELECT {{schema}}._show_chains(ARRAY({tasks} SELECT x.id FROM ("  # noqa: S608
        f"{' UNION ALL '.join(pages)}) AS x ORDER BY x.id DESC LIMIT %s))",
        [*values, wanted.limit],
    )


def _page(wanted: ChainFilter, state: ChainState | None, values: list[Any]) -> str:
    conditions = [_seen(wanted.tenant)]
    if wanted.tenant is not None:
        values.append(wanted.tenant)
    for condition, value in (
        ("t.state = %s", state),
        ("t.task = %s", wanted.task),
        ("t.id < %s", wanted.after),
    ):
        if value is not None:
            conditions.append(condition)
            values.append(str(value) if state is value else value)
    values.append(wanted.limit)
    return (
        f"(SELECT t.id FROM {{schema}}._chains AS t WHERE {' AND '.join(conditions)}"  # noqa: S608
        " ORDER BY t.id DESC LIMIT %s)"
    )


def _page_of_each_task(wanted: ChainFilter, state: ChainState | None, values: list[Any]) -> str:
    """Compared as rows, so that no other index has this order: the server does not know which of
    the tasks is rare."""
    if wanted.tenant is not None:
        values.append(wanted.tenant)
    values += [str(state), str(state), _AFTER_ALL if wanted.after is None else wanted.after]
    values.append(wanted.limit)
    return (
        "(SELECT p.id FROM tasks AS k, LATERAL (SELECT t.id FROM {schema}._chains AS t"  # noqa: S608
        f" WHERE {_seen(wanted.tenant)} AND (t.task, t.state, t.id) > (k.name, %s, 0)"
        " AND (t.task, t.state, t.id) < (k.name, %s, %s)"
        " ORDER BY t.task DESC, t.state DESC, t.id DESC LIMIT %s) AS p)"
    )
