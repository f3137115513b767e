"""Looking: pages of jobs, counts, workers. Only conditions that are asked for are in the SQL."""

from __future__ import annotations

from typing import Any

from windlass.model.job import JobState
from windlass.store.records import JobFilter
from windlass.stores.postgres.conditions import fill

_IS_IN_BATCH = fill(
    "({ready_undelivered t} AND t.id IN (SELECT b.id FROM {schema}._in_batches AS b))"
)

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
    is_in_batch = _IS_IN_BATCH.replace("{schema}", schema)
    jobs = _conditions(wanted, values)
    if wanted.states is not None:
        states = [state.value for state in wanted.states]
        jobs += f" AND (t.state = ANY (%s::{schema}._job_state[])"
        values.append([*states, *(["waiting"] if JobState.READY in wanted.states else [])])
        if JobState.RUNNING in wanted.states:
            jobs += f" OR {is_in_batch})"
        elif JobState.READY in wanted.states:
            jobs += f" AND NOT {is_in_batch})"
        else:
            jobs += ")"
    values.append(wanted.limit)
    history = _conditions(wanted, values)
    if wanted.states is not None and JobState.COMPLETED not in wanted.states:
        history += " AND false"
    values += [wanted.limit, wanted.limit]
    return (
        "SELECT x.row::text FROM ("  # noqa: S608
        f"(SELECT t.id, CASE WHEN {is_in_batch} THEN ("
        f"SELECT {schema}._row({schema}._as_running(t, b.base, b.worker, b.claimed_at), w.name)"
        f" FROM {schema}._batches AS b LEFT JOIN {schema}._workers AS w ON w.id = b.worker"
        f" WHERE b.ids @> t.id LIMIT 1) ELSE {schema}._row(t, (SELECT w.name"
        f" FROM {schema}._workers AS w WHERE w.id = t.worker)) END AS row"
        f" FROM {schema}._jobs AS t WHERE {jobs}"
        " ORDER BY t.id DESC LIMIT %s) UNION ALL "
        f"(SELECT t.id, {schema}._history_row(t) FROM {schema}._history AS t WHERE {history}"
        " ORDER BY t.id DESC LIMIT %s)) AS x ORDER BY x.id DESC LIMIT %s",
        values,
    )


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
