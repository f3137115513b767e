"""Pages of jobs in states that few jobs are in.

The indexes of most states are not in the order of ids, so a page is found by walking all jobs back
from the newest. That is quick where many are in the state, and long where few are: so these are
collected from the indexes first.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any

import msgspec

from windlass.model.job import JobState
from windlass.stores.sqlite.connection import Session
from windlass.stores.sqlite.depths import sources

_MOST = 5_000
"""Jobs of a state that are few."""

_found = msgspec.json.Decoder(list[list[int]]).decode


@cache
def _statement(state: JobState, has_task: bool, has_queue: bool, tenant: str | None) -> str:
    """The ids that each of the state's indexes has, as far as the words narrow that."""
    task, queue = "t" if has_task else None, "q" if has_queue else None
    lists = " UNION ALL ".join(
        "SELECT (SELECT json_group_array(id) FROM (SELECT id"  # noqa: S608
        f" FROM {it.table} INDEXED BY {it.index_name} WHERE {it.condition} LIMIT :bound)) AS ids"
        for it in sources(task, queue, tenant)
        if it.state is state
    )
    return f"SELECT CAST(json_group_array(json(ids)) AS BLOB) FROM ({lists})"  # noqa: S608


def collect(
    db: Session, states: Collection[JobState], page: dict[str, Any]
) -> tuple[list[int], set[JobState]]:
    """The jobs of those of these open states that few are in, some others too; and the rest of the
    states. `page` has the words of a filter."""
    ids: list[int] = []
    rest: set[JobState] = set()
    for state in states:
        has_task, has_queue = page["task"] is not None, page["queue"] is not None
        text = _statement(state, has_task, has_queue, page["tenant"] and "*")
        found = _found(db.value_of(text, {**page, "bound": _MOST + 1}))
        if any(len(some) > _MOST for some in found):
            rest.add(state)
        else:
            ids += [job_id for some in found for job_id in some]
    return ids, rest
